//! Figures of the memory of a database and of single keys, for INFO and MEMORY USAGE.

use super::Db;
use crate::keyspace::records::{Id, RECORD_BYTES};
use crate::keyspace::value_timers::VALUE_TIMER_BYTES;
use crate::time::NEVER;
use crate::value::Value;

/// Size of a wheel entry: the low half of the deadline, the record's index, its stamp.
const WHEEL_ENTRY_BYTES: usize = 3 * size_of::<u32>();
/// Approximate size of an entry in `timers`, including free space in the tree's nodes.
const TIMER_ENTRY_BYTES: usize = 18;
/// Approximate size of an entry in `queues`.
const QUEUE_ENTRY_BYTES: usize = 8;

/// Memory of a database in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DbMemory {
    /// Pages of records, in bytes.
    pub records: usize,
    /// Hash table, and in cluster mode numbers of keys by slot, in bytes.
    pub index: usize,
    /// Wheel, timers of values, and the sets of timers and queues, in bytes.
    pub wheel: usize,
    /// Number of places for keys in the table.
    pub index_slots: usize,
}

impl Db {
    /// Returns the bytes of records, table and wheel, without the values' own memory.
    pub fn memory(&self) -> DbMemory {
        DbMemory {
            records: self.records.memory(),
            index: self.index.memory() + self.slot_counts.memory(),
            wheel: self.wheel.memory()
                + self.values.memory()
                + self.timers.len() * TIMER_ENTRY_BYTES
                + self.queues.len() * QUEUE_ENTRY_BYTES,
            index_slots: self.index.slots(),
        }
    }

    /// Returns the bytes of one key: its record, memory of its name and value, its share of the
    /// table, its timers, and the wheel entries of its deadlines. O(parts of the table + elements).
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub fn key_memory(&self, id: Id) -> usize {
        let record = self.get(id);
        let table = self.index.memory().div_ceil(self.len().max(1));
        let entry = if record.deadline == NEVER {
            0
        } else {
            WHEEL_ENTRY_BYTES
        };
        let timer = match &record.value {
            Value::Timer(_) => TIMER_ENTRY_BYTES,
            value if value.timeline_timer().is_some() => VALUE_TIMER_BYTES + WHEEL_ENTRY_BYTES,
            _ => 0,
        };
        let value = record.value.content().heap_bytes();
        RECORD_BYTES + record.key.heap_bytes() + value + table + entry + timer
    }

    /// Returns the number of entries in the wheel, stale ones included.
    pub fn wheel_entries(&self) -> usize {
        self.wheel.entries()
    }
}
