//! Clients that wait for a key: what BLPOP and its kin do when there is nothing to pop.
//!
//! Each shard keeps, under its lock, who waits for which of its keys, in the order in which they came. A command that
//! blocks looks at its keys and joins their queues under one and the same locks, so nothing can come between. Whatever
//! brings a list or a sorted set tells an event through [`Turn::notify`], which notes the key as *ready*; when the
//! command is done (the whole transaction, if it is in one), [`Turn::serve_next`] runs the waiting commands again,
//! first come, first served.
//!
//! A waiter ends once: whoever [claims](Waiter::claim) it answers it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_resp::{OwnedArgs, Protocol, Reply};

use crate::db::Db;
use crate::error::Error;
use crate::time::Now;
use crate::turn::{Command, Turn};
use crate::value::Value;

/// What a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A list.
    List,
    /// A sorted set.
    Zset,
}

impl Wants {
    /// What kind of waiting a value ends.
    const fn met_by(value: &Value) -> Option<Self> {
        match value {
            Value::List(_) => Some(Self::List),
            Value::Zset(_) => Some(Self::Zset),
            _ => None,
        }
    }
}

/// What a command that found nothing wants to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What it waits for.
    pub wants: Wants,
    /// Which arguments are the keys.
    pub keys: Range<usize>,
    /// Until when, unix ms; `None`: for ever.
    pub deadline_ms: Option<u64>,
}

/// Who waits: what its server needs to answer it. Means nothing in here.
#[derive(Clone, Copy, Debug)]
pub struct Whose {
    /// The client's number.
    pub client: u64,
    /// Its event loop.
    pub loop_number: usize,
    /// Its place in that loop.
    pub slot: usize,
    /// The command's number in the server's table.
    pub entry: usize,
    /// The client does not want the reply.
    pub silent: bool,
    /// How long the command took before it waited.
    pub nanos: u64,
}

/// A command that waits.
#[derive(Debug)]
pub struct Waiter {
    ticket: u64,
    command: &'static Command,
    args: OwnedArgs,
    db: usize,
    touch: bool,
    protocol: Protocol,
    wait: Wait,
    whose: Whose,
    ended: AtomicBool,
    /// It is in the queues of its keys.
    queued: AtomicBool,
}

impl Waiter {
    /// Ends the waiting; whether nobody else has. Who ends it answers it.
    pub fn claim(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// Whether it has been answered, or will be.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether it may still be in the queues of its keys: see [`Turn::stop_waiting`].
    pub fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Acquire)
    }

    /// Until when it waits, unix ms.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.wait.deadline_ms
    }

    /// Who it is.
    pub fn whose(&self) -> &Whose {
        &self.whose
    }

    /// The arguments of its command.
    pub fn args(&self) -> &OwnedArgs {
        &self.args
    }

    /// The protocol of its replies.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let Range { start, end } = self.wait.keys;
        self.args.as_args().skip(start).take(end - start).iter()
    }

    fn is_late(&self, now: Now) -> bool {
        self.wait.deadline_ms.is_some_and(|at| now.is_due(at))
    }
}

/// A client's place in the server, and what it wants of replies, when it begins to wait.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Its database.
    pub db: usize,
    /// Whether reads count as uses.
    pub touch: bool,
    /// The protocol of its replies.
    pub protocol: Protocol,
    /// Who it is.
    pub whose: Whose,
}

/// Those who wait for a key, by their tickets.
#[derive(Default)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// The key is on some turn's list of ready keys.
    ready: bool,
}

/// Who waits for the keys of a shard.
#[derive(Default)]
pub(crate) struct Waiters {
    /// By database; as many as were needed so far. No queue is empty.
    dbs: Vec<HashMap<Box<[u8]>, Queue, ahash::RandomState>>,
    /// Queues in all databases.
    keys: usize,
}

impl Waiters {
    /// Whether anybody waits for any key.
    pub(crate) const fn any(&self) -> bool {
        self.keys > 0
    }

    fn add(&mut self, db: usize, key: &[u8], waiter: Arc<Waiter>) -> bool {
        if self.dbs.len() <= db {
            self.dbs.resize_with(db + 1, HashMap::default);
        }
        let queues = &mut self.dbs[db];
        let new = !queues.contains_key(key);
        if new {
            queues.insert(key.into(), Queue::default());
            self.keys += 1;
        }
        let queue = queues.get_mut(key).expect("added just now");
        queue.waiters.insert(waiter.ticket, waiter);
        new
    }

    /// Takes a waiter out of a queue; whether the queue is gone with it.
    fn remove(&mut self, db: usize, key: &[u8], ticket: u64) -> bool {
        let Some(queues) = self.dbs.get_mut(db) else {
            return false;
        };
        let Some(queue) = queues.get_mut(key) else {
            return false;
        };
        queue.waiters.remove(&ticket);
        let gone = queue.waiters.is_empty();
        if gone {
            queues.remove(key);
            self.keys -= 1;
            if self.keys == 0 {
                self.dbs = Vec::new();
            }
        }
        gone
    }

    /// Notes a key as ready if somebody waits for it and it holds something that can be waited for; whether it was not
    /// noted already.
    pub(crate) fn note_ready(&mut self, db: usize, key: &[u8], part: &Db) -> bool {
        let queue = self.dbs.get_mut(db).and_then(|queues| queues.get_mut(key));
        let Some(queue) = queue else {
            return false;
        };
        let met = part
            .find(key)
            .and_then(|id| Wants::met_by(&part.get(id).value));
        met.is_some() && !std::mem::replace(&mut queue.ready, true)
    }

    /// Notes the keys of a database that have become ready; `part` holds others than before.
    fn note_all_ready(&mut self, db: usize, part: &Db) -> Vec<Box<[u8]>> {
        let keys: Vec<Box<[u8]>> = match self.dbs.get(db) {
            None => Vec::new(),
            Some(queues) => queues.keys().cloned().collect(),
        };
        let mut ready = keys;
        ready.retain(|key| self.note_ready(db, key, part));
        ready
    }

    /// The next waiter of a key after `ticket`.
    fn next(
        &self,
        db: usize,
        key: &[u8],
        ticket: u64,
        wants: Wants,
        now: Now,
    ) -> Option<&Arc<Waiter>> {
        let queue = self.dbs.get(db)?.get(key)?;
        let mut after = queue.waiters.range(ticket + 1..).map(|(_, waiter)| waiter);
        after.find(|w| w.wait.wants == wants && !w.has_ended() && !w.is_late(now))
    }

    /// The key is on no list of ready keys any more.
    fn not_ready(&mut self, db: usize, key: &[u8]) {
        let queue = self.dbs.get_mut(db).and_then(|queues| queues.get_mut(key));
        if let Some(queue) = queue {
            queue.ready = false;
        }
    }
}

/// A key that somebody waits for, and that has something now.
pub(crate) struct ReadyKey {
    pub(crate) db: usize,
    pub(crate) key: Box<[u8]>,
    /// The last waiter that was looked at; 0: none yet.
    after: u64,
}

impl ReadyKey {
    pub(crate) fn new(db: usize, key: &[u8]) -> Self {
        Self {
            db,
            key: key.into(),
            after: 0,
        }
    }
}

impl Turn<'_> {
    /// Lets a command wait that has just said so ([`Turn::wait`]): the locks it ran under are still held.
    /// O(keys · log waiters).
    ///
    /// # Panics
    /// If the turn was released since the command ran.
    pub fn begin_waiting(
        &mut self,
        wait: Wait,
        command: &'static Command,
        args: OwnedArgs,
        who: &Waiting,
    ) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            ticket: self.store.next_ticket(),
            command,
            args,
            db: who.db,
            touch: who.touch,
            protocol: who.protocol,
            wait,
            whose: who.whose,
            ended: AtomicBool::new(false),
            queued: AtomicBool::new(true),
        });
        for key in waiter.keys() {
            let number = self.store.shard_of(key);
            let new = Arc::clone(&waiter);
            if self.shard_mut(number).waiters.add(who.db, key, new) {
                self.store.count_waiting_keys(1);
            }
        }
        self.alert = true;
        waiter
    }

    /// Takes a waiter that has ended out of the queues of its keys: nothing of it stays. O(keys · log waiters).
    pub fn stop_waiting(&mut self, waiter: &Waiter) {
        if waiter.queued.load(Ordering::Acquire) {
            self.lock_keys(waiter.keys());
            self.leave_queues(waiter);
        }
    }

    fn leave_queues(&mut self, waiter: &Waiter) {
        for key in waiter.keys() {
            let number = self.store.shard_of(key);
            let waiters = &mut self.shard_mut(number).waiters;
            if waiters.remove(waiter.db, key, waiter.ticket) {
                self.store.count_waiting_keys(-1);
            }
        }
        waiter.queued.store(false, Ordering::Release);
    }

    /// Whether [`Turn::serve_next`] may have something to do. One look.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Runs the command of the next waiter whose key has become ready, which may make further keys ready. The reply,
    /// an error's text included, goes to the end of `out`. `None` when nobody is left to be served. Locks what the
    /// command needs. The caller calls it until there is nobody.
    pub fn serve_next(&mut self, out: &mut Vec<u8>) -> Option<(Arc<Waiter>, Result<(), Error>)> {
        loop {
            let ReadyKey { db, after, .. } = *self.ready.front()?;
            let ready = self.ready.front_mut()?;
            let key = std::mem::take(&mut ready.key);
            let found = self.next_waiter(db, &key, after);
            let ready = self.ready.front_mut()?;
            ready.key = key;
            let Some(waiter) = found else {
                self.ready.pop_front();
                continue;
            };
            let (command, args) = (waiter.command, waiter.args.as_args());
            // Without letting go of the key if possible: nobody who comes now is to be served first.
            if !self.try_lock_for(command, args) && self.lock_for(command, args) {
                // Others had the key meanwhile.
                continue;
            }
            if let Some(ready) = self.ready.front_mut() {
                ready.after = waiter.ticket;
            }
            if !waiter.claim() {
                continue;
            }
            let result = self.run_again(&waiter, out);
            self.leave_queues(&waiter);
            return Some((waiter, result));
        }
    }

    /// The next waiter of a key, if the key still has what it waits for; locks the key.
    fn next_waiter(&mut self, db: usize, key: &[u8], after: u64) -> Option<Arc<Waiter>> {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let now = self.now;
        let shard = self.shard_mut(number);
        if after == 0 {
            // Whoever brings something from now on notes it again.
            shard.waiters.not_ready(db, key);
        }
        let record = shard.dbs[db].get(shard.dbs[db].find(key)?);
        let wants = Wants::met_by(&record.value).filter(|_| !now.is_due(record.deadline))?;
        shard.waiters.next(db, key, after, wants, now).cloned()
    }

    fn run_again(&mut self, waiter: &Waiter, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let mut reply = Reply::new(out, waiter.protocol);
        let args = waiter.args.as_args();
        let result = self.run(waiter.command, waiter.db, waiter.touch, args, &mut reply);
        match &result {
            Err(error) => reply.error(error.bytes()),
            // It cannot have found nothing, as its key was looked at under the same locks.
            Ok(()) if self.wait.take().is_some() || reply.len() == start => reply.null_array(),
            Ok(()) => {}
        }
        result
    }

    /// Databases have been exchanged: their keys may be what somebody waits for. Everything must be held.
    pub(crate) fn databases_exchanged(&mut self, dbs: [usize; 2]) {
        if !self.alert {
            return;
        }
        let mut ready = Vec::new();
        for (_, shard) in self.held_shards() {
            for db in dbs {
                let keys = shard.waiters.note_all_ready(db, &shard.dbs[db]);
                ready.extend(keys.iter().map(|key| ReadyKey::new(db, key)));
            }
        }
        self.ready.extend(ready);
    }
}
