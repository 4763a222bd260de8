//! Hierarchical timing wheels: [`Wheel`] stores its timers; the caller of [`RawWheel`] stores them
//! itself.
//!
//! A wheel keeps *entries* of 12 bytes: an index, a generation, and the lower 32 bits of the
//! deadline. The timer itself is a record of its owner, which the wheel reads through [`Timers`].
//!
//! # Levels and slots
//!
//! There are eleven levels of 64 slots. A slot of level *l* spans 64^*l* ticks, so the levels span
//! all of `u64` and no slot wraps around. An entry lies on the level of the highest base-64 digit
//! in which its deadline differs from the *cursor*, in the slot of that digit of the deadline. All
//! entries in slots are due at or after the cursor.
//!
//! ```text
//! cursor 0          slot   0     1    ...   14   ...   63      each slot spans
//!        level 0        |  0  |  1  | ... |  14  | ... |  63  |  1 tick
//!        level 1        |     | 64- | ... | 896- | ... | 4032-|  64 ticks        900 is in slot 14
//!        level 2        |     |4096-| ... |57344-| ... |      |  4,096 ticks     5,000 is in slot 1
//!        ...
//!        level 10                                               2^60 ticks
//!
//!                first slot, up to 512 entries
//! slots ------------------------------------------> run  --+
//!    ^  \---- first slot, more entries: to lower levels     +--> due, in order
//!    |                                                      |
//! new entry ---- before the cursor: staged ------> heap ---+
//! ```
//!
//! File entries for 900 and 5,000 while the cursor is at 0. (The states below tell when an entry is
//! not filed in a slot: few timers have none, and the earliest entry is often held.) 900 is 14 x 64
//! + 4: its highest digit belongs to level 1, so it is filed in slot 14 of level 1. 5,000 is 1 x
//! 4,096 + 14 x 64 + 8 and is filed in slot 1 of level 2. The bitmaps of occupied levels and slots
//! give the first slot, which starts at 896: the wheel can sleep until then. At 896 the slot is
//! opened and its timers are sorted into the run; 900 is popped when it is due. Now the first slot
//! starts at 4,096. When the clock is there, the slot is opened in one of two ways. Up to 512
//! entries go to the run at once, 5,000 among them. If there are more, the cursor moves to 4,096,
//! the slot is *pending*, and its entries are filed again below: 5,000 differs from 4,096 in the
//! digit of level 1, so it goes to slot 14 of that level, which now spans 4,992 to 5,055.
//!
//! # What is different from linked lists of timers
//!
//! - **Cancelling touches the timer only.** Its entry stays, and the record's next timer reuses the
//!   entry unless that timer is due earlier. A program that arms and cancels timeouts rarely files
//!   an entry.
//! - **Re-arming later touches the timer only.** An entry that is found stale when its slot is
//!   opened is filed again.
//! - **Slots are lists of chunks** of 20 entries, so a cascade streams through memory instead of
//!   chasing nodes.
//!
//! # States
//!
//! | state | set by | cleared by | invariant |
//! |---|---|---|---|
//! | few (`Wheel::is_few`) | a call that finds the wheel empty; the removal of the last of over a thousand timers | the 33rd timer | There are no entries; all timers are in the first 32 records |
//! | undecided | `insert` of a timer that is due after `earliest.first` | any other call that files or pops; the 32nd such timer | The timer is still due after `earliest.first` |
//! | held | an entry due before all others | another such entry, a pop, a search | It is in no slot and not in front; `first` is a bound of all others |
//! | spare | the removal of a timer | the record's next timer; its slot, when opened | The record keeps the entry's tick, and no other entry |
//! | stale | a re-arm to later | its slot, when opened | An entry is never filed later than its timer is due |
//! | dead | a re-arm to earlier, an `insert` before the record's spare entry, [`RawWheel::forget`] | its slot, when opened; the sweep | Fewer than the live timers plus some hundreds |
//! | staged | an entry before the cursor | the next step or search | Its sequence is not known yet |
//! | run, heap | an opened slot; a staged or unordered entry | a pop | In order of (deadline, sequence); the run's entries before `clear_until` precede all others |
//! | pending (`floor` > 1) | an opened slot of over 512 entries | its last entry | It is the slot of the cursor's digit; new entries for the levels below go into it |
//! | unordered (a bit for each slot) | a stale entry, a re-arm to the same tick, a sweep, an entry while others are dead | the slot, when empty | Without it, equal deadlines are in the sequence of arming |
//! | cursor at the end | `few`; a step that finds no entry | the 513th entry | All entries before the last tick are in front, where a few hundred take less memory |
//! | leftovers, tail | `few`; packing | calls that find nothing due | No call frees more than some ten kilobytes |

mod ahead;
mod chunk;
mod cursor;
mod earliest;
mod few;
#[cfg(test)]
mod few_tests;
mod filing;
mod front;
mod level;
mod memory;
mod popping;
mod raw;
mod records;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;

pub use chunk::Entry;
pub use popping::Due;
pub use raw::RawWheel;
pub use timers::{Step, Timers};

use super::armings::Armings;
use super::slab::{Slab, Tenant};
use super::{Expired, Polled, TimerKey};
use core::mem::size_of;
use few::FEW_MAX;
use filing::Undecided;
use records::{Filed, Timer};

/// A hierarchical timing wheel that stores its timers. Arming, cancelling and re-arming take O(1);
/// popping in exact order and finding the next deadline take O(1) amortised.
///
/// A timer takes 36 bytes plus its value, padded to 8 bytes. Dead entries take 12 bytes each; there
/// are fewer of them than live timers plus some hundreds. The record and the entry of a cancelled
/// timer are reused by the next timer. An empty wheel takes about 950 bytes and allocates nothing.
/// Until it has more than 32 timers it files no entries and looks at all timers instead, which is
/// faster.
///
/// A wheel that a call finds empty, or whose last of over a thousand timers is gone, frees its
/// memory in pieces, one with each call that finds nothing due.
///
/// # Examples
///
/// ```
/// use punctual::Wheel;
///
/// let mut timeouts = Wheel::new();
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
pub struct Wheel<T> {
    records: Slab<Timer<T>>,
    raw: RawWheel,
    armings: Armings,
    /// New timers that need an entry, none due before the others.
    undecided: Undecided,
    /// Whether timers are few and have no entries (see `few`).
    is_few: bool,
}

super::deadline_queue!(Wheel<T>);

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Wheel<T> {
    /// Returns an empty wheel. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let wheel: Wheel<u32> = Wheel::new();
    /// assert!(wheel.is_empty());
    /// ```
    pub const fn new() -> Self {
        Wheel {
            records: Slab::new(0),
            raw: RawWheel::new(),
            armings: Armings::new(),
            undecided: Undecided::new(),
            is_few: true,
        }
    }

    /// Returns an empty wheel with room for the records of `capacity` timers. O(1).
    ///
    /// A record takes 24 bytes plus its value, padded to 8 bytes. The entries are in blocks of 4
    /// KiB, which the wheel allocates as it files them.
    ///
    /// # Panics
    ///
    /// If the records would take more than `isize::MAX` bytes.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let wheel: Wheel<u64> = Wheel::with_capacity(1_000);
    /// assert!(wheel.is_empty());
    /// assert!(wheel.memory() > 1_000 * 32);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Wheel {
            records: Slab::with_capacity(capacity),
            ..Self::new()
        }
    }

    /// Arms a timer and returns its handle. O(1).
    ///
    /// A deadline in the past is due at once.
    ///
    /// # Panics
    ///
    /// If the wheel would hold more than 2^32 - 2 timers.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        if self.armings.must_renumber() || !self.records.has_room() {
            return self.insert_slowly(deadline, value);
        }
        let sequence = self.armings.next();
        let (key, filed) = self.records.insert(|generation| Timer {
            deadline,
            generation,
            sequence,
            value,
        });
        let first = self.raw.earliest.first();
        // `<=`, because a wheel of few timers notes an arming for the first tick too.
        if deadline <= first {
            return self.place_early(deadline, key, filed);
        }
        let is_early = (deadline <= filed.tick()) | (deadline == u64::MAX);
        if self.undecided.push_if(is_early, key.index()) {
            return self.decide_all(key);
        }
        key
    }

    /// Cancels a timer and returns its value, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.remove(key), Some("tea"));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.records.remove(key)?;
        self.release();
        Some(timer.value)
    }

    /// Re-arms a timer to an earlier or later tick. Returns false if the handle is stale. O(1).
    ///
    /// The timer becomes the last of the timers with an equal deadline.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert!(wheel.reset(key, 20));
    /// assert_eq!(wheel.pop_due(19), None);
    /// assert!(wheel.pop_due(20).is_some());
    /// assert!(!wheel.reset(key, 30));
    /// ```
    #[inline]
    pub fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        let Some((timer, filed)) = self.records.get_kept_mut(key) else {
            return false;
        };
        let covered = filed.tick().max(self.raw.earliest.first());
        if deadline <= covered || deadline == u64::MAX || self.armings.must_renumber() {
            return self.reset_early(key, deadline);
        }
        timer.sequence = self.armings.next();
        timer.deadline = deadline;
        true
    }

    /// Returns a timer's value, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.get(key), Some(&"tea"));
    /// ```
    #[inline]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.records.get(key).map(|timer| &timer.value)
    }

    /// Returns a timer's value for modification, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, 1);
    /// *wheel.get_mut(key).unwrap() += 1;
    /// assert_eq!(wheel.remove(key), Some(2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.records.get_mut(key).map(|timer| &mut timer.value)
    }

    /// Returns a timer's deadline, or `None` if the handle is stale. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.deadline(key), Some(10));
    /// ```
    #[inline]
    pub fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.records.get(key).map(|timer| timer.deadline)
    }

    /// Returns the number of armed timers. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.len(), 1);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if no timer is armed. O(1).
    ///
    /// ```
    /// use punctual::Wheel;
    /// assert!(Wheel::<()>::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all timers; all handles become stale. O(n).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// wheel.clear();
    /// assert_eq!(wheel.get(key), None);
    /// ```
    pub fn clear(&mut self) {
        self.records.clear();
        self.raw.clear();
        self.become_few();
    }

    /// Iterates over all timers and their deadlines, in no particular order. O(n) in total.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(10, "tea");
    /// assert_eq!(wheel.iter().collect::<Vec<_>>(), [(key, 10, &"tea")]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (TimerKey, u64, &T)> {
        self.records
            .iter()
            .map(|(index, timer)| (timer.key(index), timer.deadline, &timer.value))
    }

    /// Removes and returns the first timer due at `now`, or `None` if none is due. O(1) amortised.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// assert_eq!(wheel.pop_due(9), None);
    /// assert_eq!(wheel.pop_due(10).map(|expired| expired.value), Some("tea"));
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        if self.raw.is_idle(now) {
            self.free_piece_if_any();
            return None;
        }
        self.pop_next(now)
    }

    /// Returns an iterator that pops the timers due at `now`, one with each step. O(1) amortised
    /// per timer.
    ///
    /// A timer that is not popped when the iterator is dropped stays due. To arm timers between two
    /// steps, call [`pop_due`](Self::pop_due) in a loop instead.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// for deadline in [30, 10, 20] {
    ///     wheel.insert(deadline, deadline);
    /// }
    /// let first = wheel.due(20).next();
    /// assert_eq!(first.map(|expired| expired.value), Some(10));
    /// let rest: Vec<_> = wheel.due(30).map(|expired| expired.value).collect();
    /// assert_eq!(rest, [20, 30]);
    /// ```
    #[inline]
    pub fn due(&mut self, now: u64) -> Due<'_, T> {
        Due { wheel: self, now }
    }

    /// Does what [`pop_due`](Self::pop_due) does, with bounded work. O(budget).
    ///
    /// Every popped timer takes 1 from `budget`, and so does every entry that the wheel moves or
    /// drops on the way. A million timers due at one tick are thus popped over several calls,
    /// between which the caller can do other work.
    ///
    /// ```
    /// use punctual::{Polled, Wheel};
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
    pub fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.raw.is_idle(now) {
            self.free_piece_if_any();
            return Polled::Idle;
        }
        if self.is_few {
            if *budget == 0 {
                let is_due = self.named_few().deadline <= now && !self.is_empty();
                return if is_due { Polled::Busy } else { Polled::Idle };
            }
            let popped = self.pop_few(now);
            *budget -= usize::from(popped.is_some());
            return popped.map_or(Polled::Idle, Polled::Due);
        }
        self.decide();
        match self.raw.step(now, &mut self.records, budget) {
            Step::Due(due) => match self.records.take(due.index) {
                Some(timer) => Polled::Due(self.expire(due.index, timer)),
                None => Polled::Busy,
            },
            Step::Busy => Polled::Busy,
            Step::Idle => {
                self.free_piece_if_any();
                Polled::Idle
            }
        }
    }

    /// Returns a lower bound of all deadlines, or `None` if no timer is armed. O(1), a few
    /// instructions.
    ///
    /// After `pop_due(now)` has returned `None`, this bound is later than `now`, so a loop that
    /// sleeps until then and pops makes progress.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert!(wheel.next_wakeup().is_some_and(|tick| tick <= 1_000));
    /// ```
    #[inline]
    pub fn next_wakeup(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.raw.earliest.bound())
    }

    /// Returns the earliest deadline, or `None` if no timer is armed. O(1) amortised.
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(1_000, "tea");
    /// assert_eq!(wheel.next_deadline(), Some(1_000));
    /// ```
    #[inline]
    pub fn next_deadline(&mut self) -> Option<u64> {
        let known = self.raw.earliest.known(&self.records);
        known.or_else(|| self.find_first())
    }

    /// Frees memory that no armed timer needs. O(n).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(10, "tea");
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.len(), 1);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        if self.is_empty() {
            self.become_few();
        }
        self.raw.pool.free_leftovers();
        self.raw.has_memory_to_free = false;
        if self.is_few {
            self.records.shrink_to_fit(FEW_MAX);
            self.records.all_keep(Filed::FEW);
        } else {
            self.records.shrink_to_fit(usize::MAX);
            self.raw.clear();
            self.become_many();
        }
    }

    /// Returns the bytes taken by the wheel and its allocations, excluding memory that the values
    /// own. O(number of pool segments).
    ///
    /// ```
    /// use punctual::Wheel;
    /// let mut wheel = Wheel::new();
    /// (0..100_000).for_each(|tick| { wheel.insert(tick, tick); });
    /// assert!(wheel.memory() < 100_000 * 64);
    /// ```
    pub fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<RawWheel>() + self.raw.memory() + self.records.memory()
    }
}
