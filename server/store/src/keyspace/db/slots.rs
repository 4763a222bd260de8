//! The keys of each slot in cluster mode, and the hash table, whose order has the slot first.

use super::{Db, place};
use crate::check::Check;
use crate::hash_table::Hash;
use crate::keyspace::records::Id;

/// Numbers of keys by the slot's number in its shard. Empty until the first key in cluster mode, so
/// that databases without keys take no memory.
#[derive(Default)]
pub(super) struct SlotCounts(Box<[u32]>);

impl SlotCounts {
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Checks the numbers of keys.
    pub(super) fn check(&self, to: &mut Check, counted: &[u32]) {
        for (number, &keys) in counted.iter().enumerate() {
            to.within(
                || format!("slot {number} of the shard"),
                |to| to.equal("keys", self.get(number), keys as usize),
            );
        }
    }

    fn get(&self, number: usize) -> usize {
        self.0.get(number).map_or(0, |count| *count as usize)
    }
}

impl Db {
    /// Adds a record to the table.
    #[inline]
    pub(super) fn link(&mut self, hash: Hash, id: Id) {
        let records = &self.records;
        self.index.insert(hash, id, |i| place(records, i));
        if self.names.slots().any() {
            self.count_in_slot(hash.place, 1);
        }
    }

    /// Removes a record from the table.
    #[inline]
    pub(super) fn cut(&mut self, place_of_key: u32, id: Id) {
        let records = &self.records;
        self.index.remove(place_of_key, id, |i| place(records, i));
        if self.names.slots().any() {
            self.count_in_slot(place_of_key, -1);
        }
    }

    #[inline(never)]
    fn count_in_slot(&mut self, place: u32, more: i32) {
        let slots = self.names.slots();
        let SlotCounts(counts) = &mut self.slot_counts;
        if counts.is_empty() {
            *counts = vec![0; slots.numbers()].into();
        }
        let count = &mut counts[slots.number(place)];
        *count = count.wrapping_add_signed(more);
    }

    /// Returns the number of keys in the slot of a place, due ones included. O(1).
    pub(crate) fn keys_in_slot(&self, place: u32) -> usize {
        self.slot_counts.get(self.names.slots().number(place))
    }

    /// Appends the records of up to `max` keys in the slot of a place, due ones included, in no
    /// particular order. O(keys returned); in a mixed part of the table, whose keys have few slots,
    /// O(keys of the part).
    pub(crate) fn list_slot(&self, place_in_slot: u32, max: usize, ids: &mut Vec<Id>) {
        let number = self.names.slots().number(place_in_slot);
        let wanted = self.slot_counts.get(number).min(max);
        if wanted == 0 {
            return;
        }
        let (records, end) = (&self.records, ids.len() + wanted);
        self.index.scan_slot(
            number,
            |i| place(records, i),
            |id| {
                ids.push(id);
                ids.len() < end
            },
        );
    }
}
