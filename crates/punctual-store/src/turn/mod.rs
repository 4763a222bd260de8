//! A turn: some commands and expiries at one instant, with the locks they need.
//!
//! A turn keeps the shards it locked until it needs others or is [released](Turn::release), so a
//! pipeline pays for one lock. Ground rules: locks are taken in ascending order, all at once (out of order one may only
//! be tried); a turn must be released before its thread waits for anything. A transaction *pins* what all of its commands need: until it is
//! over, nothing is locked or unlocked.

mod commit;
pub(crate) mod cx;
mod expiry;
mod restore;
mod waiters;
mod watch;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use crate::error::Error;
use crate::events::{Classes, Sink};
use crate::keyspace::db::Db;
use crate::keyspace::shard::{Shard, Store, Touched};
use crate::keyspace::waiters::Wait;
use crate::limits::Limits;
use crate::spec::{Flags, Row};
use crate::time::Now;
use crate::value::Value;

pub use restore::{RestoreBatch, Restored, Taken};
use waiters::ReadyKey;

/// What runs a command on the keyspace.
pub type Handler = fn(&mut Cx<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of a keyspace command.
pub type Command = Row<Handler>;

/// What commands and expiries have counted; the caller adds it up and resets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads of keys that were there.
    pub hits: u64,
    /// Reads of keys that were not.
    pub misses: u64,
    /// Keys gone at their deadline.
    pub expired: u64,
    /// Of those, the ones that a command met before the wheel did.
    pub expired_on_touch: u64,
    /// Hash fields gone at their deadline.
    pub expired_fields: u64,
    /// Changes to the keyspace.
    pub dirty: u64,
}

/// What is to be dropped after a turn.
#[derive(Default)]
pub struct Discarded {
    /// Databases that were flushed.
    pub(crate) dbs: Vec<Db>,
    /// Large values.
    values: Vec<Value>,
}

impl Discarded {
    /// About how many things there are to be freed. O(databases and values).
    pub fn things(&self) -> usize {
        let keys = self.dbs.iter().map(Db::len).sum::<usize>();
        let elements = self.values.iter().map(Value::elements).sum::<usize>();
        keys + elements
    }

    /// Takes a value to be dropped: small ones go at once.
    pub(crate) fn value(&mut self, value: Value) {
        const LARGE: usize = 1_000;
        if value.elements() > LARGE {
            self.values.push(value);
        }
    }
}

type Held<'s> = SmallVec<[(usize, MutexGuard<'s, Shard>); 1]>;

/// Some commands at one instant.
pub struct Turn<'s> {
    /// The keyspace.
    pub store: &'s Store,
    /// The instant. The caller may move it between commands.
    pub now: Now,
    /// Where events go.
    pub sink: &'s mut dyn Sink,
    /// Which events are wanted.
    pub classes: Classes,
    /// Due keys are not seen, but stay where they are: commands that only read run so while expiry stands still.
    pub frozen: bool,
    /// Up to which size collections stay compact; the caller may renew it between commands.
    pub limits: Limits,
    /// What was counted so far.
    pub stats: Stats,
    /// What was flushed, and large values that went: dropping them takes time in proportion to what is in them, so the
    /// caller does it after the turn, on another thread if that is much.
    pub discarded: Discarded,
    /// What the command that has just run wants to wait for: it has found nothing, and has not replied.
    pub wait: Option<Wait>,
    /// Commands may wait; in a transaction they answer that there was nothing.
    pub may_wait: bool,
    /// Keys that somebody waits for, in the order in which they became ready.
    ready: VecDeque<ReadyKey>,
    /// Ascending by shard number.
    held: Held<'s>,
    /// The shard of all keys that the command names, if that is one: its slot is worked out once a command.
    sole: Option<usize>,
    /// Databases whose deadlines may have changed in the shards that are held.
    touched: Touched,
    /// What is held stays held, and is enough.
    pinned: bool,
    /// Somebody may watch a key, or wait for one, of a shard that is held.
    observed: bool,
}

impl<'s> Turn<'s> {
    /// A turn at `now`; nothing is locked yet.
    pub fn new(store: &'s Store, now: Now, sink: &'s mut dyn Sink, classes: Classes) -> Self {
        Self {
            store,
            now,
            sink,
            classes,
            frozen: false,
            limits: store.limits(),
            stats: Stats::default(),
            discarded: Discarded::default(),
            wait: None,
            may_wait: true,
            ready: VecDeque::new(),
            held: SmallVec::new(),
            sole: None,
            touched: Touched::None,
            pinned: false,
            observed: false,
        }
    }

    /// Unlocks everything, unless it is pinned, and tells the sink about wake-ups that became earlier.
    pub fn release(&mut self) {
        if self.pinned {
            return;
        }
        self.observed = false;
        let touched = std::mem::replace(&mut self.touched, Touched::None);
        if touched == Touched::None {
            self.held.clear();
            return;
        }
        for (number, mut shard) in self.held.drain(..) {
            let next = shard.next_wakeup(touched);
            let known = &self.store.locked[number].wakeup;
            let before = known.swap(next, Ordering::SeqCst);
            drop(shard);
            if next < before {
                self.sink.wake(number, next);
            }
        }
    }

    /// Runs one command on database `db`. The reply is one whole reply, an error's text included; whether it
    /// was an error is told.
    pub fn run(
        &mut self,
        command: &Command,
        db: usize,
        touch: bool,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Error> {
        let Some(handler) = command.handler else {
            return Err(Error::Syntax);
        };
        self.lock_for(command, args);
        if command.flags.has(Flags::WHOLE) {
            self.touch(Touched::Any);
        } else if command.flags.has(Flags::WRITE) {
            self.touch(Touched::One(db));
        }
        let start = reply.len();
        let mut cx = Cx {
            turn: self,
            db,
            touch,
            write: command.flags.has(Flags::WRITE),
        };
        handler(&mut cx, args, reply).inspect_err(|_| reply.truncate(start))
    }

    /// Deadlines of these databases may have changed since the shards were locked.
    #[inline]
    pub(crate) fn touch(&mut self, which: Touched) {
        self.touched = match (self.touched, which) {
            (old, Touched::None) => old,
            (Touched::None, new) => new,
            (Touched::One(a), Touched::One(b)) if a == b => Touched::One(a),
            _ => Touched::Any,
        };
    }

    /// Brings what these commands in database `db` will need into the cache, where one lock is enough for that: the
    /// records of their first keys, or elements of the collection that all of them are about.
    pub fn warm<'a>(&mut self, db: usize, commands: impl Iterator<Item = Args<'a>> + Clone) {
        if self.store.shards() == 1 {
            self.lock_one(0);
            let part = self.shard_db(0, db);
            let mut keys = commands.clone().filter_map(|args| args.get(1));
            let Some(first) = keys.next() else {
                return;
            };
            if keys.clone().next() == Some(first) {
                let same = commands.filter(|args| args.get(1) == Some(first) && args.len() > 2);
                if let Some(id) = part.find(first) {
                    part.get(id).value.warm_elements(same);
                }
            } else {
                part.warm(std::iter::once(first).chain(keys));
            }
        }
    }

    /// Locks what `command` needs; keeps what is held if that is enough, else tells that it does not.
    pub(crate) fn lock_for(&mut self, command: &Command, args: Args<'_>) -> bool {
        self.sole = None;
        if command.anywhere(args) {
            let enough = self.held.len() == self.store.shards();
            self.lock_all();
            return !enough;
        }
        if self.store.shards() == 1 {
            let enough = self.pinned || !self.held.is_empty();
            if !enough {
                self.lock(&[0]);
            }
            return !enough;
        }
        let mut needed: SmallVec<[usize; 8]> = SmallVec::new();
        let store = self.store;
        command.keys.each(args, &mut |at| {
            if let Some(key) = args.get(at) {
                needed.push(store.shard_of(key));
            }
        });
        needed.sort_unstable();
        needed.dedup();
        if let [one] = needed[..] {
            self.sole = Some(one);
        }
        let enough = needed.iter().all(|n| self.holds(*n));
        if !enough {
            self.lock(&needed);
        }
        !enough
    }

    /// Adds what `command` needs to what is held, if nobody else has it just now; whether it is all there.
    pub(crate) fn try_lock_for(&mut self, command: &Command, args: Args<'_>) -> bool {
        let store = self.store;
        let mut all_there = !command.anywhere(args);
        command.keys.each(args, &mut |at| {
            let needed = args.get(at).map(|key| store.shard_of(key));
            let Some(number) = needed.filter(|number| !self.holds(*number)) else {
                return;
            };
            match store.locked[number].shard.try_lock() {
                Some(shard) => {
                    self.observed |= shard.watched.any() || shard.waiters.any();
                    let at = self.held.partition_point(|(held, _)| *held < number);
                    self.held.insert(at, (number, shard));
                }
                None => all_there = false,
            }
        });
        all_there
    }

    fn holds(&self, shard: usize) -> bool {
        self.held.binary_search_by_key(&shard, |h| h.0).is_ok()
    }

    /// Locks just `shards` (ascending, no number twice).
    fn lock(&mut self, shards: &[usize]) {
        assert!(!self.pinned, "a transaction has pinned all that it needs");
        self.release();
        for &number in shards {
            let shard = self.store.locked[number].shard.lock();
            self.observed |= shard.watched.any() || shard.waiters.any();
            self.held.push((number, shard));
        }
    }

    /// Locks the shards of these keys, and maybe more. O(length of the keys).
    pub(crate) fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let store = self.store;
        let mut needed: SmallVec<[usize; 8]> = keys.map(|key| store.shard_of(key)).collect();
        needed.sort_unstable();
        needed.dedup();
        if !needed.iter().all(|n| self.holds(*n)) {
            self.lock(&needed);
        }
    }

    /// Locks these shards, all of them without a list, and keeps them until [`Turn::unpin`]: whatever is run meanwhile
    /// must need no others. Nobody else sees or changes anything in them.
    pub fn pin(&mut self, shards: Option<Vec<usize>>) {
        self.unpin();
        match shards {
            None => self.lock_all(),
            Some(mut needed) => {
                needed.sort_unstable();
                needed.dedup();
                if !needed.iter().all(|n| self.holds(*n)) {
                    self.lock(&needed);
                }
            }
        }
        self.pinned = true;
    }

    /// Ends [`Turn::pin`]; what was locked stays so until other locks are needed or it is released.
    pub fn unpin(&mut self) {
        self.pinned = false;
    }

    /// The shard that holds `key`, one of those that the running command names. O(1) if all of them lie in one
    /// shard, else O(length).
    #[inline]
    pub(crate) fn shard_of(&self, key: &[u8]) -> usize {
        let shard = self.sole.unwrap_or_else(|| self.store.shard_of(key));
        debug_assert_eq!(
            shard,
            self.store.shard_of(key),
            "a command names its keys in its row"
        );
        shard
    }

    /// Locks every shard.
    pub fn lock_all(&mut self) {
        if self.held.len() < self.store.shards() {
            let all: Vec<usize> = (0..self.store.shards()).collect();
            self.lock(&all);
        }
    }

    /// Locks shard `number` alone, unless it is held already.
    pub fn lock_one(&mut self, number: usize) {
        if !self.holds(number) {
            self.lock(&[number]);
        }
    }

    /// Shard `number`.
    ///
    /// # Panics
    /// If the shard is not held.
    pub(crate) fn shard_mut(&mut self, number: usize) -> &mut Shard {
        let at = self.held_at(number);
        &mut self.held[at].1
    }

    /// The database `db` in each shard that is held.
    pub fn held_dbs(&mut self, db: usize) -> impl Iterator<Item = (usize, &mut Db)> {
        self.held
            .iter_mut()
            .map(move |(n, shard)| (*n, &mut shard.dbs[db]))
    }

    /// The shards that are held.
    pub(crate) fn held_shards(&mut self) -> impl Iterator<Item = (usize, &mut Shard)> {
        self.held.iter_mut().map(|(n, shard)| (*n, &mut **shard))
    }

    /// Database `db` of shard `number`.
    ///
    /// # Panics
    /// If the shard is not held.
    #[inline]
    pub(crate) fn shard_db(&mut self, number: usize, db: usize) -> &mut Db {
        let at = self.held_at(number);
        &mut self.held[at].1.dbs[db]
    }

    /// As [`Turn::shard_db`], to look at several at once.
    ///
    /// # Panics
    /// If the shard is not held.
    #[inline]
    pub(crate) fn shard_db_ref(&self, number: usize, db: usize) -> &Db {
        &self.held[self.held_at(number)].1.dbs[db]
    }

    /// Where among those held shard `number` is.
    #[inline]
    fn held_at(&self, number: usize) -> usize {
        if self.held.len() == 1 && self.held[0].0 == number {
            return 0;
        }
        self.held
            .binary_search_by_key(&number, |h| h.0)
            .expect("a command names its keys in its row")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.unpin();
        self.release();
    }
}

/// What a handler works with: the turn, and the client's choices.
pub struct Cx<'t, 's> {
    /// The turn.
    pub turn: &'t mut Turn<'s>,
    /// The client's database.
    pub db: usize,
    /// Whether reads count as uses (CLIENT NO-TOUCH).
    pub touch: bool,
    /// Whether the command may write: its look-ups count no hits and misses.
    pub write: bool,
}
