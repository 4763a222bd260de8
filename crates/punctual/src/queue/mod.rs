//! Deadline queues: collections of values that become due at a tick.
//!
//! A deadline is a `u64` tick of any length; [`tick`](crate::tick) converts times to ticks. No
//! queue reads a clock: callers pass `now`. A timer is due if its deadline is at or before `now`.
//!
//! | queue | best for |
//! |---|---|
//! | [`Wheel`](wheel::Wheel) | the default: any number of timers, from one to tens of millions |
//! | [`Heap`] | a few thousand timers that nearly all fire |
//! | [`PriorityQueue`] | priorities of any type, without time |
//! | [`RawWheel`](wheel::RawWheel) | timers that the caller already stores |
//!
//! [`DeadlineQueue`] is for code that works with any queue of timers.

mod armings;
mod heap;
mod prefetch;
mod priority;
mod shorten;
mod slab;
pub mod wheel;

pub use heap::Heap;
#[doc(hidden)] // for the bindings only
pub use heap::placed;
pub use priority::{PriorityQueue, TotalF64};

// The model against which tests check every queue. Tests and fuzzing share it.
#[cfg(test)]
#[path = "../../tests/model/mod.rs"]
mod model;

/// A handle to a timer in a queue.
///
/// A key identifies a record and the record's generation. Once its timer has fired or was removed,
/// the key is *stale*: the queue refuses it for good, even after the record is reused.
///
/// ```
/// use punctual::Wheel;
///
/// let mut wheel = Wheel::new();
/// let old = wheel.insert(10, "old");
/// wheel.remove(old);
/// let new = wheel.insert(10, "new");
/// assert_eq!(old.index(), new.index()); // the record was reused
/// assert_eq!(wheel.get(old), None);
/// assert_eq!(wheel.get(new), Some(&"new"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey {
    index: u32,
    generation: u32,
}

impl TimerKey {
    /// Returns the handle with this index and generation. O(1).
    ///
    /// ```
    /// use punctual::TimerKey;
    /// let key = TimerKey::new(3, 1);
    /// assert_eq!((key.index(), key.generation()), (3, 1));
    /// ```
    pub const fn new(index: u32, generation: u32) -> Self {
        TimerKey { index, generation }
    }

    /// Returns the index of the record. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TimerKey::new(3, 1).index(), 3);
    /// ```
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the generation of the record. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TimerKey::new(3, 1).generation(), 1);
    /// ```
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Returns the handle as one number, for foreign interfaces. O(1).
    ///
    /// ```
    /// use punctual::TimerKey;
    /// let key = TimerKey::new(3, 1);
    /// assert_eq!(TimerKey::from_bits(key.to_bits()), key);
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Restores a handle from [`to_bits`](Self::to_bits). O(1).
    ///
    /// Any other number gives a handle that is stale or belongs to an unrelated timer.
    ///
    /// ```
    /// assert_eq!(punctual::TimerKey::from_bits(1 << 32 | 3).index(), 3);
    /// ```
    pub const fn from_bits(bits: u64) -> Self {
        TimerKey {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// A due timer, removed from its queue.
///
/// ```
/// use punctual::Wheel;
///
/// let mut wheel = Wheel::new();
/// let key = wheel.insert(10, "tea");
/// let expired = wheel.pop_due(15).unwrap();
/// assert_eq!((expired.key, expired.deadline, expired.value), (key, 10, "tea"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The timer's handle, which is now stale.
    pub key: TimerKey,
    /// The timer's deadline. It may be well before the tick at which the timer was popped.
    pub deadline: u64,
    /// The timer's value.
    pub value: T,
}

/// The result of a queue's `poll_due`, such as [`Wheel::poll_due`](wheel::Wheel::poll_due).
///
/// ```
/// use punctual::{Polled, Wheel};
///
/// let mut wheel = Wheel::new();
/// wheel.insert(10, "tea");
/// assert_eq!(wheel.poll_due(9, &mut 100), Polled::Idle);
/// assert!(matches!(wheel.poll_due(10, &mut 100), Polled::Due(_)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// This timer is due.
    Due(Expired<T>),
    /// The budget is used up; more work may be left at this tick.
    Busy,
    /// Nothing is due.
    Idle,
}

/// A queue of values with deadlines, for code that is generic over the queue.
///
/// The queues have methods of the same names; the documentation of [`Wheel`](wheel::Wheel) has an
/// example of each.
///
/// Every implementation guarantees:
///
/// - Timers are popped in the order of their deadlines. Timers with equal deadlines are popped in
///   the order in which they were armed, by [`insert`](Self::insert) or [`reset`](Self::reset).
/// - No timer is popped before its deadline, even if `now` stands still or steps back.
/// - Every `u64` is a valid deadline; a deadline in the past is due at once.
/// - A stale handle changes nothing: methods return `None` or false for it.
///
/// ```
/// use punctual::{DeadlineQueue, Heap, Wheel};
///
/// fn drain(mut queue: impl DeadlineQueue<char>, now: u64) -> String {
///     for (deadline, value) in [(20, 'c'), (10, 'a'), (10, 'b'), (30, 'd')] {
///         queue.insert(deadline, value);
///     }
///     core::iter::from_fn(|| queue.pop_due(now)).map(|expired| expired.value).collect()
/// }
///
/// assert_eq!(drain(Wheel::new(), 25), "abc");
/// assert_eq!(drain(Heap::new(), 25), "abc");
/// ```
pub trait DeadlineQueue<T> {
    /// Arms a timer and returns its handle. Panics if the queue would hold more than 2^32 - 1
    /// timers; a [`Wheel`](wheel::Wheel) holds at most 2^32 - 2.
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey;

    /// Cancels a timer and returns its value, or `None` if the handle is stale.
    fn remove(&mut self, key: TimerKey) -> Option<T>;

    /// Re-arms a timer to an earlier or later tick. Returns false if the handle is stale.
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool;

    /// Returns a timer's value, or `None` if the handle is stale.
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Returns a timer's value for modification, or `None` if the handle is stale.
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T>;

    /// Returns a timer's deadline, or `None` if the handle is stale.
    fn deadline(&self, key: TimerKey) -> Option<u64>;

    /// Returns the number of armed timers.
    fn len(&self) -> usize;

    /// Returns true if no timer is armed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers; all handles become stale.
    fn clear(&mut self);

    /// Iterates over all timers and their deadlines, in no particular order.
    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a;

    /// Removes and returns the first timer due at `now`, or `None` if no timer is due.
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>>;

    /// Pops like [`pop_due`](Self::pop_due). Each popped timer takes 1 from `budget`, and so does
    /// each entry that a [`Wheel`](wheel::Wheel) moves or drops on the way.
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T>;

    /// Returns a lower bound of all deadlines, or `None` if no timer is armed.
    fn next_wakeup(&self) -> Option<u64>;

    /// Returns the earliest deadline, or `None` if no timer is armed.
    fn next_deadline(&mut self) -> Option<u64>;

    /// Frees unused memory, except gaps between records and room for 1,024 timers.
    fn shrink_to_fit(&mut self);

    /// Returns the bytes taken by the queue and its allocations, excluding memory that the values
    /// own.
    fn memory(&self) -> usize;
}

/// Implements [`DeadlineQueue`] with the queue's methods of the same names.
macro_rules! deadline_queue {
    ($Queue:ty $(, const $D:ident)?) => {
        impl<T $(, const $D: usize)?> $crate::DeadlineQueue<T> for $Queue {
            #[inline]
            fn insert(&mut self, deadline: u64, value: T) -> $crate::TimerKey {
                self.insert(deadline, value)
            }

            #[inline]
            fn remove(&mut self, key: $crate::TimerKey) -> Option<T> {
                self.remove(key)
            }

            #[inline]
            fn reset(&mut self, key: $crate::TimerKey, deadline: u64) -> bool {
                self.reset(key, deadline)
            }

            #[inline]
            fn get(&self, key: $crate::TimerKey) -> Option<&T> {
                self.get(key)
            }

            #[inline]
            fn get_mut(&mut self, key: $crate::TimerKey) -> Option<&mut T> {
                self.get_mut(key)
            }

            #[inline]
            fn deadline(&self, key: $crate::TimerKey) -> Option<u64> {
                self.deadline(key)
            }

            #[inline]
            fn len(&self) -> usize {
                self.len()
            }

            fn clear(&mut self) {
                self.clear();
            }

            fn iter<'a>(&'a self) -> impl Iterator<Item = ($crate::TimerKey, u64, &'a T)>
            where
                T: 'a,
            {
                self.iter()
            }

            #[inline]
            fn pop_due(&mut self, now: u64) -> Option<$crate::Expired<T>> {
                self.pop_due(now)
            }

            #[inline]
            fn poll_due(&mut self, now: u64, budget: &mut usize) -> $crate::Polled<T> {
                self.poll_due(now, budget)
            }

            #[inline]
            fn next_wakeup(&self) -> Option<u64> {
                self.next_wakeup()
            }

            #[inline]
            fn next_deadline(&mut self) -> Option<u64> {
                self.next_deadline()
            }

            fn shrink_to_fit(&mut self) {
                self.shrink_to_fit();
            }

            fn memory(&self) -> usize {
                self.memory()
            }
        }
    };
}
pub(in crate::queue) use deadline_queue;
