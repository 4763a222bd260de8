//! How keys that were read from a snapshot come into the keyspace.

use crate::records::NEVER;
use crate::shard::Touched;
use crate::turn::Turn;
use crate::uses::Uses;
use crate::value::Value;

/// A key as it was read.
#[derive(Debug)]
pub struct Restored<'k> {
    /// Its database.
    pub db: usize,
    /// Its name.
    pub key: &'k [u8],
    /// What it holds.
    pub value: Value,
    /// Unix time in ms at which it goes.
    pub deadline: Option<u64>,
    /// Seconds since its last use, if the file tells.
    pub idle_s: Option<u64>,
    /// Its logarithmic counter of uses, if the file tells.
    pub freq: Option<u8>,
}

impl Turn<'_> {
    /// Adds a key, and tells nobody; a key of this name is replaced if `replace`. Whether it was added: it is not if the
    /// name is taken. Holds every shard. O(length of the name), besides dropping what is replaced.
    ///
    /// # Panics
    /// If there is no database of this number.
    pub fn restore(&mut self, restored: Restored<'_>, replace: bool) -> bool {
        self.lock_all();
        self.touch(Touched::Any);
        let Restored { db, key, .. } = restored;
        let uses = match self.limits.uses {
            Uses::Last => {
                let idle_ms = restored.idle_s.unwrap_or(0).saturating_mul(1000);
                let used_ms = self.now.read_ms().saturating_sub(idle_ms);
                Uses::Last.first(crate::Now::from_ms(used_ms))
            }
            counts => {
                let first = counts.first(self.now);
                restored
                    .freq
                    .map_or(first, |freq| first & !0xff | u32::from(freq))
            }
        };
        let shard = self.store.shard_of(key);
        let part = self.shard_db(shard, db);
        let hash = part.hash(key);
        if let Some(taken) = part.find_hashed(hash, key) {
            if !replace {
                return false;
            }
            part.remove(taken);
        }
        let id = part.insert_hashed(hash, key, restored.value, uses);
        if let Some(deadline) = restored.deadline {
            part.set_deadline(id, Some(deadline.min(NEVER - 1)));
        }
        true
    }

    /// Empties database `db`, of which every shard is held: how many keys it had. Those who watch its keys are told, nobody
    /// else. What is to be dropped is in [`Turn::discarded`], unless a snapshot still needs it.
    pub(crate) fn empty(&mut self, db: usize) -> usize {
        self.database_replaced(db, None);
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
        self.discarded.extend(unneeded);
        removed
    }

    /// [Empties](Turn::empty) every database. Holds every shard.
    pub fn clear(&mut self) {
        self.lock_all();
        self.touch(Touched::Any);
        for db in 0..self.store.databases() {
            self.empty(db);
        }
    }
}
