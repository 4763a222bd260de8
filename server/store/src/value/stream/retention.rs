//! Retention (XRETAIN): the maximum age and number of a stream's entries.
//!
//! The age of an entry counts from the milliseconds of its ID. So an entry with an ID in the future
//! lives longer, as do all entries after it, because IDs only grow.

use super::{Bound, Group, Id, Stream, Trim};
use crate::time::Now;

/// Maximum age and number of a stream's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age in ms, counted from the entry's ID; at least 1.
    pub age_max_ms: u64,
    /// Maximum number of entries.
    pub len_max: Option<u64>,
}

impl Stream {
    /// Returns the retention.
    pub fn retention(&self) -> Option<Retention> {
        self.extras.as_ref()?.retention
    }

    /// Sets or removes the retention.
    pub fn set_retention(&mut self, retention: Option<Retention>) {
        self.extras_mut().retention = retention;
        self.drop_empty_extras();
    }

    /// Returns the Unix ms at which the first entry becomes too old.
    pub(super) fn next_too_old_ms(&self) -> Option<u64> {
        let retention = self.retention()?;
        (!self.is_empty()).then(|| self.first_id().ms.saturating_add(retention.age_max_ms))
    }

    /// Returns the smallest ID that is not too old, or `None` if no entry is too old. O(1).
    #[inline]
    pub fn floor(&self, now: Now) -> Option<Id> {
        // Fast path: most streams have no settings.
        self.extras.as_ref()?;
        let first_over = self.next_too_old_ms().filter(|at| now.is_due(*at));
        let age_max_ms = self.retention()?.age_max_ms;
        first_over.map(|_| Id::new(now.read_ms() - age_max_ms + 1, 0))
    }

    /// Returns whether there is an entry after `id` that is not too old. O(deleted entries at the
    /// end).
    pub fn shows_after(&self, id: Id, now: Now) -> bool {
        let last = self.last_entry_id();
        last.is_some_and(|last| last > id && self.floor(now).is_none_or(|floor| last >= floor))
    }

    /// Returns whether a reader of `group` may take over a pending entry; see
    /// [`Timeline::claimable`](super::Timeline::claimable). Visits pending entries until it finds
    /// such an entry that the stream still has: usually the first one that it visits. At worst
    /// O(pending · (log blocks + entries of a block)).
    pub fn has_claimable(&self, group: &Group, now: Now, min_idle_ms: Option<u64>) -> bool {
        let Some(timeline) = group.timeline() else {
            // A group without a timeline has no lease, so only idle time matters.
            return min_idle_ms.is_some_and(|ms| {
                let idle = |at_ms: u64| now.is_due(at_ms.saturating_add(ms));
                let mut pending = group.pending().iter();
                pending.any(|entry| idle(entry.delivered_ms) && self.shows(entry.id, now))
            });
        };
        let mut claimable = timeline.claimable(now, min_idle_ms);
        claimable.any(|entry| self.shows(entry.id, now))
    }

    /// Returns whether there is an entry with `id` that is not too old.
    fn shows(&self, id: Id, now: Now) -> bool {
        self.floor(now).is_none_or(|floor| id >= floor) && self.contains(id)
    }

    /// Returns the number of entries from `floor` on. O(blocks before `floor` + entries of a
    /// block).
    pub fn len_from(&self, floor: Id) -> u64 {
        let mut before = 0;
        for block in &self.blocks {
            if block.last_id() >= floor {
                let live = block.entries().filter(|entry| !entry.deleted);
                before += live.take_while(|entry| entry.id < floor).count() as u64;
                break;
            }
            before += block.live() as u64;
        }
        self.len() - before
    }

    /// Removes entries before `floor`, but visits at most `blocks` whole blocks and one partly.
    /// Returns the number of removed entries, and a lower bound of the remaining IDs. O(blocks +
    /// entries of a block).
    pub(crate) fn trim_aged(&mut self, floor: Id, blocks: usize) -> (u64, Id) {
        let kept = self.blocks.get(blocks).map(punctual_rdb::stream::Block::id);
        let bound = kept.map_or(floor, |id| id.min(floor));
        let removed = self.trim(Trim {
            bound: Bound::MinId(bound),
            approximate: false,
            limit: 0,
        });
        (removed, bound)
    }
}
