//! A turn: some commands and expiries at one instant, with the locks they need.
//!
//! A turn keeps its shards locked until it needs others or is [released](Turn::release), so a
//! pipeline pays for one lock. It must be released before its thread waits for anything. The file
//! `locks.rs` has the rules of locking.

mod ahead;
mod commit;
pub(crate) mod cx;
mod effects;
mod evict;
mod expiry;
pub(crate) mod jobs;
mod locks;
mod notify;
pub(crate) mod restore;
pub(crate) mod source;
pub(crate) mod stats;
mod streams;
pub(crate) mod timers;
mod tracking;
mod waiters;
mod watch;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use punctual_resp::{Args, Reply};
use smallvec::SmallVec;

use crate::effects::Effects;
use crate::error::Error;
use crate::events::{Classes, Sink};
use crate::hash_table::{Hash, KeyHash};
use crate::keyspace::db::Db;
use crate::keyspace::shard::{Shard, Store, Touched, Writers};
use crate::keyspace::tracked::Tracked;
use crate::keyspace::waiters::Wait;
use crate::limits::Limits;
use crate::lock_order::OrderedGuard;
use crate::source::Source;
use crate::spec::{Flags, Row};
use crate::time::Now;
use crate::value::Value;

use ahead::{Name, Names};
use notify::Recorder;
use stats::Stats;
use timers::DueTimer;
use waiters::ReadyKey;

/// Function that runs a command on the keyspace.
pub type Handler = fn(&mut Cx<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of a keyspace command.
pub type Command = Row<Handler>;

/// Memory to free after a turn.
#[derive(Default)]
pub struct Discarded {
    /// Flushed databases.
    pub(crate) dbs: Vec<Db>,
    /// Large removed values.
    values: Vec<Value>,
    /// Keys that clients may have cached, before a flush.
    tracked: Vec<Tracked>,
    /// Bytes of the evicted values among `values`.
    bytes: usize,
}

impl Discarded {
    /// Returns the approximate number of objects to free. O(databases and values).
    pub fn things(&self) -> usize {
        let keys = self.dbs.iter().map(Db::len).sum::<usize>();
        let values = self.values.iter();
        let elements = values
            .map(|value| value.content().elements())
            .sum::<usize>();
        let tracked = self.tracked.iter().map(|t| t.totals().0).sum::<usize>();
        keys + elements + tracked
    }

    /// Number of objects, as Redis counts them: the keys of databases, and values. O(databases).
    pub fn objects(&self) -> usize {
        self.values() + self.dbs.iter().map(Db::len).sum::<usize>()
    }

    /// Number of large removed values.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// Returns the bytes of the evicted values, which are free as soon as they are dropped.
    pub fn evicted_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a removed value. Drops a small one at once.
    pub(crate) fn value(&mut self, value: Value) {
        if value.drops_late() {
            self.values.push(value);
        }
    }

    /// As [`Discarded::value`], for an evicted value, whose bytes count as free from now on.
    pub(crate) fn evicted(&mut self, value: Value) {
        if value.drops_late() {
            self.bytes += value.content().heap_bytes();
        }
        self.value(value);
    }
}

/// Error of a command that writes to a read-only store.
pub const READ_ONLY: Error = Error::fixed("READONLY You can't write against a read only replica.");

type Held<'s> = SmallVec<[(usize, OrderedGuard<'s, Shard>); ahead::LOCKS_MAX]>;

/// Some commands at one instant.
pub struct Turn<'s> {
    /// The keyspace.
    pub store: &'s Store,
    /// The instant. The caller may move it between commands.
    pub now: Now,
    /// Receiver of events.
    pub sink: &'s mut dyn Sink,
    /// Classes of events that are on.
    pub classes: Classes,
    /// Due keys are hidden and not expired: so read-only commands run while expiry is paused.
    pub frozen: bool,
    /// Limits of compact collections. The caller may renew them between commands.
    pub limits: Limits,
    /// Counts so far.
    pub stats: Stats,
    /// Flushed databases and large removed values. Dropping them takes time in proportion to their
    /// size, so the caller does it after the turn, and on another thread if it is much.
    pub discarded: Discarded,
    /// Set by a command that has found nothing and waits; it has not replied.
    pub wait: Option<Wait>,
    /// The client whose commands run; 0 if there is none.
    pub client: u64,
    /// The number under which the client's reads are remembered, if the next command's are.
    pub reader: Option<u32>,
    /// The source of the commands that run.
    source: Source,
    /// False while another thread, or an earlier turn of this one, holds shards for long: the
    /// caller must lock nothing.
    pub may_lock: bool,
    /// Keys that clients wait for, in the order in which they became ready.
    ready: VecDeque<ReadyKey>,
    /// Streams with entries that are due for a dead-letter stream, and queues with jobs for another
    /// one: these may be in other shards.
    dead_letters: Vec<(usize, Box<[u8]>)>,
    /// Timers that are due and wait for the caller to fire them.
    due_timers: Vec<DueTimer>,
    /// The command of a timer runs: no timer is due before the next millisecond because of it.
    in_timer: bool,
    /// Ascending by shard number.
    held: Held<'s>,
    /// Place among the held shards at which the last look-up found its shard.
    held_last: usize,
    /// The only shard of the command's keys, if there is one.
    sole: Option<usize>,
    /// The command's first key, if its hash is known: a name is hashed once a command.
    named: Name,
    /// The command's other keys, if it has several and there are several shards.
    others: Vec<Name>,
    /// Number of `others` that were looked up.
    others_used: usize,
    /// At this number of `others_used` the cache lines of the next ones are fetched.
    others_warm: usize,
    /// The database of the running command.
    others_db: usize,
    /// First key of the command that runs next, from the look-ahead.
    next: Name,
    /// First keys of the commands that were looked ahead at.
    ahead: Names,
    /// Databases whose deadlines may have changed in the held shards.
    touched: Touched,
    /// The held shards stay held, and suffice.
    pinned: bool,
    /// Commands add the shards that they need to the pinned ones.
    grows: bool,
    /// Every shard stays held until [`Turn::end_whole`], whatever is pinned and unpinned meanwhile.
    whole: bool,
    /// A client may watch a key of a held shard, or wait for one.
    observed: bool,
    /// What the turn has changed, if somebody reads the log of changes.
    effects: Effects,
    /// Somebody reads the log of changes. Read whenever a shard is locked.
    logged: bool,
    /// The sink gets the changed keys. Read whenever a shard is locked.
    notes: bool,
    /// Changed keys are reported to the sink, to clients or to the policy. [`Turn::commit`] reads
    /// only this flag.
    reports: bool,
    /// The turns that may write. Read whenever a shard is locked.
    writers: Writers,
    /// The running transaction has been admitted with its writes.
    admitted: bool,
    /// The commands are those of a log of changes, or run within one of them.
    replays: bool,
    /// Events for the rules of NOTIFY.
    recorder: Recorder,
    /// The running command has committed a change.
    changed: bool,
    /// The running command has set its effects.
    explicit: bool,
}

impl<'s> Turn<'s> {
    /// Creates a turn at `now`, which holds no lock yet.
    pub fn new(store: &'s Store, now: Now, sink: &'s mut dyn Sink, classes: Classes) -> Self {
        Self::with_limits(store, now, sink, classes, store.limits())
    }

    /// As [`Turn::new`], for a caller that knows the store's [limits](Store::changed_limits).
    pub fn with_limits(
        store: &'s Store,
        now: Now,
        sink: &'s mut dyn Sink,
        classes: Classes,
        limits: Limits,
    ) -> Self {
        Self {
            store,
            now,
            sink,
            classes,
            frozen: false,
            limits,
            stats: Stats::default(),
            discarded: Discarded::default(),
            wait: None,
            client: 0,
            reader: None,
            source: Source::Client,
            may_lock: true,
            ready: VecDeque::new(),
            dead_letters: Vec::new(),
            due_timers: Vec::new(),
            in_timer: false,
            held: SmallVec::new(),
            held_last: 0,
            sole: None,
            named: Name::NONE,
            others: Vec::new(),
            others_used: 0,
            others_warm: 0,
            others_db: 0,
            next: Name::NONE,
            ahead: Names::new(),
            touched: Touched::None,
            pinned: false,
            grows: false,
            whole: false,
            observed: false,
            effects: Effects::default(),
            logged: false,
            notes: false,
            reports: false,
            writers: Writers::Clients,
            admitted: false,
            replays: false,
            recorder: Recorder::default(),
            changed: false,
            explicit: false,
        }
    }

    /// Logs the effects, unlocks everything unless it is pinned, and reports wake-ups that became
    /// earlier to the sink.
    pub fn release(&mut self) {
        if self.pinned || self.whole {
            return;
        }
        if !self.recorder.events.is_empty() {
            // A command that locks one shard after the other has met due keys.
            self.append_recorded();
        }
        self.log();
        self.observed = false;
        let touched = std::mem::replace(&mut self.touched, Touched::None);
        if touched != Touched::None && self.store.counts_room.load(Ordering::Relaxed) {
            self.publish_rooms();
        }
        if touched == Touched::None {
            self.held.clear();
            return;
        }
        for (number, mut shard) in self.held.drain(..) {
            let Some(next) = shard.changed_wakeup(touched) else {
                continue;
            };
            let known = &self.store.wakeups[number];
            let before = known.swap(next, Ordering::SeqCst);
            drop(shard);
            if next < before {
                self.sink.wake(number, next);
            }
        }
    }

    /// Runs one command on database `db`, and appends one whole reply.
    ///
    /// # Errors
    /// The error to reply; nothing is appended then.
    pub fn run(
        &mut self,
        command: &Command,
        db: usize,
        touch: bool,
        args: Args,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let Some(handler) = command.handler else {
            return Err(Error::Syntax);
        };
        self.lock_for(command, args);
        debug_assert!(self.holds_targets(), "a rule has a stream in another shard");
        if self.others.len() > 1 {
            self.others_db = db;
            self.warm_others();
        }
        if command.flags.has(Flags::WHOLE) {
            self.touch(Touched::Any);
        } else if command.flags.has(Flags::WRITE) {
            self.touch(Touched::One(db));
        }
        if self.writers == Writers::Stream
            && command.flags.has(Flags::WRITE)
            && !self.replays
            && !self.admitted
        {
            return Err(READ_ONLY);
        }
        let (start, logged) = (reply.len(), self.logged);
        if logged {
            self.begin_command();
        }
        let mut cx = Cx {
            turn: self,
            db,
            touch,
            write: command.flags.has(Flags::WRITE),
        };
        let result = handler(&mut cx, args, reply).inspect_err(|_| reply.truncate(start));
        if let Some(reader) = self.reader {
            self.reader = None;
            self.remember_reader(&command.keys, args, reader);
        }
        if logged {
            self.end_command(db, args);
        } else if !self.recorder.events.is_empty() {
            self.append_recorded();
        }
        if command.reaches_unnamed(args) {
            self.release_whole();
        }
        result
    }

    /// Begins or ends a transaction, whose shards are pinned. With `writes`, a change of the role
    /// by one of its commands refuses none of its writes, as in Redis.
    pub fn admit(&mut self, writes: bool) {
        self.admitted = writes && self.writers != Writers::Stream;
    }

    /// Returns whether the running transaction may write, also after a change of the role.
    pub fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Notes that deadlines of these databases may have changed since the shards were locked.
    #[inline]
    pub(crate) fn touch(&mut self, which: Touched) {
        if self.touched == Touched::None {
            self.tell_time(which);
        }
        self.touched = match (self.touched, which) {
            (old, Touched::None) => old,
            (Touched::None, new) => new,
            (Touched::One(a), Touched::One(b)) if a == b => Touched::One(a),
            _ => Touched::Any,
        };
    }

    /// Tells the wheels of these databases the time before new deadlines are filed there: once a
    /// turn, or whenever locks are taken.
    fn tell_time(&mut self, which: Touched) {
        let now = self.now;
        for (_, shard) in &mut self.held {
            match which {
                Touched::None => {}
                Touched::One(db) => shard.dbs[db].tell_time(now),
                Touched::Any => shard.dbs.iter_mut().for_each(|db| db.tell_time(now)),
            }
        }
    }

    /// Returns the hash of `key`. O(1) if it is a key of the running command whose hash is known,
    /// else O(length).
    #[inline]
    pub(crate) fn hash_of(&mut self, key: &[u8]) -> Hash {
        if self.named.is(key) {
            return self.named.hash;
        }
        if let Some(name) = self.others.get(self.others_used)
            && name.is(key)
        {
            let hash = name.hash;
            if self.others_used == self.others_warm {
                self.warm_others();
            }
            self.others_used += 1;
            return hash;
        }
        self.store.hash(key)
    }

    /// See [`Sink::note_changes`].
    pub fn note_changes(&mut self) {
        self.sink.note_changes();
    }

    /// Returns the hash of a key and its database. O(1) for the key that a command names if that is
    /// the only one, else O(length).
    #[inline]
    pub fn key_hash(&self, db: usize, key: &[u8]) -> KeyHash {
        let known = self.named.is(key).then_some(self.named.hash);
        known.unwrap_or_else(|| self.store.hash(key)).in_db(db)
    }

    /// Returns the shard of `key`, a key of the running command. O(1) if all of its keys are in one
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

    /// Returns shard `number`.
    ///
    /// # Panics
    /// If the shard is not held.
    pub(crate) fn shard_mut(&mut self, number: usize) -> &mut Shard {
        let at = self.held_at(number);
        &mut self.held[at].1
    }

    /// Returns the part of database `db` in each held shard.
    pub fn held_dbs(&mut self, db: usize) -> impl Iterator<Item = (usize, &mut Db)> {
        self.held
            .iter_mut()
            .map(move |(n, shard)| (*n, &mut shard.dbs[db]))
    }

    /// Returns the held shards.
    pub(crate) fn held_shards(&mut self) -> impl Iterator<Item = (usize, &mut Shard)> {
        self.held.iter_mut().map(|(n, shard)| (*n, &mut **shard))
    }

    /// Returns the part of database `db` in shard `number`.
    ///
    /// # Panics
    /// If the shard is not held.
    #[expect(
        clippy::inline_always,
        reason = "every look-up takes it: 24 instructions a command"
    )]
    #[inline(always)]
    pub(crate) fn shard_db(&mut self, number: usize, db: usize) -> &mut Db {
        let at = self.held_at(number);
        &mut self.held[at].1.dbs[db]
    }

    /// As [`Turn::shard_db`], to read several parts at once.
    ///
    /// # Panics
    /// If the shard is not held.
    #[inline]
    pub(crate) fn shard_db_ref(&self, number: usize, db: usize) -> &Db {
        &self.held[self.held_at(number)].1.dbs[db]
    }

    /// Returns the place of shard `number` among the held ones.
    #[expect(clippy::inline_always, reason = "as `shard_db`")]
    #[inline(always)]
    fn held_at(&self, number: usize) -> usize {
        match self.held.get(self.held_last) {
            Some(held) if held.0 == number => self.held_last,
            _ => self
                .find_held(number)
                .expect("a command names its keys in its row"),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.unpin();
        self.end_whole();
        self.release();
    }
}

/// Context of a handler: the turn, and the client's choices.
pub struct Cx<'t, 's> {
    /// The turn.
    pub turn: &'t mut Turn<'s>,
    /// The client's database.
    pub db: usize,
    /// Whether reads count as uses (off: CLIENT NO-TOUCH).
    pub touch: bool,
    /// Whether the command may write; its look-ups count no hits and misses.
    pub write: bool,
}

#[cfg(test)]
mod tests {
    use punctual_resp::{OwnedArgs, Protocol};

    use super::*;
    use crate::events::Silent;
    use crate::{StoreOptions, command};

    /// Runs a command. Returns the number of shards that are locked afterwards.
    fn locked_after(turn: &mut Turn, line: &str) -> usize {
        let args: OwnedArgs = line.split(' ').collect();
        let row = command::find(&args.as_args()[0].to_ascii_lowercase()).unwrap();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        turn.run(row, 0, true, args.as_args(), &mut reply).unwrap();
        let shards = turn.store.locked.iter();
        shards.filter(|l| l.shard.try_lock().is_none()).count()
    }

    #[test]
    fn a_command_on_the_whole_keyspace_keeps_no_lock() {
        let store = Store::new(StoreOptions {
            shards: 4,
            databases: 2,
            seed: 1,
            nap: std::thread::sleep,
        });
        let mut sink = Silent;
        let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
        assert_eq!(locked_after(&mut turn, "SET k v"), 1);
        for line in ["DBSIZE", "FLUSHALL", "KEYS *"] {
            assert_eq!(locked_after(&mut turn, line), 0, "{line}");
        }
        turn.pin(None);
        assert_eq!(
            locked_after(&mut turn, "DBSIZE"),
            4,
            "a transaction keeps them"
        );
    }
}
