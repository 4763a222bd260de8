//! Serving what is due: finding the first entry, popping it, and cascading what is in its way.
//!
//! The common case is a slot of level 0, which is a single tick: its entries are popped from its
//! first chunk one by one. Otherwise the first slot with entries is
//!
//! - on a higher level with more than a chunk of entries: it becomes the pending slot and is
//!   emptied into the levels below, a chunk at a time;
//! - on a higher level with one chunk: it is left as it is, and its least entry is popped;
//! - out of arming order: the entries of its first tick go through the front, which orders them.

use super::chunk::{CHUNK, Chunk, Entry};
use super::front::{Early, Staged};
use super::level::{BITS, FAR, deadline_in, digit, level_of, slot_start};
use super::raw::{RawWheel, nobody_before};
use super::timers::{Due, Step, Timers};

/// A slot with entries: where it is, and a tick none of them is due before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    level: usize,
    slot: usize,
    pub(super) start: u64,
    /// Where in its only chunk the entry due at `start` lies, if the slot is served as it is.
    least: Option<usize>,
}

impl RawWheel {
    /// A step, once the bound of all deadlines has come.
    pub(super) fn serve<T: Timers>(&mut self, timers: &T, budget: &mut usize) -> Step {
        loop {
            if *budget == 0 {
                return self.spent();
            }
            // What most steps come to: a tick whose entries lie in order.
            if self.occupied & 1 != 0 && self.floor == 1 && self.front.is_empty() {
                let slot = self.levels[0].occupied.trailing_zeros() as usize;
                if !(T::ORDERED && self.levels[0].is_mixed(slot)) {
                    let tick = slot_start(self.cursor, 0, slot);
                    if tick > self.now {
                        return self.idle_until(tick);
                    }
                    *budget -= 1;
                    self.cursor = tick;
                    let list = self.levels[0].slot_mut(slot);
                    let entry = list.pop(&mut self.pool);
                    if list.is_empty() {
                        self.vacate(0, slot);
                    }
                    if let Some(due) = self.judge(tick, entry.index, entry.generation, timers) {
                        return Step::Due(due);
                    }
                    continue;
                }
            }
            if let Some(step) = self.serve_other(timers, budget) {
                return step;
            }
        }
    }

    /// A step in every other case; `None` if there is more to do.
    #[inline(never)]
    fn serve_other<T: Timers>(&mut self, timers: &T, budget: &mut usize) -> Option<Step> {
        if self.front.has_staged() {
            *budget -= 1;
            self.settle(timers);
            return None;
        }
        let place = self.first_place();
        let start = place.map_or(u64::MAX, |place| place.start);
        if let Some(&Early {
            deadline,
            index,
            generation,
            ..
        }) = self.front.peek()
        {
            // On a tie the front goes first, having been armed before, unless the slot is out of order.
            let tie =
                deadline == start && place.is_some_and(|place| T::ORDERED && self.is_mixed(&place));
            if deadline <= start && !tie {
                if deadline > self.now {
                    return Some(self.idle_until(deadline));
                }
                *budget -= 1;
                self.front.pop();
                return self
                    .judge(deadline, index, generation, timers)
                    .map(Step::Due);
            }
        }
        let Some(place) = place else {
            (self.cursor, self.behind) = (self.now, 0);
            self.first = nobody_before(u64::MAX);
            self.trim();
            return Some(Step::Idle);
        };
        if start > self.now {
            return Some(self.idle_until(start));
        }
        if place.level > 0 && place.least.is_none() {
            let moved = self.cascade(&place, timers);
            *budget = budget.saturating_sub(moved);
            return None;
        }
        *budget -= 1;
        let pours = self.must_pour(&place, timers);
        let Entry {
            index, generation, ..
        } = self.take_out(&place);
        if pours {
            self.pour(start, index, generation, timers);
            return None;
        }
        self.judge(start, index, generation, timers).map(Step::Due)
    }

    /// The end of a step that has no budget left.
    #[cold]
    fn spent(&mut self) -> Step {
        let start = self.first_place().map_or(u64::MAX, |place| place.start);
        let bound = self.front.bound().min(start);
        if self.entries == 0 || bound > self.now {
            self.idle_until(bound)
        } else {
            Step::Busy
        }
    }

    /// The end of a step after which nothing is due before `bound`, which is still to come.
    #[inline]
    fn idle_until(&mut self, bound: u64) -> Step {
        self.first = nobody_before(bound);
        // No entry changes its level when the cursor moves up to, not into, the first slot.
        if self.floor == 1 && self.now > self.cursor {
            let start = self.first_slot().map_or(u64::MAX, |place| place.start);
            if start > self.now {
                self.cursor = self.now;
            }
        }
        self.trim();
        Step::Idle
    }

    /// Decides what becomes of an entry taken out at `deadline`, which has come: due, dead, or
    /// stale and filed again.
    #[inline]
    fn judge(
        &mut self,
        deadline: u64,
        index: u32,
        generation: u32,
        timers: &impl Timers,
    ) -> Option<Due> {
        match timers.deadline(index, generation) {
            None => {
                self.bury(1);
                None
            }
            Some(later) if later > deadline => {
                self.refile(later, index, generation);
                None
            }
            Some(due) => {
                self.entries -= 1;
                // It was the first, so nothing is due before it.
                self.first = nobody_before(if self.entries == 0 { u64::MAX } else { due });
                Some(Due {
                    deadline: due,
                    index,
                    generation,
                })
            }
        }
    }

    /// Moves one staged entry to where it belongs.
    pub(super) fn settle(&mut self, timers: &impl Timers) {
        let Some(Staged {
            index, generation, ..
        }) = self.front.unstage()
        else {
            return;
        };
        match timers.deadline(index, generation) {
            None => self.bury(1),
            Some(deadline) if deadline >= self.cursor => self.refile(deadline, index, generation),
            Some(deadline) => {
                let order = timers.order(index);
                self.front.push(Early {
                    deadline,
                    order,
                    index,
                    generation,
                });
            }
        }
    }

    /// The first occupied slot, by the bitmaps alone.
    #[inline]
    pub(super) fn first_slot(&self) -> Option<Place> {
        if self.floor != 1 {
            let level = self.pending();
            return Some(Place {
                level,
                slot: digit(self.cursor, level),
                start: self.cursor,
                least: None,
            });
        }
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        Some(Place {
            level,
            slot,
            start: slot_start(self.cursor, level, slot),
            least: None,
        })
    }

    /// The first occupied slot. One with few entries is served as it is, without cascading: then
    /// `start` is its earliest deadline.
    #[inline]
    fn first_place(&self) -> Option<Place> {
        let mut place = self.first_slot()?;
        if place.level > 0 && place.level < FAR && self.floor == 1 {
            let slot = self.levels[place.level].slot(place.slot);
            if slot.is_one_chunk() {
                let chunk = self.pool.get(slot.head);
                let mask = (1u32 << (BITS * place.level as u32)) - 1;
                // Deadline and place in one number: the least of them takes no branches.
                let least = (0..)
                    .zip(chunk.live())
                    .fold(u64::MAX, |least, (at, entry)| {
                        least.min(u64::from(entry.low & mask) << 32 | at)
                    });
                place.start |= least >> 32;
                place.least = Some(usize::from(chunk.begin) + least as u32 as usize);
            }
        }
        Some(place)
    }

    /// The only chunk, or the first, of the slot at `place`.
    #[inline]
    fn chunk_at(&self, place: &Place) -> &Chunk {
        self.pool
            .get(self.levels[place.level].slot(place.slot).head)
    }

    /// Whether a slot's entries may be out of arming order.
    #[inline]
    fn is_mixed(&self, place: &Place) -> bool {
        self.levels[place.level].is_mixed(place.slot)
    }

    /// Whether the tick at `place` has to be ordered in front before it is popped.
    fn must_pour<T: Timers>(&self, place: &Place, _: &T) -> bool {
        if !T::ORDERED || !self.is_mixed(place) {
            return false;
        }
        if self
            .front
            .peek()
            .is_some_and(|top| top.deadline == place.start)
        {
            return true;
        }
        let chunk = self.chunk_at(place);
        match place.least {
            None => !self.levels[place.level].slot(place.slot).is_one_chunk() || chunk.len() > 1,
            Some(at) => {
                let low = chunk.entries[at].low;
                chunk.live().iter().filter(|entry| entry.low == low).count() > 1
            }
        }
    }

    /// Moves an entry that is due at `start`, now, to the front, where arming order counts.
    fn pour(&mut self, start: u64, index: u32, generation: u32, timers: &impl Timers) {
        match timers.deadline(index, generation) {
            None => self.bury(1),
            Some(later) if later > start => self.refile(later, index, generation),
            Some(deadline) => {
                let order = timers.order(index);
                self.front.push(Early {
                    deadline,
                    order,
                    index,
                    generation,
                });
            }
        }
    }

    /// Takes out the entry that `place` stands for.
    #[inline]
    fn take_out(&mut self, place: &Place) -> Entry {
        let list = self.levels[place.level].slot_mut(place.slot);
        let entry = match place.least {
            None => {
                self.cursor = place.start;
                list.pop(&mut self.pool)
            }
            Some(at) => list.remove(&mut self.pool, at),
        };
        if list.is_empty() {
            self.vacate(place.level, place.slot);
        }
        entry
    }

    /// Moves the first chunk of the slot at `place` to the levels below; tells how many entries.
    ///
    /// Entries that come to level 0 are about to fire, so here they are looked at, a chunk at a
    /// time: the looks do not depend on each other, and their cache misses overlap.
    fn cascade(&mut self, place: &Place, timers: &impl Timers) -> usize {
        let &Place { level, slot, .. } = place;
        let start = slot_start(self.cursor, level, slot);
        let mixed = self.is_mixed(place);
        self.cursor = start;
        self.floor = 1 << (BITS * level as u32);
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        if list.is_empty() {
            self.vacate(level, slot);
        }
        let entries = chunk.live();
        if level > 1 && level < FAR {
            for entry in entries {
                self.put_below(
                    deadline_in(start, level, entry.low),
                    entry.index,
                    entry.generation,
                    mixed,
                );
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
                None => self.bury(1),
                Some(deadline) if deadline < start => self.refile(deadline, index, generation),
                Some(deadline) => {
                    // From the far levels more come out as stale than are: it does no harm.
                    let mixed = mixed || deadline != deadline_in(start, level, low);
                    self.put_below(deadline, index, generation, mixed);
                }
            }
        }
        entries.len()
    }

    /// Puts an entry of the pending slot where it belongs now: on the levels below or, if its
    /// timer was re-armed, anywhere.
    #[inline]
    fn put_below(&mut self, deadline: u64, index: u32, generation: u32, mixed: bool) {
        let level = level_of((deadline ^ self.cursor) | 1);
        let slot = digit(deadline, level);
        self.put(level, slot, deadline as u32, index, generation);
        if mixed {
            self.levels[level].mixed |= 1 << slot;
        }
    }

    /// Finds the earliest live timer.
    #[inline(never)]
    pub(super) fn find_first(&mut self, timers: &impl Timers) -> Option<u64> {
        loop {
            while self.front.has_staged() {
                self.settle(timers);
            }
            let place = self.first_place();
            let start = place.map_or(u64::MAX, |place| place.start);
            let front = self.front.peek().filter(|top| top.deadline <= start);
            let (filed, index, generation) = match (front, place) {
                (Some(top), _) => (top.deadline, top.index, top.generation),
                (None, Some(place)) if place.level == 0 || place.least.is_some() => {
                    let chunk = self.chunk_at(&place);
                    let at = place.least.unwrap_or(usize::from(chunk.begin));
                    let Entry {
                        index, generation, ..
                    } = chunk.entries[at];
                    (start, index, generation)
                }
                (None, Some(place)) => {
                    self.cascade(&place, timers);
                    continue;
                }
                (None, None) => {
                    self.first = nobody_before(u64::MAX);
                    return None;
                }
            };
            let in_front = front.is_some();
            let deadline = timers.deadline(index, generation);
            if deadline == Some(filed) {
                self.first = Due {
                    deadline: filed,
                    index,
                    generation,
                };
                return deadline;
            }
            match place {
                Some(place) if !in_front => {
                    self.take_out(&place);
                }
                _ => {
                    self.front.pop();
                }
            }
            match deadline {
                None => self.bury(1),
                Some(deadline) => self.refile(deadline, index, generation),
            }
        }
    }
}
