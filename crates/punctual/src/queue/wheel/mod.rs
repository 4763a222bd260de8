//! Hierarchical timing wheels. [`Wheel`] stores its timers; the caller of [`RawWheel`] stores the
//! timers itself.
//!
//! A wheel keeps *entries* of 12 bytes: an index, a generation, and the lower 32 bits of the
//! deadline. The timer itself is in a *record* of the wheel's owner, which is the [`Wheel`] or the
//! caller of the [`RawWheel`]. The index identifies the record, and the generation shows whether
//! the entry still belongs to its timer. The raw wheel reads the record through [`Timers`]: the
//! deadline, and the *sequence*, which is the number of the timer's last arming. To *file* an entry
//! is to put it into a slot or into the *front*, which has the entries that are popped next.
//!
//! # Levels and slots
//!
//! There are eleven levels of 64 slots. A slot of level *l* spans 64^*l* ticks, so the levels span
//! all of `u64` and no slot wraps around. The *cursor* is a tick; every entry in a slot is due at
//! the cursor or later. Write the entry's deadline and the cursor in base 64. The highest digit in
//! which they differ gives the entry's level, and that digit of the deadline gives its slot.
//!
//! ```text
//! cursor 0          slot   0     1    ...   14   ...   63      each slot spans
//!        level 0        |  0  |  1  | ... |  14  | ... |  63  |  1 tick
//!        level 1        |     | 64- | ... | 896- | ... | 4032-|  64 ticks     900 is in slot 14
//!        level 2        |     |4096-| ... |57344-| ... |      |  4,096 ticks  5,000 is in slot 1
//!        ...
//!        level 10                                               2^60 ticks
//!
//!                first slot, up to RUN_MAX entries
//! slots ------------------------------------------> run  --+
//!    ^  \---- first slot, more entries: to lower levels     +--> due, in order
//!    |                                                      |
//! new entry ---- before the cursor: staged ------> heap ---+
//! ```
//!
//! For example, file entries for 900 and 5,000 while the cursor is at 0. (This example leaves out
//! the states below in which an entry is in no slot.)
//!
//! 1. 900 is 14 x 64 + 4. Its highest digit belongs to level 1, so its entry goes to slot 14 of
//!    level 1. 5,000 is 1 x 4,096 + 14 x 64 + 8, so its entry goes to slot 1 of level 2.
//! 2. Bitmaps of the occupied levels and slots give the first slot, which starts at 896. The wheel
//!    can sleep until tick 896.
//! 3. At tick 896 the wheel opens that slot: it sorts the slot's entries into the *run*. The timer
//!    due at 900 is popped from the run at tick 900.
//! 4. Now the first slot starts at 4,096. If it has at most `RUN_MAX` (512) entries, the wheel
//!    moves all of them to the run. If it has more, the cursor moves to 4,096, the slot becomes
//!    *pending*, and the wheel files its entries again on lower levels (a *cascade*). There 5,000
//!    differs from the cursor in the digit of level 1, so it goes to slot 14 of level 1, which now
//!    spans 4,992 to 5,055.
//!
//! # Differences from wheels of linked timers
//!
//! - **Cancelling a timer touches only its record.** The entry stays in its slot. The next timer
//!   that gets the same record reuses the entry, unless that timer is due earlier. So a program
//!   that arms and cancels timeouts rarely files an entry.
//! - **Re-arming a timer to a later tick touches only its record.** When the wheel opens the slot,
//!   it finds that the entry is stale and files it again.
//! - **A slot is a list of chunks** of `CHUNK` (20) entries. A cascade reads memory in sequence
//!   instead of following a pointer for each timer.
//!
//! # States
//!
//! Each item describes a state of a wheel, a timer, an entry or a slot: the events that begin and
//! end the state, and what holds in between.
//!
//! - **Few** (`Wheel::is_few`). A call that finds the wheel empty begins this state, and so does
//!   the removal of the last of over a thousand timers. The 33rd timer ends it. The wheel has no
//!   entries, and all timers are in the first 32 records.
//! - **Undecided timer**. A new timer that may need an entry, and is due after `earliest.first`,
//!   the cached lower bound of all deadlines. A pop, a search for the earliest deadline, a re-arm
//!   that may need an entry, and the 32nd undecided timer end the state. The timer stays due after
//!   `earliest.first`.
//! - **Held entry**. An entry that is due before all others when it is filed. Another such entry, a
//!   pop, or a search for the earliest deadline ends the state. The entry is in no slot and not in
//!   the front; `earliest.first` is a lower bound of all other deadlines.
//! - **Spare entry**. The entry of a removed timer. The next timer in the record takes it, or the
//!   wheel drops it when it opens the slot. The record remembers the tick of the entry, and has no
//!   other entry.
//! - **Stale entry**. The entry of a timer that was re-armed to a later tick, until the wheel opens
//!   the slot. No entry is filed later than its timer is due.
//! - **Dead entry**. An entry that belongs to no timer, after a re-arm to an earlier tick, an
//!   `insert` that is due before the spare entry of the record, or [`RawWheel::forget`]. The wheel
//!   drops it when it opens the slot or in a sweep. There are fewer dead entries than live timers
//!   plus some hundreds.
//! - **Staged entry**. An entry that was filed before the cursor, until the next step or search.
//!   The wheel has not read its sequence from the record yet.
//! - **Entry in the run or the heap**. An entry of an opened slot, or an entry that was staged,
//!   until it is popped. The run and the heap are in the order of (deadline, sequence). The entries
//!   of the run before `run_first_until` precede all other entries.
//! - **Pending slot** (`pending_span` > 1). A slot that was opened with more than `RUN_MAX`
//!   entries, until its last entry is removed. The slot is at the cursor's digit of its level. New
//!   entries for the levels below it go into it.
//! - **Unordered slot** (a bit for each slot). A stale entry that is filed again, a re-arm to the
//!   same tick, a sweep, and an entry that is filed while other entries are dead set the bit. The
//!   removal of the last entry clears it. In a slot without the bit, entries with equal deadlines
//!   are in the sequence of arming.
//! - **Cursor at the end of time**. The state few begins this state, and so does a step that finds
//!   no entry. The 513th entry ends it. All entries before the last tick are in the front, where a
//!   few hundred entries take less memory than in slots.
//! - **Memory to free** (leftovers of the pool, tail of the records). The state few and packing the
//!   entries begin this state. Each call that finds nothing due frees pieces of about 32 KiB.

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

use super::armings::ArmingCounter;
use super::slab::{RecordBody, Slab};
use super::{Expired, Polled, TimerKey};
use core::mem::size_of;
use few::FEW_MAX;
use filing::Undecided;
use records::{Filed, Timer};

/// A hierarchical timing wheel that stores its timers. Arming, cancelling and re-arming take O(1);
/// popping in exact order and finding the next deadline take O(1) amortised.
///
/// A timer takes 36 bytes plus its value, padded to 8 bytes. A re-arm to an earlier tick leaves a
/// dead entry of 12 bytes; there are fewer dead entries than live timers plus some hundreds. The
/// next timer reuses the record and the entry of a cancelled timer. A new wheel takes about 750
/// bytes and allocates nothing. A wheel of up to 32 timers scans all of them instead of filing
/// entries, which is faster.
///
/// An empty wheel frees its memory in pieces: each call that finds nothing due frees one piece. The
/// wheel keeps room for at most 1,024 timers.
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
    arming_counter: ArmingCounter,
    /// New timers that may need an entry and are due after
    /// [`Earliest::first`](earliest::Earliest::first).
    undecided: Undecided,
    /// Whether the wheel has few timers and files no entries (see `few`).
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
            arming_counter: ArmingCounter::new(),
            undecided: Undecided::new(),
            is_few: true,
        }
    }

    /// Returns an empty wheel with room for the records of `capacity` timers. O(1).
    ///
    /// A record takes 24 bytes plus its value, padded to 8 bytes. The wheel allocates room for
    /// entries later, in blocks of 4 KiB, as it files them.
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
        if self.arming_counter.must_renumber() || !self.records.has_room() {
            return self.insert_slowly(deadline, value);
        }
        let sequence = self.arming_counter.next();
        let (key, filed) = self.records.insert(|generation| Timer {
            deadline,
            generation,
            sequence,
            value,
        });
        let first = self.raw.earliest.first();
        // `<=`, because a wheel of few timers also notes an arming for the same tick as the first.
        if deadline <= first {
            return self.ensure_entry(deadline, key, filed);
        }
        let is_early = (deadline <= filed.tick()) | (deadline == u64::MAX);
        if self.undecided.push_if(is_early, key.index()) {
            return self.file_all_undecided(key);
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
        self.free_if_empty();
        Some(timer.value)
    }

    /// Re-arms a timer to an earlier or later tick. Returns false if the handle is stale. O(1),
    /// amortised if the tick is earlier.
    ///
    /// Of the timers with the same deadline, this timer now fires last.
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
        let Some((timer, filed)) = self.records.get_mut_with_kept(key) else {
            return false;
        };
        let covered = filed.tick().max(self.raw.earliest.first());
        if deadline <= covered || deadline == u64::MAX || self.arming_counter.must_renumber() {
            return self.reset_slowly(key, deadline);
        }
        timer.sequence = self.arming_counter.next();
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

    /// Removes and returns the first timer due at `now`, or `None` if no timer is due. O(1)
    /// amortised.
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

    /// Pops like [`pop_due`](Self::pop_due), with bounded work. O(budget), except for a rare call
    /// that packs the entries of a wheel with little memory in use: O(n).
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
                let is_due = self.first_of_few().deadline <= now && !self.is_empty();
                return if is_due { Polled::Busy } else { Polled::Idle };
            }
            let popped = self.pop_few(now);
            *budget -= usize::from(popped.is_some());
            return popped.map_or(Polled::Idle, Polled::Due);
        }
        self.file_undecided();
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

    /// Frees unused memory, except gaps between records and room for 1,024 timers. O(n).
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
            self.records.set_all_kept(Filed::FEW);
        } else {
            self.records.shrink_to_fit(usize::MAX);
            self.raw.clear();
            self.become_many();
        }
    }

    /// Returns the bytes taken by the wheel and its allocations, excluding memory that the values
    /// own. O(1).
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
