//! Finds and pops the first due entry, and opens slots on the way. The [module](super) explains the
//! terms.
//!
//! To open the first slot, the wheel does one of three things:
//!
//! - It moves all entries to the [front](super::front), as a sorted run, if the slot has up to
//!   [`RUN_MAX`] entries.
//! - It makes the slot *pending* if the slot has more entries and is above level 0. The entries of
//!   the pending slot move to the levels below, one chunk at a time.
//! - It moves the entries to the front in pieces if the slot has more entries and is on level 0,
//!   where a slot is a single tick.

use super::chunk::{CHUNK, Entry};
use super::cursor::AT_END;
use super::front::Ready;
use super::level::{BITS, FAR, deadline_in, digit, level_of, slot_start};
use super::raw::RawWheel;
use super::timers::{Step, Timers};

/// Maximum number of entries of a slot that moves to the front as a whole. A larger slot has on
/// average more than 8 entries for each slot of the level below, which share the fixed cost of
/// filing and opening that slot.
pub(super) const RUN_MAX: usize = 512;

/// The first occupied slot: its position, and a lower bound of its deadlines.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstSlot {
    pub(super) level: usize,
    pub(super) slot: usize,
    pub(super) start: u64,
}

impl RawWheel {
    /// Sets the clock. Returns true if no entry can be due. O(1).
    #[inline]
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        self.now = now;
        self.earliest.bound() > now
    }

    /// The part of a step that runs when an entry may be due.
    pub(super) fn serve<T: Timers>(&mut self, timers: &mut T, budget: &mut usize) -> Step {
        loop {
            let first = self.first_slot();
            let start = first.map_or(u64::MAX, |first| first.start);
            if *budget == 0 {
                return self.end_of_budget(start);
            }
            if let Some(entry) = self.front.unstage() {
                *budget -= 1;
                self.place_staged(entry, timers);
            } else if let Some(&ready) = self.front.peek()
                && self.is_front_first::<T>(ready.deadline, first.as_ref())
            {
                if ready.deadline > self.now {
                    return self.idle_until(ready.deadline, start);
                }
                *budget -= 1;
                self.front.pop();
                if self.front.is_run_only() {
                    let wins_ties = self.is_front_first::<T>(start, first.as_ref());
                    // Must come before `resolve_ready`, which may file another entry and lower the
                    // limit.
                    self.front.run_first_until = start.saturating_add(u64::from(wins_ties));
                }
                if let Some(due) = self.resolve_ready(ready, timers) {
                    return Step::Due(due);
                }
            } else if let Some(first) = first {
                if start > self.now {
                    return self.idle_until(start, start);
                }
                *budget = budget.saturating_sub(self.open(&first, timers));
            } else {
                (self.cursor, self.before_cursor) = (AT_END, 0);
                self.earliest.set_bound(u64::MAX);
                self.trim();
                return Step::Idle;
            }
        }
    }

    /// Returns whether the first entry in the front, due at `deadline`, precedes the first slot. On
    /// a tie the entry in the front was armed earlier and precedes it, unless the slot is
    /// unordered.
    #[inline]
    fn is_front_first<T: Timers>(&self, deadline: u64, first: Option<&FirstSlot>) -> bool {
        first.is_none_or(|first| {
            deadline < first.start
                || deadline == first.start
                    && !(T::ORDERED && self.levels[first.level].is_unordered(first.slot))
        })
    }

    /// Ends a step whose budget is used up. The first slot starts at `start`.
    #[cold]
    fn end_of_budget(&mut self, start: u64) -> Step {
        let front = self.front.peek().map_or(u64::MAX, |ready| ready.deadline);
        if self.front.has_staged() || self.entries > 0 && front.min(start) <= self.now {
            return Step::Busy;
        }
        self.idle_until(front.min(start), start)
    }

    /// Ends a step that found nothing due before `bound`, which is after `now`.
    #[inline]
    fn idle_until(&mut self, bound: u64, start: u64) -> Step {
        self.earliest.set_bound(bound);
        // The level of an entry does not change while the cursor stays before the first slot.
        if self.pending_span == 1 && self.now > self.cursor && self.now < start {
            self.cursor = self.now;
        }
        Step::Idle
    }

    /// Returns the next entry of the run if it is due and no other entry can precede it.
    #[inline]
    pub(super) fn peek_run(&self, now: u64) -> Option<Ready> {
        let next = self.front.next()?;
        (next.deadline < self.front.run_first_until && next.deadline <= now).then_some(*next)
    }

    /// Updates the cached deadline and the number of entries after the first entry fired. Nothing
    /// is due before `deadline`, nor before the run's next entry if that is before
    /// `run_first_until`.
    #[inline]
    pub(super) fn fired(&mut self, deadline: u64) {
        self.entries -= 1;
        match self.front.next() {
            Some(next) if next.deadline < self.front.run_first_until => {
                self.earliest.set(next.entry());
            }
            _ if self.entries == 0 => self.earliest.set_bound(u64::MAX),
            _ => self.earliest.set_bound(deadline),
        }
    }

    /// Resolves an entry that was removed from the front. If its timer was armed again for the same
    /// tick, moves it to the heap, with its new sequence.
    #[inline]
    pub(super) fn resolve_ready(
        &mut self,
        ready: Ready,
        timers: &mut impl Timers,
    ) -> Option<Entry> {
        let due = self.resolve(ready.entry(), timers)?;
        if timers.sequence(due.index) != ready.sequence {
            self.move_to_heap(due, timers);
            return None;
        }
        self.fired(due.deadline);
        Some(due)
    }

    /// Resolves an entry that was removed from the front: returns it if its timer still has this
    /// deadline, drops it if it is dead, and files it again if its timer was re-armed to a later
    /// tick.
    #[inline]
    fn resolve(&mut self, entry: Entry, timers: &mut impl Timers) -> Option<Entry> {
        match timers.deadline(entry.index, entry.generation) {
            None => self.drop_dead(entry.index, entry.generation, timers),
            Some(later) if later > entry.deadline => self.refile(entry.at(later), timers),
            Some(deadline) => return Some(entry.at(deadline)),
        }
        None
    }

    /// Moves an entry that was staged to the heap or to its slot, or drops it if it is dead.
    pub(super) fn place_staged(&mut self, entry: Entry, timers: &mut impl Timers) {
        match timers.deadline(entry.index, entry.generation) {
            // A spare entry has no sequence. If it has a timer again when it is popped,
            // `resolve_ready` puts it back with the timer's sequence.
            None if timers.is_current(entry.index, entry.generation) => {
                self.front.push(Ready::new(entry, 0));
            }
            None => self.drop_dead(entry.index, entry.generation, timers),
            Some(deadline) if deadline >= self.cursor => self.refile(entry.at(deadline), timers),
            Some(deadline) => self.move_to_heap(entry.at(deadline), timers),
        }
    }

    /// Adds an entry to the front's heap.
    #[inline]
    fn move_to_heap(&mut self, entry: Entry, timers: &mut impl Timers) {
        let sequence = timers.sequence(entry.index);
        self.front.push(Ready::new(timers.refiled(entry), sequence));
    }

    /// Returns the first occupied slot. O(1): a few bit operations.
    #[inline]
    pub(super) fn first_slot(&self) -> Option<FirstSlot> {
        if self.pending_span != 1 {
            let level = self.pending();
            return Some(FirstSlot {
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
        Some(FirstSlot {
            level,
            slot,
            start: slot_start(self.cursor, level, slot),
        })
    }

    /// Moves entries of the slot at `place` to the front or to lower levels. Returns their number.
    #[inline(never)]
    fn open(&mut self, place: &FirstSlot, timers: &mut impl Timers) -> usize {
        self.trim();
        let list = self.levels[place.level].slot(place.slot);
        // A pending slot must cascade until it is empty, so that equal deadlines keep their order.
        if place.level == 0 || self.pending_span == 1 && list.has_at_most(&self.pool, RUN_MAX) {
            self.move_to_front(place, timers)
        } else {
            self.cascade(place, timers)
        }
    }

    /// Moves all entries of the slot at `place` to the front; of a slot of level 0, at most
    /// [`RUN_MAX`]. They become the run, or go to the heap if the front already has a run. The
    /// cursor does not move, so entries armed for this slot later go into it again.
    ///
    /// Prefetches the timers before it reads the first, so that their cache misses overlap.
    fn move_to_front(&mut self, place: &FirstSlot, timers: &mut impl Timers) -> usize {
        let &FirstSlot { level, slot, start } = place;
        let bits = BITS * level as u32;
        let mut list = self.levels[level].slot(slot);
        for chunk in self.pool.chunks(list).take(RUN_MAX / CHUNK + 1) {
            for entry in chunk.entries() {
                timers.prefetch(entry.index);
            }
        }
        let has_run = self.front.next().is_some();
        let mut visited = 0;
        while !list.is_empty() && (level > 0 || visited <= RUN_MAX - CHUNK) {
            let chunk = list.pop_chunk(&mut self.pool);
            visited += chunk.entries().len();
            for entry in chunk.entries() {
                let Some(deadline) = timers.deadline(entry.index, entry.generation) else {
                    self.drop_dead(entry.index, entry.generation, timers);
                    continue;
                };
                // On the far levels the entry's 32 bits cannot show whether the entry is filed at
                // the deadline.
                let is_current = level < FAR && deadline as u32 == entry.low;
                let entry = entry.at(deadline);
                if deadline.wrapping_sub(start) >> bits > 0 {
                    self.refile(entry, timers);
                } else if has_run {
                    self.move_to_heap(entry, timers);
                } else {
                    let sequence = timers.sequence(entry.index);
                    let entry = if is_current {
                        entry
                    } else {
                        timers.refiled(entry)
                    };
                    self.front.push_unsorted(Ready::new(entry, sequence));
                }
            }
        }
        *self.levels[level].slot_mut(slot) = list;
        if list.is_empty() {
            self.vacate(level, slot);
        }
        if !has_run {
            self.front.limit_run_first(start);
            self.front.sort(start, bits);
        }
        visited
    }

    /// Moves the first chunk of the slot at `place` to the levels below. Returns its number of
    /// entries.
    ///
    /// Reads the timers of entries that come from level 1 to level 0, because they fire soon, and
    /// those of the far levels, where the entry lacks bits of the deadline. It reads a whole chunk
    /// first: the reads are independent, so their cache misses overlap.
    fn cascade(&mut self, place: &FirstSlot, timers: &mut impl Timers) -> usize {
        let &FirstSlot { level, slot, .. } = place;
        let start = slot_start(self.cursor, level, slot);
        let was_unordered = self.levels[level].is_unordered(slot);
        self.cursor = start;
        self.pending_span = 1 << (BITS * level as u32);
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        if list.is_empty() {
            self.vacate(level, slot);
        }
        let reads_timers = level <= 1 || level >= FAR;
        let mut read = [None; CHUNK];
        if reads_timers {
            for (read, entry) in read.iter_mut().zip(chunk.entries()) {
                *read = timers.deadline(entry.index, entry.generation);
            }
        }
        for (read, &entry) in read.into_iter().zip(chunk.entries()) {
            let filed = deadline_in(start, level, entry.low);
            match read {
                // Most entries go to the next lower level: their digit there is not 0, and the
                // cursor's is 0.
                _ if !reads_timers && digit(filed, level - 1) > 0 => {
                    self.put(level - 1, digit(filed, level - 1), entry, was_unordered);
                }
                _ if !reads_timers => self.put_below(entry.at(filed), was_unordered),
                None => self.drop_dead(entry.index, entry.generation, timers),
                // Only if the owner breaks the rule of `Timers`, or if two ticks have the same
                // hash.
                Some(deadline) if deadline < start => self.refile(entry.at(deadline), timers),
                Some(deadline) if deadline == filed => {
                    self.put_below(entry.at(filed), was_unordered);
                }
                // On the far levels this arm also takes entries that are not stale, which is
                // harmless.
                Some(deadline) => {
                    self.put_below(timers.refiled(entry.at(deadline)), true);
                }
            }
        }
        chunk.entries().len()
    }

    /// Puts an entry of the pending slot into a slot of a lower level or, if its timer was re-armed
    /// to a later tick, of any level.
    #[inline(always)]
    fn put_below(&mut self, entry: Entry, is_unordered: bool) {
        let level = level_of((entry.deadline ^ self.cursor) | 1);
        let slot = digit(entry.deadline, level);
        self.put(level, slot, entry.packed(), is_unordered);
    }

    /// Returns the earliest deadline of a live timer, and caches the timer's entry.
    #[inline(never)]
    pub(super) fn find_first(&mut self, timers: &mut impl Timers) -> Option<u64> {
        if self.update_held(timers)
            && let Some(deadline) = self.earliest.known(timers)
        {
            return Some(deadline);
        }
        self.file_held();
        loop {
            if let Some(entry) = self.front.unstage() {
                self.place_staged(entry, timers);
                continue;
            }
            let slot = self.first_slot();
            if let Some(&ready) = self.front.peek()
                && slot.is_none_or(|slot| ready.deadline <= slot.start)
            {
                let first = ready.entry();
                if timers.deadline(first.index, first.generation) == Some(first.deadline) {
                    self.earliest.set(first);
                    return Some(first.deadline);
                }
                self.front.pop();
                if let Some(early) = self.resolve(first, timers) {
                    self.refile(early, timers);
                }
            } else if let Some(slot) = slot {
                self.open(&slot, timers);
            } else {
                self.earliest.set_bound(u64::MAX);
                return None;
            }
        }
    }
}
