//! A level of the wheel: 64 slots, one for each value of one base-64 digit of the deadline. Also
//! the arithmetic of these digits.
//!
//! The highest digit in which a deadline differs from the cursor gives its level, and the value of
//! that digit gives its slot. So a slot of level `l` spans `64^l` ticks, no slot wraps around, and
//! eleven levels span all of `u64`.

use super::chunk::Slot;
use alloc::boxed::Box;

/// Number of levels: eleven digits of six bits hold 64 bits.
pub(super) const LEVELS: usize = 11;
/// Number of bits of a digit.
pub(super) const BITS: u32 = 6;
pub(super) const SLOTS: usize = 1 << BITS;

/// The first level on which the slot and the 32 bits in an entry do not give the whole deadline: a
/// slot of this level spans 2^36 ticks. From this level on, the wheel reads the deadline from the
/// timer's owner ([`Timers`](super::Timers)).
pub(super) const FAR: usize = 6;

const _: () = {
    assert!(LEVELS == u64::BITS.div_ceil(BITS) as usize);
    assert!(FAR == (u32::BITS / BITS + 1) as usize);
    // The sets of occupied slots and levels are a `u64` and a `u16`.
    assert!(SLOTS <= u64::BITS as usize && LEVELS <= u16::BITS as usize);
};

/// Returns the level of a deadline, given `deadline ^ cursor` with bit 0 set. Setting bit 0 does
/// not change the level and makes the number nonzero.
#[inline]
pub(super) fn level_of(difference: u64) -> usize {
    (difference.ilog2() / BITS) as usize
}

/// Returns the digit of `tick` that selects a slot of `level`.
#[inline]
pub(super) fn digit(tick: u64, level: usize) -> usize {
    (tick >> (BITS * level as u32)) as usize % SLOTS
}

/// Returns the first tick of a slot. The digits above its level are the cursor's.
#[inline]
pub(super) fn slot_start(cursor: u64, level: usize, slot: usize) -> u64 {
    let shift = BITS * level as u32;
    let above = cursor.checked_shr(shift + BITS).unwrap_or(0);
    // Two shifts, because one shift by the 66 bits of the top level would overflow.
    ((above << BITS) | slot as u64) << shift
}

/// Returns the whole deadline of an entry in the slot that starts at `start`. From the level
/// [`FAR`] on, bits above the lower 32 may be missing in the result.
#[inline]
pub(super) fn deadline_in(start: u64, level: usize, low: u32) -> u64 {
    start | (u64::from(low) & ((1 << (BITS * level as u32)) - 1))
}

/// 64 slots, allocated when the first one is used.
#[derive(Debug)]
pub(super) struct Level {
    /// Bit `s`: slot `s` has entries.
    pub(super) occupied: u64,
    /// Bit `s`: slot `s` may have entries out of arming order. Set only for occupied slots.
    pub(super) unordered: u64,
    pub(super) slots: Option<Box<[Slot; SLOTS]>>,
}

impl Level {
    pub(super) const EMPTY: Level = Level {
        occupied: 0,
        unordered: 0,
        slots: None,
    };

    /// Returns the slot's list, which is empty if the level has never been used.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Slot {
        self.slots
            .as_ref()
            .map_or(Slot::EMPTY, |slots| slots[slot % SLOTS])
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, slot: usize) -> &mut Slot {
        let slots = self
            .slots
            .get_or_insert_with(|| Box::new([Slot::EMPTY; SLOTS]));
        &mut slots[slot % SLOTS]
    }

    /// Returns whether a slot's entries may be out of arming order.
    #[inline]
    pub(super) fn is_unordered(&self, slot: usize) -> bool {
        self.unordered >> slot & 1 == 1
    }

    /// Clears the bits of an emptied slot.
    #[inline]
    pub(super) fn vacate(&mut self, slot: usize) {
        self.occupied &= !(1 << slot);
        self.unordered &= !(1 << slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_make_up_the_tick() {
        for tick in [
            0,
            1,
            63,
            64,
            4095,
            1 << 36,
            (1 << 60) - 1,
            1 << 60,
            u64::MAX,
        ] {
            let whole = (0..LEVELS).fold(0u64, |sum, level| {
                sum | (digit(tick, level) as u64) << (6 * level)
            });
            assert_eq!(whole, tick);
        }
    }

    #[test]
    fn a_slot_starts_at_its_own_digit() {
        assert_eq!(slot_start(0, 0, 5), 5);
        assert_eq!(slot_start(1000, 1, 20), 64 * 20);
        assert_eq!(slot_start(u64::MAX, 10, 15), 15 << 60);
        assert_eq!(slot_start(u64::MAX, 0, 63), u64::MAX);
        assert_eq!(slot_start(u64::MAX, 9, 0), 15 << 60);
    }

    #[test]
    fn levels_follow_the_highest_differing_digit() {
        assert_eq!(level_of(1), 0);
        assert_eq!(level_of(63), 0);
        assert_eq!(level_of(64), 1);
        assert_eq!(level_of(4096), 2);
        assert_eq!(level_of(u64::MAX), 10);
    }

    #[test]
    fn slot_and_low_bits_give_the_deadline_below_the_far_levels() {
        for deadline in [
            0x123_4567u64,
            0xF_FFFF_FFFF,
            0x8_0000_0001,
            0x1234_5678_9ABC_DEF0,
        ] {
            for cursor in [
                deadline & !63,
                deadline & !0xFFF,
                deadline & !0x3FFF_FFFF,
                deadline & !0xF_FFFF_FFFF,
            ] {
                let level = level_of((deadline ^ cursor) | 1);
                if level < FAR {
                    let start = slot_start(cursor, level, digit(deadline, level));
                    assert_eq!(deadline_in(start, level, deadline as u32), deadline);
                }
            }
        }
    }
}
