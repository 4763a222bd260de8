//! Queues of timers in the order in which they were armed: timers of one timeout fall due in that
//! order, so nothing is ever searched.
//!
//! What is kept in order, where ([`lanes`]), and which lane a timer goes to, is all there is:
//!
//! - A lane takes any timer that is due no earlier than its last one. Timers of one timeout fit
//!   into one lane while the clock does not step back.
//! - [`Fifo::insert_after`] remembers the lane that each timeout went to last and tries that one
//!   first. Otherwise, and for a plain deadline, it is the lane whose last timer is due latest of
//!   those it fits behind, as in patience sorting: so k timeouts fill at most k lanes, whether
//!   the queue is told of timeouts or only of deadlines.
//! - What fits behind none of the lanes, when there may be no more, goes to a heap.
//!
//! A timer that is cancelled or re-armed leaves a dead entry behind. It is dropped when it comes to
//! the front of its lane, or with all others when they outnumber the living.

mod lanes;

use super::armings::Armings;
use super::run::Entry;
use super::slab::{self, Slab};
use super::wheel::Timer;
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use core::mem::size_of;
use lanes::Lanes;

/// Timeouts whose lanes are remembered: a power of two.
const HINTS: usize = 16;

/// Dead entries that are not worth sweeping.
const SPARED: usize = 64;

/// Queues of equal timeouts and a heap over their heads: for many timers of few timeouts.
///
/// | operation | while timeouts are at most 64 and the clock goes forward | at worst |
/// |---|---|---|
/// | [`insert_after`](Fifo::insert_after), [`reset_after`](Fifo::reset_after) | O(1) amortised | as below |
/// | [`insert`](DeadlineQueue::insert), [`reset`](DeadlineQueue::reset) | O(timeouts) to look at, O(1) to move | O(log n) |
/// | [`remove`](DeadlineQueue::remove) | O(1) amortised | O(1) amortised |
/// | [`pop_due`](DeadlineQueue::pop_due), [`next_deadline`](DeadlineQueue::next_deadline) | O(log timeouts) amortised | O(log n) |
///
/// It is exact whatever the deadlines are. With many different timeouts, or deadlines in no order,
/// it is a heap behind 64 queues that are looked at in vain: choose a
/// [`Wheel`](super::wheel::Wheel) then.
///
/// A timer takes 32 bytes and its value, padded to 8, plus the dead entries, of 16 bytes each,
/// which stay fewer than the living and 64; arrays that grow have up to as much to spare.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, queue::Fifo};
///
/// let (idle, request) = (60_000, 5_000);
/// let mut timeouts = Fifo::new();
/// let connection = timeouts.insert_after(100, idle, "connection");
/// timeouts.insert_after(110, request, "request");
/// timeouts.reset_after(connection, 120, idle);
///
/// assert_eq!(timeouts.next_deadline(), Some(5_110));
/// assert_eq!(timeouts.pop_due(5_110).map(|expired| expired.value), Some("request"));
/// assert_eq!(timeouts.deadline(connection), Some(60_120));
/// ```
#[derive(Debug)]
pub struct Fifo<T> {
    slab: Slab<Timer<T>>,
    lanes: Lanes,
    armings: Armings,
    hints: [Hint; HINTS],
}

/// Where a timeout went last.
#[derive(Clone, Copy, Debug)]
struct Hint {
    timeout: u64,
    lane: usize,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Fifo<T> {
    /// An empty queue. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, queue::Fifo};
    /// let queue: Fifo<u32> = Fifo::new();
    /// assert!(queue.is_empty());
    /// ```
    pub const fn new() -> Self {
        const NOWHERE: Hint = Hint {
            timeout: 0,
            lane: usize::MAX,
        };
        Fifo {
            slab: Slab::new(),
            lanes: Lanes::new(),
            armings: Armings::new(),
            hints: [NOWHERE; HINTS],
        }
    }

    /// Arms a timer that falls due `timeout` ticks after `now`, or at the last tick if that is
    /// earlier. O(1) amortised while timeouts are few and `now` does not step back.
    ///
    /// # Panics
    ///
    /// If there would be more than 2^32 - 1 timers.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, queue::Fifo};
    /// let mut queue = Fifo::new();
    /// let key = queue.insert_after(1_000, 250, "tea");
    /// assert_eq!(queue.deadline(key), Some(1_250));
    /// ```
    #[inline]
    pub fn insert_after(&mut self, now: u64, timeout: u64, value: T) -> TimerKey {
        let deadline = now.saturating_add(timeout);
        let (entry, key) = self.arm(deadline, value);
        self.file_after(timeout, entry);
        key
    }

    /// Arms a timer anew, to fall due `timeout` ticks after `now`; false if the handle is stale.
    /// O(1) amortised while timeouts are few and `now` does not step back.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, queue::Fifo};
    /// let mut queue = Fifo::new();
    /// let key = queue.insert_after(1_000, 250, "tea");
    /// assert!(queue.reset_after(key, 1_100, 250));
    /// assert_eq!(queue.deadline(key), Some(1_350));
    /// ```
    #[inline]
    pub fn reset_after(&mut self, key: TimerKey, now: u64, timeout: u64) -> bool {
        let deadline = now.saturating_add(timeout);
        let Some(entry) = self.rearm(key, deadline) else {
            return false;
        };
        self.file_after(timeout, entry);
        self.sweep();
        true
    }

    #[inline]
    fn file_after(&mut self, timeout: u64, entry: Entry) {
        // Fibonacci hashing: the top bits depend on all others.
        let hash = timeout.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HINTS.trailing_zeros());
        let hint = &mut self.hints[hash as usize];
        if hint.timeout == timeout && self.lanes.fits(hint.lane, entry.deadline) {
            self.lanes.push(hint.lane, entry);
        } else if let Some(lane) = self.lanes.file(entry) {
            *hint = Hint { timeout, lane };
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, value: T) -> (Entry, TimerKey) {
        if self.armings.are_worn() {
            self.renumber();
        }
        let order = self.armings.next();
        let (index, stamp) = self.slab.insert(|stamp| Timer {
            deadline,
            stamp,
            order,
            value,
        });
        let entry = Entry {
            deadline,
            order,
            index,
        };
        (entry, slab::key(index, stamp))
    }

    /// Gives a timer a deadline and an order: its entry is dead, for want of that order.
    #[inline]
    fn rearm(&mut self, key: TimerKey, deadline: u64) -> Option<Entry> {
        if self.armings.are_worn() && self.slab.get(key).is_some() {
            self.renumber();
        }
        let timer = self.slab.get_mut(key)?;
        timer.deadline = deadline;
        timer.order = self.armings.next();
        Some(timer.entry(key.index()))
    }

    /// O(n log n), once in two billion armings.
    #[cold]
    fn renumber(&mut self) {
        // Only what lives is left in the lanes; it is in order there, and stays so.
        self.drop_dead();
        self.slab.renumber(&mut self.armings);
        let slab = &self.slab;
        self.lanes.renumber(|entry| {
            slab.at(entry.index)
                .map_or(entry.order, |timer| timer.order)
        });
    }

    /// Whether an entry is its timer's last arming.
    #[inline]
    fn stands(slab: &Slab<Timer<T>>, entry: &Entry) -> bool {
        slab.at(entry.index)
            .is_some_and(|timer| timer.order == entry.order)
    }

    /// Drops dead entries when they outnumber the living. O(1) amortised: as many timers were
    /// cancelled or re-armed since the last time.
    #[inline]
    fn sweep(&mut self) {
        if self.lanes.entries() > 2 * self.slab.len() + SPARED {
            self.drop_dead();
        }
    }

    #[cold]
    fn drop_dead(&mut self) {
        let slab = &self.slab;
        self.lanes.retain(|entry| Self::stands(slab, entry));
    }

    #[inline]
    fn pop_first(&mut self, first: Entry) -> Option<Expired<T>> {
        if !Self::stands(&self.slab, &first) {
            self.lanes.pop_first();
            return None;
        }
        let timer = self.slab.take(first.index)?;
        self.lanes.pop_first();
        self.tidy();
        Some(Expired {
            key: slab::key(first.index, timer.stamp),
            deadline: first.deadline,
            value: timer.value,
        })
    }

    /// After the last timer went: dead entries go too.
    #[inline]
    fn tidy(&mut self) {
        if self.slab.len() == 0 {
            self.lanes.clear();
            self.slab.release();
        }
    }
}

impl<T> DeadlineQueue<T> for Fifo<T> {
    /// O(timeouts), or O(log n) if it fits nowhere.
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let (entry, key) = self.arm(deadline, value);
        self.lanes.file(entry);
        key
    }

    /// O(1) amortised.
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slab.remove(key)?;
        self.lanes.forget(&timer.entry(key.index()));
        self.tidy();
        self.sweep();
        Some(timer.value)
    }

    /// O(timeouts), or O(log n) if it fits nowhere.
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        let Some(entry) = self.rearm(key, deadline) else {
            return false;
        };
        self.lanes.file(entry);
        self.sweep();
        true
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.slab.get(key).map(|timer| &timer.value)
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.slab.get_mut(key).map(|timer| &mut timer.value)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.slab.get(key).map(|timer| timer.deadline)
    }

    #[inline]
    fn len(&self) -> usize {
        self.slab.len()
    }

    fn clear(&mut self) {
        self.slab.clear();
        self.lanes.clear();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (slab::key(index, timer.stamp), timer.deadline, &timer.value))
    }

    /// O(log timeouts) amortised, or O(log n) for what fitted nowhere.
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        loop {
            let first = self.lanes.first()?;
            if first.deadline > now {
                return None;
            }
            if let Some(expired) = self.pop_first(first) {
                return Some(expired);
            }
        }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        self.lanes.first().map(|first| first.deadline)
    }

    /// O(log timeouts) amortised, or O(log n) for what fitted nowhere.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        loop {
            let first = self.lanes.first()?;
            if Self::stands(&self.slab, &first) {
                return Some(first.deadline);
            }
            self.lanes.pop_first();
        }
    }

    /// O(budget x log n) at worst.
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        loop {
            let Some(first) = self.lanes.first().filter(|first| first.deadline <= now) else {
                return Polled::Idle;
            };
            let Some(left) = budget.checked_sub(1) else {
                return Polled::Busy;
            };
            *budget = left;
            if let Some(expired) = self.pop_first(first) {
                return Polled::Due(expired);
            }
        }
    }

    fn shrink_to_fit(&mut self) {
        self.drop_dead();
        self.lanes.shrink_to_fit();
        self.slab.shrink_to_fit();
    }

    /// O(timeouts).
    fn memory(&self) -> usize {
        size_of::<Self>() + self.slab.memory() + self.lanes.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, ops};
    use crate::queue::model::{Model, Subject, sized};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    impl Subject for Fifo<u64> {
        fn check(&self) {
            self.lanes.check();
            let standing = self
                .lanes
                .iter()
                .filter(|entry| Self::stands(&self.slab, entry));
            assert_eq!(
                standing.count(),
                self.slab.len(),
                "one entry stands for each timer"
            );
            assert!(
                self.lanes.entries() <= 2 * self.slab.len() + SPARED,
                "dead entries are bounded"
            );
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn the_lanes_do_what_the_model_does(ops in ops(1..150)) {
            Model::new(Fifo::new()).run(ops);
        }

        #[test]
        fn a_long_run_does_what_the_model_does(ops in ops(500..800)) {
            Model::new(Fifo::new()).run(ops);
        }

        /// Told of timeouts or of deadlines, it pops the same.
        #[test]
        #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
        fn timeouts_and_deadlines_come_to_the_same(
            ops in prop::collection::vec((0u64..30, 0usize..90, any::<u8>()), 1..400),
        ) {
            let (mut after, mut plain) = (Fifo::new(), Fifo::new());
            let mut keys = Vec::new();
            let mut now = 1_000u64;
            for (step, timeout, what) in ops {
                // Seventy timeouts; some that never end; and sometimes the clock steps back.
                let timeout = if timeout < 70 { 10 + 7 * timeout as u64 } else { u64::MAX };
                let deadline = now.saturating_add(timeout);
                if what < 150 || keys.is_empty() {
                    keys.push((after.insert_after(now, timeout, what), plain.insert(deadline, what)));
                } else {
                    let (first, second) = keys[usize::from(what) % keys.len()];
                    prop_assert_eq!(
                        after.reset_after(first, now, timeout), plain.reset(second, deadline));
                }
                now = if what % 50 == 0 { now - 3 * step } else { now + step };
                prop_assert_eq!(after.next_deadline(), plain.next_deadline());
                loop {
                    let (first, second) = (after.pop_due(now), plain.pop_due(now));
                    prop_assert_eq!(first, second);
                    if first.is_none() {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn timeouts_have_a_lane_each_however_they_are_told() {
        let timeouts = [50u64, 1_000, 333, 20_000];
        let (mut after, mut plain) = (Fifo::new(), Fifo::new());
        let mut random = 1u64;
        for now in 0..sized(50_000, 200) as u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let timeout = timeouts[(random >> 33) as usize % timeouts.len()];
            after.insert_after(now, timeout, now);
            plain.insert(now + timeout, now);
            while let Some(expired) = after.pop_due(now) {
                assert_eq!(plain.pop_due(now), Some(expired));
            }
        }
        assert_eq!(after.lanes.len(), timeouts.len());
        assert!(plain.lanes.len() <= timeouts.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn cancels_leave_bounded_memory() {
        let mut queue = Fifo::new();
        let mut keys: Vec<_> = (0..1_000)
            .map(|n| queue.insert_after(n, 1 << 40, n))
            .collect();
        for n in 0..100_000u64 {
            let at = (n * 7_919 % 1_000) as usize;
            assert!(queue.remove(keys[at]).is_some());
            keys[at] = queue.insert_after(n, 1 << (n % 41), n);
            let at = (n * 104_729 % 1_000) as usize;
            assert!(queue.reset_after(keys[at], n, 1 << 35));
        }
        queue.check();
        assert!(queue.memory() < 1_000 * 200, "{} bytes", queue.memory());
    }

    #[test]
    fn arming_order_outlives_its_numbers() {
        let mut queue = Fifo::new();
        queue.armings = Armings::left(100);
        // More lanes than there may be, so that some are in the heap.
        (0..80).for_each(|n| {
            queue.insert(1_000 - n, n);
        });
        let keys: Vec<_> = (80..95).map(|n| queue.insert(2_000, n)).collect();
        for key in [keys[1], keys[3]] {
            assert!(queue.reset(key, 2_000));
        }
        (95..110).for_each(|n| {
            queue.insert(990, n);
        });
        queue.check();
        let popped: Vec<u64> = core::iter::from_fn(|| queue.pop_due(2_000))
            .map(|expired| expired.value)
            .collect();
        let expected = (11..80)
            .rev()
            .chain([10])
            .chain(95..110)
            .chain((0..10).rev());
        let expected = expected.chain([80, 82]).chain(84..95).chain([81, 83]);
        assert_eq!(popped, expected.collect::<Vec<_>>());
    }
}
