//! Scans of the table, and of one slot.
//!
//! A scan's cursor is a place. A part with keys of several slots is scanned in the order of the
//! bits after the slot, so there the cursor has the first slot of the part. If the part splits, the
//! scan goes on in the first of the new parts and begins the others from their start: it visits
//! some keys again and misses none.

use super::{BLOCK, HashTable, SLOTS};

impl HashTable {
    /// Visits the keys with a place of at least `from` whose search starts in the same chunk as a
    /// search for `from`. Returns the place to continue at, or `None` at the end. A scan from 0 to
    /// the end visits at least once every key that is present all the time, and exactly once
    /// outside of cluster mode. O(1) on average.
    pub fn scan(
        &self,
        from: u32,
        place_of: impl Fn(u32) -> u32,
        mut visit: impl FnMut(u32),
    ) -> Option<u32> {
        let part = self.part(from);
        let (home, local) = (part.home(from), part.local(from));
        let mut at = home;
        for _ in 0..part.chunks() {
            let chunk = part.chunk(at);
            for i in 0..SLOTS {
                if chunk.tags[i] != 0 {
                    let place = place_of(chunk.indices[i]);
                    if part.local(place) >= local && part.home(place) == home {
                        visit(chunk.indices[i]);
                    }
                }
            }
            if chunk.passed == 0 {
                break;
            }
            at = part.next(at);
        }
        // The scan continues at the smallest place whose home is the next chunk, or at the next
        // part's first place. A part without chunks counts as one empty chunk.
        let start = (((home as u64 + 1) << 32).div_ceil(part.chunks().max(1) as u64))
            .div_ceil(1 << part.skip);
        let ends = start >> (32 - part.skip) > 0;
        let start = if ends { part.span() } else { start };
        u32::try_from(part.first(from) + start).ok()
    }

    /// Returns the number of top bits that a scan at `place` has in common with all keys of the
    /// part that it scans: the state of the table that a cursor depends on. 0 outside of cluster
    /// mode. O(1).
    pub(crate) fn depth_at(&self, place: u32) -> u32 {
        self.part(place).bits * u32::from(self.slot_bits().any())
    }

    /// Returns the place at which a scan continues whose cursor is `place`, made when
    /// [`HashTable::depth_at`] was `depth`. It is another place only if the table was replaced by
    /// one with fewer parts: then the part is scanned from its start. O(1).
    pub(crate) fn resume(&self, place: u32, depth: u32) -> u32 {
        let part = self.part(place);
        if part.bits < part.skip && part.bits < depth {
            part.first(place) as u32
        } else {
            place
        }
    }

    /// Visits the keys of the slot with this [number](super::SlotBits::number), in no particular
    /// order, until `visit` returns false. O(keys of the parts with keys of the slot).
    pub(crate) fn scan_slot(
        &self,
        number: usize,
        place_of: impl Fn(u32) -> u32,
        mut visit: impl FnMut(u32) -> bool,
    ) {
        let slots = self.slot_bits();
        let mut at = (number as u64) << (32 - slots.0);
        let end = at + (1 << (32 - slots.0));
        let mut keys = [(0, 0, 0); SLOTS * BLOCK];
        while at < end {
            let part = self.part(at as u32);
            for block in &part.blocks {
                for &(place, _, index) in super::read_block(block, &place_of, &mut keys) {
                    if slots.number(place) == number && !visit(index) {
                        return;
                    }
                }
            }
            at = part.first(at as u32) + part.span();
        }
    }
}
