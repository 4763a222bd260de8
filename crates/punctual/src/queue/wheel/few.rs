//! A wheel of few timers, which has no entries at all.
//!
//! The first timer to fire is found by a look at all records in use, at most [`MOST`]. That is faster than filing an
//! entry and finding it again, and an insert, a cancel or a re-arm does what it does in a wheel of many timers: a record
//! that keeps [`Filed::FEW`] needs no entry for any deadline but the earliest.
//!
//! - The raw wheel's cache of the earliest deadline names timers here too, and an entry's generation is that of `Filed::FEW`. Every
//!   timer that is armed for its tick or earlier passes [`note_early`](Wheel::note_early).
//! - The wheel has few timers until all [`MOST`] records are in use. Then it files an entry for each.
//! - It has few again if a call looks for the first timer after the last one is gone, or if it had fewer than [`FEW`] for [`PATIENCE`] calls that
//!   looked for the first one. Both changes together take about 2 us, and such a call takes longer in a wheel. Records do
//!   not move, so this waits until a timer in another record is gone.

use super::records::Filed;
use super::timers::Due;
use super::undecided::Undecided;
use super::{FEW, Wheel};
use crate::queue::armings::Arming;
use crate::queue::slab::Tenant;
use crate::queue::{DeadlineQueue, Expired, Polled};
use alloc::vec::Vec;

/// Number of records that are looked at.
pub(super) const MOST: usize = 32;

/// Number of calls in succession that must find few timers.
const PATIENCE: u32 = if cfg!(test) { 16 } else { 256 };

impl<T> Wheel<T> {
    /// Returns an empty wheel that files entries.
    #[cfg(test)]
    pub(super) fn many() -> Self {
        let mut wheel = Wheel::new();
        wheel.become_many();
        wheel
    }

    /// Makes room for another timer, and files entries if all records that are looked at are in use.
    pub(super) fn reserve_few(&mut self) {
        if self.records.reserve_among(MOST) {
            self.records.keep(self.records.used(), Filed::FEW);
        } else {
            self.become_many();
        }
    }

    /// Files an entry for each timer. O(1).
    #[cold]
    pub(super) fn become_many(&mut self) {
        let armed = self.records.iter().take(self.records.used());
        let mut armed: Vec<Arming> = armed
            .map(|(index, timer)| Arming::new(timer.deadline, timer.order, index))
            .collect();
        armed.sort_unstable();
        self.records.keep(self.records.used(), Filed::NOT);
        self.raw.restart();
        self.undecided = Undecided::new();
        (self.is_few, self.few_for) = (false, 0);
        for arming in armed {
            self.file(arming.deadline(), arming.index());
        }
    }

    /// Has timers use only the records that are looked at. Returns whether they do. O(1).
    pub(super) fn fold_few(&mut self) -> bool {
        let are_few = self.records.fold(MOST);
        if are_few {
            self.records.keep(MOST, Filed::FEW);
        }
        are_few
    }

    /// Drops all entries if the records that are looked at have all timers. Returns whether they have. O(1).
    #[cold]
    pub(super) fn become_few(&mut self) -> bool {
        if !self.fold_few() {
            return false;
        }
        self.raw.clear_lazily();
        self.undecided = Undecided::new();
        self.is_few = true;
        self.look();
        true
    }

    /// Returns whether timers are few, after a call that has to look for the first one.
    #[inline]
    pub(super) fn is_or_becomes_few(&mut self) -> bool {
        self.is_few || self.len() < FEW && self.count_few()
    }

    #[cold]
    fn count_few(&mut self) -> bool {
        self.few_for += 1;
        (self.is_empty() || self.few_for >= PATIENCE) && {
            self.few_for = 0;
            self.become_few()
        }
    }

    /// Notes a timer that was armed for the tick of the first one or earlier, or for the last tick.
    #[inline]
    pub(super) fn note_early(&mut self, deadline: u64, index: u32) {
        let earliest = &mut self.raw.earliest;
        if earliest.holds(index) {
            if deadline < earliest.bound() {
                earliest.hold_earlier(deadline, Filed::FEW.generation());
            }
            return;
        }
        let records = &self.records;
        earliest.release_if(|held| records.at(held.index).is_none());
        earliest.release();
        if deadline < earliest.first() {
            earliest.hold(Due {
                deadline,
                index,
                generation: Filed::FEW.generation(),
            });
        } else if deadline == earliest.first() && index == earliest.named().index {
            // Another timer may have been armed for this tick before it.
            earliest.set_bound(deadline);
        }
    }

    /// Returns the earliest deadline, which is not known.
    #[inline(never)]
    pub(super) fn find_first(&mut self) -> Option<u64> {
        if self.is_or_becomes_few() {
            if self.is_empty() {
                return None;
            }
            self.raw.earliest.release_if(|_| true);
            self.look();
            return Some(self.raw.earliest.bound());
        }
        self.decide();
        self.raw.find_first(&mut self.records)
    }

    /// Finds the first timer, while none is held. O(MOST).
    #[inline]
    fn look(&mut self) {
        match self.records.first_armed() {
            Some(arming) => self.raw.earliest.set(Due {
                deadline: arming.deadline(),
                index: arming.index(),
                generation: Filed::FEW.generation(),
            }),
            None => self.raw.earliest.set_bound(u64::MAX),
        }
    }

    /// Returns the first timer, which is not held any more. O(MOST).
    #[inline]
    fn named_few(&mut self) -> Due {
        self.raw.earliest.release();
        if self.raw.earliest.known(&self.records).is_none() {
            self.look();
        }
        self.raw.earliest.named()
    }

    /// Pops the first timer if it is due. O(MOST).
    #[inline(never)]
    pub(super) fn pop_few(&mut self, now: u64) -> Option<Expired<T>> {
        let first = self.named_few();
        if first.deadline > now || self.is_empty() {
            self.free_piece_if_any();
            return None;
        }
        let timer = self.records.take(first.index)?;
        self.raw.earliest.set_bound(if self.is_empty() {
            u64::MAX
        } else {
            first.deadline
        });
        Some(Expired {
            key: timer.key(first.index),
            deadline: first.deadline,
            value: timer.value,
        })
    }

    /// Does what `pop_few` does, and takes 1 from the budget.
    pub(super) fn poll_few(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        if self.named_few().deadline > now || self.is_empty() {
            self.free_piece_if_any();
            return Polled::Idle;
        }
        let Some(left) = budget.checked_sub(1) else {
            return Polled::Busy;
        };
        *budget = left;
        self.pop_few(now).map_or(Polled::Idle, Polled::Due)
    }
}
