//! Clients that wait for keys of a shard: the queues behind BLPOP and the other blocking commands.
//!
//! The shard's lock guards the queues. A waiter ends once: the thread that [claims](Waiter::claim)
//! it answers it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_resp::{OwnedArgs, Protocol};

use crate::error::Error;
use crate::keyspace::db::Db;
use crate::time::Now;
use crate::value::Value;
use crate::value::content::Facts;
use crate::value::stream::{Id, Stream};

/// What a command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A list of at least this number of elements.
    List(usize),
    /// A sorted set.
    Zset,
    /// An entry of a stream behind the ID that belongs to its key.
    Entries(Box<[Id]>),
    /// An entry of a stream that the consumer group of this name has not read, or whose lease has
    /// ended, or that has been idle for this number of ms.
    Group(Box<[u8]>, Option<u64>),
    /// A job of a queue.
    Jobs,
    /// Nothing in the keyspace: the server ends the wait.
    Nothing,
}

/// What a changed key means for a waiter: run the command again, or end the wait with an error.
pub(crate) type Outcome = Result<(), Error>;

const STREAM_GONE: Error = Error::fixed("UNBLOCKED the stream key no longer exists");
const GROUP_GONE: Error =
    Error::fixed("NOGROUP the consumer group this client was blocked on no longer exists");

impl Wants {
    /// Returns what `value` means for the command, or `None` if it must wait on. `ids` are those of
    /// the command's IDs that belong to the key.
    fn outcome(
        &self,
        value: Option<&Value>,
        now: Now,
        ids: impl Fn(&[Id], &Stream) -> bool,
    ) -> Option<Outcome> {
        let served = match (self, value) {
            (Self::List(len), Some(Value::List(list))) => list.len() >= *len,
            (Self::Zset, Some(Value::Zset(_))) => true,
            (Self::Entries(after), Some(Value::Stream(stream))) => ids(after, stream),
            (Self::Group(name, idle), Some(Value::Stream(stream))) => match stream.group(name) {
                Some(group) => {
                    stream.shows_after(group.last_id, now)
                        || stream.has_claimable(group, now, *idle)
                }
                None => return Some(Err(GROUP_GONE)),
            },
            (Self::Group(..), _) => return Some(Err(STREAM_GONE)),
            (Self::Jobs, Some(Value::Jobs(jobs))) => jobs.can_take(now),
            _ => false,
        };
        served.then_some(Ok(()))
    }

    const fn is_group(&self) -> bool {
        matches!(self, Self::Group(..))
    }

    /// Returns whether a key that does not serve one waiter does not serve another one with the
    /// same wants.
    const fn is_shared(&self) -> bool {
        matches!(self, Self::List(_) | Self::Group(..) | Self::Jobs)
    }
}

/// What a blocking command waits for after it has found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What it waits for.
    pub wants: Wants,
    /// The arguments that are its keys.
    pub keys: Range<usize>,
    /// End of the wait in unix ms; `None`: no end.
    pub deadline_ms: Option<u64>,
    /// Arguments that must be others when the command runs again: their positions and new texts.
    pub resolved: Vec<(usize, Vec<u8>)>,
}

impl Wait {
    /// Creates a wait of a command whose arguments stay as they are.
    pub const fn new(wants: Wants, keys: Range<usize>, deadline_ms: Option<u64>) -> Self {
        Self {
            wants,
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

/// The client and command that wait, as the server knows them. The store only hands it back.
#[derive(Clone, Copy, Debug)]
pub struct WaiterId {
    /// Number of the client.
    pub client: u64,
    /// Event loop of the client.
    pub loop_number: usize,
    /// Place of its connection in that loop.
    pub slot: usize,
    /// Number of the command in the server's table.
    pub entry: usize,
    /// The client has turned replies off.
    pub silent: bool,
    /// Time in ns that the command took before it began to wait.
    pub nanos: u64,
}

/// The state of a client when it begins to wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitingClient {
    /// Its database.
    pub db: usize,
    /// Whether its reads count as uses.
    pub touch: bool,
    /// Protocol of its replies.
    pub protocol: Protocol,
    /// Client and command.
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
    /// It is in the queues of its keys.
    queued: AtomicBool,
}

impl Waiter {
    /// Creates a waiter that is about to join the queues of its keys. Tickets grow with time.
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

    /// Creates a waiter of a server's command, which is in no queue. It has no timeout, and CLIENT
    /// UNBLOCK leaves it.
    pub fn without_keys(args: OwnedArgs, client: &WaitingClient) -> Self {
        let wait = Wait::new(Wants::Nothing, 0..0, None);
        let waiter = Self::new(0, args, wait, client);
        waiter.set_unqueued();
        waiter
    }

    /// Returns whether it waits for keys.
    pub fn has_keys(&self) -> bool {
        self.wait.wants != Wants::Nothing
    }

    /// Ends the wait. Returns true for the first caller, which must answer the client.
    pub fn claim(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Returns whether a thread has claimed it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether it may still be in the queues of its keys; see
    /// [`Turn::stop_waiting`](crate::Turn::stop_waiting).
    pub fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Acquire)
    }

    /// Notes that it has left the queues of its keys.
    pub(crate) fn set_unqueued(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// End of the wait in unix ms.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.wait.deadline_ms
    }

    /// Client and command.
    pub fn id(&self) -> &WaiterId {
        &self.client.id
    }

    /// State of the client when it began to wait.
    pub(crate) fn client(&self) -> &WaitingClient {
        &self.client
    }

    /// Arguments of the command.
    pub fn args(&self) -> &OwnedArgs {
        &self.args
    }

    /// Protocol of the reply.
    pub fn protocol(&self) -> Protocol {
        self.client.protocol
    }

    /// Number that orders the waiters of a key.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Keys that it waits for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let Range { start, end } = self.wait.keys;
        self.args.as_args().skip(start).take(end - start).iter()
    }

    /// Returns what `value`, that of `key`, means for the command, or `None` if it must wait on.
    fn outcome(&self, key: &[u8], value: Option<&Value>, now: Now) -> Option<Outcome> {
        self.wait.wants.outcome(value, now, |ids, stream| {
            let mut of_key = self.keys().zip(ids).filter(|(other, _)| *other == key);
            of_key.any(|(_, id)| stream.shows_after(*id, now))
        })
    }

    fn is_late(&self, now: Now) -> bool {
        self.wait.deadline_ms.is_some_and(|at| now.is_due(at))
    }
}

/// The waiters of one key, by ticket.
#[derive(Default)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// Number of those that wait for a consumer group, whose end ends the wait.
    groups: usize,
    /// The key is on some turn's list of ready keys.
    ready: bool,
}

/// The queues of a shard.
pub(crate) struct Waiters {
    /// By database number; grows on demand. No queue is empty.
    dbs: Vec<HashMap<Box<[u8]>, Queue, ahash::RandomState>>,
    /// Number of queues in all databases.
    keys: usize,
    /// Hash keys of the maps.
    hasher: ahash::RandomState,
}

impl Waiters {
    /// Creates empty maps with these hash keys.
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
        let of_group = waiter.wait.wants.is_group();
        if queue.waiters.insert(waiter.ticket, waiter).is_none() {
            queue.groups += usize::from(of_group);
        }
        new
    }

    /// Removes a waiter from a key's queue. Returns true if the queue has become empty and is gone.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8], ticket: u64) -> bool {
        let Some(queue) = self.queue(db, key) else {
            return false;
        };
        let removed = queue.waiters.remove(&ticket);
        queue.groups -= usize::from(removed.is_some_and(|w| w.wait.wants.is_group()));
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

    /// Notes a key as ready if clients wait for it and its value may serve them, or end their wait.
    /// Returns true if it was not noted before.
    pub(crate) fn note_ready(&mut self, db: usize, key: &[u8], part: &Db) -> bool {
        let Some(queue) = self.queue(db, key) else {
            return false;
        };
        let awaited = |id| part.get(id).value.facts().has(Facts::AWAITED);
        let ready = part.find(key).is_some_and(awaited) || queue.groups > 0;
        ready && !std::mem::replace(&mut queue.ready, true)
    }

    /// Notes all keys of a database that have become ready; `part` is its new content.
    pub(crate) fn note_all_ready(&mut self, db: usize, part: &Db) -> Vec<Box<[u8]>> {
        let mut keys: Vec<Box<[u8]>> = match self.dbs.get(db) {
            None => Vec::new(),
            Some(queues) => queues.keys().cloned().collect(),
        };
        keys.retain(|key| self.note_ready(db, key, part));
        keys
    }

    /// Returns the next waiter of a key behind `ticket` for which `value`, that of the key, means
    /// something at `now`.
    pub(crate) fn next(
        &self,
        db: usize,
        key: &[u8],
        ticket: u64,
        value: Option<&Value>,
        now: Now,
    ) -> Option<(Arc<Waiter>, Outcome)> {
        let queue = self.dbs.get(db)?.get(key)?;
        // Many workers wait for the same group or queue: the second need not look.
        let mut unserved: Option<&Wants> = None;
        for (_, waiter) in queue.waiters.range(ticket + 1..) {
            let wants = &waiter.wait.wants;
            if waiter.has_ended() || waiter.is_late(now) || unserved == Some(wants) {
                continue;
            }
            match waiter.outcome(key, value, now) {
                Some(outcome) => return Some((Arc::clone(waiter), outcome)),
                None if wants.is_shared() => unserved = Some(wants),
                None => {}
            }
        }
        None
    }

    /// Returns the groups and idle times for which readers of a key wait that claim entries.
    pub(crate) fn claims(&self, db: usize, key: &[u8], now: Now) -> Vec<(Box<[u8]>, u64)> {
        let queue = self.dbs.get(db).and_then(|queues| queues.get(key));
        let waiters = queue.into_iter().flat_map(|queue| queue.waiters.values());
        waiters
            .filter(|waiter| !waiter.has_ended() && !waiter.is_late(now))
            .filter_map(|waiter| match &waiter.wait.wants {
                Wants::Group(group, Some(idle)) => Some((group.clone(), *idle)),
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
