//! A single-level wheel with sorted slots: neqo's old timer, rewritten from its description.
//!
//! 16,384 slots of 4 ms, so a span of 65.536 s. A slot is a vector sorted by deadline. Adding finds the
//! slot by division and the position by binary search. Removing needs the deadline: it finds the run of
//! equal deadlines by binary search and calls a predicate, backwards and then forwards. The next
//! deadline is found by a walk from the cursor to the first slot that is not empty, which with one far
//! timer means all slots. Exact, in order, equal deadlines in any order; the width of a slot is no tick.
//!
//! It does not detect stale handles: a handle is (deadline, payload), as in neqo, and may match an equal
//! timer armed later. It does not support deadlines beyond its span or before its time, for which the
//! original asserts. Here a tree holds those beyond, which costs nothing while it is empty, and the
//! current slot takes those before, so that any workload runs.

use std::collections::BTreeMap;
use std::mem;

use crate::contender::Contender;

/// Width of a slot, in microseconds.
const GRANULARITY: u64 = 4_000;
/// Number of slots.
const SLOTS: usize = 16_384;
/// Span of all slots, in microseconds.
const SPAN: u64 = GRANULARITY * SLOTS as u64;

/// One timer. The payload distinguishes timers of equal deadline, as a connection does in neqo.
#[derive(Clone, Copy)]
pub struct Timer {
    deadline: u64,
    payload: u64,
}

/// The wheel.
pub struct SortedSlots {
    slots: Vec<Vec<Timer>>,
    /// Beginning of the current slot.
    start: u64,
    cursor: usize,
    /// Numbers of equal timers beyond the span, by deadline and payload.
    far: BTreeMap<(u64, u64), usize>,
}

impl SortedSlots {
    /// Returns the slot of a deadline within the span.
    #[inline]
    fn slot(&self, deadline: u64) -> usize {
        let ahead = deadline.saturating_sub(self.start) / GRANULARITY;
        (self.cursor + ahead as usize) % SLOTS
    }

    #[inline]
    fn beyond(&self, deadline: u64) -> bool {
        deadline.saturating_sub(self.start) >= SPAN
    }

    #[inline]
    fn add(&mut self, timer: Timer) {
        if self.beyond(timer.deadline) {
            let alike = self.far.entry((timer.deadline, timer.payload));
            *alike.or_default() += 1;
            return;
        }
        let slot = self.slot(timer.deadline);
        let slot = &mut self.slots[slot];
        let (Ok(at) | Err(at)) = slot.binary_search_by_key(&timer.deadline, |t| t.deadline);
        slot.insert(at, timer);
    }

    /// Removes the timer with this deadline that the predicate selects.
    #[inline]
    fn remove(&mut self, deadline: u64, mut chosen: impl FnMut(u64) -> bool) -> Option<Timer> {
        let slot = self.slot(deadline);
        let slot = &mut self.slots[slot];
        let hit = slot.binary_search_by_key(&deadline, |t| t.deadline).ok()?;
        let before = (0..=hit).rev();
        let after = hit + 1..slot.len();
        let same = |at: &usize| slot[*at].deadline == deadline;
        let at = before
            .take_while(same)
            .chain(after.take_while(same))
            .find(|&at| chosen(slot[at].payload))?;
        Some(slot.remove(at))
    }

    /// Advances to the slot of `now` if all slots before it are empty, and moves near timers out of `far`.
    fn advance(&mut self, now: u64) {
        let slots = now.saturating_sub(self.start) / GRANULARITY;
        self.start += slots * GRANULARITY;
        self.cursor = ((self.cursor as u64 + slots) % SLOTS as u64) as usize;
        while let Some(first) = self.far.first_entry() {
            let (deadline, payload) = *first.key();
            if deadline.saturating_sub(self.start) >= SPAN {
                break;
            }
            for _ in 0..first.remove() {
                self.add(Timer { deadline, payload });
            }
        }
    }

    /// Fires all due timers within the span: whole slots first, then a part of the last one.
    fn take_until(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        let whole = (now.saturating_sub(self.start) / GRANULARITY).min(SLOTS as u64) as usize;
        for ahead in 0..whole {
            let at = (self.cursor + ahead) % SLOTS;
            if self.slots[at].is_empty() {
                continue;
            }
            for timer in mem::take(&mut self.slots[at]) {
                out(timer.payload);
                fired += 1;
            }
        }
        if whole < SLOTS {
            let slot = &mut self.slots[(self.cursor + whole) % SLOTS];
            // Most calls find no due timer; then nothing is searched or moved.
            if slot.first().is_some_and(|first| first.deadline <= now) {
                let due = slot.partition_point(|t| t.deadline <= now);
                for timer in slot.drain(..due) {
                    out(timer.payload);
                }
                fired += due;
            }
        }
        fired
    }
}

impl Contender for SortedSlots {
    const NAME: &'static str = "sorted slots";
    // A slot of the uniform workload holds 600 timers at 10M: each insertion moves half of them.
    const MAX_TIMERS: usize = 1_000_000;
    type Handle = Timer;

    fn new() -> Self {
        SortedSlots {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            start: 0,
            cursor: 0,
            far: BTreeMap::new(),
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Timer {
        let timer = Timer { deadline, payload };
        self.add(timer);
        timer
    }

    #[inline]
    fn cancel(&mut self, handle: Timer) -> bool {
        if self.beyond(handle.deadline) {
            let key = (handle.deadline, handle.payload);
            return match self.far.get_mut(&key) {
                Some(alike) if *alike > 1 => {
                    *alike -= 1;
                    true
                }
                Some(_) => self.far.remove(&key).is_some(),
                None => false,
            };
        }
        self.remove(handle.deadline, |payload| payload == handle.payload)
            .is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Timer, deadline: u64) {
        if self.cancel(*handle) {
            *handle = self.arm(deadline, handle.payload);
        }
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = self.take_until(now, out);
        if now >= self.start + GRANULARITY {
            // Timers beyond the span may be due after a long jump.
            let far = !self.far.is_empty();
            self.advance(now);
            if far {
                fired += self.take_until(now, out);
            }
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        let (before, from) = self.slots.split_at(self.cursor);
        let first = from
            .iter()
            .chain(before)
            .find_map(|slot| slot.first().map(|timer| timer.deadline));
        first.or_else(|| self.far.first_key_value().map(|(key, _)| key.0))
    }
}
