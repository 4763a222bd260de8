//! WATCH: clients that are told when a key changes.
//!
//! Each shard keeps, under its lock, who watches which of its keys. Whatever changes a key tells an event through
//! [`Turn::notify`], and that raises the flags of those who watch; what empties or swaps whole databases asks for the
//! watched keys in it. A client has one flag for all of its keys.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::db::Db;
use crate::time::Now;
use crate::turn::Turn;

/// A client's flag: raised when a key changes that it watches.
#[derive(Debug)]
pub struct WatchFlag {
    client: u64,
    raised: AtomicBool,
}

impl WatchFlag {
    /// The flag of a client, whose number no other client has.
    pub const fn new(client: u64) -> Self {
        Self {
            client,
            raised: AtomicBool::new(false),
        }
    }

    /// Whether a watched key has changed.
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

/// A key as a client watches it: its database and its name.
pub type WatchedKey = (usize, Box<[u8]>);

struct Watcher {
    flag: Arc<WatchFlag>,
    /// The key was due when the watch began, but had not gone: its end is no change.
    was_due: bool,
}

/// By the number of the client.
type Watchers = BTreeMap<u64, Watcher>;

/// Who watches the keys of a shard.
#[derive(Default)]
pub(crate) struct Watched {
    /// By database; as many as were needed so far. No key is without watchers.
    dbs: Vec<HashMap<Box<[u8]>, Watchers, ahash::RandomState>>,
    /// Watches in all databases.
    count: usize,
}

impl Watched {
    /// Whether any key is watched.
    pub(crate) const fn any(&self) -> bool {
        self.count > 0
    }

    fn add(&mut self, db: usize, key: &[u8], watcher: Watcher) {
        if self.dbs.len() <= db {
            self.dbs.resize_with(db + 1, HashMap::default);
        }
        let keys = &mut self.dbs[db];
        if !keys.contains_key(key) {
            keys.insert(key.into(), Watchers::new());
        }
        let watchers = keys.get_mut(key).expect("added just now");
        let client = watcher.flag.client;
        if let Entry::Vacant(place) = watchers.entry(client) {
            place.insert(watcher);
            self.count += 1;
        }
    }

    fn remove(&mut self, db: usize, key: &[u8], client: u64) {
        let Some(keys) = self.dbs.get_mut(db) else {
            return;
        };
        let Some(watchers) = keys.get_mut(key) else {
            return;
        };
        if watchers.remove(&client).is_some() {
            self.count -= 1;
        }
        if watchers.is_empty() {
            keys.remove(key);
        }
        if self.count == 0 {
            self.dbs = Vec::new();
        }
    }

    fn of(&mut self, db: usize, key: &[u8]) -> Option<&mut Watchers> {
        self.dbs.get_mut(db)?.get_mut(key)
    }

    fn watcher(&self, db: usize, key: &[u8], client: u64) -> Option<&Watcher> {
        self.dbs.get(db)?.get(key)?.get(&client)
    }

    /// A key of a database has changed; `there`: it still exists.
    pub(crate) fn changed(&mut self, db: usize, key: &[u8], there: bool) {
        for watcher in self.of(db, key).into_iter().flat_map(BTreeMap::values_mut) {
            if std::mem::take(&mut watcher.was_due) && !there {
                continue;
            }
            watcher.flag.raise();
        }
    }

    /// All keys of database `db` are about to be those of another one, or none: raises the flags of those that are
    /// there, or will be. O(watched keys).
    fn replaced(&mut self, db: usize, old: &Db, new: Option<&Db>, now: Now) {
        let Some(keys) = self.dbs.get_mut(db) else {
            return;
        };
        for (key, watchers) in keys {
            let was_there = old.find(key).is_some();
            let will_be = new.and_then(|new| Some(now.is_due(new.get(new.find(key)?).deadline)));
            for watcher in watchers.values_mut() {
                match will_be {
                    None if !was_there => {}
                    None if watcher.was_due => watcher.was_due = false,
                    // What is due is as good as not there.
                    Some(true) if watcher.was_due => {}
                    Some(true) if !was_there => watcher.was_due = true,
                    _ => watcher.flag.raise(),
                }
            }
        }
    }
}

impl Turn<'_> {
    /// From now on, `flag` is raised when one of these keys of database `db` changes. O(keys · log watchers).
    pub fn watch<'k>(
        &mut self,
        db: usize,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        flag: &Arc<WatchFlag>,
    ) {
        self.lock_keys(keys.clone());
        let now = self.now;
        for key in keys {
            let number = self.store.shard_of(key);
            let part = self.shard_db(number, db);
            let was_due = part
                .find(key)
                .is_some_and(|id| now.is_due(part.get(id).deadline));
            let flag = Arc::clone(flag);
            self.shard_mut(number)
                .watched
                .add(db, key, Watcher { flag, was_due });
        }
        self.alert = true;
    }

    /// Ends the watches of `flag` on these keys: nothing of them stays. Then lowers the flag.
    /// O(keys · log watchers).
    pub fn unwatch<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k WatchedKey> + Clone,
        flag: &WatchFlag,
    ) {
        self.lock_keys(keys.clone().map(|(_, key)| &**key));
        for (db, key) in keys {
            let number = self.store.shard_of(key);
            self.shard_mut(number).watched.remove(*db, key, flag.client);
        }
        flag.lower();
    }

    /// Whether one of the keys that `flag` watches is due, and was not when the watch began. The keys' shards must be
    /// held. O(keys).
    ///
    /// # Panics
    /// If a key's shard is not held.
    pub fn watched_are_due<'k>(
        &mut self,
        mut keys: impl Iterator<Item = &'k WatchedKey>,
        flag: &WatchFlag,
    ) -> bool {
        let now = self.now;
        keys.any(|(db, key)| {
            let number = self.store.shard_of(key);
            let shard = self.shard_mut(number);
            let part = &shard.dbs[*db];
            let is_due = part
                .find(key)
                .is_some_and(|id| now.is_due(part.get(id).deadline));
            let watcher = shard.watched.watcher(*db, key, flag.client);
            is_due && watcher.is_some_and(|w| !w.was_due)
        })
    }

    /// How many watches there are. Locks everything.
    pub fn watches(&mut self) -> usize {
        self.lock_all();
        self.held_shards()
            .map(|(_, shard)| shard.watched.count)
            .sum()
    }

    /// The keys of database `db` in every shard are about to become those of `new`, or to go: whoever watches one
    /// that this changes is told. Everything must be held.
    pub(crate) fn database_replaced(&mut self, db: usize, new: Option<usize>) {
        if !self.alert {
            return;
        }
        let now = self.now;
        for (_, shard) in self.held_shards() {
            let crate::shard::Shard { watched, dbs, .. } = shard;
            watched.replaced(db, &dbs[db], new.map(|new| &dbs[new]), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Bench;

    /// A bench with a client that watches.
    struct Watching {
        bench: Bench,
        flag: Arc<WatchFlag>,
        keys: Vec<WatchedKey>,
    }

    impl Watching {
        fn new(shards: usize) -> Self {
            Self {
                bench: Bench::sharded(shards),
                flag: Arc::new(WatchFlag::new(7)),
                keys: Vec::new(),
            }
        }

        fn watch(&mut self, db: usize, key: &str) {
            let Self { bench, flag, .. } = self;
            bench.with_turn(|turn| turn.watch(db, [key.as_bytes()].into_iter(), flag));
            self.keys.push((db, key.as_bytes().into()));
        }

        /// Whether EXEC would fail now; ends the watches.
        fn changed(&mut self) -> bool {
            let Self { bench, flag, keys } = self;
            let changed = bench.with_turn(|turn| {
                turn.lock_all();
                let changed = flag.is_raised() || turn.watched_are_due(keys.iter(), flag);
                turn.unwatch(keys.iter(), flag);
                changed
            });
            keys.clear();
            assert_eq!(bench.with_turn(|turn| turn.watches()), 0);
            changed
        }

        /// Whether these lines change what is watched as `key` of database 0.
        fn changes(&mut self, key: &str, lines: &[&str]) -> bool {
            self.watch(0, key);
            for line in lines {
                let reply = self.bench.run(line);
                assert!(!reply.starts_with('-'), "{line}: {reply}");
            }
            self.changed()
        }
    }

    #[test]
    fn what_bits_and_sketches_do_is_told_if_they_change() {
        for shards in [1, 4] {
            let mut w = Watching::new(shards);
            assert!(w.changes("k", &["SETBIT k 7 1"]));
            assert!(!w.changes(
                "k",
                &["SETBIT k 7 1", "BITCOUNT k", "BITFIELD k SET u8 0 1"]
            ));
            assert!(w.changes("k", &["BITFIELD k SET u8 0 2"]));
            assert!(w.changes("h", &["PFADD h a"]));
            assert!(w.changes("h", &["PFCOUNT h"]), "it keeps its estimate");
            assert!(!w.changes("h", &["PFCOUNT h", "PFADD h a", "PFCOUNT h h"]));
            assert!(w.changes("out", &["RPUSH l 2 1", "SORT l BY w_* STORE out"]));
            assert!(!w.changes("out", &["SORT l BY w_* GET w_*", "SORT nokey STORE other"]));
        }
    }

    #[test]
    fn changes_are_told_and_reads_are_not() {
        for shards in [1, 4] {
            let mut w = Watching::new(shards);
            assert!(!w.changes("k", &["GET k", "SET l v", "DEL k", "EXISTS k", "MGET k l"]));
            assert!(w.changes("k", &["SET k v"]));
            assert!(!w.changes("k", &["GET k", "TTL k", "TYPE k", "PERSIST k"]));
            assert!(w.changes("k", &["EXPIRE k 100"]));
            assert!(w.changes("k", &["PERSIST k"]));
            assert!(w.changes("k", &["APPEND k w"]));
            assert!(w.changes("k", &["RENAME k m"]));
            assert!(w.changes("k", &["RENAME m k"]));
            assert!(w.changes("k", &["COPY k n REPLACE", "COPY n k REPLACE"]));
            assert!(!w.changes("k", &["COPY k o"]));
            assert!(w.changes("k", &["DEL k"]));
            assert!(w.changes("k", &["MSET a 1 k 2"]));
            assert!(w.changes("k", &["GETDEL k"]));
            assert!(!w.changes("k", &["SETNX a x", "SET a b XX"]));
        }
    }

    #[test]
    fn no_event_needs_to_be_wanted() {
        let mut w = Watching::new(1);
        w.bench.classes = crate::events::Classes::none();
        assert!(w.changes("k", &["SET k v"]));
    }

    #[test]
    fn databases_are_told_apart() {
        let mut w = Watching::new(4);
        w.watch(1, "k");
        w.bench.run("SET k v");
        assert!(!w.changed());
        w.watch(1, "k");
        w.bench.run("MOVE k 1");
        assert!(w.changed());
    }

    #[test]
    fn expiry_is_a_change_unless_it_was_due_before() {
        let mut w = Watching::new(4);
        // Gone by the wheel, met by a command, or only due: one and the same.
        for how in ["wheel", "GET k", ""] {
            w.bench.run("SET k v PX 10");
            w.watch(0, "k");
            w.bench.advance(10);
            match how {
                "wheel" => w.bench.expire(),
                "" => {}
                line => drop(w.bench.run(line)),
            }
            assert!(w.changed(), "{how}");
            w.bench.run("DEL k");
        }
        for how in ["wheel", "GET k", ""] {
            w.bench.run("SET k v PX 10");
            w.bench.advance(10);
            w.watch(0, "k");
            match how {
                "wheel" => w.bench.expire(),
                "" => {}
                line => drop(w.bench.run(line)),
            }
            assert!(!w.changed(), "{how}");
            w.bench.run("DEL k");
        }
        w.bench.run("SET k v PX 10");
        w.bench.advance(10);
        assert!(w.changes("k", &["GET k", "SET k v"]), "set after it went");
    }

    #[test]
    fn a_flush_changes_what_is_there() {
        for (line, db) in [("FLUSHDB", 0), ("FLUSHALL", 0), ("FLUSHALL", 3)] {
            let mut w = Watching::new(4);
            w.watch(db, "k");
            w.bench.run(line);
            assert!(!w.changed(), "{line} {db}");
            w.bench.db = db;
            w.bench.run("SET k v");
            w.watch(db, "k");
            w.bench.run(line);
            assert!(w.changed(), "{line} {db}");
        }
        let mut w = Watching::new(4);
        w.bench.run("SET k v PX 10");
        w.bench.advance(10);
        assert!(!w.changes("k", &["FLUSHALL"]), "it was due");
        assert!(w.changes("k", &["FLUSHALL", "SET k v"]));
    }

    #[test]
    fn a_swap_changes_what_is_there_or_comes() {
        let mut w = Watching::new(4);
        assert!(!w.changes("k", &["SWAPDB 0 1"]));
        w.bench.run("SET k v");
        assert!(w.changes("k", &["SWAPDB 0 1"]), "it goes");
        assert!(w.changes("k", &["SWAPDB 0 1"]), "it comes");
        assert!(!w.changes("k", &["SWAPDB 1 2"]));
        w.bench.run("SWAPDB 0 1");
        w.bench.db = 1;
        w.bench.run("PEXPIRE k 10");
        w.bench.db = 0;
        w.bench.advance(10);
        assert!(!w.changes("k", &["SWAPDB 0 1"]), "what comes is due");
        assert!(!w.changes("k", &["SWAPDB 0 1"]), "what goes was due");
    }

    #[test]
    fn many_watch_one_key_and_each_leaves_alone() {
        let mut bench = Bench::new();
        let flags: Vec<Arc<WatchFlag>> = (0..10_000).map(|n| Arc::new(WatchFlag::new(n))).collect();
        let key: WatchedKey = (0, b"k"[..].into());
        bench.with_turn(|turn| {
            for flag in &flags {
                turn.watch(0, [&b"k"[..], b"k"].into_iter(), flag);
            }
            assert_eq!(turn.watches(), 10_000);
            for flag in &flags[..5_000] {
                turn.unwatch([&key].into_iter(), flag);
                turn.unwatch([&key].into_iter(), flag);
            }
            assert_eq!(turn.watches(), 5_000);
        });
        bench.run("SET k v");
        assert!(flags[..5_000].iter().all(|f| !f.is_raised()));
        assert!(flags[5_000..].iter().all(|f| f.is_raised()));
    }
}
