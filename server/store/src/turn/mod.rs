//! A *turn*: commands and expiry that one thread runs at one instant, with the locks of the shards
//! that they need. An event loop runs one turn after the other; several loops run turns at the same
//! time on different shards.
//!
//! A turn keeps its shards locked until it needs other shards or is [released](Turn::release), so a
//! pipeline on one shard locks it once. The caller must release the turn before the thread waits
//! for anything. `locks.rs` has the rules of locking, `commit.rs` the rules for changes, and
//! `cx.rs` the look-ups of commands. A turn is not a transaction: MULTI and EXEC run within a turn,
//! which keeps their shards *pinned*.

mod ahead;
mod check;
mod commit;
pub(crate) mod cx;
mod effects;
mod evict;
mod expiry;
pub(crate) mod jobs;
mod locks;
mod notify;
pub(crate) mod parts;
pub(crate) mod restore;
mod slots;
pub(crate) mod source;
pub(crate) mod stats;
mod streams;
pub(crate) mod subkeys;
pub(crate) mod timers;
mod tracking;
mod ttl;
mod value_sizes;
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
use cx::Decided;
use notify::Recorder;
use stats::Stats;
use timers::DueTimer;
use waiters::ReadyKey;

/// Function that runs a command on the keyspace.
pub type Handler = fn(&mut Cx<'_, '_>, Args<'_>, &mut Reply<'_>) -> Result<(), Error>;

/// A row of a keyspace command.
pub type Command = Row<Handler>;

/// Removed data that is dropped after a turn, because dropping it may take long.
#[derive(Default)]
pub struct Discarded {
    /// Flushed databases.
    pub(crate) dbs: Vec<Db>,
    /// Removed values with many elements or bytes.
    values: Vec<Value>,
    /// Tables of keys that clients may have cached, emptied by a flush.
    tracked: Vec<Tracked>,
    /// Bytes of the evicted values among `values`.
    bytes: usize,
}

impl Discarded {
    /// Returns the approximate number of allocations to free: keys, elements of values, and tracked
    /// keys. O(databases and values).
    pub fn elements_to_free(&self) -> usize {
        let keys = self.dbs.iter().map(Db::len).sum::<usize>();
        let values = self.values.iter();
        let elements = values
            .map(|value| value.content().elements())
            .sum::<usize>();
        let tracked = self.tracked.iter().map(|t| t.totals().0).sum::<usize>();
        keys + elements + tracked
    }

    /// Returns the number of objects to free as Redis counts them (`lazyfree_pending_objects`):
    /// keys of databases, and values. O(databases).
    pub fn objects(&self) -> usize {
        self.values() + self.dbs.iter().map(Db::len).sum::<usize>()
    }

    /// Returns the number of large removed values.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// Returns the bytes of the evicted values, which the caller may count as free already.
    pub fn evicted_bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a large removed value to drop it later. Drops a small value at once.
    pub(crate) fn value(&mut self, value: Value) {
        if value.drops_late() {
            self.values.push(value);
        }
    }

    /// Same as [`Discarded::value`], for an evicted value, whose bytes count as free at once.
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

/// Commands and expiry at one instant; see the module's documentation in `turn/mod.rs`.
pub struct Turn<'s> {
    /// The keyspace.
    pub store: &'s Store,
    /// The instant. The caller may move it between commands.
    pub now: Now,
    /// Receiver of events.
    pub sink: &'s mut dyn Sink,
    /// Classes of events that are on.
    pub classes: Classes,
    /// While it is set, due keys are hidden from commands but do not expire: for reads while
    /// clients are paused, and for clients of a replica.
    pub frozen: bool,
    /// Settings that commands need, such as limits of compact collections. The caller may renew
    /// them between commands.
    pub limits: Limits,
    /// Counts so far.
    pub stats: Stats,
    /// Flushed databases and large removed values. The caller drops them after the turn; if there
    /// are many, another thread does.
    pub discarded: Discarded,
    /// Set by a blocking command that has found nothing and has not replied. The caller then calls
    /// [`Turn::begin_waiting`].
    pub wait: Option<Wait>,
    /// The client whose commands run; 0 if there is none.
    pub client: u64,
    /// Number of the client for client-side caching, if it caches the keys of the next command.
    pub reader: Option<u32>,
    /// The source of the commands that run.
    source: Source,
    /// False while another thread, or an outer turn of this thread, holds shards for long.
    /// Meanwhile the caller must not let this turn lock.
    pub may_lock: bool,
    /// Keys whose waiting clients may be served, in the order in which the keys became ready.
    ready: VecDeque<ReadyKey>,
    /// Database and key of streams with entries for a dead-letter stream, and of queues with jobs
    /// for another queue. The targets may be in other shards, so the entries and jobs are moved
    /// after the expiry step.
    dead_letters: Vec<(usize, Box<[u8]>)>,
    /// Timers that are due, for the caller to fire.
    due_timers: Vec<DueTimer>,
    /// Whether the command of a timer runs. A timer that this command sets is due in the next
    /// millisecond at the earliest.
    in_timer: bool,
    /// The locked shards, ascending by number.
    held: Held<'s>,
    /// Index in `held` at which the last look-up found its shard.
    held_last: usize,
    /// Shard of the command's keys, if all are in the same shard.
    only_shard: Option<usize>,
    /// The command's only key with its hash, so that the name is hashed once.
    hashed_key: Name,
    /// The command's keys with their hashes, if it may have several.
    keys: Vec<Name>,
    /// Number of the `keys` that the handler has looked up.
    keys_used: usize,
    /// When `keys_used` reaches this number, the cache lines of the next keys are loaded.
    keys_warm: usize,
    /// Database of the `keys`.
    keys_db: usize,
    /// First key of the next command, with the hash that the look-ahead has computed.
    next: Name,
    /// First keys of the commands that the look-ahead has prepared.
    ahead: Names,
    /// The databases of the held shards whose deadlines may have changed.
    touched: Touched,
    /// A transaction or script has pinned the held shards: they stay locked.
    pinned: bool,
    /// Commands of a script add the shards that they need to the pinned shards.
    grows: bool,
    /// Every shard stays locked until [`Turn::end_whole`], even if shards are pinned and unpinned
    /// meanwhile.
    whole: bool,
    /// Changes of keys in the held shards must be reported, because clients may watch, cache or
    /// wait for keys, or because the eviction policy needs the times of changes.
    observed: bool,
    /// The turn's changes as commands, if the log of changes has a reader.
    effects: Effects,
    /// Whether the log of changes has a reader. Renewed whenever a shard is locked.
    logged: bool,
    /// Whether changed keys are reported to the sink. Renewed whenever a shard is locked.
    notes: bool,
    /// Whether changed keys are reported to anything: the sink, clients, the eviction policy or the
    /// local keys of a replica. [`Turn::commit`] checks only this flag.
    reports: bool,
    /// The turns that may write. Renewed whenever a shard is locked.
    writers: Writers,
    /// Whether the running transaction may write, even if its commands change the server's role.
    admitted: bool,
    /// Whether the commands come from a log of changes, or run within such a command.
    replays: bool,
    /// Events that rules of NOTIFY select.
    recorder: Recorder,
    /// Keys whose deadlines the running command has decided, while there are rules for TTLs.
    decided: Vec<Decided>,
    /// Copies of sets and sorted sets without their due members, for the running command.
    copies: Vec<Value>,
    /// Whether the running command has committed a change.
    changed: bool,
    /// Whether the running command has set its effects itself.
    explicit: bool,
}

impl<'s> Turn<'s> {
    /// Creates a turn at `now`. It holds no lock yet.
    pub fn new(store: &'s Store, now: Now, sink: &'s mut dyn Sink, classes: Classes) -> Self {
        Self::with_limits(store, now, sink, classes, store.limits())
    }

    /// Same as [`Turn::new`], for a caller that knows the store's [limits](Store::changed_limits).
    #[inline]
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
            only_shard: None,
            hashed_key: Name::NONE,
            keys: Vec::new(),
            keys_used: 0,
            keys_warm: 0,
            keys_db: 0,
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
            decided: Vec::new(),
            copies: Vec::new(),
            changed: false,
            explicit: false,
        }
    }

    /// Logs the effects, unlocks all shards, and reports wake-ups that became earlier to the sink.
    /// Does nothing while the shards are pinned or [held whole](Turn::hold_whole).
    pub fn release(&mut self) {
        if self.pinned || self.whole {
            return;
        }
        if !self.recorder.events.is_empty() {
            // A command that locks one shard after the other (SCAN, for example) may have expired
            // keys.
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

    /// Runs one command on database `db`, and appends one whole reply. `touch` says whether reads
    /// count as uses of keys.
    ///
    /// # Errors
    /// The error to send as the reply. Nothing is appended to `reply`.
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
        if self.keys.len() > 1 {
            self.keys_db = db;
            self.warm_keys();
        }
        if command.flags.has(Flags::WHOLE) {
            self.deadlines_may_change(Touched::Any);
        } else if command.flags.has(Flags::WRITE) {
            self.deadlines_may_change(Touched::One(db));
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
        if !self.copies.is_empty() {
            self.copies.clear();
        }
        if let Some(reader) = self.reader {
            self.reader = None;
            self.remember_reader(&command.keys, args, reader);
        }
        if logged {
            self.add_words(db, args);
        }
        if !self.decided.is_empty() {
            self.apply_ttl_rules();
        }
        if !self.recorder.events.is_empty() {
            self.append_recorded();
        }
        if logged {
            self.end_frame();
        }
        if command.reaches_unnamed(args) {
            self.release_whole();
        }
        result
    }

    /// Sets whether the transaction that begins may write. If it may, it may also write after one
    /// of its commands has changed the server's role, as in Redis. The caller passes false when the
    /// transaction ends.
    pub fn admit(&mut self, writes: bool) {
        self.admitted = writes && self.writers != Writers::Stream;
    }

    /// Returns whether [`Turn::admit`] has admitted the writes of the running transaction.
    pub fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Notes that deadlines of these databases may change. Must be called before the change.
    #[inline]
    pub(crate) fn deadlines_may_change(&mut self, which: Touched) {
        if self.touched == Touched::None {
            self.set_wheel_time(which);
        }
        self.touched = match (self.touched, which) {
            (old, Touched::None) => old,
            (Touched::None, new) => new,
            (Touched::One(a), Touched::One(b)) if a == b => Touched::One(a),
            _ => Touched::Any,
        };
    }

    /// Sets the time of these databases' wheels, before deadlines are filed in them.
    fn set_wheel_time(&mut self, which: Touched) {
        let now = self.now;
        for (_, shard) in &mut self.held {
            match which {
                Touched::None => {}
                Touched::One(db) => shard.dbs[db].set_wheel_time(now),
                Touched::Any => shard.dbs.iter_mut().for_each(|db| db.set_wheel_time(now)),
            }
        }
    }

    /// Returns the hash of `key`. O(1) if it is a key of the running command whose hash is known,
    /// else O(length).
    #[inline]
    pub(crate) fn hash_of(&mut self, key: &[u8]) -> Hash {
        if self.hashed_key.is(key) {
            return self.hashed_key.hash;
        }
        if let Some(name) = self.keys.get(self.keys_used)
            && name.is(key)
        {
            let hash = name.hash;
            if self.keys_used == self.keys_warm {
                self.warm_keys();
            }
            self.keys_used += 1;
            return hash;
        }
        self.store.hash(key)
    }

    /// See [`Sink::note_changes`].
    pub fn note_changes(&mut self) {
        self.sink.note_changes();
    }

    /// Returns a hash of a key and its database. O(1) if the key is the only key of the running
    /// command, else O(length).
    #[inline]
    pub fn key_hash(&self, db: usize, key: &[u8]) -> KeyHash {
        let known = self.hashed_key.is(key).then_some(self.hashed_key.hash);
        known.unwrap_or_else(|| self.store.hash(key)).in_db(db)
    }

    /// Returns the shard of `key`, which the running command names. O(1) if all keys of the command
    /// are in one shard, else O(length).
    #[inline]
    pub(crate) fn shard_of(&self, key: &[u8]) -> usize {
        let shard = self.only_shard.unwrap_or_else(|| self.store.shard_of(key));
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
        reason = "every look-up calls it: inlining saves 24 instructions a command"
    )]
    #[inline(always)]
    pub(crate) fn shard_db(&mut self, number: usize, db: usize) -> &mut Db {
        let at = self.held_at(number);
        &mut self.held[at].1.dbs[db]
    }

    /// Same as [`Turn::shard_db`], but borrows the turn as shared.
    ///
    /// # Panics
    /// If the shard is not held.
    #[inline]
    pub(crate) fn shard_db_ref(&self, number: usize, db: usize) -> &Db {
        &self.held[self.held_at(number)].1.dbs[db]
    }

    /// Returns the index in `held` of shard `number`.
    #[expect(clippy::inline_always, reason = "same as for `shard_db`")]
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

/// Context of a command's handler: the turn, and settings of the client.
pub struct Cx<'t, 's> {
    /// The turn.
    pub turn: &'t mut Turn<'s>,
    /// The client's database.
    pub db: usize,
    /// Whether reads count as uses (off: CLIENT NO-TOUCH).
    pub touch: bool,
    /// Whether the command has the flag [`Flags::WRITE`].
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
            cluster: false,
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
        assert_eq!(locked_after(&mut turn, "DBSIZE"), 4, "pinned");
    }
}
