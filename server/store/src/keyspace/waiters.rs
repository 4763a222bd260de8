//! Queues of clients that wait for keys of a shard, for BLPOP and the other blocking commands.
//!
//! A *waiter* is a blocking command that has found nothing, with its client. It joins the queue of
//! each of its keys before the locks under which it ran are released, so no push can come between.
//! A change that may serve a waiter makes the key *ready*. When the command that made the change
//! has ended (in a transaction, when the whole transaction has ended), its event loop runs the
//! waiting commands again, in the order of their tickets, whichever loops their clients are on
//! (`turn/waiters.rs`).
//!
//! Ground rules: the shard's lock guards the queues. A wait ends once: the first thread that
//! [claims](Waiter::claim) the waiter answers the client, because it serves the waiter, because the
//! time is over, or because the client was unblocked or disconnected. Before the claim,
//! [`WaitCondition`] decides whether the key's value serves the waiter. A waiter whose deadline has
//! passed is not served, even if its loop has not ended the wait yet.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_resp::{OwnedArgs, Protocol};

use crate::check::Check;
use crate::keyspace::db::Db;
use crate::time::Now;
use crate::value::Value;
use crate::value::content::Facts;
use crate::value::stream::{Id, Stream};

/// The condition that ends a command's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// The key is a list of at least this number of elements.
    List(usize),
    /// The key is a sorted set.
    Zset,
    /// The stream has an entry with a greater ID than the command gives for its key. There is one
    /// ID for each key, in the order of the keys.
    Entries(Box<[Id]>),
    /// The stream has an entry for a reader of the consumer group of this name: the group has not
    /// read the entry, or the entry's lease has ended, or the entry has been idle for this number
    /// of ms.
    Group(Box<[u8]>, Option<u64>),
    /// The queue of jobs has a job that can be taken.
    Jobs,
    /// No key ends the wait; the server does.
    Nothing,
}

impl WaitCondition {
    /// Returns whether `value`, the value of a key, ends the wait: the command runs again and
    /// replies, perhaps with an error. `has_entry_after` returns whether a stream has an entry
    /// after one of the IDs of [`WaitCondition::Entries`] that belong to the key.
    fn is_met(
        &self,
        value: Option<&Value>,
        now: Now,
        has_entry_after: impl Fn(&[Id], &Stream) -> bool,
    ) -> bool {
        match (self, value) {
            (Self::List(len), Some(Value::List(list))) => list.len() >= *len,
            (Self::Zset, Some(Value::Zset(_))) => true,
            (Self::Entries(after), Some(Value::Stream(stream))) => has_entry_after(after, stream),
            (Self::Group(name, idle), Some(Value::Stream(stream))) => {
                stream.group(name).is_none_or(|group| {
                    stream.shows_after(group.last_id, now)
                        || stream.has_claimable(group, now, *idle)
                })
            }
            // The stream is gone: the command replies NOGROUP or WRONGTYPE.
            (Self::Group(..), _) => true,
            (Self::Jobs, Some(Value::Jobs(jobs))) => jobs.can_take(now),
            _ => false,
        }
    }

    const fn is_group(&self) -> bool {
        matches!(self, Self::Group(..))
    }

    /// Returns whether one evaluation holds for all waiters with an equal condition.
    const fn is_shared(&self) -> bool {
        matches!(self, Self::List(_) | Self::Group(..) | Self::Jobs)
    }
}

/// The wait of a blocking command that has found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Condition that ends the wait.
    pub condition: WaitCondition,
    /// Positions of the keys among the command's arguments.
    pub keys: Range<usize>,
    /// End of the wait in Unix ms; `None` for a wait without a timeout.
    pub deadline_ms: Option<u64>,
    /// Arguments that are replaced before the command runs again, such as the ID `$`, which means
    /// the last entry at the beginning of the wait: positions and new texts.
    pub resolved: Vec<(usize, Vec<u8>)>,
}

impl Wait {
    /// Creates a wait of a command whose arguments stay as they are.
    pub const fn new(
        condition: WaitCondition,
        keys: Range<usize>,
        deadline_ms: Option<u64>,
    ) -> Self {
        Self {
            condition,
            keys,
            deadline_ms,
            resolved: Vec::new(),
        }
    }

    /// Returns the arguments with which the command runs again.
    pub(crate) fn resolve(&mut self, args: OwnedArgs) -> OwnedArgs {
        if self.resolved.is_empty() {
            return args;
        }
        let mut resolved = std::mem::take(&mut self.resolved).into_iter().peekable();
        let args = args.as_args();
        let words = args.iter().enumerate().map(|(at, word)| {
            match resolved.next_if(|(other, _)| *other == at) {
                Some((_, text)) => text,
                None => word.to_vec(),
            }
        });
        words.collect()
    }
}

/// The server's numbers of the waiting client and its command. The store does not interpret them.
#[derive(Clone, Copy, Debug)]
pub struct WaiterId {
    /// Number of the client.
    pub client: u64,
    /// Event loop of the client.
    pub loop_number: usize,
    /// Slot of the client's connection in that loop.
    pub slot: usize,
    /// Number of the command in the server's table.
    pub entry: usize,
    /// The client has turned replies off.
    pub silent: bool,
    /// Time in ns that the command took before it began to wait.
    pub nanos: u64,
}

/// The client's state that the command needs when it runs again.
#[derive(Clone, Copy, Debug)]
pub struct WaitingClient {
    /// Number of its database.
    pub db: usize,
    /// Whether its reads count as uses.
    pub touch: bool,
    /// Protocol of its replies.
    pub protocol: Protocol,
    /// The server's numbers of client and command.
    pub id: WaiterId,
}

/// A command that waits.
#[derive(Debug)]
pub struct Waiter {
    ticket: u64,
    args: OwnedArgs,
    wait: Wait,
    client: WaitingClient,
    ended: AtomicBool,
    /// Whether the waiter may be in the queues of its keys.
    queued: AtomicBool,
}

impl Waiter {
    /// Creates a waiter that is about to join the queues of its keys. A later waiter must have a
    /// greater ticket.
    pub(crate) fn new(ticket: u64, args: OwnedArgs, wait: Wait, client: &WaitingClient) -> Self {
        Self {
            ticket,
            args,
            wait,
            client: *client,
            ended: AtomicBool::new(false),
            queued: AtomicBool::new(true),
        }
    }

    /// Creates a waiter that waits for no key, for commands such as MIGRATE and SHUTDOWN. It is in
    /// no queue, has no timeout, and CLIENT UNBLOCK does not end it.
    pub fn without_keys(args: OwnedArgs, client: &WaitingClient) -> Self {
        let wait = Wait::new(WaitCondition::Nothing, 0..0, None);
        let waiter = Self::new(0, args, wait, client);
        waiter.set_unqueued();
        waiter
    }

    /// Returns whether the command waits for keys.
    pub fn has_keys(&self) -> bool {
        self.wait.condition != WaitCondition::Nothing
    }

    /// Ends the wait. Returns true for the first caller, which must answer the client.
    pub fn claim(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Returns whether a thread has claimed the waiter.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether the waiter may still be in the queues of its keys; see
    /// [`Turn::stop_waiting`](crate::Turn::stop_waiting).
    pub fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Acquire)
    }

    /// Notes that the waiter has left the queues of its keys.
    pub(crate) fn set_unqueued(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// Returns the end of the wait in Unix ms.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.wait.deadline_ms
    }

    /// Returns the server's numbers of client and command.
    pub fn id(&self) -> &WaiterId {
        &self.client.id
    }

    /// Returns the state of the client when it began to wait.
    pub(crate) fn client(&self) -> &WaitingClient {
        &self.client
    }

    /// Returns the number of the client's database when it began to wait.
    pub fn db(&self) -> usize {
        self.client.db
    }

    /// Returns the arguments of the command.
    pub fn args(&self) -> &OwnedArgs {
        &self.args
    }

    /// Returns the protocol of the reply.
    pub fn protocol(&self) -> Protocol {
        self.client.protocol
    }

    /// Returns the number that orders the waiters of a key.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Returns the keys for which the command waits.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let Range { start, end } = self.wait.keys;
        self.args.as_args().skip(start).take(end - start).iter()
    }

    /// Returns whether `value`, the value of `key`, ends the wait.
    fn is_met(&self, key: &[u8], value: Option<&Value>, now: Now) -> bool {
        self.wait.condition.is_met(value, now, |ids, stream| {
            let mut ids_of_key = self.keys().zip(ids).filter(|(other, _)| *other == key);
            ids_of_key.any(|(_, id)| stream.shows_after(*id, now))
        })
    }

    fn has_timed_out(&self, now: Now) -> bool {
        self.wait.deadline_ms.is_some_and(|at| now.is_due(at))
    }
}

/// The waiters of one key, by ticket.
#[derive(Default)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// Number of waiters for a consumer group. Their wait also ends when the group or the key is
    /// removed.
    groups: usize,
    /// The key is on some turn's list of ready keys.
    ready: bool,
}

impl Queue {
    fn check(&self, to: &mut Check, db: usize, key: &[u8], belongs: bool) {
        to.holds("the key is in its shard", belongs);
        to.holds("clients wait", !self.waiters.is_empty());
        let all = || self.waiters.values();
        let of_group = all().filter(|waiter| waiter.wait.condition.is_group());
        to.equal("waiters for groups", self.groups, of_group.count());
        for (ticket, waiter) in &self.waiters {
            to.equal("ticket", *ticket, waiter.ticket);
            to.equal("database of a waiter", db, waiter.db());
            to.holds(
                "a waiter waits for the key",
                waiter.keys().any(|own| own == key),
            );
            to.holds("a waiter has not left its queues", waiter.is_queued());
        }
    }
}

/// The queues of one shard.
pub(crate) struct Waiters {
    /// Queues by database number and key. A key without waiters is not in the map. The vector grows
    /// on demand.
    dbs: Vec<HashMap<Box<[u8]>, Queue, ahash::RandomState>>,
    /// Number of queues in all databases.
    keys: usize,
    /// Hash keys of the maps.
    hasher: ahash::RandomState,
}

impl Waiters {
    /// Creates an empty set of queues whose maps use these hash keys.
    pub(crate) const fn new(hasher: ahash::RandomState) -> Self {
        Self {
            dbs: Vec::new(),
            keys: 0,
            hasher,
        }
    }

    /// Returns whether a client waits for any key.
    pub(crate) const fn any(&self) -> bool {
        self.keys > 0
    }

    /// Returns the number of queues in all databases.
    pub(crate) const fn queues(&self) -> usize {
        self.keys
    }

    /// Checks that each queue has waiters, and that each waiter waits for the queue's key.
    pub(crate) fn check(&self, to: &mut Check, belongs: impl Fn(&[u8]) -> bool) {
        to.equal("queues", self.keys, self.dbs.iter().map(HashMap::len).sum());
        for (db, queues) in self.dbs.iter().enumerate() {
            for (key, queue) in queues {
                to.within(
                    || format!("queue of key {} in {db}", key.escape_ascii()),
                    |to| queue.check(to, db, key, belongs(key)),
                );
            }
        }
    }

    fn queue(&mut self, db: usize, key: &[u8]) -> Option<&mut Queue> {
        self.dbs.get_mut(db)?.get_mut(key)
    }

    /// Adds a waiter to a key's queue. Returns true if the queue is new.
    pub(crate) fn add(&mut self, db: usize, key: &[u8], waiter: Arc<Waiter>) -> bool {
        if self.dbs.len() <= db {
            let hasher = &self.hasher;
            let new = || HashMap::with_hasher(hasher.clone());
            self.dbs.resize_with(db + 1, new);
        }
        let queues = &mut self.dbs[db];
        let new = !queues.contains_key(key);
        if new {
            queues.insert(key.into(), Queue::default());
            self.keys += 1;
        }
        let queue = queues.get_mut(key).expect("inserted above");
        let of_group = waiter.wait.condition.is_group();
        if queue.waiters.insert(waiter.ticket, waiter).is_none() {
            queue.groups += usize::from(of_group);
        }
        new
    }

    /// Removes a waiter from a key's queue. Returns true if the queue has become empty and was
    /// removed.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8], ticket: u64) -> bool {
        let Some(queue) = self.queue(db, key) else {
            return false;
        };
        let removed = queue.waiters.remove(&ticket);
        queue.groups -= usize::from(removed.is_some_and(|w| w.wait.condition.is_group()));
        let empty = queue.waiters.is_empty();
        if empty {
            self.dbs[db].remove(key);
            self.keys -= 1;
            if self.keys == 0 {
                self.dbs = Vec::new();
            }
        }
        empty
    }

    /// Notes a key as ready if clients wait for it and its value may serve them or end their wait.
    /// Returns true if the key was not ready before, so that the caller must add it to its list.
    pub(crate) fn note_ready(&mut self, db: usize, key: &[u8], part: &Db) -> bool {
        let Some(queue) = self.queue(db, key) else {
            return false;
        };
        let awaited = |id| part.get(id).value.facts().has(Facts::AWAITED);
        let ready = part.find(key).is_some_and(awaited) || queue.groups > 0;
        ready && !std::mem::replace(&mut queue.ready, true)
    }

    /// Notes the ready keys of a database whose whole content is new. Returns the keys that were
    /// not ready before. `part` is the new content.
    pub(crate) fn note_all_ready(&mut self, db: usize, part: &Db) -> Vec<Box<[u8]>> {
        let mut keys: Vec<Box<[u8]>> = match self.dbs.get(db) {
            None => Vec::new(),
            Some(queues) => queues.keys().cloned().collect(),
        };
        keys.retain(|key| self.note_ready(db, key, part));
        keys
    }

    /// Returns the first waiter after `ticket` in a key's queue whose wait `value`, the key's
    /// value, ends.
    pub(crate) fn next(
        &self,
        db: usize,
        key: &[u8],
        ticket: u64,
        value: Option<&Value>,
        now: Now,
    ) -> Option<Arc<Waiter>> {
        let queue = self.dbs.get(db)?.get(key)?;
        // Many workers may wait for the same group or queue. So the last condition that was not met
        // is not evaluated again for the waiters that follow with an equal condition.
        let mut unserved: Option<&WaitCondition> = None;
        for (_, waiter) in queue.waiters.range(ticket + 1..) {
            let condition = &waiter.wait.condition;
            if waiter.has_ended() || waiter.has_timed_out(now) || unserved == Some(condition) {
                continue;
            }
            if waiter.is_met(key, value, now) {
                return Some(Arc::clone(waiter));
            }
            if condition.is_shared() {
                unserved = Some(condition);
            }
        }
        None
    }

    /// Returns group and idle time in ms of each waiting reader that claims idle entries of a
    /// stream.
    pub(crate) fn claims(&self, db: usize, key: &[u8], now: Now) -> Vec<(Box<[u8]>, u64)> {
        let queue = self.dbs.get(db).and_then(|queues| queues.get(key));
        let waiters = queue.into_iter().flat_map(|queue| queue.waiters.values());
        waiters
            .filter(|waiter| !waiter.has_ended() && !waiter.has_timed_out(now))
            .filter_map(|waiter| match &waiter.wait.condition {
                WaitCondition::Group(group, Some(idle)) => Some((group.clone(), *idle)),
                _ => None,
            })
            .collect()
    }

    /// Notes that a key is on no turn's list of ready keys.
    pub(crate) fn clear_ready(&mut self, db: usize, key: &[u8]) {
        if let Some(queue) = self.queue(db, key) {
            queue.ready = false;
        }
    }
}
