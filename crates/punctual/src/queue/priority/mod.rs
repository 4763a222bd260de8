//! A priority queue without time. It uses the same heap as [`Heap`](super::Heap).

mod float;
#[cfg(test)]
mod tests;

pub use float::TotalF64;

use super::TimerKey;
use super::heap::entry::{Entry, Sifted};
use super::heap::tracked::TrackedHeap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem::size_of;
use core::num::NonZeroU32;

/// A heap entry: a priority, the sequence of its insertion, and the index of its value.
#[derive(Clone, Copy, Debug)]
struct Ranked<P> {
    priority: P,
    sequence: NonZeroU32,
    index: u32,
}

impl<P: Ord> Ord for Ranked<P> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority
            .cmp(&other.priority)
            .then(self.sequence.cmp(&other.sequence))
    }
}

impl<P: Ord> PartialOrd for Ranked<P> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.cmp(other).is_lt()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        !other.lt(self)
    }
}

impl<P: Ord> PartialEq for Ranked<P> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P: Ord> Eq for Ranked<P> {}

impl<P> Entry for Ranked<P> {
    #[inline]
    fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    fn sequence(&self) -> NonZeroU32 {
        self.sequence
    }

    fn set_sequence(&mut self, sequence: NonZeroU32) {
        self.sequence = sequence;
    }
}

/// Priorities may be of a type that is not `Copy`, so a sifted entry swaps places with others.
impl<P: Ord> Sifted for Ranked<P> {
    type Held = ();

    #[inline]
    fn hold(_: &[Self], _: usize) {}

    #[inline]
    fn held<'a>((): &'a (), entries: &'a [Self], at: usize) -> &'a Self {
        &entries[at]
    }

    #[inline]
    fn shift(entries: &mut [Self], from: usize, to: usize) {
        entries.swap(from, to);
    }

    #[inline]
    fn settle((): (), _: &mut [Self], _: usize) {}
}

/// A priority queue: a heap with `D` children per entry, 2 to 16. It pops the least priority first,
/// and equal priorities in the order in which they were pushed. A value can be found, changed and
/// removed by its handle.
///
/// Priorities may be of any type that is [`Ord`]: integers, tuples, strings. Wrap floats in
/// [`TotalF64`]; use [`Reverse`](core::cmp::Reverse) to pop the greatest first.
///
/// An entry takes its priority plus 8 bytes and its value plus 8 bytes, both padded: 32 bytes if
/// both are 8 bytes long. A queue that becomes empty keeps memory for at most 1,024 entries; the
/// call that empties a larger queue frees the rest in O(n).
///
/// If a comparison of two priorities panics, the order is unspecified and entries may be lost.
///
/// # Examples
///
/// ```
/// use punctual::{PriorityQueue, TotalF64};
///
/// let mut jobs = PriorityQueue::new();
/// let backup = jobs.push(9, "backup");
/// jobs.push(2, "reply");
/// jobs.push(5, "index");
/// jobs.change_priority(backup, 3); // now urgent
///
/// assert_eq!(jobs.pop(), Some((2, "reply")));
/// assert_eq!(jobs.pop(), Some((3, "backup")));
/// assert_eq!(jobs.pop_due(&4), None); // no entry left with a priority of at most 4
///
/// let mut costs: PriorityQueue<TotalF64, char> = PriorityQueue::new();
/// costs.push(0.5.into(), 'b');
/// costs.push(f64::NAN.into(), 'c');
/// costs.push((-0.5).into(), 'a');
/// assert_eq!(costs.into_sorted_vec().into_iter().map(|(_, node)| node).collect::<String>(), "abc");
/// ```
#[derive(Debug)]
pub struct PriorityQueue<P, T, const D: usize = 4> {
    heap: TrackedHeap<Ranked<P>, T, D>,
}

impl<P: Ord, T> PriorityQueue<P, T> {
    /// Returns an empty queue with 4 children per entry, best for most uses. Allocates nothing.
    /// O(1).
    ///
    /// ```
    /// let queue: punctual::PriorityQueue<u32, &str> = punctual::PriorityQueue::new();
    /// assert!(queue.is_empty());
    /// ```
    pub const fn new() -> Self {
        Self::with_arity()
    }
}

impl<P: Ord, T, const D: usize> PriorityQueue<P, T, D> {
    /// Returns an empty queue with `D` children per entry, 2 to 16; other numbers do not compile.
    /// Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::<_, _, 8>::with_arity();
    /// queue.push(1, "tea");
    /// assert_eq!(queue.pop(), Some((1, "tea")));
    /// ```
    pub const fn with_arity() -> Self {
        PriorityQueue {
            heap: TrackedHeap::new(0),
        }
    }

    /// Adds a value and returns its handle. O(log n); O(1) if its priority is the greatest.
    ///
    /// # Panics
    ///
    /// If the queue would hold more than 2^32 - 1 values.
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// assert_eq!(queue.get(key), Some(&"tea"));
    /// ```
    #[inline]
    pub fn push(&mut self, priority: P, value: T) -> TimerKey {
        self.heap.insert(value, ranked(priority))
    }

    /// Removes and returns the entry with the least priority. O(log n).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// assert_eq!(queue.pop(), Some((3, "milk")));
    /// ```
    #[inline]
    pub fn pop(&mut self) -> Option<(P, T)> {
        self.heap.pop_if(|_| true).map(popped)
    }

    /// Removes and returns the least entry if its priority is at most `limit`. O(log n); O(1) if
    /// the priority is greater.
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// assert_eq!(queue.pop_due(&2), None);
    /// assert_eq!(queue.pop_due(&3), Some((3, "milk")));
    /// ```
    #[inline]
    pub fn pop_due(&mut self, limit: &P) -> Option<(P, T)> {
        self.heap
            .pop_if(|entry| entry.priority <= *limit)
            .map(popped)
    }

    /// Removes the least entry, then adds a value. Returns the new handle and the removed entry.
    /// The new value stays even if its priority is the least. O(log n), at half the cost of a
    /// [`pop`](Self::pop) and a [`push`](Self::push).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// let (key, popped) = queue.pop_push(1, "sugar");
    /// assert_eq!(popped, Some((3, "milk")));
    /// assert_eq!(queue.get(key), Some(&"sugar"));
    /// ```
    #[inline]
    pub fn pop_push(&mut self, priority: P, value: T) -> (TimerKey, Option<(P, T)>) {
        let (key, least) = self.heap.pop_insert(value, ranked(priority));
        (key, least.map(popped))
    }

    /// Returns the least entry. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// assert_eq!(queue.peek(), Some((&3, &"milk")));
    /// ```
    #[inline]
    pub fn peek(&self) -> Option<(&P, &T)> {
        let entry = self.heap.entries().first()?;
        Some((&entry.priority, self.heap.value(entry)?))
    }

    /// Returns the least priority without accessing its value. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// assert_eq!(queue.peek_priority(), Some(&3));
    /// ```
    #[inline]
    pub fn peek_priority(&self) -> Option<&P> {
        self.heap.entries().first().map(|entry| &entry.priority)
    }

    /// Changes a value's priority and returns the old priority, or `None` if the handle is stale.
    /// Among equal priorities, the value then pops last. O(log n).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// queue.push(3, "milk");
    /// assert_eq!(queue.change_priority(key, 1), Some(7));
    /// assert_eq!(queue.pop(), Some((1, "tea")));
    /// assert_eq!(queue.change_priority(key, 2), None);
    /// ```
    #[inline]
    pub fn change_priority(&mut self, key: TimerKey, priority: P) -> Option<P> {
        let entry = self.heap.reset(key, ranked(priority))?;
        Some(entry.priority)
    }

    /// Removes and returns a value with its priority, or `None` if the handle is stale. O(log n).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// assert_eq!(queue.remove(key), Some((7, "tea")));
    /// assert_eq!(queue.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: TimerKey) -> Option<(P, T)> {
        let (entry, value) = self.heap.remove(key)?;
        Some((entry.priority, value))
    }

    /// Returns a value, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// assert_eq!(queue.get(key), Some(&"tea"));
    /// ```
    #[inline]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.heap.get(key).map(|(_, value)| value)
    }

    /// Returns a value for modification, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, 1);
    /// *queue.get_mut(key).unwrap() += 1;
    /// assert_eq!(queue.pop(), Some((7, 2)));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.heap.get_mut(key)
    }

    /// Returns a value's priority, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// assert_eq!(queue.priority(key), Some(&7));
    /// ```
    #[inline]
    pub fn priority(&self, key: TimerKey) -> Option<&P> {
        self.heap.get(key).map(|(entry, _)| &entry.priority)
    }

    /// Returns the number of values. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::PriorityQueue::from_iter([(7, "tea"), (3, "milk")]).len(), 2);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.heap.entries().len()
    }

    /// Returns true if the queue is empty. O(1).
    ///
    /// ```
    /// assert!(punctual::PriorityQueue::<u32, ()>::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all values; all handles become stale. O(n).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// queue.clear();
    /// assert_eq!(queue.get(key), None);
    /// ```
    pub fn clear(&mut self) {
        self.heap.clear();
    }

    /// Iterates over all values with their handles and priorities, in no particular order. O(n) in
    /// total.
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::new();
    /// let key = queue.push(7, "tea");
    /// assert_eq!(queue.iter().collect::<Vec<_>>(), [(key, &7, &"tea")]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (TimerKey, &P, &T)> {
        self.heap
            .iter()
            .map(|(key, entry, value)| (key, &entry.priority, value))
    }

    /// Returns all values, least priority first. O(n log n), faster than popping them.
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// assert_eq!(queue.into_sorted_vec(), [(3, "milk"), (7, "tea")]);
    /// ```
    pub fn into_sorted_vec(self) -> Vec<(P, T)> {
        let sorted = self.heap.into_sorted().into_iter();
        sorted
            .map(|(entry, value)| (entry.priority, value))
            .collect()
    }

    /// Frees unused memory, except gaps between records and room for 1,024 values. O(n).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::from_iter([(7, "tea"), (3, "milk")]);
    /// queue.shrink_to_fit();
    /// assert_eq!(queue.len(), 2);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.heap.shrink_to_fit();
    }

    /// Returns the bytes taken by the queue and its allocations, excluding memory that priorities
    /// and values own. O(1).
    ///
    /// ```
    /// use punctual::PriorityQueue;
    /// let mut queue = PriorityQueue::from_iter((0..10_000u64).map(|n| (n, n)));
    /// queue.shrink_to_fit();
    /// assert!(queue.memory() < 10_000 * 33);
    /// ```
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.heap.memory()
    }
}

#[inline]
fn ranked<P>(priority: P) -> impl FnOnce(NonZeroU32, u32) -> Ranked<P> {
    move |sequence, index| Ranked {
        priority,
        sequence,
        index,
    }
}

#[inline]
fn popped<P, T>((_, entry, value): (TimerKey, Ranked<P>, T)) -> (P, T) {
    (entry.priority, value)
}

impl<P: Ord, T, const D: usize> Default for PriorityQueue<P, T, D> {
    fn default() -> Self {
        Self::with_arity()
    }
}

/// Adds many values. O(n) for all of them together; O(log n) for each if there are few.
///
/// ```
/// use punctual::PriorityQueue;
/// let mut queue = PriorityQueue::new();
/// queue.extend([(7, "tea"), (3, "milk")]);
/// assert_eq!(queue.pop(), Some((3, "milk")));
/// ```
impl<P: Ord, T, const D: usize> Extend<(P, T)> for PriorityQueue<P, T, D> {
    fn extend<I: IntoIterator<Item = (P, T)>>(&mut self, values: I) {
        let values = values.into_iter();
        self.heap
            .extend(values.map(|(priority, value)| (ranked(priority), value)));
    }
}

/// Returns a queue of these values with 4 children per entry. O(n). For another arity, extend an
/// empty queue.
///
/// ```
/// use punctual::PriorityQueue;
/// let mut queue: PriorityQueue<_, _> = [(7, "tea"), (3, "milk")].into_iter().collect();
/// assert_eq!(queue.pop(), Some((3, "milk")));
/// ```
impl<P: Ord, T> FromIterator<(P, T)> for PriorityQueue<P, T> {
    fn from_iter<I: IntoIterator<Item = (P, T)>>(values: I) -> Self {
        let mut queue = Self::new();
        queue.extend(values);
        queue
    }
}
