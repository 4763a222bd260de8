//! Deadline queues: values that fall due at a tick, behind one contract.
//!
//! A deadline is a `u64` tick of any length; [`tick`](crate::tick) turns times into ticks. No
//! queue reads a clock: `now` is passed in, and what is due at a tick is what has a deadline at or
//! before it.
//!
//! | queue | best for |
//! |---|---|
//! | [`Adaptive`] | whoever does not want to choose: an array while timers are few, then a `Wheel` |
//! | [`Wheel`](wheel::Wheel) | everything, from one timer to tens of millions |
//! | [`Heap`] | a few thousand timers that nearly all fire |
//! | [`PriorityQueue`] | priorities of any type, without time |
//! | [`RawWheel`](wheel::RawWheel) | timers that already live in a structure of their own |

mod adaptive;
mod armings;
mod few;
mod heap;
mod prefetch;
mod priority;
mod shorten;
mod slab;
pub mod wheel;

pub use adaptive::Adaptive;
pub use heap::Heap;
pub use priority::{PriorityQueue, TotalF64};

// The model that every queue is held against; tests and fuzzing share it.
#[cfg(test)]
#[path = "../../tests/model/mod.rs"]
mod model;

/// A handle to a timer in a queue.
///
/// It names a record and the record's tenant. A handle whose timer has fired or was removed is
/// refused for good, even after its record was reused.
///
/// ```
/// use punctual::{DeadlineQueue, Wheel};
///
/// let mut wheel = Wheel::new();
/// let old = wheel.insert(10, "old");
/// wheel.remove(old);
/// let new = wheel.insert(10, "new");
/// assert_eq!(old.index(), new.index()); // the same record
/// assert_eq!(wheel.get(old), None);
/// assert_eq!(wheel.get(new), Some(&"new"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey {
    index: u32,
    generation: u32,
}

impl TimerKey {
    /// The handle with these parts. O(1).
    ///
    /// ```
    /// use punctual::TimerKey;
    /// let key = TimerKey::new(3, 1);
    /// assert_eq!((key.index(), key.generation()), (3, 1));
    /// ```
    pub const fn new(index: u32, generation: u32) -> Self {
        TimerKey { index, generation }
    }

    /// The record's number. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TimerKey::new(3, 1).index(), 3);
    /// ```
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The tenant's number. O(1).
    ///
    /// ```
    /// assert_eq!(punctual::TimerKey::new(3, 1).generation(), 1);
    /// ```
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The handle as one number, for foreign interfaces. O(1).
    ///
    /// ```
    /// use punctual::TimerKey;
    /// let key = TimerKey::new(3, 1);
    /// assert_eq!(TimerKey::from_bits(key.to_bits()), key);
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The handle [`to_bits`](Self::to_bits) was taken from; any other number gives a handle that
    /// a queue refuses, or that of some timer. O(1).
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

/// A timer that fell due and left its queue.
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
    /// The handle it had.
    pub key: TimerKey,
    /// The tick it was due at, which may lie well before the tick it was popped at.
    pub deadline: u64,
    /// Its value.
    pub value: T,
}

/// What a bounded look for due timers came to.
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
    /// This timer fell due.
    Due(Expired<T>),
    /// The budget is used up; there may be more to do now.
    Busy,
    /// Nothing is due.
    Idle,
}

/// A queue of values with deadlines.
///
/// Every implementation keeps to this:
///
/// - Timers are popped in the order of their deadlines, equal ones in the order in which they were
///   armed ([`insert`](Self::insert) and [`reset`](Self::reset) both arm).
/// - Nothing is popped before its deadline, whatever `now` does: it may stand still or step back.
/// - Every `u64` is a deadline; one in the past is due at once.
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
    /// Arms a timer. The complexity is the queue's: O(1) for the wheel.
    ///
    /// # Panics
    ///
    /// If there would be more than 2^32 - 1 timers.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey;

    /// Cancels a timer and gives its value; `None` if the handle is stale. O(1) for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.remove(key), Some("tea"));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    fn remove(&mut self, key: TimerKey) -> Option<T>;

    /// Arms a timer anew, earlier or later; false if the handle is stale. O(1) for the wheel.
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

    /// A timer's value. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// A timer's value, to be changed. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, 1);
    /// *wheel.get_mut(key).unwrap() += 1;
    /// assert_eq!(wheel.remove(key), Some(2));
    /// ```
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T>;

    /// The tick a timer is due at. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.deadline(key), Some(10));
    /// ```
    fn deadline(&self, key: TimerKey) -> Option<u64>;

    /// How many timers are armed. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.len(), 1);
    /// ```
    fn len(&self) -> usize;

    /// Whether no timer is armed. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// assert!(Wheel::<()>::new().is_empty());
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers; their handles are stale from now on. O(n).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// wheel.clear();
    /// assert_eq!(wheel.get(key), None);
    /// ```
    fn clear(&mut self);

    /// All timers with their deadlines, in no particular order. O(n) for all.
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

    /// Takes out the first timer due at `now`; `None` if none is. O(1) amortised for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.pop_due(9), None);
    /// assert_eq!(wheel.pop_due(10).map(|expired| expired.value), Some("tea"));
    /// ```
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>>;

    /// A lower bound of all deadlines, in a few instructions; `None` only if no timer is armed.
    /// After `pop_due(now)` has answered `None` it lies after `now`, so a loop that sleeps until
    /// then and pops makes progress. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert!(wheel.next_wakeup().is_some_and(|tick| tick <= 1_000));
    /// ```
    fn next_wakeup(&self) -> Option<u64>;

    /// The earliest deadline; `None` if no timer is armed. O(1) amortised for the wheel.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert_eq!(wheel.next_deadline(), Some(1_000));
    /// ```
    fn next_deadline(&mut self) -> Option<u64>;

    /// [`pop_due`](Self::pop_due) with bounded work: every timer popped takes 1 from `budget`, and
    /// so does every entry that the queue moves or drops meanwhile, where it has such. A million
    /// timers due in one tick are popped over as many calls as the caller has other things to do
    /// in between. O(budget) for the wheel.
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
    ///         Polled::Busy => turns += 1, // time to look at the sockets
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

    /// Gives back what memory can be given back without touching living timers. O(n).
    ///
    /// A queue does this by itself when it empties after being large; a wheel a little at a time, with the calls that
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

    /// Bytes taken by the queue itself and by its allocations, without what the values own. O(1),
    /// or nearly so.
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let mut wheel = Wheel::new();
    /// (0..100_000).for_each(|tick| { wheel.insert(tick, tick); });
    /// assert!(wheel.memory() < 100_000 * 48);
    /// ```
    fn memory(&self) -> usize;
}
