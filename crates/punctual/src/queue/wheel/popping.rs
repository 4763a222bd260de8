//! Popping due timers, and freeing the memory of timers that are gone.

use super::Wheel;
use super::records::{Filed, Timer};
use crate::queue::Expired;
use crate::queue::slab::Tenant;
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
    /// Frees memory if the removed timer was the last one.
    #[inline]
    pub(super) fn release(&mut self) {
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
    pub(super) fn free_piece_if_any(&mut self) {
        if self.has_memory_to_free() {
            self.free_piece();
        }
    }

    /// Returns whether memory may be waiting to be freed. O(1).
    #[inline]
    pub(crate) fn has_memory_to_free(&self) -> bool {
        self.raw.has_memory_to_free
    }

    /// Frees a piece of memory, and notes whether more is waiting. O(1), about 10 us.
    #[cold]
    #[inline(never)]
    fn free_piece(&mut self) {
        if self.is_empty() && !self.is_few {
            self.become_few();
        }
        self.raw.has_memory_to_free = self.raw.pool.free_piece() | self.records.free_piece();
    }

    /// Number of entries, dead ones included, which `next_deadline` may have to move. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn entries(&self) -> usize {
        self.raw.entries()
    }

    /// Pops the earliest timer if it is due. Both ways are jumps, so a wheel of few timers saves no
    /// registers for the other.
    #[inline(never)]
    pub(super) fn pop_next(&mut self, now: u64) -> Option<Expired<T>> {
        if self.is_few {
            return self.pop_few(now);
        }
        self.pop_run(now)
    }

    /// Pops the earliest timer of a wheel with entries if it is due. The common case is the next
    /// entry of the run, whose timer is unchanged: one access to the record. A held entry is due
    /// after it.
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
    pub(super) fn expire(&mut self, index: u32, timer: Timer<T>) -> Expired<T> {
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
    pub(super) fn renumber(&mut self) {
        self.records.renumber(&mut self.armings);
        self.raw.front.restage();
    }
}
