//! Sets the cursor back when it is ahead of the clock and many timers are armed before it. The
//! [module](super) explains the terms.
//!
//! A step that finds no entry sets the cursor to the end of time. After that, up to [`FRONT_MAX`]
//! entries go to the front. There they take less memory than in slots, where each entry could need
//! a chunk of its own, and no more time.

use super::chunk::{NONE, Slot};
use super::level::{digit, level_of};
use super::raw::RawWheel;

/// The cursor of a wheel whose entries are all in the front.
pub(super) const AT_END: u64 = u64::MAX;

/// Maximum number of entries in the front while the cursor is at the end of time. When another
/// entry comes, the wheel sets the cursor back and files the entries in slots.
const FRONT_MAX: usize = 512;

impl RawWheel {
    /// Sets the cursor back to the clock if many entries are before the cursor, among them a new
    /// entry due at `deadline`. Returns true if it set the cursor back.
    ///
    /// The cursor moves ahead of the clock when a caller asks for the next deadline. Timers that
    /// are armed before the cursor then go to the front. If the front gets many of them, the cursor
    /// is set back. After that, each entry may have to cascade again, so the cursor is set back at
    /// most once in 64 + entries/16 insertions.
    #[inline(never)]
    pub(super) fn set_back_for(&mut self, deadline: u64) -> bool {
        if deadline < self.now {
            return false;
        }
        self.before_cursor += 1;
        let was_at_end = self.cursor == AT_END;
        let many = if was_at_end {
            FRONT_MAX
        } else {
            64 + self.entries / 16
        };
        if self.before_cursor < many || self.front.len() < many {
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

    /// Sets the cursor back to `to`. The highest digit of the cursor that changes gives a level.
    /// All entries on the levels below now belong in one slot of that level, so this function joins
    /// their lists into that slot. O(64 per level).
    fn set_back(&mut self, to: u64) {
        let home = level_of((self.cursor ^ to) | 1);
        let (mut joined, mut unordered) = (Slot::EMPTY, false);
        // Starts with the lowest level: entries that moved down from a pending slot were armed
        // before the entries that are still in the pending slot.
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
        (self.cursor, self.pending_span, self.before_cursor) = (to, 1, 0);
        self.front.run_first_until = 0;
        // If a sweep was in one of the joined slots, it stops there; the next sweep visits those
        // entries again.
        self.pool.sweep_end = NONE;
    }
}
