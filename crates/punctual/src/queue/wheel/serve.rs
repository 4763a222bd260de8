//! Finding the first due entry, popping it, and moving the entries in its way.
//!
//! The first slot
//!
//! - moves to the front as a whole, as a sorted run, if it has up to [`RUN_MAX`] entries;
//! - becomes the pending slot if it has more and is above level 0: it is emptied into the levels
//!   below, one chunk at a time;
//! - moves to the front in pieces if it has more and is on level 0, a single tick.

use super::chunk::{CHUNK, Entry};
use super::cursor::AT_END;
use super::front::Ready;
use super::level::{BITS, FAR, deadline_in, digit, level_of, slot_start};
use super::raw::RawWheel;
use super::timers::{Step, Timers};

/// Maximum number of entries of a slot that moves to the front. A larger slot gives the slots of
/// the level below 4 or more entries each, which share the fixed cost per slot.
pub(super) const RUN_MAX: usize = 512;

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
                    // Before the entry is resolved, which may file another one and lower this.
                    self.front.clear_until = start.saturating_add(u64::from(wins_ties));
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
                (self.cursor, self.behind) = (AT_END, 0);
                self.earliest.set_bound(u64::MAX);
                self.trim();
                return Step::Idle;
            }
        }
    }

    /// Returns whether the first entry in front, due at `deadline`, precedes the first slot. On a
    /// tie it does, because it was armed earlier, unless the slot is out of order.
    #[inline]
    fn is_front_first<T: Timers>(&self, deadline: u64, first: Option<&First>) -> bool {
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

    /// Ends a step after which nothing is due before `bound`, which lies in the future.
    #[inline]
    fn idle_until(&mut self, bound: u64, start: u64) -> Step {
        self.earliest.set_bound(bound);
        // Moving the cursor up to the first slot, but not into it, changes no entry's level.
        if self.floor == 1 && self.now > self.cursor && self.now < start {
            self.cursor = self.now;
        }
        Step::Idle
    }

    /// Returns the next entry of the run if it is due and nothing else can precede it.
    #[inline]
    pub(super) fn peek_run(&self, now: u64) -> Option<Ready> {
        let next = self.front.next()?;
        (next.deadline < self.front.clear_until && next.deadline <= now).then_some(*next)
    }

    /// Updates the cached deadline and the count after the first entry fired: nothing is due before
    /// `deadline`, nor before the next entry of a clear run.
    #[inline]
    pub(super) fn fired(&mut self, deadline: u64) {
        self.entries -= 1;
        match self.front.next() {
            Some(next) if next.deadline < self.front.clear_until => {
                self.earliest.set(next.entry());
            }
            _ if self.entries == 0 => self.earliest.set_bound(u64::MAX),
            _ => self.earliest.set_bound(deadline),
        }
    }

    /// Resolves an entry that was removed from the front.
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

    /// Resolves an entry that was removed: returns it if it is due, drops it if it is dead, and
    /// files it again if its timer was re-armed later.
    #[inline]
    fn resolve(&mut self, entry: Entry, timers: &mut impl Timers) -> Option<Entry> {
        match timers.deadline(entry.index, entry.generation) {
            None => self.drop_dead(entry.index, entry.generation, timers),
            Some(later) if later > entry.deadline => self.refile(entry.at(later), timers),
            Some(deadline) => return Some(entry.at(deadline)),
        }
        None
    }

    /// Moves an entry that was staged to the heap or to its slot.
    pub(super) fn place_staged(&mut self, entry: Entry, timers: &mut impl Timers) {
        match timers.deadline(entry.index, entry.generation) {
            // A spare entry, whose sequence is looked up when it has a timer again.
            None if timers.stands(entry.index, entry.generation) => {
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

    /// Moves entries of the slot at `place` nearer to the front. Returns their number.
    #[inline(never)]
    fn open(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        self.trim();
        let list = self.levels[place.level].slot(place.slot);
        // A slot that is already pending must be cascaded to the end, so that equal deadlines keep
        // their order.
        if place.level == 0 || self.floor == 1 && list.has_at_most(&self.pool, RUN_MAX) {
            self.gather(place, timers)
        } else {
            self.cascade(place, timers)
        }
    }

    /// Moves the slot at `place` to the front, or up to [`RUN_MAX`] entries of a slot of level 0,
    /// as a run unless the front has a run. The cursor stays: entries armed for this slot later are
    /// filed in it again.
    ///
    /// All timers are prefetched before the first is read, so that the cache misses overlap.
    fn gather(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        let &First { level, slot, start } = place;
        let bits = BITS * level as u32;
        let mut list = self.levels[level].slot(slot);
        for chunk in self.pool.chunks(list).take(RUN_MAX / CHUNK + 1) {
            for entry in chunk.entries() {
                timers.prefetch(entry.index);
            }
        }
        let has_run = self.front.next().is_some();
        let mut looked = 0;
        while !list.is_empty() && (level > 0 || looked <= RUN_MAX - CHUNK) {
            let chunk = list.pop_chunk(&mut self.pool);
            looked += chunk.entries().len();
            for entry in chunk.entries() {
                let Some(deadline) = timers.deadline(entry.index, entry.generation) else {
                    self.drop_dead(entry.index, entry.generation, timers);
                    continue;
                };
                // On the far levels the lower bits do not tell whether the entry is filed at the
                // deadline.
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
                    self.front.gather(Ready::new(entry, sequence));
                }
            }
        }
        *self.levels[level].slot_mut(slot) = list;
        if list.is_empty() {
            self.vacate(level, slot);
        }
        if !has_run {
            self.front.clear_only_before(start);
            self.front.sort(start, bits);
        }
        looked
    }

    /// Moves the first chunk of the slot at `place` to the levels below. Returns its number of
    /// entries.
    ///
    /// Entries that come to level 0 are about to fire, so this reads their timers, a chunk at a
    /// time: the reads do not depend on each other, and their cache misses overlap.
    fn cascade(&mut self, place: &First, timers: &mut impl Timers) -> usize {
        let &First { level, slot, .. } = place;
        let start = slot_start(self.cursor, level, slot);
        let was_unordered = self.levels[level].is_unordered(slot);
        self.cursor = start;
        self.floor = 1 << (BITS * level as u32);
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        if list.is_empty() {
            self.vacate(level, slot);
        }
        let reads = level <= 1 || level >= FAR;
        let mut read = [None; CHUNK];
        if reads {
            for (read, entry) in read.iter_mut().zip(chunk.entries()) {
                *read = timers.deadline(entry.index, entry.generation);
            }
        }
        for (read, &entry) in read.into_iter().zip(chunk.entries()) {
            let filed = deadline_in(start, level, entry.low);
            match read {
                // Most entries come to the next level: their digit there differs from the cursor's,
                // which is 0.
                _ if !reads && digit(filed, level - 1) > 0 => {
                    self.put(level - 1, digit(filed, level - 1), entry, was_unordered);
                }
                _ if !reads => self.put_below(entry.at(filed), was_unordered),
                None => self.drop_dead(entry.index, entry.generation, timers),
                // By an owner that breaks the rule of `Timers`, or ticks with the same hash.
                Some(deadline) if deadline < start => self.refile(entry.at(deadline), timers),
                Some(deadline) if deadline == filed => {
                    self.put_below(entry.at(filed), was_unordered);
                }
                // On the far levels some current entries count as stale too, which is harmless.
                Some(deadline) => {
                    self.put_below(timers.refiled(entry.at(deadline)), true);
                }
            }
        }
        chunk.entries().len()
    }

    /// Files an entry of the pending slot again: on the levels below or, if its timer was re-armed,
    /// on any level.
    #[inline(always)]
    fn put_below(&mut self, entry: Entry, is_unordered: bool) {
        let level = level_of((entry.deadline ^ self.cursor) | 1);
        let slot = digit(entry.deadline, level);
        self.put(level, slot, entry.packed(), is_unordered);
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
