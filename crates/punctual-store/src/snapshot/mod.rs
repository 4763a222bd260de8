//! Snapshots: the keyspace at one instant, while writes go on.
//!
//! A snapshot begins with every shard locked for a moment: from then on each database has a *walk* that goes through
//! its records in index order, a few at a time, under the shard's lock. Whoever changes, moves or removes a record
//! that the walk has not reached makes the walk write it *early*, as it is; records that are added behind the instant
//! are marked, so that the walk passes them over. So what is written is the instant's keyspace, a record is written
//! once, and extra memory is one bit a record and the early records until they are fetched.
//!
//! Ground rules: every change of a record goes through `Db`, which tells its walk *before* it. A
//! database that is flushed is set aside with its walk (`Store::set_aside`), and goes on there without a lock.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::keyspace::shard::{Shard, Store};
pub use crate::keyspace::walk::Format;
use crate::keyspace::walk::WalkStep;
use crate::turn::Turn;

/// A snapshot that is being made. It must be taken to its end, or [abandoned](Snapshot::abandon).
///
/// ```
/// use punctual_store::snapshot::{Format, Snapshot};
/// use punctual_store::{Now, Store, StoreOptions, Turn, events::{Classes, Silent}};
///
/// let store = Store::new(StoreOptions { shards: 1, databases: 16 });
/// let mut sink = Silent;
/// let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
/// let mut snapshot = Snapshot::begin(&mut turn, Format::default());
/// drop(turn); // others may write now
/// let mut records = Vec::new();
/// while let Some(db) = snapshot.next(&store, &mut records) {
///     println!("{} bytes of database {db}", records.len());
///     records.clear();
/// }
/// ```
#[derive(Debug)]
pub struct Snapshot {
    /// Databases that have keys, with how many keys and how many deadlines, all shards together.
    sizes: BTreeMap<usize, (usize, usize)>,
    /// Databases and shards that may still have something to write; the last one is next.
    left: Vec<(usize, usize)>,
    written: usize,
    early_bytes: usize,
    field_deadlines: bool,
}

impl Snapshot {
    /// Begins a snapshot of the keyspace as it is now; there must be no other. Locks every shard, for a time of
    /// O(databases · shards) and one bit a record.
    pub fn begin(turn: &mut Turn<'_>, format: Format) -> Self {
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
        // Taken from the end: databases in ascending order.
        left.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            sizes,
            left,
            written: 0,
            early_bytes: 0,
            field_deadlines,
        }
    }

    /// Each database that has keys: its number, keys, and keys with a deadline.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.sizes
            .iter()
            .map(|(db, (keys, ttls))| (*db, *keys, *ttls))
    }

    /// Whether fields of hashes have deadlines, which files of Redis 7.0 cannot tell.
    pub fn has_field_deadlines(&self) -> bool {
        self.field_deadlines
    }

    /// How many keys it will have.
    pub fn keys(&self) -> usize {
        self.sizes.values().map(|(keys, _)| keys).sum()
    }

    /// How many keys have been written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Bytes of records that were written before their turn, because they were about to change.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Appends some more records to `out`, and tells which database they belong to; `None` at the end. Databases come in
    /// ascending order. Locks one shard meanwhile, for some tens of kilobytes of records: no turn
    /// of the calling thread may hold a lock.
    pub fn next(&mut self, store: &Store, out: &mut Vec<u8>) -> Option<usize> {
        self.next_of(store, out, |number, shard, out| {
            find_walk(&mut store.locked[shard].shard.lock(), number, out)
        })
    }

    /// As [`Snapshot::next`], for a turn that holds every shard and keeps them.
    pub fn next_held(&mut self, turn: &mut Turn<'_>, out: &mut Vec<u8>) -> Option<usize> {
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
            if let Some(step) = step {
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

    /// Ends a snapshot before its end: nobody writes anything early for it any more. Locks one shard after the other.
    pub fn abandon(self, store: &Store) {
        for locked in &store.locked {
            end_walks(&mut locked.shard.lock());
        }
        store.flushed_walks.lock().clear();
    }

    /// As [`Snapshot::abandon`], of whatever snapshot there is, in a turn, which holds every shard then.
    pub fn abandon_all(turn: &mut Turn<'_>) {
        turn.lock_all();
        for (_, shard) in turn.held_shards() {
            end_walks(shard);
        }
        turn.store.flushed_walks.lock().clear();
    }
}

fn end_walks(shard: &mut Shard) {
    for db in &mut shard.dbs {
        db.end_walk();
    }
}

/// A step of the walk that knows its database by `number`, wherever SWAPDB has put that.
fn find_walk(shard: &mut Shard, number: usize, out: &mut Vec<u8>) -> Option<WalkStep> {
    let db = shard.dbs.iter_mut().find(|db| db.walks(number))?;
    Some(db.walk(out))
}
