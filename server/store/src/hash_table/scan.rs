//! Scans of the table, and of one slot.
//!
//! A scan's cursor is a place. A mixed part is scanned in the order of the bits after the slot, so
//! there the cursor has the first slot of the part. If the part splits, the scan goes on in the
//! first of the new parts and begins the others from their start. If a part becomes mixed or ceases
//! to be mixed, the scan begins it again ([`HashTable::resume`]). So a scan visits some keys again
//! and misses none.

use super::{BLOCK, HashTable, Part, SLOTS};

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

    /// Returns the *order* of the part at a place, on which the meaning of a cursor depends: for a
    /// mixed part the number of top bits that its keys share plus 1, else 0. O(1).
    pub(crate) fn order_at(&self, place: u32) -> u32 {
        let part = self.part(place);
        if part.is_mixed() { part.bits + 1 } else { 0 }
    }

    /// Returns the place at which a scan continues whose cursor is `place`, made when
    /// [`HashTable::order_at`] was `order`. This is an earlier place if the part was built again in
    /// the other order, or if the table was replaced by one with fewer parts. O(1).
    pub(crate) fn resume(&self, place: u32, order: u32) -> u32 {
        let part = self.part(place);
        let bits = order.saturating_sub(1).min(32);
        match (order > 0, part.is_mixed()) {
            (false, false) => place,
            (true, true) if part.bits >= bits => place,
            (_, true) => part.first(place) as u32,
            (true, false) => (u64::from(place) >> (32 - bits) << (32 - bits)) as u32,
        }
    }

    /// Visits the keys of the slot with this [number](super::SlotBits::number), in no particular
    /// order, until `visit` returns false. O(keys of the slot); in a mixed part O(keys of the
    /// part).
    pub(crate) fn scan_slot(
        &self,
        number: usize,
        place_of: impl Fn(u32) -> u32,
        mut visit: impl FnMut(u32) -> bool,
    ) {
        let slots = self.slot_bits();
        let first = (number as u64) << (32 - slots.bits);
        let end = first + (1 << (32 - slots.bits));
        let mut keys = [(0, 0, 0); SLOTS * BLOCK];
        let mut at = first;
        while at < end {
            let part = self.part(at as u32);
            if part.bits < slots.bits && !part.is_mixed() {
                part.scan_between(first as u32, (end - 1) as u32, |index| {
                    slots.number(place_of(index)) != number || visit(index)
                });
                return;
            }
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

impl Part {
    /// Visits all keys of the part with places from `first` to `last`, and some others, until
    /// `visit` returns false.
    fn scan_between(&self, first: u32, last: u32, mut visit: impl FnMut(u32) -> bool) {
        let (mut at, end) = (self.home(first), self.home(last));
        let mut more = end - at;
        for _ in 0..self.chunks() {
            let chunk = self.chunk(at);
            for i in 0..SLOTS {
                if chunk.tags[i] != 0 && !visit(chunk.indices[i]) {
                    return;
                }
            }
            if more == 0 && chunk.passed == 0 {
                return;
            }
            more = more.saturating_sub(1);
            at = self.next(at);
        }
    }
}
