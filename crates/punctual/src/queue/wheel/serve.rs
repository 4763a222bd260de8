//! Finding the first due entry, popping it, and moving the entries in its way.
//!
//! A slot of level 0 is a single tick. Its entries are popped from its first chunk one by one,
//! unless they are out of arming order; then they go through the heap in front. The first slot of a
//! higher level
//!
//! - moves to the front as a whole, as a sorted run, if it has up to [`RUN`] entries;
//! - becomes the pending slot if it has more: it is emptied into the levels below, one chunk at a
//!   time.

use super::chunk::{CHUNK, Entry, Slot};
use super::front::{Early, Staged};
use super::level::{BITS, FAR, deadline_in, digit, level_of, slot_start};
use super::raw::RawWheel;
use super::timers::{Due, Step, Timers};
use core::mem::{replace, take};

/// Maximum number of entries of a slot that moves to the front. A larger slot gives the slots of the level below
/// 4 or more entries each, which share the fixed cost per slot.
pub(super) const RUN: usize = 512;

/// An occupied slot: its position, and a lower bound of its deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) level: usize,
    pub(super) slot: usize,
    pub(super) start: u64,
}

impl RawWheel {
    /// Sets the clock. Returns whether nothing can be due. O(1).
    #[inline]
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        self.now = now;
        self.earliest.bound() > now
    }

    /// The part of a step that runs when something may be due.
    pub(super) fn serve<T: Timers>(&mut self, timers: &mut T, budget: &mut usize) -> Step {
        self.release_held();
        loop {
            if *budget == 0 {
                return self.end_of_budget();
            }
            if self.front.has_staged() {
                *budget -= 1;
                self.place_staged(timers);
                continue;
            }
            let place = self.first_slot();
            let start = place.map_or(u64::MAX, |place| place.start);
            if let Some(&early) = self.front.peek()
                && self.is_front_first(early.deadline, place.as_ref(), timers)
            {
                if early.deadline > self.now {
                    return self.idle_until(early.deadline);
                }
                *budget -= 1;
                self.front.pop();
                if self.front.is_run_only() {
                    self.clear_until = start;
                }
                if let Some(due) = self.resolve_early(early, timers) {
                    return Step::Due(due);
                }
                continue;
            }
            let Some(place) = place else {
                self.restart();
                self.trim();
                return Step::Idle;
            };
            if start > self.now {
                return self.idle_until(start);
            }
            let is_mixed = T::ORDERED && self.is_mixed(&place);
            if place.level > 0 || is_mixed && self.is_short(&place) {
                let moved = self.open(&place, timers);
                *budget = budget.saturating_sub(moved);
                continue;
            }
            *budget -= 1;
            let Entry {
                index, generation, ..
            } = self.take_out(&place);
            if is_mixed {
                self.move_to_front(start, index, generation, timers);
            } else if let Some(due) = self.resolve(start, index, generation, timers) {
                return Step::Due(due);
            }
        }
    }

    /// Returns whether the first entry in front, due at `deadline`, precedes the first slot. On a tie it
    /// does, because it was armed earlier, unless the slot is out of order.
    #[inline]
    fn is_front_first<T: Timers>(&self, deadline: u64, first: Option<&First>, _: &T) -> bool {
        first.is_none_or(|first| {
            deadline < first.start
                || deadline == first.start && !(T::ORDERED && self.is_mixed(first))
        })
    }

    /// Ends a step whose budget is used up.
    #[cold]
    fn end_of_budget(&mut self) -> Step {
        let start = self.first_slot().map_or(u64::MAX, |place| place.start);
        let bound = self.front.bound().min(start);
        if self.entries == 0 || bound > self.now {
            self.idle_until(bound)
        } else {
            Step::Busy
        }
    }

    /// Ends a step after which nothing is due before `bound`, which lies in the future.
    #[inline]
    fn idle_until(&mut self, bound: u64) -> Step {
        self.earliest.set_bound(bound);
        // Moving the cursor up to the first slot, but not into it, changes no entry's level.
        if self.floor == 1 && self.now > self.cursor {
            let start = self.first_slot().map_or(u64::MAX, |place| place.start);
            if start > self.now {
                self.cursor = self.now;
            }
        }
        Step::Idle
    }

    /// Returns the next entry of the run if it is due and nothing else can precede it.
    #[inline]
    pub(super) fn peek_run(&self, now: u64) -> Option<Early> {
        let next = self.front.next()?;
        (next.deadline < self.clear_until && next.deadline <= now).then_some(*next)
    }

    /// Removes the entry that `peek_run` returned, due at `deadline`, after its timer was taken.
    #[inline]
    pub(super) fn popped(&mut self, deadline: u64) {
        self.front.advance();
        self.fired(deadline);
    }

    /// Updates the cached deadline and the count after the first entry fired: nothing is due before `deadline`, nor
    /// before the next entry of a clear run.
    #[inline]
    fn fired(&mut self, deadline: u64) {
        self.entries -= 1;
        if let Some(next) = self.front.next()
            && next.deadline < self.clear_until
        {
            self.earliest.set(Due {
                deadline: next.deadline,
                index: next.index,
                generation: next.generation,
            });
            return;
        }
        self.earliest.set_bound(if self.entries == 0 {
            u64::MAX
        } else {
            deadline
        });
    }

    /// Resolves an entry that was removed from the front.
    #[inline]
    pub(super) fn resolve_early(&mut self, early: Early, timers: &mut impl Timers) -> Option<Due> {
        let Early {
            deadline,
            order,
            index,
            generation,
        } = early;
        if timers.look(index, generation) == Some((deadline, order)) {
            self.fired(deadline);
            return Some(Due {
                deadline,
                index,
                generation,
            });
        }
        self.move_to_front(deadline, index, generation, timers);
        None
    }

    /// Resolves an entry that was removed at its tick `deadline`: it is due, dead, or stale and filed again.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        deadline: u64,
        index: u32,
        generation: u32,
        timers: &mut impl Timers,
    ) -> Option<Due> {
        match timers.deadline(index, generation) {
            None => {
                self.drop_dead(index, generation, timers);
                None
            }
            Some(later) if later > deadline => {
                self.refile(later, index, generation, timers);
                None
            }
            Some(due) => {
                self.fired(due);
                Some(Due {
                    deadline: due,
                    index,
                    generation,
                })
            }
        }
    }

    /// Moves one staged entry to the heap or to its slot.
    pub(super) fn place_staged(&mut self, timers: &mut impl Timers) {
        let Some(Staged {
            deadline: filed,
            index,
            generation,
        }) = self.front.unstage()
        else {
            return;
        };
        match timers.deadline(index, generation) {
            // A spare entry, whose order is looked up when it has a timer again.
            None if timers.stands(index, generation) => {
                self.clear_until = 0;
                self.front.push(Early {
                    deadline: filed,
                    order: 0,
                    index,
                    generation,
                });
            }
            None => self.drop_dead(index, generation, timers),
            Some(deadline) if deadline >= self.cursor => {
                self.refile(deadline, index, generation, timers)
            }
            Some(deadline) => self.put_in_front(deadline, index, generation, timers),
        }
    }

    /// Moves all staged entries.
    #[inline(never)]
    pub(super) fn place_all_staged(&mut self, timers: &mut impl Timers) {
        while self.front.has_staged() {
            self.place_staged(timers);
        }
    }

    /// Adds an entry to the front's heap, which orders by arming.
    #[inline]
    fn put_in_front(
        &mut self,
        deadline: u64,
        index: u32,
        generation: u32,
        timers: &mut impl Timers,
    ) {
        let order = timers.order(index);
        self.clear_until = 0;
        let generation = timers.refiled(index, generation, deadline);
        self.front.push(Early {
            deadline,
            order,
            index,
            generation,
        });
    }

    /// Returns the first occupied slot. O(1): a few bit operations.
    #[inline]
    pub(super) fn first_slot(&self) -> Option<First> {
        if self.floor != 1 {
            let level = self.pending();
            return Some(First {
                level,
                slot: digit(self.cursor, level),
                start: self.cursor,
            });
        }
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        Some(First {
            level,
            slot,
            start: slot_start(self.cursor, level, slot),
        })
    }

    /// Returns whether a slot's entries may be out of arming order.
    #[inline]
    fn is_mixed(&self, place: &First) -> bool {
        self.levels[place.level].is_mixed(place.slot)
    }

    /// Moves an entry that is due at the current tick `start` to the front's heap.
    fn move_to_front(&mut self, start: u64, index: u32, generation: u32, timers: &mut impl Timers) {
        match timers.deadline(index, generation) {
            None => self.drop_dead(index, generation, timers),
            Some(later) if later > start => self.refile(later, index, generation, timers),
            Some(deadline) => self.put_in_front(deadline, index, generation, timers),
        }
    }

    /// Removes the first entry of a slot of level 0.
    #[inline]
    fn take_out(&mut self, place: &First) -> Entry {
        self.cursor = place.start;
        let list = self.levels[0].slot_mut(place.slot);
        let entry = list.pop(&mut self.pool);
        if list.is_empty() {
            self.vacate(0, place.slot);
        }
        entry
    }

    /// Moves entries of the slot at `place`, above level 0, nearer to the front. Returns their number.
    #[inline(never)]
    fn open(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        self.trim();
        // A slot that is already pending must be cascaded to the end, so that equal deadlines keep their order.
        if self.floor == 1 && self.is_short(place) {
            self.gather(place, timers)
        } else {
            self.cascade(place, timers)
        }
    }

    /// Returns whether the slot at `place` has few enough entries to move to the front.
    #[inline]
    fn is_short(&self, place: &First) -> bool {
        let list = self.levels[place.level].slot(place.slot);
        list.is_one_chunk() || list.has_at_most(&self.pool, RUN)
    }

    /// Moves the slot at `place` to the front, as a run if the front has none. The cursor stays: entries armed
    /// for this slot later are filed in it again.
    ///
    /// All timers are prefetched before the first is read, so that the cache misses overlap.
    fn gather(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        let &First { level, slot, start } = place;
        // On the far levels the lower bits do not tell whether an entry is filed at the deadline.
        let near = level < FAR;
        let last = (1u64 << (BITS * level as u32)) - 1;
        let mut entries = take(&mut self.gathered);
        let list = replace(self.levels[level].slot_mut(slot), Slot::EMPTY);
        self.vacate(level, slot);
        list.drain(&mut self.pool, |chunk| {
            for entry in chunk.live() {
                timers.prefetch(entry.index);
            }
            entries.extend_from_slice(chunk.live());
        });
        let looked = entries.len();
        let before = self.front.run_len();
        for Entry {
            low,
            index,
            generation,
        } in entries.drain(..)
        {
            match timers.look(index, generation) {
                None => self.drop_dead(index, generation, timers),
                Some((deadline, _)) if deadline.wrapping_sub(start) > last => {
                    self.refile(deadline, index, generation, timers);
                }
                Some((deadline, order)) => {
                    let generation = match near && deadline as u32 == low {
                        true => generation,
                        false => timers.refiled(index, generation, deadline),
                    };
                    self.front.gather(Early {
                        deadline,
                        order,
                        index,
                        generation,
                    });
                }
            }
        }
        self.gathered = entries;
        if before == 0 {
            self.front.sort(start, BITS * level as u32);
        } else {
            self.front.push_gathered(before);
            self.clear_until = 0;
        }
        looked
    }

    /// Moves the first chunk of the slot at `place` to the levels below. Returns its number of entries.
    ///
    /// Entries that come to level 0 are about to fire, so this reads their timers, a chunk at a
    /// time: the reads do not depend on each other, and their cache misses overlap.
    fn cascade(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        let &First { level, slot, .. } = place;
        let start = slot_start(self.cursor, level, slot);
        let mixed = self.is_mixed(place);
        self.cursor = start;
        self.floor = 1 << (BITS * level as u32);
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        self.pool.prefetch(chunk.next);
        if list.is_empty() {
            self.vacate(level, slot);
        }
        let entries = chunk.live();
        if level > 1 && level < FAR {
            for entry in entries {
                let &Entry {
                    low,
                    index,
                    generation,
                } = entry;
                // Most entries come to the next level: their digit there differs from the cursor's, which is 0.
                let slot = digit(low.into(), level - 1);
                if slot > 0 {
                    self.put(level - 1, slot, low, index, generation);
                    self.levels[level - 1].mixed |= u64::from(mixed) << slot;
                } else {
                    self.put_below(deadline_in(start, level, low), index, generation, mixed);
                }
            }
            return entries.len();
        }
        let mut looks = [None; CHUNK];
        for (look, entry) in looks.iter_mut().zip(entries) {
            *look = timers.deadline(entry.index, entry.generation);
        }
        for (
            &look,
            &Entry {
                low,
                index,
                generation,
            },
        ) in looks.iter().zip(entries)
        {
            match look {
                None => self.drop_dead(index, generation, timers),
                Some(deadline) if deadline < start => {
                    self.refile(deadline, index, generation, timers)
                }
                Some(deadline) => {
                    // On the far levels some current entries count as stale too, which is harmless.
                    let stale = deadline != deadline_in(start, level, low);
                    let generation = match stale {
                        true => timers.refiled(index, generation, deadline),
                        false => generation,
                    };
                    self.put_below(deadline, index, generation, mixed || stale);
                }
            }
        }
        entries.len()
    }

    /// Files an entry of the pending slot again: on the levels below or, if its timer was re-armed,
    /// on any level.
    #[inline(always)]
    fn put_below(&mut self, deadline: u64, index: u32, generation: u32, mixed: bool) {
        let level = level_of((deadline ^ self.cursor) | 1);
        let slot = digit(deadline, level);
        self.put(level, slot, deadline as u32, index, generation);
        if mixed {
            self.levels[level].mixed |= 1 << slot;
        }
    }

    /// Returns the earliest live deadline, and caches its timer.
    #[inline(never)]
    pub(super) fn find_first(&mut self, timers: &mut impl Timers) -> Option<u64> {
        if self.settle_held(timers)
            && let Some(deadline) = self.earliest.known(timers)
        {
            return Some(deadline);
        }
        self.release_held();
        loop {
            self.place_all_staged(timers);
            let place = self.first_slot();
            let front = self
                .front
                .peek()
                .filter(|top| self.is_front_first(top.deadline, place.as_ref(), timers));
            let (filed, index, generation) = match (front, place) {
                (Some(top), _) => (top.deadline, top.index, top.generation),
                (None, Some(place)) if place.level == 0 => {
                    let list = self.levels[0].slot(place.slot);
                    let entry = self.pool.get(list.head).first();
                    (place.start, entry.index, entry.generation)
                }
                (None, Some(place)) => {
                    self.open(&place, timers);
                    continue;
                }
                (None, None) => {
                    self.earliest.set_bound(u64::MAX);
                    return None;
                }
            };
            let in_front = front.is_some();
            let deadline = timers.deadline(index, generation);
            if deadline == Some(filed) {
                self.earliest.set(Due {
                    deadline: filed,
                    index,
                    generation,
                });
                return deadline;
            }
            match place {
                Some(place) if !in_front => {
                    self.take_out(&place);
                }
                _ => self.front.pop(),
            }
            match deadline {
                None => self.drop_dead(index, generation, timers),
                Some(deadline) => self.refile(deadline, index, generation, timers),
            }
        }
    }
}
