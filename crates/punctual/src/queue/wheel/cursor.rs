//! Setting the cursor back after it ran ahead of the clock and many timers are armed before it.
//!
//! A step that finds no entry sets the cursor to the end of time. From then on up to [`FRONT_MAX`]
//! entries are in front, where they take less memory than in slots with a chunk each, and no more
//! time.

use super::chunk::{NONE, Slot};
use super::level::{digit, level_of};
use super::raw::RawWheel;

/// The cursor of a wheel whose entries are all in front.
pub(super) const AT_END: u64 = u64::MAX;

/// Number of entries from which on they are filed in slots.
const FRONT_MAX: usize = 512;

impl RawWheel {
    /// Sets the cursor back to the clock if many entries before the cursor justify it. Returns
    /// whether it did.
    ///
    /// The cursor runs ahead of the clock when the next deadline is queried. Timers armed before
    /// the cursor then go to the front, a heap. If many gather there, the cursor is set back. Each
    /// entry may have to cascade again after that, so it happens at most once in entries/16
    /// insertions.
    #[inline(never)]
    pub(super) fn set_back_for(&mut self, deadline: u64) -> bool {
        if deadline < self.now {
            return false;
        }
        self.behind += 1;
        let was_at_end = self.cursor == AT_END;
        let many = if was_at_end {
            FRONT_MAX
        } else {
            64 + self.entries / 16
        };
        if self.behind < many || self.front.len() < many {
            return false;
        }
        self.set_back(self.now);
        if was_at_end {
            for entry in self.front.take_all() {
                self.file_unordered(entry);
            }
        }
        true
    }

    /// Sets the cursor back to `to`. All entries below the level of the highest digit that changes
    /// belong in one slot of that level, and their lists are joined there. O(64 per level).
    fn set_back(&mut self, to: u64) {
        let home = level_of((self.cursor ^ to) | 1);
        let (mut joined, mut unordered) = (Slot::EMPTY, false);
        // From below: entries that a pending slot has moved down were armed before the rest of it.
        for level in &mut self.levels[..home] {
            while level.occupied != 0 {
                let slot = level.occupied.trailing_zeros() as usize;
                unordered |= level.is_unordered(slot);
                joined.append(&mut self.pool, level.slot(slot));
                *level.slot_mut(slot) = Slot::EMPTY;
                level.vacate(slot);
            }
        }
        self.occupied &= u16::MAX << home;
        let slot = digit(self.cursor, home);
        let level = &mut self.levels[home];
        joined.append(&mut self.pool, level.slot(slot));
        if !joined.is_empty() {
            *level.slot_mut(slot) = joined;
            level.occupied |= 1 << slot;
            level.unordered |= u64::from(unordered) << slot;
            self.occupied |= 1 << home;
        }
        (self.cursor, self.floor, self.behind) = (to, 1, 0);
        self.front.clear_until = 0;
        // A sweep of one of the joined slots ends: the next sweep visits them again.
        self.pool.watched = NONE;
    }
}
