//! Removing dead entries, a few chunks at a time.
//!
//! When there are more dead entries than live ones plus 256, a sweep starts. Calls of [`forget`]
//! then sweep a few chunks at a time, until the sweep has visited all slots, from the highest level
//! down, as entries move. A slot is swept by moving the live entries of its first chunk behind its
//! last one, until each chunk has had its turn; entries armed meanwhile come between them, so the
//! slot is marked unordered. The front's entries are staged again first.
//!
//! [`forget`]: super::RawWheel::forget

use super::chunk::{CHUNK, NONE, Packed};
use super::level::LEVELS;
use super::raw::RawWheel;
use super::timers::Timers;

/// Number of cancels per sweep step. A step visits as many chunks: batching lets the cache misses
/// of cancels overlap, and those of the sweep.
pub(super) const EVERY: usize = 16;

/// The level that a sweep has come to, and the slots of this level that it has still to visit, as
/// bits.
pub(super) type Sweep = (usize, u64);

impl RawWheel {
    /// Does one step of a sweep over dead entries, starting a sweep if none is running. O(1), but
    /// O(entries in front) at the start.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self, timers: &mut impl Timers) {
        self.release_held();
        let (mut level, mut slots) = self.sweep.unwrap_or_else(|| {
            self.front.restage();
            self.pool.watched = NONE;
            (LEVELS - 1, u64::MAX)
        });
        let mut looked = 0;
        while looked < CHUNK * EVERY {
            if let Some(entry) = self.front.unstage() {
                self.place_staged(entry, timers);
                looked += 1;
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
            if self.pool.watched == NONE {
                self.pool.watched = self.levels[level].slot(slot).tail;
                self.levels[level].unordered |= 1 << slot;
            }
            looked += self.sweep_chunk(level, slot, timers);
            let is_swept = self.pool.watched == NONE;
            slots = (u64::MAX - u64::from(is_swept)) << slot;
        }
        self.sweep = Some((level, slots));
    }

    /// Moves the live entries of a slot's first chunk behind its last one. Returns the number of
    /// entries checked.
    fn sweep_chunk(&mut self, level: usize, slot: usize, timers: &mut impl Timers) -> usize {
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        // No branch on which timers stand: it would be guessed wrong half of the time, and the
        // cache misses would not overlap.
        let (mut live, mut dead) = ([Packed::default(); CHUNK], [Packed::default(); CHUNK]);
        let mut kept = 0;
        for (looked, &entry) in chunk.entries().iter().enumerate() {
            live[kept] = entry;
            dead[looked - kept] = entry;
            kept += usize::from(timers.stands(entry.index, entry.generation));
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
