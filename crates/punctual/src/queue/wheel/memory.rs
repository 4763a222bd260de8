//! Freeing the memory of a raw wheel, in pieces where there is much of it.

use super::chunk::{Entry, NONE, Pool, Slot};
use super::level::Level;
use super::raw::RawWheel;
use core::mem::replace;

impl RawWheel {
    /// Drops all entries; [`free_piece`](Self::free_piece) then frees the memory in pieces. O(1).
    pub(super) fn clear_lazily(&mut self) {
        let old = replace(self, RawWheel::starting_at(self.now));
        self.pool.reclaim(old.pool);
        self.has_memory_to_free = true;
    }

    /// Frees a piece of memory. Returns whether more is waiting. O(1).
    pub(super) fn free_piece(&mut self) -> bool {
        self.pool.leftovers.give_back();
        !self.pool.leftovers.is_empty()
    }

    /// Packs the entries into as few chunks as they need.
    pub(super) fn pack(&mut self) {
        let mut pool = Pool::new();
        for level in &mut self.levels {
            let mut occupied = level.occupied;
            if occupied == 0 {
                *level = Level::EMPTY;
            }
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                let mut packed = Slot::EMPTY;
                let mut id = level.slot(slot).head;
                while id != NONE {
                    let chunk = self.pool.get(id);
                    for &Entry {
                        low,
                        index,
                        generation,
                    } in chunk.live()
                    {
                        packed.push(&mut pool, low, index, generation);
                    }
                    id = chunk.next;
                }
                *level.slot_mut(slot) = packed;
            }
        }
        // The new pool watches no chunk: a running sweep restarts at the beginning of its slot.
        let before = replace(&mut self.pool, pool);
        self.pool.reclaim(before);
        self.has_memory_to_free = true;
    }

    /// Frees memory when most of it is unused.
    #[inline]
    pub(super) fn trim(&mut self) {
        if self.pool.is_sparse() {
            self.pack();
        } else if self.has_memory_to_free {
            self.free_piece();
        }
        self.front.trim();
    }
}
