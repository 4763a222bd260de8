//! The crate `priority-queue` 2.7: a binary heap over a hash-indexed table (`indexmap`).
//!
//! It finds items by hash, so every operation except reading the top uses a hash table, and sifting uses
//! two index arrays. Exact, no tick; equal deadlines fire in any order. Each timer is an item with a
//! number that is never reused, which is the handle; a stale handle finds nothing. The hasher is
//! `rustc-hash`: the default SipHash would only slow it down.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::hash::{Hash, Hasher};

use priority_queue::PriorityQueue;
use rustc_hash::FxBuildHasher;

use crate::contender::Contender;

/// A timer as an item of the table, found by its number.
struct Timer {
    number: u64,
    payload: u64,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl Hash for Timer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Borrow<u64> for Timer {
    fn borrow(&self) -> &u64 {
        &self.number
    }
}

/// The queue: its greatest priority is the earliest deadline.
pub struct Indexed {
    timers: PriorityQueue<Timer, Reverse<u64>, FxBuildHasher>,
    armed: u64,
}

impl Contender for Indexed {
    const NAME: &'static str = "priority-queue";
    const REFUSES_STALE: bool = true;
    type Handle = u64;

    fn new() -> Self {
        Indexed {
            timers: PriorityQueue::with_hasher(FxBuildHasher),
            armed: 0,
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> u64 {
        let number = self.armed;
        self.armed += 1;
        self.timers
            .push(Timer { number, payload }, Reverse(deadline));
        number
    }

    #[inline]
    fn cancel(&mut self, handle: u64) -> bool {
        self.timers.remove(&handle).is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut u64, deadline: u64) {
        self.timers.change_priority(handle, Reverse(deadline));
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        while let Some((_, &Reverse(deadline))) = self.timers.peek() {
            if deadline > now {
                break;
            }
            fired += self.pop_earliest(out);
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.timers.peek().map(|(_, &Reverse(deadline))| deadline)
    }

    #[inline]
    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        match self.timers.pop() {
            Some((timer, _)) => {
                out(timer.payload);
                1
            }
            None => 0,
        }
    }
}
