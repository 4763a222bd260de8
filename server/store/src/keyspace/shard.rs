//! The keyspace, split by the hash of the key names into shards, each behind a lock.
//!
//! The shard's number comes from bits of the hash that the hash tables do not use; in cluster mode
//! it comes from the key's slot, so a slot is in one shard. An event loop owns some of the shards:
//! it expires their keys. Any loop may run commands on any shard, under its lock.
//!
//! Ground rules: a [`Turn`](crate::Turn) and the walk of a snapshot lock shards. (The end of a
//! snapshot and the start of a replica lock single shards too.) A thread that needs several locks
//! takes them in ascending order. A shard's *wake-up*, the time at which its loop must expire keys,
//! is written under the shard's lock and may be read without it. Data that every loop reads lies on
//! other cache lines than data that one loop often writes: a write to a shared line delays all
//! cores.

mod check;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::{Mutex, RwLock};
use rand::rngs::{SmallRng, StdRng};
use rand::{RngExt as _, SeedableRng as _};

use crate::hash_table::{Hash, SlotBits};
use crate::keyspace::candidates::Candidates;
use crate::keyspace::db::Db;
use crate::keyspace::moving::Moving;
use crate::keyspace::name_hash::NameHasher;
use crate::keyspace::notify::Notify;
use crate::keyspace::tracked::{Tracked, Tracking};
use crate::keyspace::waiters::Waiters;
use crate::keyspace::walk::WalkStep;
use crate::keyspace::watch::Watched;
use crate::limits::Limits;
use crate::lock_order::{OrderedGuard, OrderedMutex, Rank};
use crate::random::Draws;
use crate::ttl_rules::{TtlRules, TtlSetting};
use crate::value::keyed;

/// Maximum number of shards.
pub(crate) const SHARDS_MAX: usize = 16_384;
/// The wake-up of a shard without deadlines.
pub(crate) const NO_WAKEUP: u64 = u64::MAX;

/// One shard: its part of every database.
pub struct Shard {
    /// By database number.
    pub dbs: Vec<Db>,
    /// Keys that clients watch (WATCH).
    pub(crate) watched: Watched,
    /// Clients that wait for keys.
    pub(crate) waiters: Waiters,
    /// Keys that clients may have cached.
    pub(crate) tracked: Tracked,
    /// The last known wake-up of each database, by its number.
    wakeups: Vec<u64>,
    /// The earliest of `wakeups`.
    earliest: u64,
    /// Keys that may be evicted next.
    pub(crate) candidates: Candidates,
    /// Generator of random numbers for this shard's data structures.
    pub(crate) random: SmallRng,
}

/// The databases whose deadlines may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    None,
    One(usize),
    Any,
}

impl Shard {
    /// Returns the bytes of free places for records in the pages of all databases. O(databases).
    pub(crate) fn room(&self) -> usize {
        self.dbs.iter().map(Db::room).sum()
    }

    /// Returns a lower bound of the earliest deadline in any database, if that bound has changed
    /// since the last call. Looks only at the databases in `touched`.
    pub(crate) fn changed_wakeup(&mut self, touched: Touched) -> Option<u64> {
        let asked = match touched {
            Touched::None => 0..0,
            Touched::One(db) => db..db + 1,
            Touched::Any => 0..self.dbs.len(),
        };
        let mut changed = false;
        for db in asked {
            let next = self.dbs[db].next_wakeup().unwrap_or(NO_WAKEUP);
            if next != self.wakeups[db] {
                self.wakeups[db] = next;
                changed = true;
            }
        }
        if !changed {
            return None;
        }
        let before = self.earliest;
        self.earliest = self.wakeups.iter().copied().min().unwrap_or(NO_WAKEUP);
        (self.earliest != before).then_some(self.earliest)
    }
}

/// A shard behind its lock, on its own cache lines.
#[repr(align(128))]
pub(crate) struct Locked {
    pub(crate) shard: OrderedMutex<Shard>,
    /// Number of turns that wait for the shard.
    waiting: AtomicU32,
    /// True while the walk of a snapshot holds the lock.
    walked: AtomicBool,
    /// Blocks the thread for the given time.
    nap: fn(Duration),
}

/// Time for which a turn or a walk sleeps while the other one uses the shard.
pub(crate) const NAP: Duration = Duration::from_micros(20);
/// Maximum number of naps that a walk takes before a step to let turns lock first.
const NAPS: u32 = 16;

/// The walk of a snapshot holds its shard most of the time, so it sleeps before a step while turns
/// wait for the shard. A turn sleeps in short naps until the step has ended, some tens of
/// microseconds. It does not wait in the mutex, which would yield the processor and could delay the
/// thread by whole time slices, which are milliseconds.
impl Locked {
    fn new(shard: Shard, nap: fn(Duration)) -> Self {
        Self {
            shard: OrderedMutex::new(Rank::Shard, shard),
            waiting: AtomicU32::new(0),
            walked: AtomicBool::new(false),
            nap,
        }
    }

    /// Waits for the lock, for a turn whose attempt to take the lock has failed.
    #[cold]
    pub(crate) fn wait(&self) -> OrderedGuard<'_, Shard> {
        self.waiting(|| self.shard.lock())
    }

    /// Same as [`Locked::wait`], but waits at most this long for other turns. The wait for a step
    /// of a snapshot's walk does not count.
    #[cold]
    pub(crate) fn wait_for(&self, patience: Duration) -> Option<OrderedGuard<'_, Shard>> {
        self.waiting(|| self.shard.try_lock_for(patience))
    }

    fn waiting<R>(&self, lock: impl FnOnce() -> R) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while self.walked.load(Ordering::Relaxed) {
            (self.nap)(NAP);
        }
        let locked = lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        locked
    }

    /// Locks the shard for a step of a walk.
    pub(crate) fn walk<R>(&self, step: impl FnOnce(&mut Shard) -> R) -> R {
        self.give_way();
        self.step(self.shard.lock(), step)
    }

    /// Same as [`Locked::walk`], but returns `None` if the shard is not free within `patience`.
    pub(crate) fn try_walk<R>(
        &self,
        patience: Duration,
        step: impl FnOnce(&mut Shard) -> R,
    ) -> Option<R> {
        self.give_way();
        let shard = self.shard.try_lock_for(patience)?;
        Some(self.step(shard, step))
    }

    /// Sleeps for a while if turns wait for the shard.
    fn give_way(&self) {
        let mut naps = 0;
        while self.waiting.load(Ordering::Relaxed) > 0 && naps < NAPS {
            (self.nap)(NAP);
            naps += 1;
        }
    }

    fn step<R>(&self, mut shard: OrderedGuard<'_, Shard>, step: impl FnOnce(&mut Shard) -> R) -> R {
        self.walked.store(true, Ordering::Relaxed);
        let _walked = Walked(&self.walked);
        step(&mut shard)
    }
}

/// Resets [`Locked::walked`] when it is dropped, also during a panic.
struct Walked<'l>(&'l AtomicBool);

impl Drop for Walked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The whole keyspace.
///
/// ```
/// use punctual_store::{Store, StoreOptions};
/// let options = StoreOptions {
///     shards: 4, databases: 16, cluster: false, seed: 1, nap: std::thread::sleep,
/// };
/// let store = Store::new(options);
/// assert_eq!(store.shards(), 4);
/// ```
pub struct Store {
    pub(crate) locked: Box<[Locked]>,
    /// Wake-up of each shard in Unix ms; [`NO_WAKEUP`] if the shard has no deadlines. Wake-ups
    /// seldom change and all loops read them, so they do not share cache lines with the locks.
    pub(crate) wakeups: Box<[AtomicU64]>,
    /// Bytes of free places for records in each shard when it was last unlocked. Turns update it
    /// only while `counts_room` is set.
    pub(crate) rooms: Box<[AtomicU64]>,
    /// Whether turns update `rooms`.
    pub(crate) counts_room: AtomicBool,
    databases: usize,
    /// Whether event loops expire due keys (DEBUG SET-ACTIVE-EXPIRE). If not, a due key expires
    /// when a command looks it up.
    active_expire: AtomicBool,
    /// Whether RESTORE verifies checksums (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    checks_payloads: AtomicBool,
    /// Maximum length of a string (`proto-max-bulk-len`).
    string_max: AtomicU64,
    limits: RwLock<Limits>,
    /// Number of calls that have set the limits, plus 1.
    limits_version: AtomicU64,
    /// The last ticket that a waiter has got. Tickets order the waiters of a key.
    tickets: AtomicU64,
    /// Number of keys that clients wait for.
    waiting_keys: AtomicU64,
    /// Number of the shard that a turn waits to add to its pinned shards
    /// ([`Turn::pin_and_grow`](crate::Turn::pin_and_grow)); [`usize::MAX`] if there is no such
    /// shard.
    pub(crate) wanted: AtomicUsize,
    /// Whether the log of changes has a reader: an append-only file or a replica.
    pub(crate) logged: AtomicBool,
    /// The [`Writers`], as a number.
    writers: AtomicU8,
    /// Whether turns report each changed key to the sink.
    notes_changes: AtomicBool,
    /// Totals and settings of client-side caching.
    pub(crate) tracking: Tracking,
    /// Rules of NOTIFY, which append keyspace events to streams.
    pub(crate) notify: Notify,
    /// Slots that move between this node and another one.
    pub(crate) moving: Moving,
    /// Defaults and limits of TTL.
    pub(crate) ttl: TtlSetting,
    /// Parts of flushed databases that a snapshot has not completely written.
    pub(crate) flushed_walks: Mutex<Vec<Db>>,
    /// Hashes the names of keys in all databases.
    pub(crate) names: NameHasher,
    /// Hash keys of tables within commands.
    pub(crate) hasher: RandomState,
    /// Source of the random numbers of commands.
    pub(crate) draws: Draws,
    /// Blocks the thread for the given time.
    pub(crate) nap: fn(Duration),
}

/// The turns that may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Writers {
    /// Turns with commands of clients, and turns that [replay](crate::Turn::replays) a log: the
    /// server is a primary.
    Clients,
    /// Only turns that replay a log: the server is a read-only replica.
    Stream,
    /// Turns of both kinds, on a replica that accepts writes. Keys that its clients have written
    /// expire without the primary.
    Both,
}

impl Writers {
    const ALL: [Self; 3] = [Self::Clients, Self::Stream, Self::Both];
}

/// The fixed sizes of a [`Store`], its seed and its function to sleep.
#[derive(Clone, Copy)]
pub struct StoreOptions {
    /// Number of shards, at least 1; a power of two is best.
    pub shards: usize,
    /// Number of databases, at least 1.
    pub databases: usize,
    /// Cluster mode: keys are ordered by their slot, so that the keys of a slot can be counted and
    /// listed.
    pub cluster: bool,
    /// Seed of the store's random numbers and of the hash keys of its tables. If clients choose the
    /// names of keys, the seed must be secret and different for each server; otherwise a client
    /// could choose names whose hashes collide.
    pub seed: u64,
    /// Blocks the thread for the given time. Threads that wait for a shard and the thread of a
    /// snapshot call it.
    pub nap: fn(Duration),
}

impl fmt::Debug for StoreOptions {
    /// Leaves out the seed, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("shards", &self.shards)
            .field("databases", &self.databases)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Creates an empty keyspace.
    pub fn new(options: StoreOptions) -> Self {
        let mut random = StdRng::seed_from_u64(options.seed);
        let [hasher, elements] = random
            .random::<[[u64; 4]; 2]>()
            .map(|[a, b, c, d]| RandomState::with_seeds(a, b, c, d));
        keyed::set_hash_keys(elements);
        Self::with_hasher(options, hasher, random)
    }

    /// Creates an empty keyspace of the same shape, which can be loaded and then put in the place
    /// of this keyspace by [`Turn::replace_all`](crate::Turn::replace_all).
    pub fn beside(&self) -> Self {
        let options = StoreOptions {
            shards: self.shards(),
            databases: self.databases,
            cluster: self.names.slots().any(),
            seed: self.draws.seed(),
            nap: self.nap,
        };
        let random = StdRng::seed_from_u64(options.seed);
        let new = Self::with_hasher(options, self.hasher.clone(), random);
        new.set_limits(self.limits());
        new.set_string_max(self.string_max());
        new
    }

    fn with_hasher(options: StoreOptions, hasher: RandomState, mut random: StdRng) -> Self {
        let databases = options.databases.max(1);
        let shards = 0..options.shards.clamp(1, SHARDS_MAX);
        let slots = match options.cluster {
            true => SlotBits::for_shards(shards.len()),
            false => SlotBits::default(),
        };
        let names = NameHasher::new(hasher.clone(), slots);
        let locked = shards
            .clone()
            .map(|_| {
                Locked::new(
                    Shard {
                        dbs: (0..databases).map(|_| Db::new(names.clone())).collect(),
                        watched: Watched::new(hasher.clone()),
                        waiters: Waiters::new(hasher.clone()),
                        tracked: Tracked::new(slots),
                        wakeups: vec![NO_WAKEUP; databases],
                        earliest: NO_WAKEUP,
                        candidates: Candidates::new(SmallRng::from_rng(&mut random)),
                        random: SmallRng::from_rng(&mut random),
                    },
                    options.nap,
                )
            })
            .collect();
        let wakeups = shards.clone().map(|_| AtomicU64::new(NO_WAKEUP)).collect();
        Self {
            locked,
            wakeups,
            rooms: shards.map(|_| AtomicU64::new(0)).collect(),
            counts_room: AtomicBool::new(false),
            databases,
            active_expire: AtomicBool::new(true),
            checks_payloads: AtomicBool::new(true),
            string_max: AtomicU64::new(512 << 20),
            limits: RwLock::default(),
            limits_version: AtomicU64::new(1),
            tickets: AtomicU64::new(0),
            waiting_keys: AtomicU64::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            logged: AtomicBool::new(false),
            writers: AtomicU8::new(Writers::Clients as u8),
            notes_changes: AtomicBool::new(false),
            tracking: Tracking::default(),
            notify: Notify::default(),
            moving: Moving::default(),
            ttl: TtlSetting::default(),
            flushed_walks: Mutex::default(),
            names,
            hasher,
            draws: Draws::new(random.random()),
            nap: options.nap,
        }
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.locked.len()
    }

    /// Returns whether no shard is locked at this moment.
    pub fn is_unlocked(&self) -> bool {
        let mut all = self.locked.iter();
        all.all(|locked| locked.shard.try_lock().is_some())
    }

    /// Returns the number of databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Returns the hash of a key's name, which is the same in all databases. O(length).
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        self.names.hash(key)
    }

    /// Returns the shard that holds `key`. O(length), O(1) with one shard.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        match self.locked.len() {
            1 => 0,
            n => self.hash(key).shard(n),
        }
    }

    /// Returns the wake-up of shard `shard` in Unix ms: a lower bound of its earliest deadline, at
    /// which [`Turn::expire`](crate::Turn::expire) must be called. `None` if the shard has no
    /// deadlines or active expiry is off. Takes no lock.
    pub fn next_wakeup(&self, shard: usize) -> Option<u64> {
        let at = self.wakeups[shard].load(Ordering::SeqCst);
        (at != NO_WAKEUP && self.active_expire()).then_some(at)
    }

    /// Makes turns update the figures of [`Turn::room`](crate::Turn::room) when they unlock shards
    /// that they may have changed.
    pub fn set_counts_room(&self, on: bool) {
        self.counts_room.store(on, Ordering::Relaxed);
    }

    /// Returns whether memory is limited (`maxmemory`), so that turns update the figures of
    /// [`Turn::room`](crate::Turn::room).
    pub(crate) fn is_limited(&self) -> bool {
        self.counts_room.load(Ordering::Relaxed)
    }

    /// Returns whether active expiry is on.
    pub fn active_expire(&self) -> bool {
        self.active_expire.load(Ordering::Relaxed)
    }

    /// Turns active expiry on or off. While active expiry is off, a due key expires when a command
    /// looks it up.
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Ordering::Relaxed);
    }

    /// Returns the settings that commands need, such as limits of compact collections.
    pub fn limits(&self) -> Limits {
        *self.limits.read()
    }

    /// Sets the settings that commands need, from the next turn on.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
        self.limits_version.fetch_add(1, Ordering::Release);
    }

    /// Sets the rules for the deadlines of keys. They apply to the next commands of all turns; keys
    /// that exist keep their deadlines until a command sets or removes them.
    pub fn set_ttl_rules(&self, rules: TtlRules) {
        self.ttl.set(rules);
    }

    /// Returns the limits if they were set after the version `version`, and updates the version. A
    /// caller begins with version 0. The call writes no memory that other threads read.
    pub fn changed_limits(&self, version: &mut u64) -> Option<Limits> {
        let now = self.limits_version.load(Ordering::Acquire);
        let before = std::mem::replace(version, now);
        (now != before).then(|| self.limits())
    }

    /// Returns a ticket that is greater than all earlier tickets.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the number of keys that clients wait for, in all databases.
    pub fn waiting_keys(&self) -> u64 {
        self.waiting_keys.load(Ordering::Relaxed)
    }

    /// Adds to the number of keys that clients wait for.
    pub(crate) fn count_waiting_keys(&self, more: i64) {
        self.waiting_keys
            .fetch_add(more.cast_unsigned(), Ordering::Relaxed);
    }

    /// Sets the turns that may write. A turn applies the setting when it next locks a shard, so a
    /// caller that holds every shard separates the writes before the change from the writes after
    /// it. [`Turn::set_following`](crate::Turn::set_following) decides whether keys fall due.
    pub fn set_writers(&self, writers: Writers) {
        self.writers.store(writers as u8, Ordering::SeqCst);
    }

    /// Returns the turns that may write.
    #[inline]
    pub(crate) fn writers(&self) -> Writers {
        Writers::ALL[usize::from(self.writers.load(Ordering::SeqCst))]
    }

    /// Makes all databases databases of a replica, before the first turn; see
    /// [`Turn::set_following`](crate::Turn::set_following).
    pub fn follow_from_start(&self) {
        for locked in &self.locked {
            let mut shard = locked.shard.lock();
            shard.dbs.iter_mut().for_each(|db| db.set_following(true));
        }
    }

    /// Returns whether turns report each changed key to the sink while the log has a reader.
    #[inline]
    pub fn notes_changes(&self) -> bool {
        self.notes_changes.load(Ordering::SeqCst)
    }

    /// Makes turns report each changed key to [`Sink::changed`](crate::events::Sink::changed) while
    /// the log of changes has a reader. A turn applies the setting when it next locks a shard.
    pub fn set_notes_changes(&self, on: bool) {
        self.notes_changes.store(on, Ordering::SeqCst);
    }

    /// Returns whether RESTORE verifies checksums.
    pub fn checks_payloads(&self) -> bool {
        self.checks_payloads.load(Ordering::Relaxed)
    }

    /// Makes RESTORE verify checksums or not, for tests of damaged payloads.
    pub fn set_checks_payloads(&self, on: bool) {
        self.checks_payloads.store(on, Ordering::Relaxed);
    }

    /// Returns the maximum length of a string in bytes.
    pub fn string_max(&self) -> u64 {
        self.string_max.load(Ordering::Relaxed)
    }

    /// Sets the maximum length of a string in bytes.
    pub fn set_string_max(&self, bytes: u64) {
        self.string_max.store(bytes, Ordering::Relaxed);
    }

    /// Writes all records that the snapshot still needs from one flushed part of database `number`.
    /// Returns `None` if there is no such part.
    pub(crate) fn walk_flushed(&self, number: usize, out: &mut Vec<u8>) -> Option<WalkStep> {
        let mut flushed = self.flushed_walks.lock();
        let at = flushed.iter().position(|db| db.walks(number))?;
        let mut db = flushed.swap_remove(at);
        drop(flushed);
        let mut all = WalkStep::default();
        while !all.ended {
            let step = db.walk(out);
            all.keys += step.keys;
            all.early_bytes += step.early_bytes;
            all.ended = step.ended;
        }
        Some(all)
    }

    /// Keeps a flushed part of a database if a snapshot has not reached the end of the part.
    /// Otherwise returns the part.
    pub(crate) fn set_aside(&self, db: Db) -> Option<Db> {
        if db.has_walk() {
            self.flushed_walks.lock().push(db);
            None
        } else {
            Some(db)
        }
    }
}
