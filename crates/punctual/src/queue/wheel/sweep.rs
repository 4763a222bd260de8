//! Removing dead entries, one chunk at a time.
//!
//! When there are more dead entries than live ones plus 256, a sweep starts. Calls of [`forget`] then
//! sweep a few chunks at a time, until the sweep has visited all. It goes from the highest level down, as
//! entries do, so that it misses none. Chunks are packed in place and merged into the previous one; the
//! order of entries does not change.
//!
//! A sweep stops at a slot and the chunk before the next one to visit (`Pool::watched`). If that chunk is
//! freed meanwhile, the sweep continues at the first chunk of the slot.
//!
//! [`forget`]: super::RawWheel::forget

use super::chunk::{CHUNK, NONE};
use super::level::LEVELS;
use super::raw::RawWheel;
use super::timers::Timers;

/// Number of cancels per sweep step. A step visits as many chunks: batching lets the cache misses of
/// cancels overlap, and those of the sweep.
pub(super) const EVERY: u32 = 16;

/// The position at which a sweep continues.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sweep {
    /// In this slot, after the watched chunk.
    Slot { level: u8, slot: u8 },
    /// In the heap, at the entry before this index.
    Front { before: usize },
}

const BEGIN: Sweep = Sweep::Slot {
    level: LEVELS as u8 - 1,
    slot: 0,
};

impl RawWheel {
    /// Drops all dead and spare entries. O(entries).
    pub(super) fn purge(&mut self, timers: &mut impl Timers) {
        self.purging = false;
        while self.purge_on(timers) {}
    }

    /// Does one step of a sweep that drops the spare entries too. Returns whether more is left. O(1).
    pub(super) fn purge_on(&mut self, timers: &mut impl Timers) -> bool {
        if !self.purging {
            (self.purging, self.sweep) = (true, None);
        }
        self.sweep(timers);
        self.purging
    }

    /// Does one step of a sweep over dead entries, starting a sweep if none is running.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self, timers: &mut impl Timers) {
        if self.purging {
            self.sweep_on(timers, |timers, index, generation| {
                timers.deadline(index, generation).is_none()
            });
        } else {
            self.sweep_on(timers, |timers, index, generation| {
                !timers.stands(index, generation)
            });
        }
    }

    fn sweep_on<T: Timers>(&mut self, timers: &mut T, is_dead: impl Fn(&T, u32, u32) -> bool) {
        self.release_held();
        let mut sweep = *self.sweep.get_or_insert_with(|| {
            self.pool.watched = NONE;
            BEGIN
        });
        let mut looked = 0;
        while looked < CHUNK * EVERY as usize {
            if self.front.has_staged() {
                self.place_staged(timers);
                looked += 1;
                continue;
            }
            match sweep {
                Sweep::Slot { level, slot } => {
                    let occupied = self.levels[usize::from(level)].occupied & (u64::MAX << slot);
                    if occupied == 0 {
                        self.pool.watched = NONE;
                        sweep = match level.checked_sub(1) {
                            Some(level) => Sweep::Slot { level, slot: 0 },
                            None => Sweep::Front {
                                before: self.front.heap_len(),
                            },
                        };
                        continue;
                    }
                    let found = occupied.trailing_zeros() as u8;
                    if found != slot {
                        self.pool.watched = NONE;
                    }
                    sweep = Sweep::Slot { level, slot: found };
                    let (looks, more) =
                        self.sweep_chunk(usize::from(level), usize::from(found), timers, &is_dead);
                    looked += looks;
                    if !more {
                        self.pool.watched = NONE;
                        sweep = match found {
                            63 if level == 0 => Sweep::Front {
                                before: self.front.heap_len(),
                            },
                            63 => Sweep::Slot {
                                level: level - 1,
                                slot: 0,
                            },
                            _ => Sweep::Slot {
                                level,
                                slot: found + 1,
                            },
                        };
                    }
                }
                Sweep::Front { before } => {
                    let place = before.min(self.front.heap_len());
                    let Some(place) = place.checked_sub(1) else {
                        for early in self
                            .front
                            .extract_dead(|early| is_dead(timers, early.index, early.generation))
                        {
                            self.drop_dead(early.index, early.generation, timers);
                        }
                        (self.sweep, self.purging) = (None, false);
                        self.trim();
                        return;
                    };
                    looked += 1;
                    sweep = Sweep::Front { before: place };
                    if let Some(&early) = self.front.at(place)
                        && is_dead(timers, early.index, early.generation)
                    {
                        self.front.remove(place);
                        self.drop_dead(early.index, early.generation, timers);
                        // Another entry is here now, which may not have been checked yet.
                        sweep = Sweep::Front { before: place + 1 };
                    }
                }
            }
        }
        self.sweep = Some(sweep);
    }

    /// Packs the chunk after the watched one. Returns the number of entries checked, and whether the slot has
    /// more chunks.
    fn sweep_chunk<T: Timers>(
        &mut self,
        level: usize,
        slot: usize,
        timers: &mut T,
        is_dead: &impl Fn(&T, u32, u32) -> bool,
    ) -> (usize, bool) {
        let before = self.pool.watched;
        let list = self.levels[level].slot_mut(slot);
        let id = if before == NONE {
            list.head
        } else {
            self.pool.get(before).next
        };
        if id == NONE {
            return (1, false);
        }
        self.pool.prefetch(self.pool.get(id).next);
        let chunk = self.pool.get_mut(id);
        let (begin, end) = (usize::from(chunk.begin), usize::from(chunk.end));
        let looked = end - begin;
        // Branch-free, so that the cache misses of the checks overlap.
        let mut dead = [(0, 0); CHUNK];
        let (mut kept, mut dropped) = (0, 0);
        for at in begin..end {
            let entry = chunk.entries[at];
            let stands = !is_dead(timers, entry.index, entry.generation);
            chunk.entries[kept] = entry;
            dead[dropped] = (entry.index, entry.generation);
            kept += usize::from(stands);
            dropped += usize::from(!stands);
        }
        chunk.begin = 0;
        chunk.end = kept as u8;
        let next = chunk.next;
        if kept > 0 && before == NONE {
            self.pool.watched = id;
        } else {
            let room = if before == NONE {
                0
            } else {
                CHUNK - usize::from(self.pool.get(before).end)
            };
            if kept > 0 && kept > room {
                self.pool.watched = id;
            } else {
                if kept > 0 {
                    let packed = self.pool.get(id).entries;
                    let chunk = self.pool.get_mut(before);
                    let end = usize::from(chunk.end);
                    chunk.entries[end..end + kept].copy_from_slice(&packed[..kept]);
                    chunk.end += kept as u8;
                }
                self.levels[level]
                    .slot_mut(slot)
                    .unlink(&mut self.pool, before, id);
                if self.levels[level].slot(slot).is_empty() {
                    self.vacate(level, slot);
                }
            }
        }
        for &(index, generation) in &dead[..dropped] {
            self.drop_dead(index, generation, timers);
        }
        (looked, next != NONE)
    }

    /// Restarts a running sweep after slots were joined.
    pub(super) fn restart_sweep(&mut self) {
        self.pool.watched = NONE;
        if self.sweep.is_some() {
            self.sweep = Some(BEGIN);
        }
    }
}
