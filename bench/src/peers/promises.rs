//! Tests of each peer against a model, and of the statements in the head of its file.

use std::collections::BTreeMap;

use super::btree_map::Tree;
use super::delay_queue::Delayed;
use super::lazy_heap::LazyHeap;
#[cfg(has_libev)]
use super::libev::Libev;
use super::neighbours::Neighbours;
use super::nexus::{Default as Defaults, Micro, Nexus};
use super::priority_queue::Indexed;
use super::quad_wheel::QuadWheel;
use super::sorted_slots::SortedSlots;
use crate::contender::Contender;
use crate::random::Random;

/// Guarantees of a peer beyond the constants of its trait.
struct Promise {
    /// Greatest time by which a timer may fire early, in microseconds.
    early: u64,
    /// Order of the timers that one call fires.
    order: Order,
}

#[derive(PartialEq)]
enum Order {
    /// In order of deadlines.
    Deadline,
    /// In order of the ticks to which deadlines are rounded up.
    Tick,
    /// In no order.
    Any,
}

const EXACT: Promise = Promise {
    early: 0,
    order: Order::Deadline,
};

/// Returns a random delay, mostly near and sometimes far, so that every level of every wheel is used.
fn delay(random: &mut Random, span: u64) -> u64 {
    let magnitude = random.below(u64::from(span.ilog2()) + 1);
    random.below((2 << magnitude).min(span))
}

/// A queue and its expected timers.
struct Model<C: Contender> {
    queue: C,
    promise: Promise,
    now: u64,
    /// Handles and deadlines by payload, which is never reused.
    live: BTreeMap<u64, (C::Handle, u64)>,
    stale: Vec<C::Handle>,
    armed: u64,
}

impl<C: Contender> Model<C> {
    fn new(promise: Promise) -> Self {
        Model {
            queue: C::new(),
            promise,
            now: 0,
            live: BTreeMap::new(),
            stale: Vec::new(),
            armed: 0,
        }
    }

    fn arm(&mut self, delay: u64) {
        let deadline = self.now + delay;
        let handle = self.queue.arm(deadline, self.armed);
        self.live.insert(self.armed, (handle, deadline));
        self.armed += 1;
    }

    fn any(&self, random: &mut Random) -> Option<u64> {
        let at = random.below(self.live.len().max(1) as u64) as usize;
        self.live.keys().nth(at).copied()
    }

    fn cancel(&mut self, payload: u64) {
        let (handle, _) = self.live.remove(&payload).expect("it is live");
        assert!(self.queue.cancel(handle), "{}: was armed", C::NAME);
        self.stale.push(handle);
    }

    fn rearm(&mut self, payload: u64, delay: u64) {
        let timer = self.live.get_mut(&payload).expect("it is live");
        timer.1 = self.now + delay;
        self.queue.rearm(&mut timer.0, timer.1);
    }

    /// Advances the clock, fires, and checks the timers, their times and their order.
    fn advance(&mut self, step: u64) {
        self.now += step;
        let mut fired = Vec::new();
        let count = self
            .queue
            .fire(self.now, &mut |payload| fired.push(payload));
        assert_eq!(count, fired.len(), "{}: tells how many", C::NAME);
        let mut last = 0;
        for payload in fired {
            let (handle, deadline) = self
                .live
                .remove(&payload)
                .expect("fires what is armed, once");
            assert!(
                deadline <= self.now + self.promise.early,
                "{}: fired {deadline} at {}",
                C::NAME,
                self.now
            );
            let rank = match self.promise.order {
                Order::Deadline => deadline,
                Order::Tick => deadline.next_multiple_of(C::TICK),
                Order::Any => 0,
            };
            assert!(last <= rank, "{}: {rank} after {last}", C::NAME);
            last = rank;
            self.stale.push(handle);
        }
        for (_, deadline) in self.live.values() {
            let latest = deadline + C::TICK - 1;
            assert!(
                latest > self.now,
                "{}: {deadline} not fired at {}",
                C::NAME,
                self.now
            );
        }
    }

    fn look(&mut self) {
        let next = self.live.values().map(|timer| timer.1).min();
        let (told, wakeup) = (self.queue.next_deadline(), self.queue.next_wakeup());
        let Some(next) = next else {
            if C::EXACT_NEXT {
                assert_eq!(told, None, "{}: empty", C::NAME);
            }
            return;
        };
        let told = told.expect("not empty");
        assert!(wakeup.expect("not empty") <= told, "{}", C::NAME);
        // The answer for an overdue timer may be now.
        let latest = next.max(self.now).next_multiple_of(C::TICK);
        if C::EXACT_NEXT {
            let exact = next.next_multiple_of(C::TICK);
            assert!(
                told == exact || (exact < self.now && told <= self.now),
                "{}: told {told}, not {next}, at {}",
                C::NAME,
                self.now
            );
        } else {
            assert!(told <= latest, "{}: told {told}, not {next}", C::NAME);
        }
    }

    /// Checks that handles of fired and cancelled timers are refused.
    fn try_stale(&mut self) {
        if C::REFUSES_STALE {
            for handle in self.stale.drain(..) {
                assert!(!self.queue.cancel(handle), "{}: stale", C::NAME);
            }
        }
    }
}

/// Runs random operations on a contender and its model.
fn keeps<C: Contender>(promise: Promise) {
    let mut model = Model::<C>::new(promise);
    let random = &mut Random::new(11);
    let span = 60_000_000;
    let mut most = 0;
    for round in 0..40_000 {
        match random.below(16) {
            0..8 => {
                model.arm(delay(random, span));
            }
            8 => {
                if let Some(payload) = model.any(random) {
                    model.cancel(payload);
                }
            }
            9..12 => {
                if let Some(payload) = model.any(random) {
                    model.rearm(payload, delay(random, span));
                }
            }
            12..14 => {
                model.advance(delay(random, 4_000));
            }
            _ => model.look(),
        }
        if round % 64 == 0 {
            most = most.max(model.live.len());
            model.try_stale();
        }
    }
    assert!(most > 100, "the run never had more than {most} timers");
    model.advance(2 * span);
    assert_eq!(model.live.len(), 0);
    model.look();
}

#[test]
fn btree_map() {
    keeps::<Tree>(EXACT);
}

#[test]
fn lazy_heap() {
    keeps::<LazyHeap>(EXACT);
}

#[test]
fn priority_queue() {
    keeps::<Indexed>(EXACT);
}

#[test]
fn sorted_slots() {
    keeps::<SortedSlots>(EXACT);
}

#[test]
fn neighbours() {
    keeps::<Neighbours>(EXACT);
}

#[cfg(has_libev)]
#[test]
fn libev() {
    assert!(super::libev::usable(), "libev 4.33 as Debian builds it");
    keeps::<Libev>(EXACT);
}

#[test]
fn delay_queue() {
    keeps::<Delayed>(Promise {
        early: 0,
        order: Order::Tick,
    });
}

#[test]
fn quad_wheel() {
    keeps::<QuadWheel>(Promise {
        early: 0,
        order: Order::Tick,
    });
}

#[test]
fn nexus() {
    keeps::<Nexus<Micro>>(Promise {
        early: 0,
        order: Order::Any,
    });
}

#[test]
fn nexus_with_its_defaults() {
    keeps::<Nexus<Defaults>>(Promise {
        early: 999,
        order: Order::Any,
    });
}

/// Returns the payloads that fire at `now`.
fn fired_at<C: Contender>(queue: &mut C, now: u64) -> Vec<u64> {
    let mut fired = Vec::new();
    queue.fire(now, &mut |payload| fired.push(payload));
    fired
}

/// Arms a single timer and returns the first microsecond at which it fires.
fn fires_first_at<C: Contender>(deadline: u64) -> u64 {
    let mut queue = C::new();
    queue.arm(deadline, 0);
    (0..)
        .find(|&now| fired_at(&mut queue, now).len() == 1)
        .expect("it fires")
}

#[test]
fn how_early_and_how_late() {
    assert_eq!(fires_first_at::<LazyHeap>(2_500), 2_500);
    assert_eq!(fires_first_at::<Tree>(2_500), 2_500);
    assert_eq!(fires_first_at::<Indexed>(2_500), 2_500);
    assert_eq!(fires_first_at::<SortedSlots>(2_500), 2_500);
    assert_eq!(fires_first_at::<Nexus<Micro>>(2_500), 2_500);
    #[cfg(has_libev)]
    assert_eq!(fires_first_at::<Libev>(2_500), 2_500);
    // Late, to the end of the millisecond.
    assert_eq!(fires_first_at::<Delayed>(2_500), 3_000);
    assert_eq!(fires_first_at::<QuadWheel>(2_500), 3_000);
}

#[test]
fn nexus_fires_a_tick_early_with_its_defaults() {
    // Rounded down to 2 ms, which is reached at once because the reciprocal is truncated.
    let first = fires_first_at::<Nexus<Defaults>>(2_999);
    assert!(first < 2_999 && 2_999 - first <= 999, "fired at {first}");
}

#[test]
fn nexus_gives_timers_in_no_order() {
    let mut queue = Nexus::<Micro>::new();
    assert_eq!(fired_at(&mut queue, 40), [0; 0]);
    for deadline in [60, 70] {
        queue.arm(deadline, deadline);
    }
    // Both are in the finest level, whose 64 slots are visited in index order.
    assert_eq!(fired_at(&mut queue, 100), [70, 60]);
}

#[test]
fn nexus_tells_a_deadline_too_low() {
    let mut queue = Nexus::<Micro>::new();
    queue.arm(50, 0);
    assert_eq!(queue.next_deadline(), Some(49));
}

#[test]
fn a_stale_key_of_delay_queue_hits_another_timer() {
    let mut queue = Delayed::new();
    let stale = queue.arm(5_000, 1);
    assert!(queue.cancel(stale));
    queue.arm(7_000, 2);
    assert!(queue.cancel(stale), "cancels a timer it never meant");
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn delay_queues_of_one_thread_keep_their_own_time() {
    let (mut one, mut two) = (Delayed::new(), Delayed::new());
    one.arm(5_000, 1);
    two.arm(5_000, 2);
    assert_eq!(fired_at(&mut one, 5_000), [1]);
    assert_eq!(fired_at(&mut two, 4_999), [0; 0]);
    drop(one);
    assert_eq!(fired_at(&mut two, 5_000), [2]);
}

#[test]
fn sorted_slots_keep_what_lies_beyond_their_span() {
    let mut queue = SortedSlots::new();
    let day = 86_400_000_000;
    let far = queue.arm(day, 1);
    queue.arm(day + 1, 2);
    assert_eq!(queue.next_deadline(), Some(day));
    assert!(queue.cancel(far));
    assert_eq!(fired_at(&mut queue, day), [0; 0]);
    assert_eq!(fired_at(&mut queue, day + 1), [2]);
}

#[test]
fn the_lazy_heap_bounds_its_garbage() {
    let mut queue = LazyHeap::new();
    let mut handles: Vec<_> = (0..1_000).map(|i| queue.arm(1_000_000 + i, i)).collect();
    for round in 0..100_u64 {
        for handle in &mut handles {
            assert!(queue.cancel(*handle));
            *handle = queue.arm(2_000_000 - round, 0);
            queue.rearm(handle, 1_000_000 - round);
        }
        assert!(queue.entries() <= 2 * 1_000 + 64, "{}", queue.entries());
    }
    assert_eq!(queue.next_deadline(), Some(1_000_000 - 99));
}
