//! Prefetches the timers that are popped next, for an owner that pops several in a row. The
//! [module](super) explains the terms.

use super::chunk::{Chunk, Slot};
use super::front::Ready;
use super::raw::RawWheel;
use super::timers::Timers;

impl RawWheel {
    /// Hints ([`Timers::prefetch`]) that the timers of the next `count` entries that are due at
    /// `now` will be queried soon, so that their cache misses overlap. Without this call, a series
    /// of [`step`](RawWheel::step) calls waits for each timer in turn. O(count).
    pub fn prefetch_due(&self, now: u64, count: usize, timers: &impl Timers) {
        let is_due = |ready: &&Ready| ready.deadline <= now;
        let heap = self.front.heap_entries().take(count).filter(is_due);
        let run = self.front.remaining_run().iter().take_while(is_due);
        let first = self.first_slot();
        let first = first.filter(|first| first.level == 0 && first.start <= now);
        let slot = first.map_or(Slot::EMPTY, |first| self.levels[0].slot(first.slot));
        let filed = self.pool.chunks(slot).flat_map(Chunk::entries);
        let due = heap.chain(run).map(|ready| ready.index);
        let due = due.chain(filed.map(|entry| entry.index));
        due.take(count).for_each(|index| timers.prefetch(index));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RawWheel, Step, Timers};
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    struct Noted {
        deadlines: Vec<u64>,
        asked: RefCell<Vec<u32>>,
    }

    impl Timers for Noted {
        fn deadline(&self, index: u32, _: u32) -> Option<u64> {
            Some(self.deadlines[index as usize])
        }

        fn prefetch(&self, index: u32) {
            self.asked.borrow_mut().push(index);
        }
    }

    #[test]
    fn prefetched_timers_are_popped_at_the_same_tick() {
        for count in [3, 100, 5_000] {
            let spread = |n: u64| 1 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100;
            let mut timers = Noted {
                deadlines: (0..count).map(spread).collect(),
                asked: RefCell::default(),
            };
            let mut wheel = RawWheel::new();
            for (index, deadline) in (0..).zip(timers.deadlines.clone()) {
                wheel.insert(deadline, index, 1);
            }
            let mut all = 0;
            for now in 1..=100 {
                let (mut asked, mut popped) = (BTreeSet::new(), BTreeSet::new());
                loop {
                    timers.asked.borrow_mut().clear();
                    wheel.prefetch_due(now, 16, &timers);
                    assert!(timers.asked.borrow().len() <= 16);
                    asked.extend(timers.asked.borrow().iter().copied());
                    // The wheel also prefetches the timers of a slot that it moves to the front.
                    let Step::Due(due) = wheel.step(now, &mut timers, &mut 1_000) else {
                        break;
                    };
                    popped.insert(due.index);
                }
                assert!(asked.is_subset(&popped), "{count} timers, tick {now}");
                // Every popped timer was prefetched, except the first, for which the slot had to be
                // opened.
                assert!(
                    asked.len() + 1 >= popped.len(),
                    "{count} timers, tick {now}"
                );
                all += popped.len();
            }
            assert_eq!(all as u64, count);
        }
    }
}
