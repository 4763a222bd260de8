//! A heap of timers with `D` children per entry. More children make fewer levels, and each level
//! more expensive.
//!
//! Each timer's record holds the position of its entry in the heap, so a cancel removes the entry
//! at once. [`PriorityQueue`](crate::PriorityQueue) uses the same heap.

pub(super) mod entry;
pub mod placed;
pub(super) mod sift;
#[cfg(test)]
mod tests;
pub(super) mod tracked;

use super::armings::Arming;
use super::{Expired, Polled, TimerKey};
use core::mem::size_of;
use tracked::TrackedHeap;

/// A heap of timers with `D` children per timer, 2 to 16. Arming, cancelling, re-arming and popping
/// take O(log n); finding the next deadline takes O(1).
///
/// A timer takes 24 bytes plus its value, padded to 8 bytes. A heap that becomes empty keeps memory
/// for at most 1,024 timers; the call that empties a larger heap frees the rest in O(n).
///
/// `Heap::new()` has 4 children per timer, which is best for most uses;
/// [`with_arity`](Self::with_arity) makes other heaps.
///
/// # Examples
///
/// ```
/// use punctual::Heap;
///
/// let mut timeouts = Heap::new();
/// let slow = timeouts.insert(1_000, "slow request");
/// let idle = timeouts.insert(5_000, "idle connection");
///
/// timeouts.remove(slow); // answered in time
/// timeouts.reset(idle, 9_000); // the connection was active
/// assert_eq!(timeouts.next_deadline(), Some(9_000));
/// assert_eq!(timeouts.pop_due(8_999), None);
/// assert_eq!(timeouts.pop_due(9_000).map(|expired| expired.value), Some("idle connection"));
/// ```
#[derive(Debug)]
pub struct Heap<T, const D: usize = 4> {
    heap: TrackedHeap<Arming, T, D>,
}

super::deadline_queue!(Heap<T, D>, const D);

impl<T> Heap<T> {
    /// Returns an empty heap with 4 children per timer. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::Heap;
    /// let heap: Heap<u32> = Heap::new();
    /// assert!(heap.is_empty());
    /// ```
    pub const fn new() -> Self {
        Self::with_arity()
    }
}

impl<T, const D: usize> Heap<T, D> {
    /// Returns an empty heap with `D` children per timer, 2 to 16; other numbers do not compile.
    /// Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::Heap;
    /// let mut heap = Heap::<_, 8>::with_arity();
    /// heap.insert(10, "tea");
    /// assert_eq!(heap.next_deadline(), Some(10));
    /// ```
    ///
    /// ```compile_fail
    /// punctual::Heap::<(), 1>::with_arity();
    /// ```
    pub const fn with_arity() -> Self {
        Heap {
            heap: TrackedHeap::new(0),
        }
    }

    /// Arms a timer and returns its handle. O(log n); O(1) if the timer is due after all others.
    ///
    /// # Panics
    ///
    /// If the heap would hold more than 2^32 - 1 timers.
    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        self.heap.insert(value, |sequence, index| {
            Arming::new(deadline, sequence, index)
        })
    }

    /// Cancels a timer and returns its value, or `None` if the handle is stale. O(log n).
    #[inline]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.heap.remove(key).map(|(_, value)| value)
    }

    /// Re-arms a timer to an earlier or later tick. Returns false if the handle is stale. O(log n).
    #[inline]
    pub fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.heap
            .reset(key, |sequence, index| {
                Arming::new(deadline, sequence, index)
            })
            .is_some()
    }

    /// Returns a timer's value, or `None` if the handle is stale. O(1).
    #[inline]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.heap.get(key).map(|(_, value)| value)
    }

    /// Returns a timer's value for modification, or `None` if the handle is stale. O(1).
    #[inline]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.heap.get_mut(key)
    }

    /// Returns a timer's deadline, or `None` if the handle is stale. O(1).
    #[inline]
    pub fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.heap.get(key).map(|(due, _)| due.deadline())
    }

    /// Returns the number of armed timers. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.heap.entries().len()
    }

    /// Returns true if no timer is armed. O(1).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers; all handles become stale. O(n).
    pub fn clear(&mut self) {
        self.heap.clear();
    }

    /// Iterates over all timers and their deadlines, in no particular order. O(n) in total.
    pub fn iter(&self) -> impl Iterator<Item = (TimerKey, u64, &T)> {
        self.heap
            .iter()
            .map(|(key, due, value)| (key, due.deadline(), value))
    }

    /// Removes and returns the first timer due at `now`, or `None` if no timer is due. O(log n).
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        let (key, due, value) = self.heap.pop_if(|due| due.deadline() <= now)?;
        Some(Expired {
            key,
            deadline: due.deadline(),
            value,
        })
    }

    /// Pops like [`pop_due`](Self::pop_due) if `budget` is above 0, and takes 1 from it. O(log n).
    pub fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.next_wakeup().is_none_or(|deadline| deadline > now) {
            return Polled::Idle;
        }
        let Some(left) = budget.checked_sub(1) else {
            return Polled::Busy;
        };
        *budget = left;
        self.pop_due(now).map_or(Polled::Idle, Polled::Due)
    }

    /// Returns the earliest deadline, or `None` if no timer is armed. O(1).
    #[inline]
    pub fn next_wakeup(&self) -> Option<u64> {
        self.heap.entries().first().map(|due| due.deadline())
    }

    /// Returns the earliest deadline, or `None` if no timer is armed. O(1).
    #[inline]
    pub fn next_deadline(&mut self) -> Option<u64> {
        self.next_wakeup()
    }

    /// Frees unused memory, except gaps between records and room for 1,024 timers. O(n).
    pub fn shrink_to_fit(&mut self) {
        self.heap.shrink_to_fit();
    }

    /// Returns the bytes taken by the heap and its allocations, excluding memory that the values
    /// own. O(1).
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.heap.memory()
    }
}

impl<T, const D: usize> Default for Heap<T, D> {
    fn default() -> Self {
        Self::with_arity()
    }
}
