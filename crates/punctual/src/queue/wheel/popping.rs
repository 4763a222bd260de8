//! Pops the due timers of a [`Wheel`], and frees the memory of removed timers.

use super::Wheel;
use super::records::{Filed, Timer};
use crate::queue::Expired;
use crate::queue::slab::RecordBody;
use core::iter::FusedIterator;

/// Pops the timers that are due at a tick, in the order of their deadlines. Returned by
/// [`Wheel::due`].
#[derive(Debug)]
#[must_use = "timers are popped when the iterator is advanced"]
pub struct Due<'a, T> {
    pub(super) wheel: &'a mut Wheel<T>,
    pub(super) now: u64,
}

impl<T> Iterator for Due<'_, T> {
    type Item = Expired<T>;

    #[inline]
    fn next(&mut self) -> Option<Expired<T>> {
        self.wheel.pop_due(self.now)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.wheel.len()))
    }
}

impl<T> FusedIterator for Due<'_, T> {}

impl<T> Wheel<T> {
    /// Frees memory if the removed timer was the last timer of the wheel.
    #[inline]
    pub(super) fn free_if_empty(&mut self) {
        if self.records.len() == 0 && !self.is_few {
            self.free_all();
        }
    }

    /// The last timer was removed. If there was room for over a thousand timers, the wheel becomes
    /// *few*: it has no entries (see the head of `mod.rs`). A smaller wheel keeps its entries until
    /// a call finds nothing due, so that new timers can reuse them.
    #[inline(never)]
    fn free_all(&mut self) {
        if self.records.is_large() {
            self.become_few();
        }
        self.raw.has_memory_to_free = true;
    }

    /// Frees a piece of memory if there is any to free. Called when nothing is due.
    #[inline]
    pub(crate) fn free_piece_if_any(&mut self) {
        if self.has_memory_to_free() {
            self.free_piece();
        }
    }

    /// Returns whether the wheel may have memory to free. O(1).
    #[inline]
    pub(crate) fn has_memory_to_free(&self) -> bool {
        self.raw.has_memory_to_free
    }

    /// Frees a piece of memory, and notes whether there is more to free. O(1), about 10 us.
    #[cold]
    #[inline(never)]
    fn free_piece(&mut self) {
        if self.is_empty() && !self.is_few {
            self.become_few();
        }
        self.raw.has_memory_to_free = self.raw.pool.free_piece() | self.records.free_piece();
    }

    /// Returns the number of entries, including dead entries, which `next_deadline` may have to
    /// move. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn entries(&self) -> usize {
        self.raw.entries()
    }

    /// Pops the earliest timer if it is due. Both calls compile to jumps, so a wheel of few timers
    /// does not save the registers that `pop_run` needs.
    #[inline(never)]
    pub(super) fn pop_next(&mut self, now: u64) -> Option<Expired<T>> {
        if self.is_few {
            return self.pop_few(now);
        }
        self.pop_run(now)
    }

    /// Pops the earliest timer of a wheel with entries if it is due. In the common case, the run's
    /// next entry is due and its timer is unchanged, so the wheel accesses the record once. (A held
    /// entry is due after the entry that `peek_run` returns.)
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
        self.file_undecided();
        let Some(due) = self.raw.pop_due(now, &mut self.records) else {
            self.free_piece_if_any();
            return None;
        };
        let timer = self.records.take(due.index)?;
        Some(self.expire(due.index, timer))
    }

    /// Completes the removal of a due timer, and notes that its record has no entry any more.
    #[inline]
    pub(super) fn expire(&mut self, index: u32, timer: Timer<T>) -> Expired<T> {
        self.records.set_kept(index, Filed::NO_ENTRY);
        self.free_if_empty();
        Expired {
            key: timer.key(index),
            deadline: timer.deadline,
            value: timer.value,
        }
    }

    /// Renumbers the armings of all timers. O(n log n), once in four billion armings.
    #[cold]
    pub(super) fn renumber(&mut self) {
        self.records.renumber(&mut self.arming_counter);
        self.raw.front.restage();
    }
}
