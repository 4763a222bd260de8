//! A heap of timers with `D` children per entry: more children make fewer, more expensive levels.
//!
//! Every record has its entry's position, so a cancel removes the entry at once.
//! [`PriorityQueue`](crate::PriorityQueue) uses the same heap.

pub(super) mod entry;
pub(super) mod sift;
#[cfg(test)]
mod tests;
pub(super) mod tracked;

use super::armings::Arming;
use super::{DeadlineQueue, Expired, TimerKey};
use core::mem::size_of;
use tracked::TrackedHeap;

/// A heap of timers with `D` children per timer, 2 to 16. Arming, cancelling, re-arming and popping take
/// O(log n); finding the next deadline takes O(1).
///
/// A timer takes 24 bytes plus its value, padded to 8 bytes. The heap frees its memory when it becomes empty.
///
/// `Heap::new()` has 4 children per timer, which is best for most uses;
/// [`with_arity`](Self::with_arity) makes other heaps.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, Heap};
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

impl<T> Heap<T> {
    /// Returns an empty heap with 4 children per timer. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Heap};
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
    /// use punctual::{DeadlineQueue, Heap};
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
            heap: TrackedHeap::new(),
        }
    }
}

impl<T, const D: usize> Default for Heap<T, D> {
    fn default() -> Self {
        Self::with_arity()
    }
}

impl<T, const D: usize> DeadlineQueue<T> for Heap<T, D> {
    /// O(log n); O(1) if the timer is due after all others.
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        self.heap
            .insert(value, |order, index| Arming::new(deadline, order, index))
    }

    /// O(log n).
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.heap.remove(key).map(|(_, value)| value)
    }

    /// O(log n).
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.heap
            .reset(key, |order, index| Arming::new(deadline, order, index))
            .is_some()
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.heap.get(key).map(|(_, value)| value)
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.heap.get_mut(key)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.heap.get(key).map(|(due, _)| due.deadline())
    }

    #[inline]
    fn len(&self) -> usize {
        self.heap.len()
    }

    fn clear(&mut self) {
        self.heap.clear();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.heap
            .iter()
            .map(|(key, due, value)| (key, due.deadline(), value))
    }

    /// O(log n).
    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        let (key, due, value) = self.heap.pop_if(|due| due.deadline() <= now)?;
        Some(Expired {
            key,
            deadline: due.deadline(),
            value,
        })
    }

    /// Returns the exact next deadline. O(1).
    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        self.heap.first().map(|due| due.deadline())
    }

    /// O(1).
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.next_wakeup()
    }

    fn shrink_to_fit(&mut self) {
        self.heap.shrink_to_fit();
    }

    /// O(1).
    fn memory(&self) -> usize {
        size_of::<Self>() + self.heap.memory()
    }
}
