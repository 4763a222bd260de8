//! WATCH in a turn. The commit of a change (`commit.rs`) raises the flags of the clients that watch
//! the key.

use std::sync::Arc;

use crate::keyspace::watch::{WatchFlag, WatchedKey};
use crate::turn::Turn;

impl Turn<'_> {
    /// Watches these keys of database `db`: `flag` is raised when one of them changes. O(keys · log
    /// watchers).
    pub fn watch<'k>(
        &mut self,
        db: usize,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        flag: &Arc<WatchFlag>,
    ) {
        self.lock_keys(keys.clone());
        for key in keys {
            let was_due = self.is_due(db, key);
            let number = self.store.shard_of(key);
            self.shard_mut(number).watched.add(db, key, flag, was_due);
        }
        self.observe();
    }

    /// Ends the watches of `flag` on these keys and lowers the flag. O(keys · log watchers).
    pub fn unwatch<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k WatchedKey> + Clone,
        flag: &WatchFlag,
    ) {
        self.lock_keys(keys.clone().map(|(_, key)| &**key));
        for (db, key) in keys {
            let number = self.store.shard_of(key);
            self.shard_mut(number).watched.remove(*db, key, flag);
        }
        flag.lower();
    }

    /// Returns whether one of the keys that `flag` watches has become due since the watch of the
    /// key began. O(keys).
    ///
    /// # Panics
    /// If a key's shard is not held.
    pub fn watched_are_due<'k>(
        &mut self,
        mut keys: impl Iterator<Item = &'k WatchedKey>,
        flag: &WatchFlag,
    ) -> bool {
        keys.any(|(db, key)| {
            let number = self.store.shard_of(key);
            self.is_due(*db, key)
                && self
                    .shard_mut(number)
                    .watched
                    .began_before_deadline(*db, key, flag)
        })
    }

    /// Returns the number of pairs of a key and a watching client. Locks every shard.
    pub fn watches(&mut self) -> usize {
        self.lock_all();
        self.held_shards()
            .map(|(_, shard)| shard.watched.count())
            .sum()
    }

    /// Returns whether a key exists and is due. Its shard must be held.
    fn is_due(&self, db: usize, key: &[u8]) -> bool {
        let part = self.shard_db_ref(self.store.shard_of(key), db);
        part.find(key)
            .is_some_and(|id| part.get(id).has_expired(self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Fixture;

    /// A store with a client that watches keys.
    struct Watching {
        fixture: Fixture,
        flag: Arc<WatchFlag>,
        keys: Vec<WatchedKey>,
    }

    impl Watching {
        fn new(shards: usize) -> Self {
            Self {
                fixture: Fixture::sharded(shards),
                flag: Arc::new(WatchFlag::new(7)),
                keys: Vec::new(),
            }
        }

        fn watch(&mut self, db: usize, key: &str) {
            let Self { fixture, flag, .. } = self;
            fixture.with_turn(|turn| turn.watch(db, [key.as_bytes()].into_iter(), flag));
            self.keys.push((db, key.as_bytes().into()));
        }

        /// Returns whether EXEC would fail now, and ends the watches.
        fn changed(&mut self) -> bool {
            let Self {
                fixture,
                flag,
                keys,
            } = self;
            let changed = fixture.with_turn(|turn| {
                turn.lock_all();
                let changed = flag.is_raised() || turn.watched_are_due(keys.iter(), flag);
                turn.unwatch(keys.iter(), flag);
                changed
            });
            keys.clear();
            assert_eq!(fixture.with_turn(|turn| turn.watches()), 0);
            changed
        }

        /// Returns whether these commands raise the flag of a client that watches `key` in database
        /// 0.
        fn changes(&mut self, key: &str, lines: &[&str]) -> bool {
            self.watch(0, key);
            for line in lines {
                let reply = self.fixture.run(line);
                assert!(!reply.starts_with('-'), "{line}: {reply}");
            }
            self.changed()
        }
    }

    #[test]
    fn a_change_of_a_bitmap_or_sketch_raises_the_flag() {
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
    fn changes_raise_the_flag_and_reads_do_not() {
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
    fn changes_of_groups_raise_only_flags_of_all_changes() {
        let mut w = Watching::new(4);
        w.fixture.run("XADD s 1 f v");
        let lines = [
            "XGROUP CREATE s g 0",
            "XGROUP CREATECONSUMER s g a",
            "XREADGROUP GROUP g a STREAMS s >",
            "XCLAIM s g b 0 1",
            "XAUTOCLAIM s g c 0 0",
            "XGROUP SETLEASE s g 100",
            "XACK s g 1",
            "XGROUP SETID s g 0",
            "XGROUP DELCONSUMER s g a",
            "XGROUP DESTROY s g",
        ];
        let all = Arc::new(WatchFlag::of_all_changes(8));
        for line in lines {
            let keys = || [&b"s"[..]].into_iter();
            w.fixture.with_turn(|turn| turn.watch(0, keys(), &all));
            w.watch(0, "s");
            let reply = w.fixture.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
            assert!(!w.flag.is_raised(), "{line}");
            assert!(all.is_raised(), "{line}");
            let key: WatchedKey = (0, b"s"[..].into());
            w.fixture
                .with_turn(|turn| turn.unwatch([&key].into_iter(), &all));
            assert!(!w.changed(), "{line}");
        }
    }

    #[test]
    fn flags_are_raised_without_event_classes() {
        let mut w = Watching::new(1);
        w.fixture.classes = crate::events::Classes::none();
        assert!(w.changes("k", &["SET k v"]));
    }

    #[test]
    fn each_database_has_its_own_watches() {
        let mut w = Watching::new(4);
        w.watch(1, "k");
        w.fixture.run("SET k v");
        assert!(!w.changed());
        w.watch(1, "k");
        w.fixture.run("MOVE k 1");
        assert!(w.changed());
    }

    #[test]
    fn expiry_is_a_change_unless_it_was_due_before() {
        let mut w = Watching::new(4);
        // Expired by the wheel, expired by a command, or only due: EXEC must fail in all cases.
        for how in ["wheel", "GET k", ""] {
            w.fixture.run("SET k v PX 10");
            w.watch(0, "k");
            w.fixture.advance(10);
            match how {
                "wheel" => w.fixture.expire(),
                "" => {}
                line => drop(w.fixture.run(line)),
            }
            assert!(w.changed(), "{how}");
            w.fixture.run("DEL k");
        }
        for how in ["wheel", "GET k", ""] {
            w.fixture.run("SET k v PX 10");
            w.fixture.advance(10);
            w.watch(0, "k");
            match how {
                "wheel" => w.fixture.expire(),
                "" => {}
                line => drop(w.fixture.run(line)),
            }
            assert!(!w.changed(), "{how}");
            w.fixture.run("DEL k");
        }
        w.fixture.run("SET k v PX 10");
        w.fixture.advance(10);
        assert!(
            w.changes("k", &["GET k", "SET k v"]),
            "set after its expiry"
        );
    }

    #[test]
    fn a_flush_changes_existing_keys() {
        for (line, db) in [("FLUSHDB", 0), ("FLUSHALL", 0), ("FLUSHALL", 3)] {
            let mut w = Watching::new(4);
            w.watch(db, "k");
            w.fixture.run(line);
            assert!(!w.changed(), "{line} {db}");
            w.fixture.db = db;
            w.fixture.run("SET k v");
            w.watch(db, "k");
            w.fixture.run(line);
            assert!(w.changed(), "{line} {db}");
        }
        let mut w = Watching::new(4);
        w.fixture.run("SET k v PX 10");
        w.fixture.advance(10);
        assert!(!w.changes("k", &["FLUSHALL"]), "it was due");
        assert!(w.changes("k", &["FLUSHALL", "SET k v"]));
    }

    #[test]
    fn a_swap_changes_keys_of_both_databases() {
        let mut w = Watching::new(4);
        assert!(!w.changes("k", &["SWAPDB 0 1"]));
        w.fixture.run("SET k v");
        assert!(w.changes("k", &["SWAPDB 0 1"]), "it goes");
        assert!(w.changes("k", &["SWAPDB 0 1"]), "it comes");
        assert!(!w.changes("k", &["SWAPDB 1 2"]));
        w.fixture.run("SWAPDB 0 1");
        w.fixture.db = 1;
        w.fixture.run("PEXPIRE k 10");
        w.fixture.db = 0;
        w.fixture.advance(10);
        assert!(
            !w.changes("k", &["SWAPDB 0 1"]),
            "the key that comes is due"
        );
        assert!(
            !w.changes("k", &["SWAPDB 0 1"]),
            "the key that goes was due"
        );
    }

    #[test]
    fn many_clients_watch_one_key() {
        let mut fixture = Fixture::new();
        let flags: Vec<Arc<WatchFlag>> = (0..10_000).map(|n| Arc::new(WatchFlag::new(n))).collect();
        let key: WatchedKey = (0, b"k"[..].into());
        fixture.with_turn(|turn| {
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
        fixture.run("SET k v");
        assert!(flags[..5_000].iter().all(|f| !f.is_raised()));
        assert!(flags[5_000..].iter().all(|f| f.is_raised()));
    }
}
