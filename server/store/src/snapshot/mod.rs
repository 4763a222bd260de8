//! Snapshots: the keyspace at one instant, while writes go on.
//!
//! A snapshot begins with every shard locked for a moment. From then on each database of a shard
//! has a *walk* (`keyspace/walk.rs`), which encodes the records in index order, some tens of
//! kilobytes at a time, under the shard's lock. Before a record that the walk has not reached
//! changes, moves or is removed, the walk encodes it *early*. The walk skips records that are added
//! after the snapshot began. So the snapshot shows the keyspace at its instant, and each record is
//! encoded once. The extra memory is one bit a record, and the early records until the snapshot's
//! thread fetches them. Values with many elements are encoded in several steps.
//!
//! Ground rules: every change of a record goes through `Db`, which calls its walk *before* the
//! change. There is at most one snapshot at a time. A flushed database is kept with its walk until
//! the walk has ended (`Store::set_aside`); no lock is needed for it. Turns have priority: a walk
//! sleeps for a moment if a turn waits for its shard, and after each `STEPS` steps.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::keyspace::db::Db;
use crate::keyspace::shard::{NAP, Shard, Store};
pub use crate::keyspace::walk::Format;
use crate::keyspace::walk::{Walk, WalkStep};
use crate::turn::Turn;

/// Number of steps, about a millisecond of work, after which the snapshot's thread sleeps for a
/// moment. Otherwise an event loop on the same processor would wait until the end of the thread's
/// time slice, which is several milliseconds.
const STEPS: u32 = 16;

/// A running snapshot. The caller must take it to its end, or [abandon](Snapshot::abandon) it.
///
/// ```
/// use punctual_store::snapshot::{Format, Snapshot};
/// use punctual_store::{Now, Store, StoreOptions, Turn, events::{Classes, Silent}};
///
/// let options = StoreOptions {
///     shards: 1, databases: 16, cluster: false, seed: 1, nap: std::thread::sleep,
/// };
/// let store = Store::new(options);
/// let mut sink = Silent;
/// let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
/// let mut snapshot = Snapshot::begin(&mut turn, Format::default());
/// drop(turn); // other turns may write now
/// let mut records = Vec::new();
/// while let Some(db) = snapshot.next(&store, &mut records) {
///     println!("{} bytes of database {db}", records.len());
///     records.clear();
/// }
/// ```
///
/// The default is a snapshot of an empty keyspace.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Number of keys and of deadlines of each database that has keys, over all shards.
    sizes: BTreeMap<usize, (usize, usize)>,
    /// Databases and shards that have records left; the last pair is next.
    left: Vec<(usize, usize)>,
    written: usize,
    steps: u32,
    early_bytes: usize,
    field_deadlines: bool,
    /// Rules of NOTIFY at the snapshot's instant.
    notify_rules: Vec<Vec<u8>>,
}

impl Snapshot {
    /// Begins a snapshot of the keyspace at this instant. No other snapshot may be running. Locks
    /// every shard. O(databases · shards + records / 64).
    pub fn begin(turn: &mut Turn, format: Format) -> Self {
        turn.lock_all();
        let mut sizes = BTreeMap::<usize, (usize, usize)>::new();
        let mut left = Vec::new();
        let mut field_deadlines = false;
        for (shard, held) in turn.held_shards() {
            for (number, db) in held.dbs.iter_mut().enumerate() {
                if !db.is_empty() {
                    let (keys, deadlines) = sizes.entry(number).or_default();
                    *keys += db.len();
                    *deadlines += db.with_deadline();
                    field_deadlines |= db.fields_with_deadline() > 0;
                    left.push((number, shard));
                    db.begin_walk(number, format);
                }
            }
        }
        // Pairs are popped from the end, so databases come in ascending order.
        left.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            sizes,
            left,
            written: 0,
            steps: 0,
            early_bytes: 0,
            field_deadlines,
            notify_rules: turn.store.notify_rules(),
        }
    }

    /// Returns a snapshot of the keyspace without its keys.
    pub fn without_keys(store: &Store) -> Self {
        Self {
            notify_rules: store.notify_rules(),
            ..Self::default()
        }
    }

    /// Returns the texts of the snapshot's fields [`NOTIFY_FIELD`](crate::NOTIFY_FIELD), one for
    /// each rule of NOTIFY.
    pub fn notify_rules(&self) -> &[Vec<u8>] {
        &self.notify_rules
    }

    /// Returns the number of each database that has keys, its keys, and its keys with a deadline.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.sizes
            .iter()
            .map(|(db, (keys, ttls))| (*db, *keys, *ttls))
    }

    /// Returns whether hash fields have deadlines, which files of Redis 7.0 cannot store.
    pub fn has_field_deadlines(&self) -> bool {
        self.field_deadlines
    }

    /// Returns the number of keys that the whole snapshot has.
    pub fn keys(&self) -> usize {
        self.sizes.values().map(|(keys, _)| keys).sum()
    }

    /// Returns the number of keys that were encoded so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Returns the bytes of records that were encoded early so far.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Appends the next records to `out` and returns the number of their database, or `None` at the
    /// end. Databases come in ascending order. Locks one shard while it encodes some tens of
    /// kilobytes of records, so no turn of the calling thread may hold a lock.
    pub fn next(&mut self, store: &Store, out: &mut Vec<u8>) -> Option<usize> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) {
            (store.nap)(NAP);
        }
        self.next_of(store, out, |number, shard, out| {
            store.locked[shard].walk(|shard| find_walk(shard, number, out))
        })
    }

    /// Same as [`Snapshot::next`], in a turn that locks every shard and keeps the locks.
    pub fn next_held(&mut self, turn: &mut Turn, out: &mut Vec<u8>) -> Option<usize> {
        turn.lock_all();
        self.next_of(turn.store, out, |number, shard, out| {
            let mut held = turn.held_shards();
            let (_, shard) = held.find(|(n, _)| *n == shard)?;
            find_walk(shard, number, out)
        })
    }

    fn next_of(
        &mut self,
        store: &Store,
        out: &mut Vec<u8>,
        mut step: impl FnMut(usize, usize, &mut Vec<u8>) -> Option<WalkStep>,
    ) -> Option<usize> {
        loop {
            let &(number, shard) = self.left.last()?;
            let before = out.len();
            let step = step(number, shard, out).or_else(|| store.walk_flushed(number, out));
            if let Some(step) = &step {
                self.written += step.keys;
                self.early_bytes += step.early_bytes;
            }
            if step.is_none_or(|step| step.ended) {
                self.left.pop();
            }
            if out.len() > before {
                return Some(number);
            }
        }
    }

    /// Ends the walks of a snapshot before its end. Locks one shard after the other.
    pub fn abandon(self, store: &Store) {
        for locked in &store.locked {
            let walks = end_walks(&mut locked.shard.lock());
            drop(walks);
        }
        let flushed = std::mem::take(&mut *store.flushed_walks.lock());
        drop(flushed);
    }

    /// Same as [`Snapshot::abandon`], for the running snapshot, if there is one. Locks every shard.
    pub fn abandon_all(turn: &mut Turn) {
        turn.lock_all();
        for (_, shard) in turn.held_shards() {
            drop(end_walks(shard));
        }
        turn.store.flushed_walks.lock().clear();
    }
}

fn end_walks(shard: &mut Shard) -> Vec<Walk> {
    shard.dbs.iter_mut().filter_map(Db::end_walk).collect()
}

/// Takes a step of the walk of the database that had the number `number` when the snapshot began.
/// SWAPDB may have given it another number since.
fn find_walk(shard: &mut Shard, number: usize, out: &mut Vec<u8>) -> Option<WalkStep> {
    let db = shard.dbs.iter_mut().find(|db| db.walks(number))?;
    Some(db.walk(out))
}
