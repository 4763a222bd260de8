//! The place of an entry in a wheel, which the owner of its timer keeps.

use super::level::{BITS, LEVELS};
use super::raw::RawWheel;
use super::timers::Due;

/// The place at which an entry was filed, in ten bits. [`RawWheel::reuse`] uses it to decide whether the
/// entry can serve another deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u16);

impl Place {
    /// No place: there is no entry.
    pub const NOWHERE: Place = Place(Self::MASK);

    /// In the front.
    pub(super) const FRONT: Place = Place((LEVELS as u16) << BITS);

    const MASK: u16 = (1 << 10) - 1;

    #[inline]
    pub(super) fn in_slot(level: usize, slot: usize) -> Self {
        Place((level as u16) << BITS | slot as u16)
    }

    /// Returns the place as a number below 1024. O(1).
    ///
    /// ```
    /// use punctual::queue::wheel::Place;
    /// assert_eq!(Place::from_bits(Place::NOWHERE.to_bits()), Place::NOWHERE);
    /// ```
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Restores a place from [`to_bits`](Self::to_bits). O(1).
    ///
    /// ```
    /// use punctual::queue::wheel::Place;
    /// assert_ne!(Place::from_bits(0), Place::NOWHERE);
    /// ```
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Place(bits & Self::MASK)
    }
}

impl RawWheel {
    /// Reuses the entry filed at `place` for another deadline, of the same timer or of the next timer of its
    /// record. Returns false if a new entry must be [inserted](Self::insert) instead. O(1).
    ///
    /// The entry can be reused if it is filed before that deadline, or in a future slot that also contains that
    /// deadline. `generation` is the entry's, and stays the same. `place` must be the last one that the wheel
    /// returned or reported for the entry.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// let place = wheel.insert(1_000, 0, 0);
    /// assert!(wheel.reuse(place, 9_000, 0, 0)); // later
    /// assert!(wheel.reuse(place, 1_001, 0, 0)); // in the same slot, of 64 ticks
    /// assert!(!wheel.reuse(place, 500, 0, 0));
    /// ```
    #[inline]
    pub fn reuse(&mut self, place: Place, deadline: u64, index: u32, generation: u32) -> bool {
        let level = usize::from(place.0 >> BITS);
        if level >= LEVELS {
            return place == Place::FRONT && deadline > self.front.end();
        }
        // Slots of this level, numbered from tick 0. The digits above the slot's own are those of the cursor, or
        // of the cursor before it was set back: never too small. (The top level has none above.)
        let shift = BITS * level as u32;
        let ahead = self.cursor.max(self.back.from);
        let slot = usize::from(place.0) & 63;
        let filed = ahead >> shift & !63 | slot as u64;
        let wanted = deadline >> shift;
        if wanted > filed {
            return true;
        }
        // Entries of slots that the cursor has reached have moved.
        let is_there = filed > self.cursor >> shift && level >= self.back.guard(self.cursor);
        if wanted < filed || !is_there {
            return false;
        }
        let home = &mut self.levels[level];
        if level == 0 {
            home.mixed |= 1 << slot;
        } else {
            home.amended |= 1 << slot;
        }
        self.clear_until = self.clear_until.min(deadline);
        if deadline < self.first.deadline {
            self.first = Due {
                deadline,
                index,
                generation,
            };
        }
        true
    }
}

/// The state of the last time the cursor was set back.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetBack {
    pub(super) from: u64,
    pub(super) home: usize,
}

impl SetBack {
    pub(super) const NEVER: SetBack = SetBack { from: 0, home: 0 };

    /// Returns the level below which a place no longer tells where its entry is.
    #[inline]
    fn guard(self, cursor: u64) -> usize {
        if cursor < self.from { self.home } else { 0 }
    }

    /// Records that the cursor is set back from `cursor`.
    pub(super) fn record(&mut self, cursor: u64, home: usize) {
        *self = SetBack {
            from: self.from.max(cursor),
            home: self.guard(cursor).max(home),
        };
    }
}
