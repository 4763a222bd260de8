//! Setting the cursor back after it ran ahead of the clock and many timers are armed before it.
//!
//! The cursor of an empty wheel is at the end of time. So up to [`SMALL_MOST`] entries are in front, where they take
//! less memory than in slots with a chunk each, and no more time.

use super::chunk::Slot;
use super::front::Staged;
use super::level::{digit, level_of};
use super::raw::RawWheel;

/// The cursor of a wheel whose entries are all in front.
pub(super) const SMALL: u64 = u64::MAX;

/// Number of entries from which on they are filed in slots.
const SMALL_MOST: usize = 512;

impl RawWheel {
    /// Sets the cursor back to the clock if many entries before the cursor justify it. Returns whether it did.
    ///
    /// The cursor runs ahead of the clock when the next deadline is queried. Timers armed before the cursor
    /// then go to the front, a heap. If many gather there, the cursor is set back. Each entry may have to
    /// cascade again after that, so it happens at most once in entries/16 insertions.
    #[inline(never)]
    pub(super) fn set_back_for(&mut self, deadline: u64) -> bool {
        if deadline < self.now {
            return false;
        }
        self.behind += 1;
        let many = match self.cursor {
            SMALL => SMALL_MOST,
            _ => 64 + self.entries / 16,
        };
        if self.behind < many || self.front.len() < many {
            return false;
        }
        let was_small = self.cursor == SMALL;
        self.set_back(self.now);
        if was_small {
            self.file_front();
        }
        true
    }

    /// Files the entries in front. O(entries in front).
    fn file_front(&mut self) {
        for staged in self.front.take_waiting() {
            let Staged {
                deadline,
                index,
                generation,
            } = staged;
            if deadline < self.cursor {
                self.front.stage(staged);
            } else {
                let (level, slot) = self.file(deadline, index, generation);
                self.levels[level].mixed |= 1 << slot;
            }
        }
    }

    /// Sets the cursor back to `to`. All entries below the level of the highest digit that changes
    /// belong in one slot of that level, and their lists are joined there. O(64 per level).
    fn set_back(&mut self, to: u64) {
        let home = level_of((self.cursor ^ to) | 1);
        let slot = digit(self.cursor, home);
        let mut joined = Slot::EMPTY;
        let mut mixed = false;
        // From below: entries that a pending slot has moved down were armed before the rest of it.
        for level in &mut self.levels[..home] {
            while level.occupied != 0 {
                let slot = level.occupied.trailing_zeros() as usize;
                mixed |= level.is_mixed(slot);
                joined.append(&mut self.pool, level.slot(slot));
                *level.slot_mut(slot) = Slot::EMPTY;
                level.vacate(slot);
            }
        }
        self.occupied &= u16::MAX << home;
        let level = &mut self.levels[home];
        joined.append(&mut self.pool, level.slot(slot));
        if !joined.is_empty() {
            *level.slot_mut(slot) = joined;
            level.occupied |= 1 << slot;
            level.mixed |= u64::from(mixed) << slot;
            self.occupied |= 1 << home;
        }
        self.cursor = to;
        self.clear_until = 0;
        self.floor = 1;
        self.behind = 0;
        self.restart_sweep();
    }
}
