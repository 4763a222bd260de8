//! Adding keys that were read from a snapshot. Loading does not commit the changes, so it publishes
//! no events and counts no changes.

use crate::hash_table::Hash;
use crate::keyspace::shard::Touched;
use crate::time::NEVER;
use crate::turn::Turn;
use crate::value::Value;

/// A key that was read from a snapshot.
#[derive(Debug)]
pub struct Restored<'k> {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: &'k [u8],
    /// Its value.
    pub value: Value,
    /// Its deadline in Unix ms.
    pub deadline: Option<u64>,
    /// Seconds since its last use, if the snapshot has them.
    pub idle_s: Option<u64>,
    /// Its logarithmic counter of uses (LFU), if the snapshot has it.
    pub freq: Option<u8>,
}

/// Keys that are added together, so that their cache misses overlap.
#[derive(Debug, Default)]
pub struct RestoreBatch {
    keys: Vec<u8>,
    /// The keys' other data. Their names are in `keys`, one after the other.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    db: usize,
    key_end: usize,
    value: Value,
    deadline: Option<u64>,
    uses: u32,
    shard: usize,
    hash: Hash,
}

/// Number of keys that are added together.
const BATCH: usize = 32;

/// Error of [`Turn::restore`]: the key exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key \"{}\" already exists", .0.escape_ascii())]
pub struct KeyExists(pub Box<[u8]>);

impl Turn<'_> {
    /// Adds a key, or replaces it if `replace` is set. The key stays in `batch` until the batch is
    /// full or [`Turn::restore_all`] is called. Locks every shard. O(length of the name), besides
    /// dropping a replaced value.
    ///
    /// # Errors
    /// [`KeyExists`] if a key of the batch exists and `replace` is not set. The keys after it in
    /// the batch are lost.
    ///
    /// # Panics
    /// If there is no database of this number.
    pub fn restore(
        &mut self,
        batch: &mut RestoreBatch,
        restored: Restored<'_>,
        replace: bool,
    ) -> Result<(), KeyExists> {
        self.lock_all();
        let Restored { db, key, .. } = restored;
        let uses = self.limits.uses;
        let uses = uses.restored(restored.idle_s, restored.freq, self.now);
        batch.keys.extend_from_slice(key);
        let shard = self.store.shard_of(key);
        batch.waiting.push(Waiting {
            db,
            key_end: batch.keys.len(),
            value: restored.value,
            deadline: restored.deadline,
            uses,
            shard,
            hash: self.shard_db(shard, db).hash(key),
        });
        if batch.waiting.len() < BATCH {
            return Ok(());
        }
        self.restore_all(batch, replace)
    }

    /// Adds the keys of `batch` and empties it. Locks every shard.
    ///
    /// # Errors
    /// Same as [`Turn::restore`].
    pub fn restore_all(
        &mut self,
        batch: &mut RestoreBatch,
        replace: bool,
    ) -> Result<(), KeyExists> {
        self.lock_all();
        self.deadlines_may_change(Touched::Any);
        // The loads do not depend on each other, so they overlap. The sum keeps the compiler from
        // removing the loads.
        let mut sum = 0;
        for waiting in &batch.waiting {
            sum ^= self
                .shard_db(waiting.shard, waiting.db)
                .warm_hash(waiting.hash);
        }
        std::hint::black_box(sum);
        let mut start = 0;
        for waiting in batch.waiting.drain(..) {
            let key = &batch.keys[start..waiting.key_end];
            start = waiting.key_end;
            let part = self.shard_db(waiting.shard, waiting.db);
            if let Some(taken) = part.find_hashed(waiting.hash, key) {
                if !replace {
                    let exists = KeyExists(key.into());
                    batch.keys.clear();
                    return Err(exists);
                }
                part.remove(taken);
            }
            let id = part.insert_hashed(waiting.hash, key, waiting.value, waiting.uses);
            if let Some(deadline) = waiting.deadline {
                part.set_deadline(id, Some(deadline.min(NEVER - 1)));
            }
        }
        batch.keys.clear();
        Ok(())
    }

    /// Reserves space for `keys` keys in database `db`, if it is empty. Locks every shard. O(keys).
    ///
    /// # Panics
    /// If there is no database of this number.
    pub fn reserve(&mut self, db: usize, keys: usize) {
        self.lock_all();
        let shards = self.store.shards();
        for (_, part) in self.held_dbs(db) {
            if part.is_empty() {
                part.reserve(keys / shards);
            }
        }
    }
}
