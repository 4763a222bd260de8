//! Client-side caches in a turn: which client has read a key, and who must drop it from its cache.
//!
//! A reader is remembered under the same hold of the shard as its read, and every change passes
//! `Turn::commit`, so a client that has read the state before a change is told of it. The sink is
//! called under the shard's lock: see its own rules for the order in which a client gets replies
//! and invalidations.

use std::sync::atomic::Ordering;

use punctual_resp::Args;

use super::Turn;
use crate::keyspace::shard::Store;
use crate::keyspace::tracked::Tracking;
use crate::source::Source;
use crate::spec::Keys;

impl Store {
    /// Makes turns tell the sink each changed key, from the next time that they lock a shard.
    pub fn set_broadcasts(&self, on: bool) {
        self.tracking.broadcasts.store(on, Ordering::SeqCst);
    }

    /// Sets the most keys that are remembered for client-side caches; 0: no limit.
    pub fn set_tracked_max(&self, keys: u64) {
        self.tracking.keys_max.store(keys, Ordering::Relaxed);
    }

    /// Returns the number of keys that are remembered for client-side caches, and that of their
    /// readers.
    pub fn tracked(&self) -> (u64, u64) {
        let Tracking { keys, items, .. } = &self.tracking;
        (keys.load(Ordering::Relaxed), items.load(Ordering::Relaxed))
    }

    /// Returns whether more keys are remembered than [`Store::set_tracked_max`] allows.
    #[inline]
    pub fn tracks_too_many(&self) -> bool {
        self.tracking.is_over_limit()
    }
}

impl Turn<'_> {
    /// Remembers that the reader has read these keys. A table that is full forgets two keys for
    /// each new one.
    ///
    /// # Panics
    /// If a key's shard is not held.
    #[cold]
    pub(super) fn remember_reader(&mut self, keys: &Keys, args: Args, reader: u32) {
        let store = self.store;
        keys.each(args, &mut |at| {
            let Some(key) = args.get(at) else { return };
            let hash = store.hash(key);
            let number = hash.shard(store.shards());
            let added = self.shard_mut(number).tracked.remember(hash, key, reader);
            let Tracking { keys, items, .. } = &store.tracking;
            items.fetch_add(added.items, Ordering::Relaxed);
            if added.keys > 0 {
                keys.fetch_add(added.keys, Ordering::Relaxed);
                self.forget_some(number, 2);
            }
        });
        self.observe();
    }

    /// Locks the keys of a command that is not one of the keyspace's, for [`Turn::remember`] after
    /// it.
    pub fn lock_to_remember(&mut self, keys: &Keys, args: Args) {
        self.lock_keys(named(keys, args).into_iter());
    }

    /// Remembers that the reader has read the keys of a command that is not one of the keyspace's.
    pub fn remember(&mut self, keys: &Keys, args: Args, reader: u32) {
        self.lock_to_remember(keys, args);
        self.remember_reader(keys, args, reader);
    }

    /// Notes that a client wants to know of every change from now on, those of this turn too.
    pub fn begin_broadcasts(&mut self) {
        self.store.set_broadcasts(true);
        self.observe();
    }

    /// Makes the clients forget up to `most` random keys of a held shard, until the table is within
    /// its limit.
    fn forget_some(&mut self, number: usize, most: usize) {
        for _ in 0..most {
            if !self.store.tracking.is_over_limit() {
                return;
            }
            let shard = self.shard_mut(number);
            let Some((key, readers)) = shard.tracked.take_random(&mut shard.random) else {
                return;
            };
            self.store.tracking.removed(1, readers.len());
            self.sink.invalidate(&key, &readers, 0);
        }
    }

    /// Makes the clients forget up to `most` random keys of a shard, until the table is within its
    /// limit. Locks the shard.
    pub fn limit_tracked(&mut self, shard: usize, most: usize) {
        self.lock_one(shard);
        self.forget_some(shard, most);
    }

    /// Tells the clients that may have cached a changed key. `by` is the client whose command has
    /// changed it; 0 if it was none's.
    pub(super) fn invalidate(&mut self, number: usize, key: &[u8], by: u64) {
        if self.store.tracking.broadcasts() {
            // As in Redis, a script's change is not its client's own.
            let by = if self.source == Source::Script { 0 } else { by };
            self.sink.broadcast(key, by);
        }
        let store = self.store;
        let tracked = &mut self.shard_mut(number).tracked;
        if !tracked.any() {
            return;
        }
        if let Some(readers) = tracked.take(store.hash(key), key) {
            store.tracking.removed(1, readers.len());
            self.sink.invalidate(key, &readers, by);
        }
    }

    /// Tells the clients that every key may have changed, and forgets the held shards' keys.
    pub(super) fn invalidate_all(&mut self) {
        let (mut keys, mut items) = (0, 0);
        let mut old = Vec::new();
        for (_, shard) in self.held_shards() {
            if shard.tracked.any() {
                old.push(std::mem::take(&mut shard.tracked));
            }
        }
        for tracked in &old {
            let (k, i) = tracked.totals();
            (keys, items) = (keys + k, items + i);
        }
        self.store.tracking.removed(keys, items);
        self.discarded.tracked.extend(old);
        self.sink.invalidate_all();
    }
}

/// Returns the keys that a command's arguments name.
fn named<'a>(keys: &Keys, args: Args<'a>) -> Vec<&'a [u8]> {
    let mut names = Vec::new();
    keys.each(args, &mut |at| names.extend(args.get(at)));
    names
}
