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
//! Insert 900 and 5,000 while the cursor is at 0. 900 is 14 x 64 + 4: its highest digit belongs to
//! level 1, so it is filed in slot 14 of level 1. 5,000 is 1 x 4,096 + 14 x 64 + 8 and is filed in
//! slot 1 of level 2. The bitmaps of occupied levels and slots give the first slot, which starts at
//! 896: the wheel can sleep until then. At 896 the slot is opened and its timers are sorted into
//! the run; 900 is popped when it is due. Now the first slot starts at 4,096. When the clock is
//! there, the slot is opened in one of two ways. Up to 512 entries go to the run at once, 5,000
//! among them. If there are more, the cursor moves to 4,096, the slot is *pending*, and its entries
//! are filed again below: 5,000 differs from 4,096 in the digit of level 1, so it goes to slot 14
//! of that level, which now spans 4,992 to 5,055.
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
//! | undecided | `insert` of a timer that is not due before all others | any other call that files or pops; the 32nd such timer | The timer is not due before `earliest.first` |
//! | held | an entry due before all others | another such entry, a pop, a search | It is in no slot and not in front; `first` is a bound of all others |
//! | spare | the removal of a timer | the record's next timer; its slot, when opened | The record keeps the entry's tick, and no other entry |
//! | stale | a re-arm to later | its slot, when opened | An entry is never filed later than its timer is due |
//! | dead | a re-arm to earlier, [`RawWheel::forget`] | its slot, when opened; the sweep | Fewer than the live timers plus about 512 |
//! | staged | an entry before the cursor | the next step or search | Its sequence is not known yet |
//! | run, heap | an opened slot; a staged or unordered entry | a pop | In order of (deadline, sequence); the run's entries before `clear_until` precede all others |
//! | pending (`floor` > 1) | an opened slot of over 512 entries | its last entry | It is the slot of the cursor's digit; new entries for the levels below go into it |
//! | unordered (a bit for each slot) | a stale entry, a re-arm to the same tick, a sweep, an entry while others are dead | the slot, when empty | Without it, equal deadlines are in the sequence of arming |
//! | cursor at the end | the last entry's removal | the 513th entry | All entries are in front, where a few hundred take less memory |
//! | leftovers, tail | `few`; packing | calls that find nothing due | No call frees more than some ten kilobytes |

mod ahead;
mod chunk;
mod cursor;
mod earliest;
mod few;
#[cfg(test)]
mod few_tests;
mod front;
#[cfg(test)]
mod invariants;
mod level;
mod memory;
mod raw;
mod records;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod undecided;

pub use chunk::Entry;
pub use raw::RawWheel;
pub use timers::{Step, Timers};

use super::armings::Armings;
use super::slab::{Slab, Tenant};
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use core::mem::size_of;
use few::FEW_MAX;
use records::{Filed, Timer};
use undecided::Undecided;

/// A hierarchical timing wheel that stores its timers. Arming, cancelling and re-arming take O(1);
/// popping in exact order and finding the next deadline take O(1) amortised.
///
/// A timer takes 36 bytes plus its value, padded to 8 bytes. Dead entries take 12 bytes each; there
/// are fewer of them than live timers plus about 512. The record and the entry of a cancelled timer
/// are reused by the next timer. An empty wheel takes about 950 bytes and allocates nothing. While
/// it has at most 32 timers it files no entries and looks at all timers instead, which is faster.
///
/// A wheel that a call finds empty, or whose last of over a thousand timers is gone, frees its
/// memory in pieces, one with each call that finds nothing due.
///
/// # Examples
///
/// ```
/// use punctual::{DeadlineQueue, Wheel};
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

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Wheel<T> {
    /// Returns an empty wheel. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{DeadlineQueue, Wheel};
    /// let wheel: Wheel<u32> = Wheel::new();
    /// assert!(wheel.is_empty());
    /// ```
    pub const fn new() -> Self {
        Wheel {
            records: Slab::new(),
            raw: RawWheel::new(),
            armings: Armings::new(),
            undecided: Undecided::new(),
            is_few: true,
        }
    }

    /// Files an entry for the timer `index`, instead of the one that its record has.
    #[inline(always)]
    fn file_instead(&mut self, deadline: u64, index: u32, filed: Filed) {
        let to = Filed::at(deadline);
        self.records.keep(index, to);
        self.raw.add(to.entry(to.tick(), index));
        if filed != Filed::NOT {
            self.raw.forget_among(self.records.len(), &mut self.records);
        }
    }

    /// Files an entry for the timer `index` if it is not due before all others, but before the
    /// entry of its record. Returns whether it did. The common case of
    /// [`place_early`](Self::place_early).
    #[inline(always)]
    fn file_later(&mut self, deadline: u64, index: u32, filed: Filed) -> bool {
        let is_later = deadline >= self.raw.earliest.first() && deadline < filed.tick();
        if is_later {
            self.file_instead(deadline, index, filed);
        }
        is_later
    }

    /// Files an entry for the timer `index`, which may be due before all others.
    #[inline(never)]
    fn file(&mut self, deadline: u64, index: u32, filed: Filed) {
        if deadline < self.raw.earliest.first() {
            self.raw.settle_held(&mut self.records);
        }
        self.file_instead(deadline, index, filed);
    }

    /// Has the timer of `key` fire at `deadline`, given the tick under which an entry of its record
    /// is filed. Returns the key, so that `insert` ends with a jump and saves no registers.
    #[inline(never)]
    fn place_early(&mut self, deadline: u64, key: TimerKey, filed: Filed) -> TimerKey {
        let index = key.index();
        if self.is_few {
            self.note_early(deadline, index);
            return key;
        }
        let is_covered = deadline > filed.tick() && deadline != u64::MAX;
        if is_covered || self.file_later(deadline, index, filed) {
            return key;
        }
        if self.raw.earliest.holds_at(index, filed.tick()) {
            if deadline < filed.tick() {
                let to = Filed::at(deadline);
                self.records.keep(index, to);
                self.raw.hold_earlier(to.entry(deadline, index));
            }
        } else if filed != Filed::at(deadline) {
            self.file(deadline, index, filed);
        } else if deadline == u64::MAX - 1 {
            // The entry may serve `u64::MAX`, and be filed there by now.
            self.file(deadline - 1, index, filed);
        } else {
            self.raw.mark_unordered(filed.tick());
        }
        key
    }

    /// Re-arms a timer whose entry may be found too late.
    #[inline(never)]
    fn reset_early(&mut self, key: TimerKey, deadline: u64) -> bool {
        if self.armings.must_renumber() {
            self.renumber();
        }
        // In the sequence of arming, and while this timer still has the deadline that its entry has.
        self.decide();
        if let Some((timer, filed)) = self.records.get_kept_mut(key) {
            timer.sequence = self.armings.next();
            timer.deadline = deadline;
            self.place_early(deadline, key, filed);
        }
        true
    }

    /// Files entries for the undecided timers that still need one. O(1).
    #[inline]
    fn decide(&mut self) {
        if !self.undecided.is_empty() {
            self.decide_all(TimerKey::new(0, 0));
        }
    }

    /// Returns the key, as the other outlined parts of `insert` do: `insert` ends with a jump and
    /// saves no registers.
    #[inline(never)]
    fn decide_all(&mut self, key: TimerKey) -> TimerKey {
        for at in 0..self.undecided.take() {
            let index = self.undecided.taken(at);
            if let Some((timer, filed)) = self.records.kept_at(index) {
                let (deadline, key) = (timer.deadline, timer.key(index));
                if !self.file_later(deadline, index, filed) {
                    self.place_early(deadline, key, filed);
                }
            }
        }
        key
    }

    /// Inserts into a wheel that needs room or has run out of armings.
    #[cold]
    #[inline(never)]
    fn insert_slowly(&mut self, deadline: u64, value: T) -> TimerKey {
        if self.armings.must_renumber() {
            self.renumber();
        }
        if self.is_few {
            self.reserve_few();
        }
        if !self.is_few {
            self.records.reserve(usize::MAX);
        }
        self.insert(deadline, value)
    }

    /// Frees memory if the removed timer was the last one.
    #[inline]
    fn release(&mut self) {
        if self.records.len() == 0 && !self.is_few {
            self.release_all();
        }
    }

    /// Starts anew after the last of many timers was removed. The entries of fewer timers stay
    /// until a call finds nothing due: if other timers come before, they reuse them.
    #[inline(never)]
    fn release_all(&mut self) {
        if self.records.is_large() {
            self.become_few();
        }
        self.raw.has_memory_to_free = true;
    }

    /// Frees a piece of memory if some is pending. Called when nothing is due.
    #[inline]
    fn free_piece_if_any(&mut self) {
        if self.has_memory_to_free() {
            self.free_piece();
        }
    }

    /// Returns whether memory may be waiting to be freed. O(1).
    #[inline]
    pub(crate) fn has_memory_to_free(&self) -> bool {
        self.raw.has_memory_to_free
    }

    /// Frees a piece of memory. Returns whether more is waiting. O(1), about 10 us.
    #[cold]
    #[inline(never)]
    pub(super) fn free_piece(&mut self) -> bool {
        if self.is_empty() && !self.is_few {
            self.become_few();
        }
        let more = self.raw.pool.free_piece() | self.records.free_piece();
        self.raw.has_memory_to_free = more;
        more
    }

    /// Number of entries, dead ones included, which `next_deadline` may have to move. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn entries(&self) -> usize {
        self.raw.entries()
    }

    /// Pops the earliest timer if it is due. Both ways are jumps, so a wheel of few timers saves no
    /// registers for the other.
    #[inline(never)]
    fn pop_next(&mut self, now: u64) -> Option<Expired<T>> {
        if self.is_few {
            return self.pop_few(now);
        }
        self.pop_run(now)
    }

    /// Does so in a wheel with entries. The common case is the next entry of the run, whose timer is
    /// unchanged: one access to the record.
    #[inline(never)]
    fn pop_run(&mut self, now: u64) -> Option<Expired<T>> {
        if self.undecided.is_empty()
            && let Some(next) = self.raw.peek_run(now)
            && let Some(timer) = self.records.take_if(next.index, |timer| {
                (timer.deadline, timer.sequence.get()) == (next.deadline, next.sequence)
            })
        {
            self.raw.front.advance();
            self.raw.fired(next.deadline);
            return Some(self.expire(next.index, timer));
        }
        self.pop_slowly(now)
    }

    #[inline(never)]
    fn pop_slowly(&mut self, now: u64) -> Option<Expired<T>> {
        self.decide();
        let Some(due) = self.raw.pop_due(now, &mut self.records) else {
            self.free_piece_if_any();
            return None;
        };
        let timer = self.records.take(due.index)?;
        Some(self.expire(due.index, timer))
    }

    /// Ends the removal of a due timer, whose entry was removed.
    #[inline]
    fn expire(&mut self, index: u32, timer: Timer<T>) -> Expired<T> {
        self.records.keep(index, Filed::NOT);
        self.release();
        Expired {
            key: timer.key(index),
            deadline: timer.deadline,
            value: timer.value,
        }
    }

    /// Numbers the armings of all timers anew. O(n log n), once in two billion armings.
    #[cold]
    fn renumber(&mut self) {
        self.records.renumber(&mut self.armings);
        self.raw.front.restage();
    }
}

impl<T> DeadlineQueue<T> for Wheel<T> {
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
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
        if deadline <= first {
            return self.place_early(deadline, key, filed);
        }
        let is_early = (deadline <= filed.tick()) | (deadline == u64::MAX);
        if self.undecided.push_if(is_early, key.index()) {
            return self.decide_all(key);
        }
        key
    }

    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.records.remove(key)?;
        self.release();
        Some(timer.value)
    }

    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
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

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.records.get(key).map(|timer| &timer.value)
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.records.get_mut(key).map(|timer| &mut timer.value)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        self.records.get(key).map(|timer| timer.deadline)
    }

    #[inline]
    fn len(&self) -> usize {
        self.records.len()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.raw.clear();
        self.become_few();
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        self.records
            .iter()
            .map(|(index, timer)| (timer.key(index), timer.deadline, &timer.value))
    }

    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        if self.raw.is_idle(now) {
            self.free_piece_if_any();
            return None;
        }
        self.pop_next(now)
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.raw.earliest.bound())
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        let known = self.raw.earliest.known(&self.records);
        known.or_else(|| self.find_first())
    }

    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
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

    fn shrink_to_fit(&mut self) {
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

    /// O(number of pool segments).
    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<RawWheel>() + self.raw.memory() + self.records.memory()
    }
}
