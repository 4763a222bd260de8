//! Mixed parts: parts of a table in cluster mode whose keys have few of the part's slots.

use super::{Part, SLOTS, SlotBits};

/// A part is mixed if its keys would otherwise be this number of chunks behind their first one, for
/// each key on average.
const PASSED_MAX: f32 = 0.25;

impl Part {
    /// Makes an empty part mixed if these keys would crowd into few chunks. `each_place` calls its
    /// argument with the place of each key. Does nothing for a part of a single slot. O(keys).
    pub(super) fn mix_if_crowded(
        &mut self,
        slots: SlotBits,
        each_place: impl FnOnce(&mut dyn FnMut(u32)),
    ) {
        if self.bits >= slots.bits || self.chunks() == 0 {
            return;
        }
        let mut keys = vec![0; self.chunks()];
        each_place(&mut |place| keys[self.home(place)] += 1);
        let (mut passing, mut passed, mut len) = (0usize, 0, 0);
        for count in keys {
            len += count;
            passing = (passing + count).saturating_sub(SLOTS);
            passed += passing;
        }
        if passed as f32 > PASSED_MAX * len as f32 {
            self.skip = slots.bits;
        }
    }
}
