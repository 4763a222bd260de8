//! The keyspace, split by the hash of the tables into shards, each behind a lock.
//!
//! Ground rules: only [`Turn`](crate::Turn) locks shards, several of them in ascending order. A
//! shard's wake-up is written under its lock and may be read without it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ahash::RandomState;
use crc::{CRC_16_XMODEM, Crc, Table};
use parking_lot::{Mutex, RwLock};
use rand::rngs::{SmallRng, StdRng};
use rand::{RngExt as _, SeedableRng as _};

use crate::hash_table::Hash;
use crate::keyspace::candidates::Candidates;
use crate::keyspace::db::Db;
use crate::keyspace::notify::Notify;
use crate::keyspace::tracked::{Tracked, Tracking};
use crate::keyspace::waiters::Waiters;
use crate::keyspace::walk::WalkStep;
use crate::keyspace::watch::Watched;
use crate::limits::Limits;
use crate::lock_order::{OrderedGuard, OrderedMutex, Rank};
use crate::random::Draws;
use crate::value::keyed;

/// Hash slots of Redis Cluster.
const SLOTS: usize = 16_384;
/// Most shards of a keyspace.
const SHARDS_MAX: usize = 16_384;
/// No wake-up is needed.
pub(crate) const NO_WAKEUP: u64 = u64::MAX;

static CRC16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// Returns Redis's hash slot of a key: CRC16 of the part in braces if there is one, else of the
/// whole key.
///
/// ```
/// use punctual_store::hash_slot;
/// assert_eq!(hash_slot(b"foo"), 12182);
/// assert_eq!(hash_slot(b"{foo}.bar"), hash_slot(b"foo"));
/// assert_eq!(hash_slot(b"{}foo"), hash_slot(b"{}foo"));
/// ```
pub fn hash_slot(key: &[u8]) -> usize {
    let tag = key
        .iter()
        .position(|&b| b == b'{')
        .and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|&b| b == b'}')?;
            (close > 0).then(|| &rest[..close])
        })
        .unwrap_or(key);
    usize::from(CRC16.checksum(tag)) % SLOTS
}

/// One shard: its part of every database.
pub struct Shard {
    /// By database number.
    pub dbs: Vec<Db>,
    /// Watched keys.
    pub(crate) watched: Watched,
    /// Clients that wait for keys.
    pub(crate) waiters: Waiters,
    /// Keys that clients may have cached.
    pub(crate) tracked: Tracked,
    /// The last known wake-up of each database, side by side so that the earliest is found fast.
    wakeups: Vec<u64>,
    /// The least of them.
    earliest: u64,
    /// Keys that may be evicted next.
    pub(crate) candidates: Candidates,
    /// Generator of random numbers.
    pub(crate) random: SmallRng,
}

/// Which databases' deadlines may have changed.
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

    /// Returns a lower bound of the earliest deadline in any database, if it has changed since the
    /// last call. Only the databases in `touched` may have changed.
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
    /// The walk of a snapshot holds the shard.
    walked: AtomicBool,
    /// Blocks the thread for a time.
    nap: fn(Duration),
}

/// Time for which a turn and a walk sleep to let each other go first.
pub(crate) const NAP: Duration = Duration::from_micros(20);
/// Number of times that a walk sleeps at most, to let turns go first.
const NAPS: u32 = 16;

/// A walk holds its shard most of the time, so it lets turns that wait go first. They sleep until
/// the end of its step, some tens of microseconds, because the mutex would yield the processor,
/// which costs a thread a time slice or more: milliseconds.
impl Locked {
    fn new(shard: Shard, nap: fn(Duration)) -> Self {
        Self {
            shard: OrderedMutex::new(Rank::Shard, shard),
            waiting: AtomicU32::new(0),
            walked: AtomicBool::new(false),
            nap,
        }
    }

    /// Locks the shard, for a turn that has found it locked.
    #[cold]
    pub(crate) fn wait(&self) -> OrderedGuard<'_, Shard> {
        self.waiting(|| self.shard.lock())
    }

    /// As [`Locked::wait`], but waits at most this long for other turns.
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
        let mut naps = 0;
        while self.waiting.load(Ordering::Relaxed) > 0 && naps < NAPS {
            (self.nap)(NAP);
            naps += 1;
        }
        let mut shard = self.shard.lock();
        self.walked.store(true, Ordering::Relaxed);
        let _walked = Walked(&self.walked);
        step(&mut shard)
    }
}

/// Ends [`Locked::walked`], also in a panic.
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
/// let store = Store::new(StoreOptions { shards: 4, databases: 16, seed: 1, nap: std::thread::sleep });
/// assert_eq!(store.shards(), 4);
/// ```
pub struct Store {
    pub(crate) locked: Box<[Locked]>,
    /// By shard: unix ms at which it must be polled; [`NO_WAKEUP`] if never. They seldom change and
    /// all loops read them, so they lie apart from the locks.
    pub(crate) wakeups: Box<[AtomicU64]>,
    /// By shard: bytes of free places for records, when the shard was last unlocked. Only while
    /// `counts_room` is set.
    pub(crate) rooms: Box<[AtomicU64]>,
    /// Whether turns keep `rooms`.
    pub(crate) counts_room: AtomicBool,
    databases: usize,
    /// Whether the wheel expires due keys (DEBUG SET-ACTIVE-EXPIRE); otherwise only commands that
    /// meet them do.
    active_expire: AtomicBool,
    /// Whether RESTORE verifies checksums (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    checks_payloads: AtomicBool,
    /// Maximum length of a string (`proto-max-bulk-len`).
    string_max: AtomicU64,
    limits: RwLock<Limits>,
    /// Number of times that the limits were set.
    limits_version: AtomicU64,
    /// Last ticket of a waiter.
    tickets: AtomicU64,
    /// Number of keys that clients wait for.
    waiting_keys: AtomicU64,
    /// The shard that a turn which may lock in any order waits for; [`usize::MAX`] if there is
    /// none.
    pub(crate) wanted: AtomicUsize,
    /// Whether somebody reads the log of changes.
    pub(crate) logged: AtomicBool,
    /// Number of the [`Writers`].
    writers: AtomicU8,
    /// Whether the sink is told each changed key.
    notes_changes: AtomicBool,
    /// Totals of the keys that clients may have cached.
    pub(crate) tracking: Tracking,
    /// Rules of NOTIFY.
    pub(crate) notify: Notify,
    /// Databases that were flushed before a snapshot had walked through them.
    pub(crate) flushed_walks: Mutex<Vec<Db>>,
    /// Hash keys of all databases.
    pub(crate) hasher: RandomState,
    /// Random numbers of commands.
    pub(crate) draws: Draws,
    /// Blocks the thread for a time.
    pub(crate) nap: fn(Duration),
}

/// Turns that may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Writers {
    /// Those of clients, and those that [replay](crate::Turn::replays) a log: the server is a
    /// primary.
    Clients,
    /// Those that replay a log: the server is a replica.
    Stream,
    /// Both, on a replica that accepts writes. Its clients' keys expire without the primary.
    Both,
}

impl Writers {
    const ALL: [Self; 3] = [Self::Clients, Self::Stream, Self::Both];
}

/// The fixed shape of a [`Store`], and what a store needs from the machine.
#[derive(Clone, Copy)]
pub struct StoreOptions {
    /// Number of shards, at least 1; a power of two is best.
    pub shards: usize,
    /// Number of databases, at least 1.
    pub databases: usize,
    /// Seed of the store's random numbers and of the hash keys of its tables. Where clients choose
    /// keys, the seed must be secret, and each server must have another one.
    pub seed: u64,
    /// Blocks the thread for a time. Threads that wait for a shard call it, and the thread of a
    /// snapshot.
    pub nap: fn(Duration),
}

impl fmt::Debug for StoreOptions {
    /// Leaves out the seed, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("shards", &self.shards)
            .field("databases", &self.databases)
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

    /// Creates an empty keyspace that can take this one's place; see
    /// [`Turn::replace_all`](crate::Turn::replace_all).
    pub fn beside(&self) -> Self {
        let options = StoreOptions {
            shards: self.shards(),
            databases: self.databases,
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
        let locked = shards
            .clone()
            .map(|_| {
                Locked::new(
                    Shard {
                        dbs: (0..databases).map(|_| Db::new(hasher.clone())).collect(),
                        watched: Watched::new(hasher.clone()),
                        waiters: Waiters::new(hasher.clone()),
                        tracked: Tracked::default(),
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
            flushed_walks: Mutex::default(),
            hasher,
            draws: Draws::new(random.random()),
            nap: options.nap,
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.locked.len()
    }

    /// Whether no shard is locked at this moment.
    pub fn is_unlocked(&self) -> bool {
        let mut all = self.locked.iter();
        all.all(|locked| locked.shard.try_lock().is_some())
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Returns the hash of a key's name, which is the same in all databases. O(length).
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        Hash::new(self.hasher.hash_one(key))
    }

    /// Returns the shard that holds `key`. O(length), O(1) with one shard.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        match self.locked.len() {
            1 => 0,
            n => self.hash(key).shard(n),
        }
    }

    /// Returns when shard `shard` must be polled next, in unix ms: a lower bound of its earliest
    /// deadline. `None` if it has no deadlines or active expiry is off. Takes no lock.
    pub fn next_wakeup(&self, shard: usize) -> Option<u64> {
        let at = self.wakeups[shard].load(Ordering::SeqCst);
        (at != NO_WAKEUP && self.active_expire()).then_some(at)
    }

    /// Makes turns keep the figures of [`Turn::room`](crate::Turn::room), from the next time that
    /// they unlock a shard.
    pub fn set_counts_room(&self, on: bool) {
        self.counts_room.store(on, Ordering::Relaxed);
    }

    /// Returns whether there is a limit of memory (`maxmemory`): turns keep the figures of
    /// [`Turn::room`](crate::Turn::room).
    pub(crate) fn is_limited(&self) -> bool {
        self.counts_room.load(Ordering::Relaxed)
    }

    /// Returns whether active expiry is on.
    pub fn active_expire(&self) -> bool {
        self.active_expire.load(Ordering::Relaxed)
    }

    /// Turns active expiry on or off. While it is off, a due key expires when a command meets it.
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Ordering::Relaxed);
    }

    /// Returns the limits of compact collections.
    pub fn limits(&self) -> Limits {
        *self.limits.read()
    }

    /// Sets the limits of compact collections, from the next turn on.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
        self.limits_version.fetch_add(1, Ordering::Release);
    }

    /// Returns the limits if they were set since `version`, which is 0 at first. Writes nothing
    /// that other threads read.
    pub fn changed_limits(&self, version: &mut u64) -> Option<Limits> {
        let now = self.limits_version.load(Ordering::Acquire);
        let before = std::mem::replace(version, now);
        (now != before).then(|| self.limits())
    }

    /// Returns a ticket that is greater than all before.
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

    /// Sets the turns that may write, from the next time that turns lock a shard. A turn that holds
    /// every shard thus divides the writes before from those after it.
    /// [`Turn::set_following`](crate::Turn::set_following) decides about deadlines.
    pub fn set_writers(&self, writers: Writers) {
        self.writers.store(writers as u8, Ordering::SeqCst);
    }

    /// Returns the turns that may write.
    #[inline]
    pub(crate) fn writers(&self) -> Writers {
        Writers::ALL[usize::from(self.writers.load(Ordering::SeqCst))]
    }

    /// Makes the databases those of a replica before the first turn; see
    /// [`Turn::set_following`](crate::Turn::set_following).
    pub fn follow_from_start(&self) {
        for locked in &self.locked {
            let mut shard = locked.shard.lock();
            shard.dbs.iter_mut().for_each(|db| db.set_following(true));
        }
    }

    /// Returns whether turns tell the sink each changed key while the log is read.
    #[inline]
    pub fn notes_changes(&self) -> bool {
        self.notes_changes.load(Ordering::SeqCst)
    }

    /// Makes turns tell the sink each changed key, from the next time that they lock a shard.
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

    /// Walks to the end of one flushed part of database `number`. No other thread uses that part.
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

    /// Keeps a flushed database that a snapshot still needs; returns one that it does not need.
    pub(crate) fn set_aside(&self, db: Db) -> Option<Db> {
        if db.has_walk() {
            self.flushed_walks.lock().push(db);
            None
        } else {
            Some(db)
        }
    }
}
