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

mod armings;
mod heap;
mod prefetch;
mod priority;
mod shorten;
mod slab;
pub mod wheel;

pub use heap::Heap;
pub use priority::{PriorityQueue, TotalF64};

// The model against which every queue is tested; tests and fuzzing share it.
#[cfg(test)]
#[path = "../../tests/model/mod.rs"]
mod model;

/// A handle to a timer in a queue.
///
/// A key identifies a record and the record's generation. Once its timer has fired or was removed, the key
/// is *stale*: the queue refuses it for good, even after the record is reused.
///
/// ```
/// use punctual::{DeadlineQueue, Wheel};
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
/// use punctual::{DeadlineQueue, Wheel};
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
    /// The timer's deadline, which may be well before the tick at which it was popped.
    pub deadline: u64,
    /// The timer's value.
    pub value: T,
}

/// The result of [`DeadlineQueue::poll_due`].
///
/// ```
/// use punctual::{DeadlineQueue, Polled, Wheel};
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

/// A queue of values with deadlines.
///
/// Every implementation guarantees:
///
/// - Timers are popped in the order of their deadlines; timers with equal deadlines in the order in which
///   they were armed, by [`insert`](Self::insert) or [`reset`](Self::reset).
/// - No timer is popped before its deadline, even if `now` stands still or steps back.
/// - Every `u64` is a valid deadline; a deadline in the past is due at once.
/// - A stale handle is refused.
///
/// ```
/// use punctual::{DeadlineQueue, Wheel};
///
/// fn drain(queue: &mut impl DeadlineQueue<char>, now: u64) -> String {
///     core::iter::from_fn(|| queue.pop_due(now)).map(|expired| expired.value).collect()
/// }
///
/// let mut wheel = Wheel::new();
/// wheel.insert(20, 'c');
/// wheel.insert(10, 'a');
/// wheel.insert(10, 'b');
/// wheel.insert(30, 'd');
/// assert_eq!(drain(&mut wheel, 25), "abc");
/// ```
pub trait DeadlineQueue<T> {
    /// Arms a timer and returns its handle. O(1) for the wheel.
    ///
    /// # Panics
    ///
    /// If the queue would hold more than 2^32 - 1 timers.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey;

    /// Cancels a timer and returns its value, or `None` if the handle is stale. O(1) for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.remove(key), Some("tea"));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    fn remove(&mut self, key: TimerKey) -> Option<T>;

    /// Re-arms a timer to an earlier or later tick. Returns false if the handle is stale. O(1) for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert!(wheel.reset(key, 20));
    /// assert_eq!(wheel.pop_due(19), None);
    /// assert!(wheel.pop_due(20).is_some());
    /// assert!(!wheel.reset(key, 30));
    /// ```
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool;

    /// Returns a timer's value, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Returns a timer's value for modification, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, 1);
    /// *wheel.get_mut(key).unwrap() += 1;
    /// assert_eq!(wheel.remove(key), Some(2));
    /// ```
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T>;

    /// Returns a timer's deadline, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.deadline(key), Some(10));
    /// ```
    fn deadline(&self, key: TimerKey) -> Option<u64>;

    /// Returns the number of armed timers. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.len(), 1);
    /// ```
    fn len(&self) -> usize;

    /// Returns true if no timer is armed. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// assert!(Wheel::<()>::new().is_empty());
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers; all handles become stale. O(n).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// wheel.clear();
    /// assert_eq!(wheel.get(key), None);
    /// ```
    fn clear(&mut self);

    /// Iterates over all timers and their deadlines, in no particular order. O(n) in total.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.iter().collect::<Vec<_>>(), [(key, 10, &"tea")]);
    /// ```
    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a;

    /// Removes and returns the first timer due at `now`, or `None` if none is due. O(1) amortised for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.pop_due(9), None);
    /// assert_eq!(wheel.pop_due(10).map(|expired| expired.value), Some("tea"));
    /// ```
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>>;

    /// Returns a lower bound of all deadlines, or `None` if no timer is armed. O(1), a few instructions.
    ///
    /// After `pop_due(now)` has returned `None`, this bound is later than `now`, so a loop that sleeps until
    /// then and pops makes progress.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert!(wheel.next_wakeup().is_some_and(|tick| tick <= 1_000));
    /// ```
    fn next_wakeup(&self) -> Option<u64>;

    /// Returns the earliest deadline, or `None` if no timer is armed. O(1) amortised for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert_eq!(wheel.next_deadline(), Some(1_000));
    /// ```
    fn next_deadline(&mut self) -> Option<u64>;

    /// Does what [`pop_due`](Self::pop_due) does, with bounded work. O(budget) for the wheel.
    ///
    /// Every popped timer takes 1 from `budget`, and so does every entry that the queue moves or drops on the
    /// way. A million timers due at one tick are thus popped over several calls, between which the caller can
    /// do other work.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Polled, Wheel};
    ///
    /// let mut wheel = Wheel::new();
    /// (0..1_000).for_each(|n| { wheel.insert(7, n); });
    ///
    /// let (mut fired, mut turns) = (0, 0);
    /// loop {
    ///     let mut budget = 64;
    ///     match wheel.poll_due(7, &mut budget) {
    ///         Polled::Due(_) => fired += 1,
    ///         Polled::Busy => turns += 1, // time for other work
    ///         Polled::Idle => break,
    ///     }
    /// }
    /// assert_eq!(fired, 1_000);
    /// ```
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return Polled::Idle;
        }
        let Some(left) = budget.checked_sub(1) else {
            return Polled::Busy;
        };
        *budget = left;
        self.pop_due(now).map_or(Polled::Idle, Polled::Due)
    }

    /// Frees memory that no armed timer needs. O(n).
    ///
    /// A queue also does this when it becomes empty after being large; a wheel in pieces, with the calls that
    /// find nothing due.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.len(), 1);
    /// ```
    fn shrink_to_fit(&mut self);

    /// Returns the bytes taken by the queue and its allocations, excluding memory that the values own. O(1), or
    /// nearly so.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// (0..100_000).for_each(|tick| { wheel.insert(tick, tick); });
    /// assert!(wheel.memory() < 100_000 * 64);
    /// ```
    fn memory(&self) -> usize;
}
