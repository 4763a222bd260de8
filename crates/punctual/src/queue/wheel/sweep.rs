//! Removes dead entries, a few chunks at a time. The [module](super) explains the terms.
//!
//! A sweep starts when there are more dead entries than live entries plus 256. Calls of [`forget`]
//! then sweep a few chunks at a time. The sweep first stages the front's entries and checks them.
//! It then visits all slots, from the highest level down: a cascade moves entries to lower levels,
//! so the sweep visits these entries later.
//!
//! To sweep a slot, the sweep takes the first chunk of the list and appends its live entries at the
//! end of the list, until it has taken each chunk that was there at the start. Entries that are
//! armed meanwhile come between them, so the slot is marked unordered.
//!
//! [`forget`]: super::RawWheel::forget

use super::chunk::{CHUNK, NONE, Packed};
use super::level::LEVELS;
use super::raw::RawWheel;
use super::timers::Timers;

/// Number of cancels per sweep step, and number of full chunks whose entries a step visits. In
/// batches, the cache misses of the cancels overlap, and the cache misses of the sweep overlap.
pub(super) const CANCELS_PER_STEP: usize = 16;

/// The position of a sweep: the level that it visits, and a bit for each slot of this level that it
/// has not visited yet.
pub(super) type Sweep = (usize, u64);

impl RawWheel {
    /// Does one step of the running sweep, or starts a sweep. O(1), except O(entries in the front)
    /// at the start of a sweep, and O(entries) at its end if it packs the entries into fewer
    /// chunks.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self, timers: &mut impl Timers) {
        self.file_held();
        let (mut level, mut slots) = self.sweep.unwrap_or_else(|| {
            self.front.restage();
            self.pool.sweep_end = NONE;
            (LEVELS - 1, u64::MAX)
        });
        let mut visited = 0;
        while visited < CHUNK * CANCELS_PER_STEP {
            if let Some(entry) = self.front.unstage() {
                self.place_staged(entry, timers);
                visited += 1;
                continue;
            }
            let left = slots & self.levels[level].occupied;
            if left == 0 {
                if level == 0 {
                    self.sweep = None;
                    return self.trim();
                }
                (level, slots) = (level - 1, u64::MAX);
                continue;
            }
            let slot = left.trailing_zeros() as usize;
            if self.pool.sweep_end == NONE {
                self.pool.sweep_end = self.levels[level].slot(slot).tail;
                self.levels[level].unordered |= 1 << slot;
            }
            visited += self.sweep_chunk(level, slot, timers);
            let is_swept = self.pool.sweep_end == NONE;
            slots = (u64::MAX - u64::from(is_swept)) << slot;
        }
        self.sweep = Some((level, slots));
    }

    /// Moves the live entries of a slot's first chunk to the end of the slot's list. Returns the
    /// number of entries checked.
    fn sweep_chunk(&mut self, level: usize, slot: usize, timers: &mut impl Timers) -> usize {
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        // There is no branch on `is_current`: the processor would predict it wrong half of the
        // time, and the cache misses would not overlap.
        let (mut live, mut dead) = ([Packed::default(); CHUNK], [Packed::default(); CHUNK]);
        let mut kept = 0;
        for (visited, &entry) in chunk.entries().iter().enumerate() {
            live[kept] = entry;
            dead[visited - kept] = entry;
            kept += usize::from(timers.is_current(entry.index, entry.generation));
        }
        for &entry in &live[..kept] {
            self.put(level, slot, entry, true);
        }
        for entry in &dead[..chunk.entries().len() - kept] {
            self.drop_dead(entry.index, entry.generation, timers);
        }
        if self.levels[level].slot(slot).is_empty() {
            self.vacate(level, slot);
        }
        chunk.entries().len()
    }
}
