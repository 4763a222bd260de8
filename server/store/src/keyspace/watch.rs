//! The table of a shard's watched keys and the clients that watch them (WATCH). The shard's lock
//! guards the table. A commit raises the flags of a key's watchers; EXEC reads its client's flag
//! without a lock.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::check::Check;
use crate::keyspace::db::Db;
use crate::planted::Bug;
use crate::time::Now;

/// The flag of one client. It is raised when one of the keys that the client watches changes.
#[derive(Debug)]
pub struct WatchFlag {
    client: u64,
    /// Whether changes of a stream's groups count, which WATCH ignores.
    groups: bool,
    raised: AtomicBool,
}

impl WatchFlag {
    /// Creates the flag of a client. Client numbers are unique.
    pub const fn new(client: u64) -> Self {
        Self {
            client,
            groups: false,
            raised: AtomicBool::new(false),
        }
    }

    /// Creates a flag that is raised by all changes. WATCH ignores changes of a stream's groups, as
    /// in Redis. No client and no other flag may have the number.
    pub const fn of_all_changes(number: u64) -> Self {
        Self {
            groups: true,
            ..Self::new(number)
        }
    }

    /// Returns whether a watched key has changed.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Forgets the changes so far.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::Release);
    }

    fn raise(&self) {
        self.raised.store(true, Ordering::Release);
    }
}

/// A watched key: its database and its name.
pub type WatchedKey = (usize, Box<[u8]>);

struct Watcher {
    flag: Arc<WatchFlag>,
    /// The key was due but not yet removed when the watch began, so its removal does not count as a
    /// change.
    was_due: bool,
}

/// Watchers of one key, by client number.
type Watchers = BTreeMap<u64, Watcher>;

/// The watched keys of a shard.
pub(crate) struct Watched {
    /// Watchers by database number and key. A key without watchers is not in the map. The vector
    /// grows on demand.
    dbs: Vec<HashMap<Box<[u8]>, Watchers, ahash::RandomState>>,
    /// Number of pairs of a key and a watching client, in all databases.
    count: usize,
    /// Hash keys of the maps.
    hasher: ahash::RandomState,
}

impl Watched {
    /// Creates an empty table whose maps use these hash keys.
    pub(crate) const fn new(hasher: ahash::RandomState) -> Self {
        Self {
            dbs: Vec::new(),
            count: 0,
            hasher,
        }
    }

    /// Returns whether any key is watched.
    pub(crate) const fn any(&self) -> bool {
        self.count > 0
    }

    /// Returns the number of pairs of a key and a watching client.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Checks the number of watches.
    pub(crate) fn check(&self, to: &mut Check, belongs: impl Fn(&[u8]) -> bool) {
        let watchers = || self.dbs.iter().flatten();
        let count = watchers().map(|(_, watchers)| watchers.len()).sum();
        to.equal("watches", self.count, count);
        let listed = watchers().all(|(key, watchers)| belongs(key) && !watchers.is_empty());
        to.holds("each watched key has watchers, and is in its shard", listed);
        let own = watchers().all(|(_, all)| all.iter().all(|(id, one)| one.flag.client == *id));
        to.holds("each flag is its client's", own);
    }

    /// Adds a watch; `was_due` says that the key's deadline had passed already. O(log watchers).
    pub(crate) fn add(&mut self, db: usize, key: &[u8], flag: &Arc<WatchFlag>, was_due: bool) {
        if self.dbs.len() <= db {
            let hasher = &self.hasher;
            let new = || HashMap::with_hasher(hasher.clone());
            self.dbs.resize_with(db + 1, new);
        }
        let keys = &mut self.dbs[db];
        if !keys.contains_key(key) {
            keys.insert(key.into(), Watchers::new());
        }
        let watchers = keys.get_mut(key).expect("inserted above");
        if let Entry::Vacant(place) = watchers.entry(flag.client) {
            let flag = Arc::clone(flag);
            place.insert(Watcher { flag, was_due });
            self.count += 1;
        }
    }

    /// Removes a watch, if there is one. O(log watchers).
    pub(crate) fn remove(&mut self, db: usize, key: &[u8], flag: &WatchFlag) {
        let Some(keys) = self.dbs.get_mut(db) else {
            return;
        };
        let Some(watchers) = keys.get_mut(key) else {
            return;
        };
        if watchers.remove(&flag.client).is_some() {
            self.count -= 1;
        }
        if watchers.is_empty() {
            keys.remove(key);
        }
        if self.count == 0 {
            self.dbs = Vec::new();
        }
    }

    /// Returns whether `flag` watches a key that was not due when the watch began.
    pub(crate) fn began_before_deadline(&self, db: usize, key: &[u8], flag: &WatchFlag) -> bool {
        let watcher = || self.dbs.get(db)?.get(key)?.get(&flag.client);
        watcher().is_some_and(|watcher| !watcher.was_due)
    }

    /// Raises the flags of a changed key's watchers. `exists` says whether the key is still there.
    pub(crate) fn key_changed(&mut self, db: usize, key: &[u8], exists: bool) {
        let watchers = self.dbs.get_mut(db).and_then(|keys| keys.get_mut(key));
        for watcher in watchers.into_iter().flat_map(BTreeMap::values_mut) {
            if Bug::WatchMissesChange.is_active() || std::mem::take(&mut watcher.was_due) && !exists
            {
                continue;
            }
            watcher.flag.raise();
        }
    }

    /// Raises the flags of a stream's watchers for which changes of its groups count.
    pub(crate) fn groups_changed(&self, db: usize, key: &[u8]) {
        let watchers = self.dbs.get(db).and_then(|keys| keys.get(key));
        let flags = watchers.into_iter().flat_map(BTreeMap::values);
        let flags = flags.map(|watcher| &watcher.flag);
        flags
            .filter(|flag| flag.groups)
            .for_each(|flag| flag.raise());
    }

    /// Raises the flags of the watchers of database `db` before all keys of `old` are replaced by
    /// the keys of `new`, or removed if `new` is `None`. O(watches of `db`).
    pub(crate) fn db_replaced(&mut self, db: usize, old: &Db, new: Option<&Db>, now: Now) {
        let Some(keys) = self.dbs.get_mut(db) else {
            return;
        };
        for (key, watchers) in keys {
            let existed = old.find(key).is_some();
            let due_in_new = new.and_then(|new| Some(new.get(new.find(key)?).has_expired(now)));
            for watcher in watchers.values_mut() {
                match due_in_new {
                    None if !existed => {}
                    None if watcher.was_due => watcher.was_due = false,
                    // A due key counts as missing.
                    Some(true) if watcher.was_due => {}
                    Some(true) if !existed => watcher.was_due = true,
                    _ => watcher.flag.raise(),
                }
            }
        }
    }
}
