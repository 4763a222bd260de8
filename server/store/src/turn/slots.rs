//! Keys by their hash slot, in cluster mode. All keys of a slot are in one shard.

use punctual_cluster::slot;

use super::Turn;
use super::ahead::Name;
use crate::hash_table::{Hash, WARM_MAX};
use crate::keyspace::db::Db;
use crate::keyspace::records::Id;
use crate::keyspace::shard::{Store, Touched};

impl Store {
    /// Returns whether the keyspace is a node's in a cluster.
    pub fn is_cluster(&self) -> bool {
        self.names.slots().any()
    }

    /// Returns the shard with the keys of a hash slot, or `None` outside of cluster mode. O(1).
    ///
    /// ```
    /// use punctual_cluster::slot;
    /// use punctual_store::{Store, StoreOptions};
    /// let store = Store::new(StoreOptions {
    ///     shards: 4, databases: 1, cluster: true, seed: 1, nap: std::thread::sleep,
    /// });
    /// let of_foo = store.shard_of_slot(slot::of_key(b"foo"));
    /// assert_eq!(of_foo, Some(store.shard_of(b"foo")));
    /// assert_eq!(of_foo, Some(store.shard_of(b"user:{foo}")));
    /// ```
    pub fn shard_of_slot(&self, slot: u16) -> Option<usize> {
        Some(self.slot_hash(slot)?.shard(self.shards()))
    }

    /// Returns the hash of a key in this slot, or `None` outside of cluster mode.
    fn slot_hash(&self, slot: u16) -> Option<Hash> {
        let slots = self.names.slots();
        slots.any().then(|| slots.hash(0, slot))
    }
}

impl Turn<'_> {
    /// Returns the hash slot of a key. O(1) in cluster mode if it is the first key of the next
    /// command and the look-ahead has hashed it, else O(length).
    #[inline]
    pub fn slot_of(&self, key: &[u8]) -> u16 {
        let slots = self.store.names.slots();
        if slots.any() && self.next.is(key) {
            slots.slot(self.next.hash)
        } else {
            slot::of_key(key)
        }
    }

    /// Same as [`Turn::slot_of`], for the only key of the next command in cluster mode. The turn
    /// keeps the key's hash for the command, so that the name is hashed once. The caller must call
    /// [`Turn::end_ahead`] before the argument's bytes change.
    #[inline]
    pub fn slot_of_next(&mut self, key: &[u8]) -> u16 {
        debug_assert!(self.store.is_cluster(), "keys are hashed with their slots");
        if self.next.is(key) {
            return self.store.names.slots().slot(self.next.hash);
        }
        self.hash_next(key)
    }

    /// Hashes the only key of the next command, and returns its slot.
    #[inline(never)]
    fn hash_next(&mut self, key: &[u8]) -> u16 {
        let (hash, slot) = self.store.names.hash_and_slot(key);
        self.next = Name::new(key, hash);
        slot
    }

    /// Locks the shard of a hash slot, unless it is held. Does nothing outside of cluster mode.
    /// O(1), besides the wait for the lock.
    pub fn lock_slot(&mut self, slot: u16) {
        if let Some(number) = self.store.shard_of_slot(slot) {
            self.lock_one(number);
        }
    }

    /// Returns the number of keys of database 0 in a hash slot. As in Redis, keys count that are
    /// due and not expired yet. Always 0 outside of cluster mode. Locks the slot's shard, which a
    /// transaction must have [pinned](Turn::pin). O(1).
    ///
    /// ```
    /// use punctual_cluster::slot;
    /// use punctual_resp::{OwnedArgs, Protocol, Reply};
    /// use punctual_store::{Now, Store, StoreOptions, Turn, command, events::{Classes, Silent}};
    /// let store = Store::new(StoreOptions {
    ///     shards: 4, databases: 1, cluster: true, seed: 1, nap: std::thread::sleep,
    /// });
    /// let mut sink = Silent;
    /// let mut turn = Turn::new(&store, Now::from_ms(0), &mut sink, Classes::none());
    /// let mut out = Vec::new();
    /// for line in ["SET {foo}a 1", "SET {foo}b 2", "SET bar 3"] {
    ///     let args: OwnedArgs = line.split(' ').collect();
    ///     let set = command::find(b"set").unwrap();
    ///     let mut reply = Reply::new(&mut out, Protocol::Resp2);
    ///     turn.run(set, 0, true, args.as_args(), &mut reply).unwrap();
    /// }
    /// let foo = slot::of_key(b"foo");
    /// assert_eq!(turn.count_keys_in_slot(foo), 2);
    ///
    /// let mut keys = Vec::new();
    /// turn.keys_in_slot(foo, 10, |key| keys.push(key.to_vec()));
    /// keys.sort();
    /// assert_eq!(keys, [b"{foo}a", b"{foo}b"]);
    ///
    /// assert_eq!(turn.delete_slot(foo, 10), 2);
    /// assert_eq!(turn.delete_slot(foo, 10), 0);
    /// ```
    pub fn count_keys_in_slot(&mut self, slot: u16) -> usize {
        self.slot_db(slot)
            .map_or(0, |(_, db, hash)| db.keys_in_slot(hash.place))
    }

    /// Calls `visit` with the names of up to `max` keys of database 0 in a hash slot, in no
    /// particular order. As in Redis, these may be keys that are due and not expired yet. Visits no
    /// key outside of cluster mode. Locks the slot's shard, as [`Turn::count_keys_in_slot`] does.
    /// O(keys visited); O(some thousands) for a slot whose neighbours have far more keys.
    ///
    /// Streams of NOTIFY come last. A caller that moves the keys in this order moves each stream
    /// after the keys whose changes append to it.
    pub fn keys_in_slot(&mut self, slot: u16, max: usize, mut visit: impl FnMut(&[u8])) {
        let mut ids = Vec::new();
        let store = self.store;
        let rules = store.notify.rules();
        if let Some((_, db, hash)) = self.slot_db(slot) {
            // A rule has at most one stream in a slot.
            let listed = max.saturating_add(rules.iter().len());
            db.list_slot(hash.place, listed, &mut ids);
            ids.sort_by_key(|id| rules.is_target(0, db.get(*id).key.as_bytes()));
            let names = ids.iter().map(|id| db.get(*id).key.as_bytes());
            names.take(max).for_each(&mut visit);
        }
    }

    /// Deletes up to `max` keys of database 0 in a hash slot, for a primary that has lost the slot.
    /// Returns the number of deleted keys; the caller calls again until it is 0. Locks the slot's
    /// shard. Takes the time of [`Turn::keys_in_slot`] and of `max` deletions.
    ///
    /// As in Redis, each key is logged as a command DEL, counts as a change, fails transactions
    /// that watch the key, and is invalidated in clients' caches. It has no event, because the key
    /// lives on at another node.
    pub fn delete_slot(&mut self, slot: u16, max: usize) -> usize {
        let mut ids = Vec::new();
        let Some((number, db, hash)) = self.slot_db(slot) else {
            return 0;
        };
        db.list_slot(hash.place, max, &mut ids);
        self.hashed_key = Name::NONE;
        self.deadlines_may_change(Touched::One(0));
        for some in ids.chunks(WARM_MAX) {
            self.shard_db(number, 0).warm_due(some);
            some.iter().for_each(|id| self.delete_lost(number, *id));
        }
        ids.len()
    }

    /// Deletes a key of a held shard whose slot has another owner.
    fn delete_lost(&mut self, number: usize, id: Id) {
        let record = self.shard_db(number, 0).remove(id);
        let key = record.key.as_bytes();
        self.expiry_effect(0, &[b"DEL", key]);
        self.commit_expiry_silently(0, key);
        self.stats.dirty += 1;
        self.discarded.value(record.value);
    }

    /// Locks the shard of a slot. Returns its number, its part of database 0 and a hash in the
    /// slot; `None` outside of cluster mode.
    fn slot_db(&mut self, slot: u16) -> Option<(usize, &mut Db, Hash)> {
        let hash = self.store.slot_hash(slot)?;
        let number = hash.shard(self.store.shards());
        self.lock_one(number);
        Some((number, self.shard_db(number, 0), hash))
    }
}

#[cfg(test)]
mod tests;
