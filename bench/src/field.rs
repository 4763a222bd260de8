//! The list of contenders: properties of each one, and functions that run it.

use crate::clock::Pace;
use crate::contender::{Contender, Role, Visitor};
use crate::exactness::{self, Verdict};
use crate::figure::{GaveUp, Sample};
use crate::random::Random;
use crate::workload::Workload;

/// Runs one round of a workload.
type Round = fn(Workload, usize, &mut Random, &Pace) -> Result<Vec<Sample>, GaveUp>;

/// One contender.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub role: Role,
    /// Length of a tick, in microseconds.
    pub tick: u64,
    /// Whether the queue returns the exact next deadline.
    pub exact_next: bool,
    /// Greatest useful number of timers.
    pub max_timers: usize,
    pub round: Round,
    /// Checks the queue's exactness.
    pub check: fn(u64, usize) -> Verdict,
}

impl Entry {
    /// Returns the entry of a contender.
    pub fn of<C: Contender>() -> Self {
        Entry {
            name: C::NAME,
            role: C::ROLE,
            tick: C::TICK,
            exact_next: C::EXACT_NEXT,
            max_timers: C::MAX_TIMERS,
            round: |workload, size, random, pace| workload.round::<C>(size, random, pace),
            check: exactness::check::<C>,
        }
    }
}

/// Collects the entries of lists of contenders.
#[derive(Default)]
pub struct Gathered(pub Vec<Entry>);

impl Visitor for Gathered {
    fn visit<C: Contender>(&mut self) {
        self.0.push(Entry::of::<C>());
    }
}

/// Returns all contenders: Punctual's queues, the peers, and the floor.
pub fn all() -> Vec<Entry> {
    let mut gathered = Gathered::default();
    crate::ours::for_each(&mut gathered);
    crate::peers::for_each(&mut gathered);
    gathered.visit::<crate::floor::Floor>();
    gathered.0.sort_by_key(|entry| match entry.role {
        Role::Ours => 0,
        Role::Peer => 1,
        Role::Floor => 2,
    });
    gathered.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different() {
        let mut names: Vec<_> = all().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
