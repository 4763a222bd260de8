//! Streams: entries in the order of their IDs, which only grow, and the groups that read them.
//!
//! Entries lie in blocks ([`Block`]), which have the form of a snapshot. The headers of the blocks
//! lie side by side in a ring. An entry is appended to the last block, a trim drops blocks from the
//! front, and a seek is a binary search over the headers and a scan of one block.
//!
//! Ground rules: blocks are filled as Redis fills its nodes (`stream-node-max-*`), because an
//! approximate trim removes whole blocks, so clients see where blocks end. A deleted entry is only
//! marked in its block; a block with only deleted entries is removed. An empty stream's key stays.
//!
//! `group` has the groups and their pending entries by ID. `timeline` has the pending entries by
//! time: a group may have a *lease*, after which another consumer gets an entry that was not
//! acknowledged. `retention` has the age limit of entries. The database arms the timer of a stream
//! that has a retention, a lease, an idempotent producer, or a reader that waits to claim entries
//! (`keyspace/db/timelines.rs`).

mod content;
mod group;
mod idempotence;
mod join;
mod references;
mod retention;
mod settings;
mod sorted;
#[cfg(test)]
mod tests;
mod timeline;
mod trim;
pub mod walk;

use settings::Extras;
use std::collections::{BTreeMap, VecDeque};

pub use group::{Consumer, ConsumerNumber, Group, Pending};
pub use idempotence::Idempotence;
pub use punctual_rdb::stream::StreamId as Id;
use punctual_rdb::stream::{BLOCK_LEN_MAX, Block, Entry, Totals};
pub use retention::Retention;
pub use sorted::{Identified, Sorted};
pub use timeline::{DeadLetter, Delivered, Lease, Timeline};
pub use trim::{Bound, Trim};

use crate::limits::Limits;

/// Maximum number of bytes that a new block reserves for later entries.
const RESERVED_MAX: usize = 4096;

/// A stream.
#[derive(Debug, Default)]
pub struct Stream {
    blocks: VecDeque<Block>,
    totals: Totals,
    groups: BTreeMap<Box<[u8]>, Group>,
    /// Settings, timer and snapshot's walk, which most streams lack.
    extras: Option<Box<Extras>>,
}

impl Clone for Stream {
    /// Copies the stream with its settings. A snapshot does not walk through the copy, and no timer
    /// is armed for it.
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
            totals: self.totals,
            groups: self.groups.clone(),
            extras: self.extras.as_ref().and_then(|extras| extras.copy()),
        }
    }
}

impl Stream {
    /// Creates an empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries. O(1).
    pub fn len(&self) -> u64 {
        self.totals.length
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.totals.length == 0
    }

    /// Returns the greatest ID that an entry ever had, or that XSETID set.
    pub fn last_id(&self) -> Id {
        self.totals.last_id
    }

    /// Returns the ID of the first entry, 0-0 if the stream is empty. O(1).
    pub fn first_id(&self) -> Id {
        self.totals.first_id
    }

    /// Returns the greatest ID that was deleted by its ID, for example by XDEL, or that XSETID set;
    /// 0-0 if there is no such ID.
    pub fn max_deleted(&self) -> Id {
        self.totals.max_deleted_id
    }

    /// Returns the number of entries that were ever added.
    pub fn added(&self) -> u64 {
        self.totals.entries_added
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the stream's counters and special IDs.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Sets the counters and IDs that XSETID can change.
    pub fn set_totals(&mut self, last_id: Id, max_deleted: Id, added: u64) {
        self.totals.last_id = last_id;
        self.totals.max_deleted_id = max_deleted;
        self.totals.entries_added = added;
    }

    /// Returns whether the fields of an entry, `bytes` in total, are too long for a stream.
    pub const fn is_too_long(bytes: usize) -> bool {
        bytes > BLOCK_LEN_MAX
    }

    /// Appends an entry; `id` must be greater than [`Stream::last_id`]. O(bytes of the entry)
    /// amortised.
    pub fn push<'f>(
        &mut self,
        id: Id,
        fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
        limits: &Limits,
    ) {
        debug_assert!(id > self.totals.last_id);
        let new_bytes: usize = fields
            .clone()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let bytes_max = match limits.stream_bytes {
            0 => BLOCK_LEN_MAX,
            bytes => bytes.min(BLOCK_LEN_MAX),
        };
        self.before_change(self.blocks.len().wrapping_sub(1));
        match self.blocks.back_mut() {
            Some(block)
                if block.listpack_len() + new_bytes < bytes_max
                    && (limits.stream_entries == 0
                        || block.live() + block.deleted() < limits.stream_entries) =>
            {
                block.append(id, fields);
            }
            full => {
                // The next block will probably be as long as this one.
                let capacity = full.map_or(0, |block| {
                    block.shrink_to_fit();
                    block.capacity().min(RESERVED_MAX)
                });
                let blocks = self.blocks.len();
                if blocks == self.blocks.capacity() {
                    self.blocks.reserve_exact(blocks / 4 + 1);
                }
                self.blocks.push_back(Block::new(id, capacity, fields));
            }
        }
        self.totals.length += 1;
        self.totals.entries_added += 1;
        self.totals.last_id = id;
        if self.totals.length == 1 {
            self.totals.first_id = id;
        }
    }

    /// Returns the number of the block whose first and last ID enclose `id`.
    fn block_of(&self, id: Id) -> Option<usize> {
        let number = self.blocks.partition_point(|block| block.last_id() < id);
        self.blocks.get(number).filter(|block| block.id() <= id)?;
        Some(number)
    }

    /// Returns whether there is an entry with `id`. O(log blocks + entries of a block).
    pub fn contains(&self, id: Id) -> bool {
        self.block_of(id)
            .and_then(|number| self.blocks[number].find(id))
            .is_some_and(|entry| !entry.deleted)
    }

    /// Returns the entry with `id`. O(log blocks + entries of a block).
    pub fn get(&self, id: Id) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// Deletes an entry. Returns false if no entry has this ID. O(log blocks + entries of a block),
    /// plus O(blocks) if the block has no other entry.
    pub fn delete(&mut self, id: Id) -> bool {
        let Some(number) = self.block_of(id) else {
            return false;
        };
        let block = &self.blocks[number];
        let Some(at) = block
            .find(id)
            .filter(|entry| !entry.deleted)
            .map(|entry| entry.at)
        else {
            return false;
        };
        if block.live() == 1 {
            self.remove_block(number);
        } else {
            self.before_change(number);
            self.blocks[number].delete(at);
        }
        self.totals.length -= 1;
        self.totals.max_deleted_id = self.totals.max_deleted_id.max(id);
        if id == self.totals.first_id {
            self.renew_first_id();
        }
        true
    }

    fn renew_first_id(&mut self) {
        self.totals.first_id = self.iter().next().map_or(Id::MIN, |entry| entry.id);
    }

    /// Returns the ID of the last entry. O(deleted entries after it).
    pub fn last_entry_id(&self) -> Option<Id> {
        let block = self.blocks.back()?;
        if block.deleted() == 0 {
            return Some(block.last_id());
        }
        let mut back = block.entries().rev();
        back.find(|entry| !entry.deleted).map(|entry| entry.id)
    }

    /// Returns whether an entry has a greater ID than `id`. O(deleted entries at the end).
    pub fn has_after(&self, id: Id) -> bool {
        self.last_entry_id().is_some_and(|last| last > id)
    }

    /// Returns the group `name`. O(log groups).
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Returns the group `name` for changes. O(log groups).
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Returns the groups in the order of their names.
    pub fn groups(&self) -> &BTreeMap<Box<[u8]>, Group> {
        &self.groups
    }

    /// Adds a group. Returns false if the name exists.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        let new = !self.groups.contains_key(name);
        if new {
            self.groups.insert(name.into(), group);
        }
        new
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        self.groups.remove(name)
    }

    /// Returns whether an entry from `id` on may have been deleted by its ID. Then the number of
    /// entries from `id` on cannot be computed from counters.
    fn has_gaps_from(&self, id: Id) -> bool {
        let max_deleted = self.totals.max_deleted_id;
        // As in Redis 7.0, deletions before the first entry do not count.
        self.totals.length > 0 && self.totals.first_id <= max_deleted && id <= max_deleted
    }

    /// Returns the number of entries that a group has not read yet, or `None` if the counters do
    /// not determine it. O(1).
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.totals.entries_added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gaps_from(group.last_id) => read,
            _ => self.totals.added_up_to(group.last_id)?,
        };
        Some(self.totals.entries_added.wrapping_sub(read) as i64)
    }

    /// Returns a group's new `entries_read` after it reads the entry `id`. `read` is the value
    /// before.
    pub fn entries_read_after(&self, read: Option<u64>, id: Id) -> Option<u64> {
        match read {
            Some(read) if !self.has_gaps_from(id) => Some(read.wrapping_add(1)),
            _ if self.totals.entries_added > 0 => self.totals.added_up_to(id),
            read => read,
        }
    }
}
