//! Commits: every change of the keyspace passes through this file.
//!
//! Code that changes a key, a field or a whole database makes the change and then *commits* it,
//! under the lock of the shard: commands call [`Cx::commit`], expiry calls `Turn::commit_expiry`,
//! FLUSHDB, FLUSHALL and SWAPDB call `Turn::flush` and `Turn::swap`. The commit raises WATCH flags,
//! makes keys ready for blocked clients, invalidates client-side caches, counts the change,
//! publishes the keyspace event, and marks the running command for the log of changes
//! (`effects.rs`). A snapshot's walk does not use commits: it needs the record *before* the change,
//! so [`Db`](crate::keyspace::db::Db) calls it.
//!
//! Loading a snapshot commits nothing. The events `new` and `keymiss` are published without a
//! commit.

use std::ops::Range;

use super::subkeys::Subkeys;
use super::waiters::ReadyKey;
use super::{Cx, Turn};
use crate::events::Classes;
use crate::keyspace::db::Db;
use crate::keyspace::records::Id;
use crate::keyspace::shard::{Shard, Store, Touched, Writers};
use crate::planted::Bug;
use crate::uses::Uses;
use crate::value::Value;

use super::cx::Place;

impl Turn<'_> {
    /// Commits a change of a key: raises WATCH flags, notes the key as ready for blocked clients,
    /// adds `count` to the changes, and publishes the event if its class is on. `count` is 0 for a
    /// second event of a change that is already counted.
    #[inline]
    pub(crate) fn commit(
        &mut self,
        db: usize,
        key: &[u8],
        class: Classes,
        event: &str,
        count: u64,
    ) {
        self.commit_silently(db, key, count);
        self.announce(db, class, event, key);
    }

    /// Same as [`Turn::commit`], for a change that has no event.
    #[inline]
    pub(crate) fn commit_silently(&mut self, db: usize, key: &[u8], count: u64) {
        debug_assert!(self.holds_targets(), "a rule has a stream in another shard");
        self.changed = true;
        self.stats.dirty += count;
        if self.reports {
            self.report_write(db, key);
        }
    }

    /// Adds a key with a deadline to the *local keys* of its database. A client of this replica has
    /// written the key, so the key expires without the primary.
    fn note_local_key(&mut self, db: usize, key: &[u8]) {
        let number = self.store.shard_of(key);
        let part = self.shard_db(number, db);
        if let Some(id) = part.find(key) {
            part.note_local_key(id);
        }
    }

    /// Sets whether the databases belong to a replica or to a primary. In a replica's database only
    /// the keys that the replica's own clients have written fall due. Locks every shard. O(shards ·
    /// databases).
    pub fn set_following(&mut self, on: bool) {
        self.lock_all();
        self.deadlines_may_change(Touched::Any);
        for (_, shard) in self.held_shards() {
            shard.dbs.iter_mut().for_each(|db| db.set_following(on));
        }
    }

    /// Returns whether a held shard has keys that fall due without this replica's primary. O(shards
    /// · databases).
    pub fn has_local_keys(&mut self) -> bool {
        self.held_shards()
            .any(|(_, shard)| shard.dbs.iter().any(Db::has_local_keys))
    }

    /// Same as [`Turn::commit`], for an expired or evicted entry, or for jobs that became due. They
    /// do not count as changes by the running command. `value` is the last value of a removed key.
    pub(super) fn commit_expiry(
        &mut self,
        db: usize,
        key: &[u8],
        class: Classes,
        event: &str,
        value: Option<&Value>,
    ) {
        self.commit_expiry_silently(db, key);
        self.announce_with(db, class, event, key, value, std::iter::empty());
    }

    /// Same as [`Turn::commit_expiry`], without the event.
    #[inline]
    pub(super) fn commit_expiry_silently(&mut self, db: usize, key: &[u8]) {
        debug_assert!(self.holds_targets(), "a rule has a stream in another shard");
        if self.reports {
            self.report(db, key, 0);
        }
    }

    /// Notes that changes in the held shards must be reported, because clients watch, cache or wait
    /// for keys, or because the eviction policy needs the times of changes.
    pub(super) fn observe(&mut self) {
        self.observed = true;
        self.reports = true;
    }

    /// Same as [`Turn::report`], for a change by the running command.
    #[inline(never)]
    fn report_write(&mut self, db: usize, key: &[u8]) {
        if self.writers == Writers::Both && !self.replays && !Bug::LocalKeyStays.is_active() {
            self.note_local_key(db, key);
        }
        self.report(db, key, self.client);
    }

    /// Reports a changed key to the log, to the clients that watch, cache or wait for it, and to
    /// the eviction policy.
    fn report(&mut self, db: usize, key: &[u8], by: u64) {
        self.note_for_log(db, key);
        if self.observed {
            self.notify_observers(db, key, by);
        }
    }

    /// Publishes an event if its class is on, without a commit.
    #[inline]
    pub(crate) fn announce(&mut self, db: usize, class: Classes, event: &str, key: &[u8]) {
        self.announce_with(db, class, event, key, None, std::iter::empty());
    }

    /// Same as [`Turn::announce`], with the last value of a removed key and the event's subkeys.
    #[inline]
    pub(super) fn announce_with<'k>(
        &mut self,
        db: usize,
        class: Classes,
        event: &str,
        key: &[u8],
        value: Option<&Value>,
        subkeys: impl Iterator<Item = &'k [u8]>,
    ) {
        if self.classes.intersects(class) {
            self.publish(db, class, event, key, subkeys);
        }
        if self.recorder.classes.intersects(class) {
            self.record(db, class, event, key, value);
        }
    }

    /// Reports the changed key to the sink if replies that reveal the change must wait for the log.
    #[inline]
    fn note_for_log(&mut self, db: usize, key: &[u8]) {
        if self.notes {
            let hash = self.key_hash(db, key);
            self.sink.changed(hash);
        }
    }

    /// Raises the flags of a changed key's watchers, invalidates the key in client-side caches,
    /// notes the key as ready if clients wait for it, and records the time of the change if the
    /// eviction policy needs it.
    #[cold]
    fn notify_observers(&mut self, db: usize, key: &[u8], by: u64) {
        let number = self.store.shard_of(key);
        let shard = self.shard_mut(number);
        if shard.watched.any() {
            let exists = shard.dbs[db].find(key).is_some();
            shard.watched.key_changed(db, key, exists);
        }
        self.invalidate(number, key, by);
        self.note_ready(db, key);
        self.note_change(db, key);
    }

    /// Records the time of a key's change if the eviction policy is LRM (least recently modified).
    fn note_change(&mut self, db: usize, key: &[u8]) {
        let (uses, now) = (self.limits.uses, self.now);
        if uses == Uses::Changed {
            let number = self.store.shard_of(key);
            let part = self.shard_db(number, db);
            if let Some(id) = part.find(key) {
                part.touch(id, uses.initial(now));
            }
        }
    }

    /// Notes a key as ready if clients wait for it and its value may serve them.
    pub(crate) fn note_ready(&mut self, db: usize, key: &[u8]) {
        let number = self.store.shard_of(key);
        let shard = self.shard_mut(number);
        if shard.waiters.any() && shard.waiters.note_ready(db, key, &shard.dbs[db]) {
            self.ready.push_back(ReadyKey::new(db, key));
        }
    }

    /// Same as [`Turn::commit`], for a change of a stream's groups. As in Redis, such a change
    /// neither raises WATCH flags nor serves blocked clients. It raises the flags that tell whether
    /// a copy of the key is out of date ([`WatchFlag::of_all_changes`]).
    ///
    /// [`WatchFlag::of_all_changes`]: crate::keyspace::watch::WatchFlag::of_all_changes
    pub(crate) fn commit_group(&mut self, db: usize, key: &[u8], event: Option<&str>, count: u64) {
        self.changed = true;
        self.stats.dirty += count;
        self.note_for_log(db, key);
        if self.observed {
            let number = self.store.shard_of(key);
            self.shard_mut(number).watched.groups_changed(db, key);
            self.note_change(db, key);
        }
        if let Some(event) = event {
            self.announce(db, Classes::STREAM, event, key);
        }
    }

    /// Removes all keys of these databases and commits the change. Every shard must be held. The
    /// memory is freed after the turn ([`Turn::discarded`]).
    pub(crate) fn flush(&mut self, dbs: Range<usize>) {
        for db in dbs {
            let removed = self.empty(db);
            self.note_all_ready(db);
            self.stats.dirty += removed as u64;
        }
        self.invalidate_all();
        self.changed = true;
    }

    /// Exchanges the keys of two databases and commits the change. Every shard must be held.
    pub(crate) fn swap(&mut self, first: usize, second: usize) {
        if first != second {
            self.db_replaced(first, Some(second));
            self.db_replaced(second, Some(first));
        }
        for (_, shard) in self.held_shards() {
            shard.dbs.swap(first, second);
        }
        self.note_all_ready(first);
        self.note_all_ready(second);
        self.changed = true;
        self.stats.dirty += 1;
    }

    /// Notes as ready the keys of database `db` for which clients wait, after the whole content of
    /// the database was replaced.
    fn note_all_ready(&mut self, db: usize) {
        let mut ready = Vec::new();
        for (_, shard) in self.held_shards() {
            let keys = shard.waiters.note_all_ready(db, &shard.dbs[db]);
            ready.extend(keys.iter().map(|key| ReadyKey::new(db, key)));
        }
        self.ready.extend(ready);
    }

    /// Empties every database before a snapshot is loaded. Raises WATCH flags, invalidates
    /// client-side caches, and counts no change. Locks every shard.
    pub fn clear(&mut self) {
        self.lock_all();
        self.deadlines_may_change(Touched::Any);
        for db in 0..self.store.databases() {
            self.empty(db);
        }
        self.invalidate_all();
    }

    /// Replaces the whole keyspace, and the rules of NOTIFY, by the content of `loaded`, which
    /// [`Store::beside`](crate::Store::beside) has created. Raises WATCH flags, notes ready keys,
    /// invalidates client-side caches, and counts no change. Locks every shard. The old databases
    /// are dropped after the turn ([`Turn::discarded`]). O(watches + keys that clients wait for +
    /// shards · databases).
    pub fn replace_all(&mut self, loaded: Store) {
        self.lock_all();
        self.deadlines_may_change(Touched::Any);
        let now = self.now;
        let (mut ready, mut old) = (Vec::new(), Vec::new());
        self.store.adopt_notify_rules(&loaded);
        let loaded = loaded.locked.into_iter().map(|l| l.shard.into_inner());
        for ((_, shard), new) in self.held.iter_mut().zip(loaded) {
            let Shard {
                watched,
                waiters,
                dbs,
                ..
            } = &mut **shard;
            for (db, (old, new)) in dbs.iter().zip(&new.dbs).enumerate() {
                watched.db_replaced(db, old, Some(new), now);
            }
            let following = dbs.iter().any(Db::is_following);
            old.extend(std::mem::replace(dbs, new.dbs));
            for (db, part) in dbs.iter_mut().enumerate() {
                part.set_following(following);
                let keys = waiters.note_all_ready(db, part);
                ready.extend(keys.iter().map(|key| ReadyKey::new(db, key)));
            }
        }
        self.ready.extend(ready);
        self.invalidate_all();
        self.renew_rules();
        let store = self.store;
        let unneeded = old.into_iter().filter_map(|db| store.set_aside(db));
        self.discarded.dbs.extend(unneeded);
    }

    fn empty(&mut self, db: usize) -> usize {
        self.db_replaced(db, None);
        let mut removed = 0;
        let mut discarded = Vec::new();
        for (_, part) in self.held_dbs(db) {
            if !part.is_empty() || part.wheel_entries() > 0 {
                removed += part.len();
                discarded.push(part.take());
            }
        }
        let store = self.store;
        let unneeded = discarded.into_iter().filter_map(|db| store.set_aside(db));
        self.discarded.dbs.extend(unneeded);
        removed
    }

    /// Raises the WATCH flags of database `db`, before its keys are replaced by the keys of
    /// database `new`, or removed if `new` is `None`.
    fn db_replaced(&mut self, db: usize, new: Option<usize>) {
        if !self.observed {
            return;
        }
        let now = self.now;
        for (_, shard) in self.held_shards() {
            let Shard { watched, dbs, .. } = shard;
            watched.db_replaced(db, &dbs[db], new.map(|new| &dbs[new]), now);
        }
    }
}

impl Cx<'_, '_> {
    /// Commits a change of a key of the client's database; see `Turn::commit`.
    #[inline]
    pub fn commit(&mut self, key: &[u8], class: Classes, event: &str, count: u64) {
        self.turn.commit(self.db, key, class, event, count);
    }

    /// Same as [`Cx::commit`], with the fields or members that the event is about. The iterator is
    /// used only if messages about subkeys are published.
    #[inline]
    pub(crate) fn commit_subkeys<'k>(
        &mut self,
        key: &[u8],
        class: Classes,
        event: &str,
        count: u64,
        subkeys: impl Iterator<Item = &'k [u8]>,
    ) {
        self.turn.commit_silently(self.db, key, count);
        self.turn
            .announce_with(self.db, class, event, key, None, subkeys);
    }

    /// Returns an empty list of subkeys for an event of `class`, which keeps names only if messages
    /// about subkeys are published.
    #[inline]
    pub(crate) fn subkeys<'k>(&self, class: Classes) -> Subkeys<&'k [u8]> {
        self.turn.subkeys(class)
    }

    /// Same as [`Cx::commit`], in database `db`.
    pub(crate) fn commit_in(
        &mut self,
        db: usize,
        key: &[u8],
        class: Classes,
        event: &str,
        count: u64,
    ) {
        self.turn.commit(db, key, class, event, count);
    }

    /// Same as [`Cx::commit`], for a change that has no event.
    pub(crate) fn commit_silently(&mut self, key: &[u8], count: u64) {
        self.turn.commit_silently(self.db, key, count);
    }

    /// Commits that elements of a collection, or their deadlines, were changed or removed, and arms
    /// the collection's timer. A collection that has become empty is removed, with the event `del`.
    pub(crate) fn commit_elements(
        &mut self,
        place: Place,
        id: Id,
        key: &[u8],
        class: Classes,
        event: &str,
        count: u64,
    ) {
        self.turn.commit(self.db, key, class, event, count);
        self.keep_elements(place, id, key);
    }

    /// Arms the timer of a collection after the commit of changed or removed elements. A collection
    /// that has become empty is removed, with the event `del`.
    pub(crate) fn keep_elements(&mut self, place: Place, id: Id, key: &[u8]) {
        let part = self.db_at(place);
        if part.get(id).value.is_empty_collection() {
            part.remove(id);
            self.turn.commit(self.db, key, Classes::GENERIC, "del", 0);
        } else {
            part.rearm(id);
        }
    }

    /// Publishes an event without a commit: `new` or `keymiss`.
    #[inline]
    pub(crate) fn announce(&mut self, class: Classes, event: &str, key: &[u8]) {
        self.turn.announce(self.db, class, event, key);
    }
}
