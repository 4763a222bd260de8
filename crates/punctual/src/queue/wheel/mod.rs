//! Hierarchical timing wheels: [`Wheel`] stores its timers; the caller of [`RawWheel`] stores them itself.
//!
//! Differences from the usual design, doubly linked lists of timers (`make bench-timers` measures
//! both):
//!
//! - **Cancelling touches the timer only.** Unlinking from a list costs two more cache misses than
//!   the record itself. Here the entry stays, and the record's next timer reuses it unless that timer is
//!   due earlier. A program that arms and cancels timeouts rarely files an entry.
//! - **Re-arming later touches the timer only.** Its entry is filed again when its slot is opened. A
//!   timeout that is postponed a thousand times moves once for each old deadline that passes.
//! - **Slots are contiguous.** A cascade streams through small entries instead of chasing nodes.
//! - **Due slots are sorted.** A slot of up to 512 entries, on any level, is loaded and sorted as a
//!   whole; its timers are then popped in sequence.
//! - **Few timers have no entries.** Up to 32 are looked at, which is faster than filing an entry and finding it again.
//! - **Empty slots cost nothing.** Bitmaps find the next occupied slot, over all 64 bits of the tick.

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
mod leftovers;
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

pub use raw::RawWheel;
pub use timers::{Due, Step, Timers};

use super::armings::Armings;
use super::slab::{Slab, Tenant};
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use core::mem::size_of;
use records::{Filed, Timer};
use undecided::Undecided;

/// Number of timers below which a wheel may have few. It is a quarter of `few::MOST`, so that a load that varies by less
/// does not change a wheel back and forth.
const FEW: usize = 8;

/// A hierarchical timing wheel that stores its timers. Arming, cancelling and re-arming take O(1);
/// popping in exact order and finding the next deadline take O(1) amortised.
///
/// A timer takes 36 bytes plus its value, padded to 8 bytes. Dead entries take 12 bytes each; there are
/// fewer of them than live timers plus about 512. The record and the entry of a cancelled timer are reused
/// by the next timer. An empty wheel takes about 950 bytes and allocates nothing. While it has at most 32 timers it
/// files no entries and looks at all timers instead, which is faster.
///
/// After the last timer has left, the wheel frees its memory in pieces, one with each call that finds nothing due.
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
    /// Number of calls in succession that found few timers in the wheel.
    few_for: u32,
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
            few_for: 0,
        }
    }

    /// Files an entry for the timer `index` if it is not due before all others, but before the one that its record has.
    /// Returns whether it is. The common case of [`place_early`](Self::place_early).
    #[inline(always)]
    fn file_later(&mut self, deadline: u64, index: u32, filed: Filed) -> bool {
        if deadline < self.raw.earliest.first() || deadline >= filed.tick() {
            return false;
        }
        let earlier = Filed::at(deadline);
        if let Some(kept) = self.records.kept_mut(index) {
            *kept = earlier;
        }
        self.raw.insert_later(deadline, index, earlier.generation());
        if filed != Filed::NOT {
            self.raw.forget(&mut self.records);
        }
        true
    }

    /// Files an entry for the timer `index`.
    fn file(&mut self, deadline: u64, index: u32) {
        let filed = Filed::at(deadline);
        if let Some(kept) = self.records.kept_mut(index) {
            *kept = filed;
        }
        if deadline < self.raw.earliest.first() {
            self.raw.settle_held(&mut self.records);
        }
        self.raw.insert(filed.tick(), index, filed.generation());
    }

    /// Has the timer of `key` fire at `deadline`, given the tick under which an entry of its record is filed. Returns
    /// the key, so that `insert` ends with a jump and saves no registers.
    #[inline(never)]
    fn place_early(&mut self, deadline: u64, key: TimerKey, filed: Filed) -> TimerKey {
        if self.is_few {
            self.note_early(deadline, key.index());
            return key;
        }
        if deadline > filed.tick() && deadline != u64::MAX
            || self.file_later(deadline, key.index(), filed)
        {
            return key;
        }
        if self.raw.earliest.holds_at(key.index(), filed.tick()) {
            if deadline < filed.tick() {
                let earlier = Filed::at(deadline);
                self.raw.hold_earlier(deadline, earlier.generation());
                if let Some(kept) = self.records.kept_mut(key.index()) {
                    *kept = earlier;
                }
            }
            return key;
        }
        let mut tick = deadline;
        if filed == Filed::at(deadline) {
            // The entry may serve `u64::MAX`, and be filed there by now.
            if deadline != u64::MAX - 1 {
                self.raw.mix(filed.tick());
                return key;
            }
            tick -= 1;
        }
        self.file(tick, key.index());
        if filed != Filed::NOT {
            self.raw.forget(&mut self.records);
        }
        key
    }

    /// Re-arms a timer whose entry is not found in time, perhaps. Returns whether there is one, as `reset` does.
    #[inline(never)]
    fn reset_early(&mut self, key: TimerKey, deadline: u64) -> bool {
        // In the order of arming, and while this timer still has the deadline that its entry has.
        self.decide();
        let found = self.records.get_kept_mut(key);
        let is_found = found.is_some();
        if let Some((timer, filed)) = found {
            timer.order = self.armings.next();
            timer.deadline = deadline;
            self.place_early(deadline, key, filed);
        }
        is_found
    }

    /// Re-arms a timer in a wheel that has run out of armings.
    #[cold]
    #[inline(never)]
    fn reset_slowly(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.renumber();
        self.reset_early(key, deadline)
    }

    /// Files entries for the undecided timers that still need one. O(1).
    #[inline]
    fn decide(&mut self) {
        if !self.undecided.is_empty() {
            self.decide_all(TimerKey::new(0, 0));
        }
    }

    /// Returns the key, as the other outlined parts of `insert` do: `insert` ends with a jump and saves no registers.
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
            self.records.reserve();
        }
        self.insert(deadline, value)
    }

    /// Frees memory if the removed timer was the last one.
    #[inline]
    fn release(&mut self) {
        if self.records.len() == 0 {
            self.release_all();
        }
    }

    /// Notes that memory can be freed after the last of many timers was removed. Their entries stay: if the next
    /// timers come before a call that finds nothing due, they take them over.
    #[inline(never)]
    fn release_all(&mut self) {
        if self.records.begin_release() {
            self.raw.has_memory_to_free = true;
        }
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
        if self.is_empty() && !self.is_few && self.become_few() {
            return true;
        }
        let mut more = self.raw.free_piece();
        if self.records.tail_keeps() {
            // New timers came before the memory of earlier ones was freed. Their spare entries go first.
            if !self.raw.purge_on(&mut self.records) {
                self.records.forget_tail();
            }
            more = true;
        } else {
            more |= self.records.free_piece();
        }
        self.raw.has_memory_to_free = more;
        more
    }

    /// Number of entries, dead ones included, which `next_deadline` may have to move. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn entries(&self) -> usize {
        self.raw.entries()
    }

    /// Pops the earliest timer if it is due. Both ways are jumps, so a wheel of few timers saves no registers for the other.
    #[inline(never)]
    fn pop_next(&mut self, now: u64) -> Option<Expired<T>> {
        if self.is_few {
            return self.pop_few(now);
        }
        self.pop_run(now)
    }

    /// Does so in a wheel with entries. The common case is the next entry of the run, whose timer is unchanged: one access
    /// to the record.
    #[inline(never)]
    fn pop_run(&mut self, now: u64) -> Option<Expired<T>> {
        if self.undecided.is_empty()
            && let Some(next) = self.raw.peek_run(now)
            && let Some(timer) = self.records.take_if(next.index, |timer| {
                (timer.deadline, timer.order.get()) == (next.deadline, next.order)
            })
        {
            if let Some(kept) = self.records.kept_mut(next.index) {
                *kept = Filed::NOT;
            }
            self.raw.popped(next.deadline);
            self.release();
            return Some(Expired {
                key: timer.key(next.index),
                deadline: next.deadline,
                value: timer.value,
            });
        }
        self.pop_slowly(now)
    }

    #[inline(never)]
    fn pop_slowly(&mut self, now: u64) -> Option<Expired<T>> {
        if self.is_or_becomes_few() {
            return self.pop_few(now);
        }
        self.decide();
        let Some(due) = self.raw.pop_due(now, &mut self.records) else {
            self.free_piece_if_any();
            return None;
        };
        self.expire(due)
    }

    #[inline]
    fn expire(&mut self, due: Due) -> Option<Expired<T>> {
        let timer = self.records.take(due.index)?;
        if let Some(kept) = self.records.kept_mut(due.index) {
            *kept = Filed::NOT;
        }
        self.release();
        Some(Expired {
            key: timer.key(due.index),
            deadline: due.deadline,
            value: timer.value,
        })
    }

    /// Renumbers the arming order of all timers. O(n log n), once in two billion armings.
    #[cold]
    fn renumber(&mut self) {
        self.records.renumber(&mut self.armings);
        self.raw.reorder();
    }
}

impl<T> DeadlineQueue<T> for Wheel<T> {
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        if self.armings.must_renumber() || !self.records.has_room() {
            return self.insert_slowly(deadline, value);
        }
        let order = self.armings.next();
        let (key, filed) = self.records.insert(|generation| Timer {
            deadline,
            generation,
            order,
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
        if self.armings.must_renumber() {
            return self.reset_slowly(key, deadline);
        }
        let Some((timer, filed)) = self.records.get_kept_mut(key) else {
            return false;
        };
        let covered = filed.tick().max(self.raw.earliest.first());
        if deadline <= covered || deadline == u64::MAX {
            return self.reset_early(key, deadline);
        }
        timer.order = self.armings.next();
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
        if self.is_or_becomes_few() {
            return self.poll_few(now, budget);
        }
        self.decide();
        loop {
            match self.raw.step(now, &mut self.records, budget) {
                Step::Due(due) => {
                    if let Some(expired) = self.expire(due) {
                        return Polled::Due(expired);
                    }
                }
                Step::Busy => return Polled::Busy,
                Step::Idle => {
                    self.free_piece_if_any();
                    return Polled::Idle;
                }
            }
        }
    }

    fn shrink_to_fit(&mut self) {
        if self.len() < FEW && !self.is_few {
            self.become_few();
        }
        if !self.is_few {
            self.decide();
            self.raw.purge(&mut self.records);
        }
        self.raw.shrink_to_fit();
        self.records.shrink_to_fit();
        if self.is_few {
            self.fold_few();
        }
    }

    /// O(number of pool segments).
    fn memory(&self) -> usize {
        size_of::<Self>() - size_of::<RawWheel>() + self.raw.memory() + self.records.memory()
    }
}
