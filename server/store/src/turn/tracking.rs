//! Client-side caching in a turn (CLIENT TRACKING): remembers which clients have read a key, and
//! invalidates the key when it changes.
//!
//! A *reader* is the number of a client in tracking mode (`keyspace/tracked.rs`). The reader is
//! remembered while the shard is still locked for the read, and the commit of a change takes the
//! readers from the table, so each client that has read the old value receives an invalidation. The
//! sink is called under the shard's lock, and decides the order of replies and invalidations.

use std::sync::atomic::Ordering;

use punctual_resp::Args;

use super::Turn;
use crate::keyspace::shard::Store;
use crate::keyspace::tracked::{Tracked, Tracking};
use crate::source::Source;
use crate::spec::Keys;

impl Store {
    /// Makes turns report each changed key to [`Sink::broadcast`](crate::events::Sink::broadcast).
    /// A turn applies the setting when it next locks a shard.
    pub fn set_broadcasts(&self, on: bool) {
        self.tracking.broadcasts.store(on, Ordering::SeqCst);
    }

    /// Sets the maximum number of keys that are remembered for client-side caches; 0 for no limit.
    pub fn set_tracked_max(&self, keys: u64) {
        self.tracking.keys_max.store(keys, Ordering::Relaxed);
    }

    /// Returns the number of keys that are remembered for client-side caches, and the number of
    /// pairs of a key and a reader.
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
    /// Remembers that the reader has read these keys. While more keys are remembered than the
    /// limit, two random keys are removed for each new key.
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

    /// Locks the keys of a server's command that has no handler in this crate, before
    /// [`Turn::remember`].
    pub fn lock_to_remember(&mut self, keys: &Keys, args: Args) {
        self.lock_keys(named(keys, args).into_iter());
    }

    /// Remembers that the reader has read the keys of a server's command that has no handler in
    /// this crate.
    pub fn remember(&mut self, keys: &Keys, args: Args, reader: u32) {
        self.lock_to_remember(keys, args);
        self.remember_reader(keys, args, reader);
    }

    /// Turns on the reports of all changed keys, for the rest of this turn as well.
    pub fn begin_broadcasts(&mut self) {
        self.store.set_broadcasts(true);
        self.observe();
    }

    /// Invalidates up to `most` random keys of a held shard in the clients' caches, until the
    /// number of remembered keys is within its limit.
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

    /// Invalidates up to `most` random keys of a shard in the clients' caches, until the number of
    /// remembered keys is within its limit. Locks the shard.
    pub fn limit_tracked(&mut self, shard: usize, most: usize) {
        self.lock_one(shard);
        self.forget_some(shard, most);
    }

    /// Invalidates a changed key in the clients' caches. `by` is the client whose command has
    /// changed the key; 0 if no client's command has.
    pub(super) fn invalidate(&mut self, number: usize, key: &[u8], by: u64) {
        if self.store.tracking.broadcasts() {
            // As in Redis, a change by a script does not count as a change by its client.
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

    /// Invalidates all keys in the clients' caches, and empties the tables of the held shards.
    pub(super) fn invalidate_all(&mut self) {
        let (mut keys, mut items) = (0, 0);
        let mut old = Vec::new();
        let slots = self.store.names.slots();
        for (_, shard) in self.held_shards() {
            if shard.tracked.any() {
                old.push(std::mem::replace(&mut shard.tracked, Tracked::new(slots)));
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
