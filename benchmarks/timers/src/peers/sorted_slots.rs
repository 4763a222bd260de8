//! A single-level wheel with sorted slots: a former timer queue of neqo (Mozilla's QUIC library),
//! rewritten from its description.
//!
//! It has 16,384 slots of 4 ms, so it spans 65.536 s. A slot is a vector sorted by deadline. Adding
//! a timer finds the slot by division and the position by binary search. Removing a timer needs its
//! deadline, and finds the timers with equal deadlines by binary search. The next deadline is in
//! the first slot that is not empty, which is found slot by slot from the cursor. The queue is
//! exact. Timers fire in order; timers with equal deadlines fire in any order.
//!
//! A handle is (deadline, payload), as in neqo, so a stale handle may match an equal timer that was
//! armed later. The original asserts that deadlines are within its span. Here, a tree has the
//! timers beyond the span; it costs no time while it is empty.

use std::collections::BTreeSet;
use std::mem;

use crate::contender::Contender;

/// Width of a slot, in microseconds.
const GRANULARITY: u64 = 4_000;
/// Number of slots.
const SLOTS: usize = 16_384;
/// Span of all slots, in microseconds.
const SPAN: u64 = GRANULARITY * SLOTS as u64;

/// Deadline and payload. The payload distinguishes timers with equal deadlines; in neqo, the
/// connection does.
type Timer = (u64, u64);

pub struct SortedSlots {
    slots: Vec<Vec<Timer>>,
    /// Time at which the current slot begins.
    start: u64,
    cursor: usize,
    /// Timers beyond the span.
    far: BTreeSet<Timer>,
}

impl Default for SortedSlots {
    fn default() -> Self {
        SortedSlots {
            slots: vec![Vec::new(); SLOTS],
            start: 0,
            cursor: 0,
            far: BTreeSet::new(),
        }
    }
}

impl SortedSlots {
    /// Returns the slot of a deadline, or `None` for a deadline beyond the span. A deadline that
    /// has passed belongs into the current slot.
    fn slot(&mut self, deadline: u64) -> Option<&mut Vec<Timer>> {
        let ahead = deadline.saturating_sub(self.start);
        let slot = (self.cursor + (ahead / GRANULARITY) as usize) % SLOTS;
        (ahead < SPAN).then(|| &mut self.slots[slot])
    }

    fn add(&mut self, timer: Timer) {
        match self.slot(timer.0) {
            Some(slot) => {
                let (Ok(at) | Err(at)) = slot.binary_search_by_key(&timer.0, |t| t.0);
                slot.insert(at, timer);
            }
            None => {
                self.far.insert(timer);
            }
        }
    }

    /// Fires all due timers within the span: whole slots first, then a part of the last slot.
    fn take_until(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        let whole = (now.saturating_sub(self.start) / GRANULARITY).min(SLOTS as u64) as usize;
        for ahead in 0..whole {
            let slot = &mut self.slots[(self.cursor + ahead) % SLOTS];
            mem::take(slot).iter().for_each(|timer| out(timer.1));
        }
        let slot = &mut self.slots[(self.cursor + whole) % SLOTS];
        // Most calls find no due timer, and then search and move no timers.
        if slot.first().is_some_and(|first| first.0 <= now) && whole < SLOTS {
            let due = slot.partition_point(|timer| timer.0 <= now);
            slot.drain(..due).for_each(|timer| out(timer.1));
        }
    }
}

impl Contender for SortedSlots {
    const NAME: &'static str = "sorted slots";
    // With 10M timers, a slot has about 600 timers, and each insertion moves half of them.
    const MAX_TIMERS: usize = 1_000_000;
    type Handle = Timer;

    fn arm(&mut self, deadline: u64, payload: u64) -> Timer {
        self.add((deadline, payload));
        (deadline, payload)
    }

    fn cancel(&mut self, handle: Timer) -> bool {
        let Some(slot) = self.slot(handle.0) else {
            return self.far.remove(&handle);
        };
        let Ok(hit) = slot.binary_search_by_key(&handle.0, |timer| timer.0) else {
            return false;
        };
        let before = (0..=hit).rev().take_while(|&at| slot[at].0 == handle.0);
        let after = (hit + 1..slot.len()).take_while(|&at| slot[at].0 == handle.0);
        let found = before.chain(after).find(|&at| slot[at].1 == handle.1);
        found.map(|at| slot.remove(at)).is_some()
    }

    fn rearm(&mut self, handle: &mut Timer, deadline: u64) {
        if self.cancel(*handle) {
            *handle = self.arm(deadline, handle.1);
        }
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        self.take_until(now, out);
        let slots = now.saturating_sub(self.start) / GRANULARITY;
        if slots == 0 {
            return;
        }
        self.start += slots * GRANULARITY;
        self.cursor = ((self.cursor as u64 + slots) % SLOTS as u64) as usize;
        if self.far.is_empty() {
            return;
        }
        while let Some(&first) = self.far.first()
            && first.0.saturating_sub(self.start) < SPAN
        {
            self.far.pop_first();
            self.add(first);
        }
        self.take_until(now, out);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let (before, from) = self.slots.split_at(self.cursor);
        let first = from.iter().chain(before).find_map(|slot| slot.first());
        first.or_else(|| self.far.first()).map(|timer| timer.0)
    }
}
