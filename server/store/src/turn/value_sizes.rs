//! The sizes of all values, for INFO keysizes.

use super::Turn;
use crate::keyspace::sizes::DbSizes;

impl Turn<'_> {
    /// Returns the sizes of all values, one element for each database. Locks one shard after the
    /// other, unless the shards are pinned. O(keys + shards · databases).
    pub fn value_sizes(&mut self) -> Vec<DbSizes> {
        let mut all = vec![DbSizes::default(); self.store.databases()];
        for number in 0..self.store.shards() {
            self.lock_one(number);
            for (db, sizes) in all.iter_mut().enumerate() {
                sizes.add_all(self.shard_db_ref(number, db));
            }
        }
        all
    }
}
