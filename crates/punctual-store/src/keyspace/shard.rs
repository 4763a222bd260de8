//! The keyspace, split by Redis's hash slots into shards, each behind a lock.
//!
//! Ground rules: whoever needs several shards locks them in ascending order (only [`crate::turn::Turn`] locks).
//! A shard's `wakeup` may be read without the lock; it is written under it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ahash::RandomState;
use crc::{CRC_16_XMODEM, Crc, Table};
use parking_lot::{Mutex, RwLock};

use crate::keyspace::db::Db;
use crate::keyspace::waiters::Waiters;
use crate::keyspace::walk::WalkStep;
use crate::keyspace::watch::Watched;
use crate::limits::Limits;

/// Hash slots of Redis Cluster.
const SLOTS: usize = 16_384;
/// No wake-up is needed.
pub(crate) const NO_WAKEUP: u64 = u64::MAX;

static CRC16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// Redis's hash slot of a key: CRC16 of the part in braces if there is one, else of the whole key.
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
    /// Who watches which keys.
    pub(crate) watched: Watched,
    /// Who waits for which keys.
    pub(crate) waiters: Waiters,
    /// Each database's wake-up, as it was when last asked: side by side, so that the earliest is found fast.
    wakeups: Vec<u64>,
}

/// Which databases' deadlines may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    None,
    One(usize),
    Any,
}

impl Shard {
    /// Lower bound of the earliest deadline in any database, when only those in `touched` may have changed since
    /// this was last asked.
    pub(crate) fn next_wakeup(&mut self, touched: Touched) -> u64 {
        let asked = match touched {
            Touched::None => 0..0,
            Touched::One(db) => db..db + 1,
            Touched::Any => 0..self.dbs.len(),
        };
        for db in asked {
            self.wakeups[db] = self.dbs[db].next_wakeup().unwrap_or(NO_WAKEUP);
        }
        self.wakeups.iter().copied().min().unwrap_or(NO_WAKEUP)
    }
}

/// A shard behind its lock, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Locked {
    pub(crate) shard: Mutex<Shard>,
    /// When the shard must be looked at; [`NO_WAKEUP`] if never.
    pub(crate) wakeup: AtomicU64,
}

/// The whole keyspace.
///
/// ```
/// use punctual_store::{Store, StoreOptions};
/// let store = Store::new(StoreOptions { shards: 4, databases: 16 });
/// assert_eq!(store.shards(), 4);
/// ```
pub struct Store {
    pub(crate) locked: Box<[Locked]>,
    databases: usize,
    /// Whether due keys go by themselves (DEBUG SET-ACTIVE-EXPIRE).
    active_expire: AtomicBool,
    /// Whether RESTORE looks at checksums (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    checks_payloads: AtomicBool,
    /// Longest string (`proto-max-bulk-len`).
    string_max: AtomicU64,
    limits: RwLock<Limits>,
    /// The last ticket of a waiter.
    tickets: AtomicU64,
    /// Keys that somebody waits for.
    waiting_keys: AtomicU64,
    /// Databases that were flushed before a snapshot had walked through them.
    pub(crate) flushed_walks: Mutex<Vec<Db>>,
}

/// The fixed shape of a [`Store`].
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Number of shards, at least 1; a power of two is best.
    pub shards: usize,
    /// Number of databases, at least 1.
    pub databases: usize,
}

impl Store {
    /// An empty keyspace.
    pub fn new(options: StoreOptions) -> Self {
        let hasher = RandomState::new();
        let databases = options.databases.max(1);
        let locked = (0..options.shards.clamp(1, SLOTS))
            .map(|_| Locked {
                shard: Mutex::new(Shard {
                    dbs: (0..databases).map(|_| Db::new(hasher.clone())).collect(),
                    watched: Watched::default(),
                    waiters: Waiters::default(),
                    wakeups: vec![NO_WAKEUP; databases],
                }),
                wakeup: AtomicU64::new(NO_WAKEUP),
            })
            .collect();
        Self {
            locked,
            databases,
            active_expire: AtomicBool::new(true),
            checks_payloads: AtomicBool::new(true),
            string_max: AtomicU64::new(512 << 20),
            limits: RwLock::default(),
            tickets: AtomicU64::new(0),
            waiting_keys: AtomicU64::new(0),
            flushed_walks: Mutex::default(),
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.locked.len()
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// The shard that holds `key`. O(length), O(1) with one shard.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        match self.locked.len() {
            1 => 0,
            n => hash_slot(key) % n,
        }
    }

    /// When shard `shard` must be looked at next (unix ms; a lower bound), `None` if it has no deadlines or
    /// active expiry is off. Takes no lock.
    pub fn next_wakeup(&self, shard: usize) -> Option<u64> {
        let at = self.locked[shard].wakeup.load(Ordering::SeqCst);
        (at != NO_WAKEUP && self.active_expire()).then_some(at)
    }

    /// Whether due keys go by themselves.
    pub fn active_expire(&self) -> bool {
        self.active_expire.load(Ordering::Relaxed)
    }

    /// Lets due keys go by themselves, or only when they are touched.
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Ordering::Relaxed);
    }

    /// Up to which size collections stay compact.
    pub fn limits(&self) -> Limits {
        *self.limits.read()
    }

    /// Sets up to which size collections stay compact, for what is written from the next turn on.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write() = limits;
    }

    /// A ticket that is greater than those before.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keys that somebody waits for, in all databases.
    pub fn waiting_keys(&self) -> u64 {
        self.waiting_keys.load(Ordering::Relaxed)
    }

    /// So many more keys are waited for.
    pub(crate) fn count_waiting_keys(&self, more: i64) {
        self.waiting_keys
            .fetch_add(more.cast_unsigned(), Ordering::Relaxed);
    }

    /// Whether RESTORE looks at the checksums of payloads.
    pub fn checks_payloads(&self) -> bool {
        self.checks_payloads.load(Ordering::Relaxed)
    }

    /// Lets RESTORE look at the checksums of payloads, or not: for tests of damaged ones.
    pub fn set_checks_payloads(&self, on: bool) {
        self.checks_payloads.store(on, Ordering::Relaxed);
    }

    /// Longest string in bytes.
    pub fn string_max(&self) -> u64 {
        self.string_max.load(Ordering::Relaxed)
    }

    /// Sets the longest string in bytes.
    pub fn set_string_max(&self, bytes: u64) {
        self.string_max.store(bytes, Ordering::Relaxed);
    }

    /// Walks to the end of one part of database `number` that was flushed: nobody else touches it.
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

    /// Takes a flushed database that a snapshot still needs; gives back one that it does not.
    pub(crate) fn set_aside(&self, db: Db) -> Option<Db> {
        if db.has_walk() {
            self.flushed_walks.lock().push(db);
            None
        } else {
            Some(db)
        }
    }
}
