//! Where an entry lies, as far as the owner of its timer is told.

use super::level::{BITS, LEVELS};
use super::raw::RawWheel;
use super::timers::Due;

/// Where an entry was filed, in ten bits: with it, [`RawWheel::reuse`] decides whether the entry can
/// stand for another deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u16);

impl Place {
    /// Nowhere: there is no entry.
    pub const NOWHERE: Place = Place(Self::MASK);

    /// At hand, in order.
    pub(super) const FRONT: Place = Place((LEVELS as u16) << BITS);

    const MASK: u16 = (1 << 10) - 1;

    #[inline]
    pub(super) fn in_slot(level: usize, slot: usize) -> Self {
        Place((level as u16) << BITS | slot as u16)
    }

    /// The place as a number below 1024. O(1).
    ///
    /// ```
    /// use punctual::queue::wheel::Place;
    /// assert_eq!(Place::from_bits(Place::NOWHERE.to_bits()), Place::NOWHERE);
    /// ```
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The place [`to_bits`](Self::to_bits) was taken from. O(1).
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
    /// Lets the entry filed at `place` stand for another deadline, of the same timer or of one that
    /// took its record: true if it can. Then nothing needs to be filed. O(1).
    ///
    /// It can if it is filed before that deadline, or in a slot to come that holds that deadline
    /// too. `generation` is the entry's, and stays. `place` must be what the wheel said last.
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
        // Slots of this level, numbered from tick 0. The digits above the slot's own are those of
        // the cursor, or of where it was before it was set back: never too small. (The top level has none above.)
        let shift = BITS * level as u32;
        let ahead = self.cursor.max(self.back.from);
        let slot = usize::from(place.0) & 63;
        let filed = ahead >> shift & !63 | slot as u64;
        let wanted = deadline >> shift;
        if wanted > filed {
            return true;
        }
        // Entries of slots the cursor has reached lie elsewhere by now.
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

/// The cursor was set back: from where, and which levels' entries may lie on higher ones since.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetBack {
    pub(super) from: u64,
    pub(super) home: usize,
}

impl SetBack {
    pub(super) const NEVER: SetBack = SetBack { from: 0, home: 0 };

    /// Places below this level do not tell where an entry lies.
    #[inline]
    fn guard(self, cursor: u64) -> usize {
        if cursor < self.from { self.home } else { 0 }
    }

    /// It is set back again, from `cursor`.
    pub(super) fn again(&mut self, cursor: u64, home: usize) {
        *self = SetBack {
            from: self.from.max(cursor),
            home: self.guard(cursor).max(home),
        };
    }
}
