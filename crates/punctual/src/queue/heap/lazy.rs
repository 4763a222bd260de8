//! Lazy deletion: what is cancelled or put off stays in the heap until it comes up.

use super::entry::{Due, Entry};
use super::sift::{Arity, heapify, sift_down, sift_up};
use crate::queue::armings::Armings;
use crate::queue::slab::{self, KEPT, Slab, Tenant};
use crate::queue::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZeroU32;

/// Dead entries that are not worth sweeping.
const SLACK: usize = 64;

/// A record: 32 bytes for an 8-byte value.
///
/// A timer has one entry that stands for it, filed at its deadline or before: the one that carries
/// the order `filed`. All its other entries are dead.
#[derive(Debug)]
struct Timer<T> {
    deadline: u64,
    stamp: u32,
    order: NonZeroU32,
    filed: NonZeroU32,
    /// How far the deadline lies after that of the entry that stands: this, or more.
    put_off: u32,
    value: T,
}

const _: () = assert!(Slab::<Timer<u64>>::RECORD == 32);

impl<T> Tenant for Timer<T> {
    #[inline]
    fn stamp(&self) -> u32 {
        self.stamp
    }
}

/// A [`Heap`](super::Heap) that leaves cancelled timers where they are: cancel and re-arm later in
/// O(1), pop in O(log n) amortised.
///
/// It never looks for an entry in the heap. Cancelling and re-arming later touch the timer only;
/// re-arming earlier files another entry. An entry that comes up dead is dropped, and one whose
/// timer was put off is filed again. When the dead entries outnumber the living by more than 64,
/// they are swept out in O(n), for which so many calls have paid.
///
/// A timer takes 40 bytes and its value, padded to 8, and a dead entry 16.
///
/// It is for timeouts that are nearly always cancelled or put off. Popping is slower than a
/// [`Heap`](super::Heap)'s, since dead entries are popped too.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, LazyHeap};
///
/// let mut timeouts = LazyHeap::new();
/// let slow = timeouts.insert(1_000, "slow request");
/// let idle = timeouts.insert(5_000, "idle connection");
///
/// timeouts.remove(slow); // it was answered
/// timeouts.reset(idle, 9_000); // it was used
/// assert_eq!(timeouts.next_wakeup(), Some(1_000)); // a lower bound
/// assert_eq!(timeouts.next_deadline(), Some(9_000));
/// assert_eq!(timeouts.pop_due(8_999), None);
/// assert_eq!(timeouts.pop_due(9_000).map(|expired| expired.value), Some("idle connection"));
/// ```
#[derive(Debug)]
pub struct LazyHeap<T, const D: usize = 4> {
    /// Empty if no timer lives.
    entries: Vec<Due>,
    slab: Slab<Timer<T>>,
    armings: Armings,
}

impl<T> LazyHeap<T> {
    /// An empty heap with 4 children to an entry. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, LazyHeap};
    /// let heap: LazyHeap<u32> = LazyHeap::new();
    /// assert!(heap.is_empty());
    /// ```
    pub const fn new() -> Self {
        Self::with_arity()
    }
}

impl<T, const D: usize> LazyHeap<T, D> {
    /// An empty heap with `D` children to an entry; any but 2 to 16 is refused when compiled.
    /// Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, LazyHeap};
    /// let mut heap = LazyHeap::<_, 8>::with_arity();
    /// heap.insert(10, "tea");
    /// assert_eq!(heap.next_deadline(), Some(10));
    /// ```
    pub const fn with_arity() -> Self {
        const { Arity::<D>::CHECKED };
        LazyHeap {
            entries: Vec::new(),
            slab: Slab::new(),
            armings: Armings::new(),
        }
    }

    /// Makes the head an entry that is true, in one step if it is not; tells whether it was.
    #[inline]
    fn settle(&mut self) -> bool {
        let Some(&head) = self.entries.first() else {
            return true;
        };
        let Some(timer) = standing(&mut self.slab, head) else {
            self.behead();
            return false;
        };
        if timer.order == timer.filed {
            return true;
        }
        self.entries[0] = timer.file(head.index());
        sift_down::<_, D>(&mut self.entries, 0, |_, _| {});
        false
    }

    /// Drops the head.
    #[inline]
    fn behead(&mut self) {
        self.entries.swap_remove(0);
        if !self.entries.is_empty() {
            sift_down::<_, D>(&mut self.entries, 0, |_, _| {});
        }
    }

    #[inline]
    fn file(&mut self, entry: Due) {
        self.entries.push(entry);
        let last = self.entries.len() - 1;
        sift_up::<_, D>(&mut self.entries, last, |_, _| {});
    }

    /// Keeps the dead entries bounded. O(1) amortised.
    #[inline]
    fn tidy(&mut self) {
        let live = self.slab.len();
        if live == 0 {
            self.entries.clear();
            self.slab.release();
            if self.entries.capacity() > KEPT {
                self.entries.shrink_to(KEPT);
            }
        } else if self.entries.len() - live > live + SLACK {
            self.sweep();
        }
    }

    /// Drops all dead entries and makes the others true. O(n).
    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        self.entries.retain_mut(|entry| {
            let Some(timer) = standing(&mut self.slab, *entry) else {
                return false;
            };
            *entry = timer.file(entry.index());
            true
        });
        heapify::<_, D>(&mut self.entries);
    }

    #[inline]
    fn next_order(&mut self) -> NonZeroU32 {
        if self.armings.are_worn() {
            self.renumber();
        }
        self.armings.next()
    }

    /// The true entries stay where they are, since their sequence does.
    #[cold]
    fn renumber(&mut self) {
        self.sweep();
        let armed = (0..).zip(&self.entries);
        let armed = armed.map(|(place, entry)| (entry.order(), place));
        for (order, place) in self.armings.renumber(armed.collect::<Vec<(_, usize)>>()) {
            let entry = &mut self.entries[place];
            entry.set_order(order);
            if let Some(timer) = self.slab.at_mut(entry.index()) {
                timer.order = order;
                timer.filed = order;
            }
        }
    }
}

/// The timer that an entry stands for, if it does.
#[inline]
fn standing<T>(slab: &mut Slab<Timer<T>>, entry: Due) -> Option<&mut Timer<T>> {
    slab.at_mut(entry.index())
        .filter(|timer| timer.filed == entry.order())
}

impl<T> Timer<T> {
    /// The entry that is true and, from now on, stands.
    #[inline]
    fn file(&mut self, index: u32) -> Due {
        self.filed = self.order;
        self.put_off = 0;
        Due::new(self.deadline, self.order, index)
    }
}

impl<T, const D: usize> Default for LazyHeap<T, D> {
    fn default() -> Self {
        Self::with_arity()
    }
}

impl<T, const D: usize> DeadlineQueue<T> for LazyHeap<T, D> {
    /// O(log n); O(1) if the timer is due after all others.
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        let order = self.next_order();
        let (index, stamp) = self.slab.insert(|stamp| Timer {
            deadline,
            stamp,
            order,
            filed: order,
            put_off: 0,
            value,
        });
        self.file(Due::new(deadline, order, index));
        slab::key(index, stamp)
    }

    /// O(1) amortised.
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.slab.remove(key)?;
        self.tidy();
        Some(timer.value)
    }

    /// O(1) if the timer is put off, O(log n) amortised if it is due earlier.
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.slab.get(key).is_none() {
            return false;
        }
        let order = self.next_order();
        let Some(timer) = self.slab.get_mut(key) else {
            return false;
        };
        // The entry that stands is due here or before.
        let filed = timer.deadline - u64::from(timer.put_off);
        timer.deadline = deadline;
        timer.order = order;
        match deadline.checked_sub(filed) {
            // At the same deadline it comes first as well: the new order is higher.
            Some(later) => timer.put_off = u32::try_from(later).unwrap_or(u32::MAX),
            None => {
                let entry = timer.file(key.index());
                self.file(entry);
                self.tidy();
            }
        }
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
        self.tidy();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.slab
            .iter()
            .map(|(index, timer)| (timer.key(index), timer.deadline, &timer.value))
    }

    /// O(log n) amortised.
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        let mut unbounded = usize::MAX;
        match self.poll_due(now, &mut unbounded) {
            Polled::Due(expired) => Some(expired),
            Polled::Busy | Polled::Idle => None,
        }
    }

    /// A lower bound: a timer that was cancelled or put off may stand first. O(1).
    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.deadline())
    }

    /// O(1) if nothing changed; O(log n) amortised.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        while !self.settle() {}
        self.next_wakeup()
    }

    /// O(budget * log n).
    #[inline]
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        loop {
            match self.entries.first() {
                Some(head) if head.deadline() <= now => {}
                _ => return Polled::Idle,
            }
            let Some(left) = budget.checked_sub(1) else {
                return Polled::Busy;
            };
            *budget = left;
            if !self.settle() {
                continue;
            }
            let index = self.entries[0].index();
            self.behead();
            if let Some(timer) = self.slab.take(index) {
                self.tidy();
                return Polled::Due(Expired {
                    key: timer.key(index),
                    deadline: timer.deadline,
                    value: timer.value,
                });
            }
        }
    }

    fn shrink_to_fit(&mut self) {
        self.sweep();
        self.entries.shrink_to_fit();
        self.slab.shrink_to_fit();
    }

    /// O(1).
    fn memory(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<Due>() + self.slab.memory()
    }
}

#[cfg(test)]
impl<T, const D: usize> LazyHeap<T, D> {
    /// A heap whose orders are numbered anew after so many armings.
    pub(super) fn wear(&mut self, left: u32) {
        self.armings = Armings::left(left);
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Panics if an invariant does not hold.
    pub(super) fn check(&self) {
        super::sift::check::<_, D>(&self.entries);
        let mut standing = 0;
        for entry in &self.entries {
            let Some(timer) = self.slab.at(entry.index()) else {
                continue;
            };
            if timer.filed == entry.order() {
                standing += 1;
                let put_off = u64::from(timer.put_off);
                assert!(
                    entry.deadline() + put_off <= timer.deadline,
                    "put off too far"
                );
                assert!(timer.filed <= timer.order);
                if timer.filed == timer.order {
                    assert_eq!(entry.deadline(), timer.deadline, "a true entry");
                }
            }
        }
        assert_eq!(standing, self.slab.len(), "one entry stands for a timer");
        let live = self.slab.len();
        assert!(
            self.entries.len() <= 2 * live + SLACK,
            "dead entries are bounded"
        );
    }
}
