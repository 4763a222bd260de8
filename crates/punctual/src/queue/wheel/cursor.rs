//! Setting the cursor back, when it ran ahead of the clock and much is armed before it.

use super::chunk::Slot;
use super::level::{digit, level_of};
use super::raw::RawWheel;

impl RawWheel {
    /// Decides whether an entry that comes before the cursor is reason enough to set it back to
    /// the clock; tells whether that was done.
    ///
    /// The cursor runs ahead of the clock when the next deadline is asked for. What is armed
    /// before it then goes to the front, a heap. If much gathers there, the cursor is set back.
    /// Each entry may have to cascade again for that, so it is done once in entries/16 insertions.
    #[cold]
    pub(super) fn set_back_for(&mut self, deadline: u64) -> bool {
        if deadline < self.now {
            return false;
        }
        self.behind += 1;
        let many = 64 + self.entries / 16;
        if self.behind < many || self.front.len() < many {
            return false;
        }
        self.set_back(self.now);
        true
    }

    /// Sets the cursor back to `to`. All entries below the level of the highest digit that changes
    /// belong into one slot of that level, and their lists are joined there. O(64 per level).
    fn set_back(&mut self, to: u64) {
        let home = level_of((self.cursor ^ to) | 1);
        let slot = digit(self.cursor, home);
        let mut joined = Slot::EMPTY;
        let (mut mixed, mut amended) = (false, false);
        // From below: what a pending slot has given to lower levels was armed before the rest of it.
        for level in &mut self.levels[..home] {
            while level.occupied != 0 {
                let slot = level.occupied.trailing_zeros() as usize;
                mixed |= level.is_mixed(slot);
                amended |= level.is_amended(slot);
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
            level.amended |= u64::from(amended) << slot;
            self.occupied |= 1 << home;
        }
        self.back.again(self.cursor, home);
        self.cursor = to;
        self.clear_until = 0;
        self.floor = 1;
        self.behind = 0;
        self.restart_sweep();
    }
}
