//! Storms of re-arming: no timer is lost or fired twice, early or out of order, and memory stays
//! bounded, in every deadline queue.
//!
//! A storm runs thousands of operations of one kind on many timers and compares each result with a
//! `BTreeMap` of (deadline, arming). A failure prints the seed.
//!
//! - `STORM_OPS=1000000` makes each storm longer (60,000 operations), and `STORM_TIMERS=20000` gives it
//!   more timers (400). `make soak` sets both.
//! - `PUNCTUAL_SEED=17` repeats a failure.
#![allow(missing_docs)]
#![cfg_attr(miri, allow(unused_imports))]

use punctual::{DeadlineQueue, Expired, Heap, Polled, TimerKey, Wheel};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ mixed >> 29
    }

    fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Returns any distance, each bit length equally likely: all levels of a wheel.
    fn span(&mut self) -> u64 {
        let bits = self.below(64);
        (1 << bits) | self.bits() & ((1 << bits) - 1)
    }
}

/// Prints how to repeat a failed storm.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PUNCTUAL_SEED={} repeats this", self.0);
        }
    }
}

#[derive(Clone, Copy)]
struct Timer {
    key: TimerKey,
    deadline: u64,
    arming: u64,
    value: u64,
}

/// A queue in a storm, and the model of its timers.
struct Storm<Q> {
    queue: Q,
    random: Random,
    now: u64,
    armings: u64,
    /// The contents of `timers`, in the order in which they must fire.
    order: BTreeMap<(u64, u64), u64>,
    timers: Vec<Timer>,
    /// The position of each value in `timers`.
    places: HashMap<u64, usize>,
    /// The most recent stale handle.
    stale: Option<TimerKey>,
    ops: usize,
    armed: usize,
    cancelled: usize,
    fired: usize,
    /// Maximum number of timers since the queue was last empty.
    peak: usize,
    bytes_per_timer: usize,
}

/// Bytes that a queue may take besides its timers: a wheel may have a chunk of 248 bytes in each of its
/// 704 slots.
const SPARE_BYTES: usize = 192 << 10;

impl<Q: DeadlineQueue<u64> + Default> Storm<Q> {
    fn new(seed: u64) -> Self {
        Storm {
            queue: Q::default(),
            random: Random(seed),
            now: 0,
            armings: 0,
            order: BTreeMap::new(),
            timers: Vec::new(),
            places: HashMap::new(),
            stale: None,
            ops: 0,
            armed: 0,
            cancelled: 0,
            fired: 0,
            peak: 0,
            bytes_per_timer: bytes_per_timer::<Q>(),
        }
    }

    fn pick(&mut self) -> usize {
        self.random.below(self.timers.len() as u64) as usize
    }

    fn earliest(&self) -> Option<u64> {
        self.order
            .first_key_value()
            .map(|(&(deadline, _), _)| deadline)
    }

    fn after(&self, span: u64) -> u64 {
        self.now.saturating_add(span)
    }

    fn arm(&mut self, deadline: u64) {
        let (arming, value) = (self.armings, self.armings);
        let key = self.queue.insert(deadline, value);
        assert_ne!(Some(key), self.stale, "the handle of a timer that is gone");
        self.armings += 1;
        self.armed += 1;
        self.order.insert((deadline, arming), value);
        self.places.insert(value, self.timers.len());
        self.timers.push(Timer {
            key,
            deadline,
            arming,
            value,
        });
        self.peak = self.peak.max(self.timers.len());
        self.done();
    }

    fn rearm(&mut self, place: usize, deadline: u64) {
        let timer = &mut self.timers[place];
        assert!(self.queue.reset(timer.key, deadline), "a living timer");
        self.order.remove(&(timer.deadline, timer.arming));
        (timer.deadline, timer.arming) = (deadline, self.armings);
        self.order.insert((deadline, self.armings), timer.value);
        self.armings += 1;
        self.done();
    }

    fn cancel(&mut self, place: usize) {
        let timer = self.timers[place];
        assert_eq!(
            self.queue.remove(timer.key),
            Some(timer.value),
            "a living timer"
        );
        self.forget(timer.value);
        self.cancelled += 1;
        self.done();
    }

    fn forget(&mut self, value: u64) -> Timer {
        let place = self.places.remove(&value).expect("a living timer");
        let timer = self.timers.swap_remove(place);
        if let Some(moved) = self.timers.get(place) {
            self.places.insert(moved.value, place);
        }
        self.order.remove(&(timer.deadline, timer.arming));
        self.stale = Some(timer.key);
        timer
    }

    /// Compares a popped timer with the one that must be popped next.
    fn expect(&mut self, popped: Option<Expired<u64>>) -> bool {
        let due = self
            .order
            .first_key_value()
            .filter(|&(&(deadline, _), _)| deadline <= self.now);
        let due = due.map(|(_, &value)| value);
        assert_eq!(
            popped.map(|expired| expired.value),
            due,
            "popped at {}",
            self.now
        );
        let Some(expired) = popped else { return false };
        let timer = self.forget(expired.value);
        assert_eq!((expired.key, expired.deadline), (timer.key, timer.deadline));
        self.fired += 1;
        self.done();
        true
    }

    fn fire_one(&mut self) -> bool {
        let popped = self.queue.pop_due(self.now);
        self.expect(popped)
    }

    /// Moves the clock, fires all due timers, and returns their number.
    fn fire(&mut self, now: u64) -> usize {
        self.now = now;
        let mut fired = 0;
        while self.fire_one() {
            fired += 1;
        }
        fired
    }

    fn next(&mut self) -> Option<u64> {
        let next = self.queue.next_deadline();
        assert_eq!(next, self.earliest(), "the next deadline at {}", self.now);
        next
    }

    /// Checks the queue after each operation.
    fn done(&mut self) {
        self.ops += 1;
        assert_eq!(self.queue.len(), self.timers.len());
        let wakeup = self.queue.next_wakeup();
        assert!(wakeup <= self.earliest() && wakeup.is_some() != self.timers.is_empty());
        if self.timers.is_empty() && self.peak > 0 {
            // An empty queue frees its memory in pieces, with the calls that find nothing due.
            for _ in 0..self.peak {
                if self.queue.memory() <= SPARE_BYTES {
                    break;
                }
                assert!(matches!(
                    self.queue.poll_due(self.now, &mut 1_000),
                    Polled::Idle
                ));
            }
            self.peak = 0;
        }
        if self.ops.is_multiple_of(16) {
            let bound = 2 * self.bytes_per_timer * self.peak + SPARE_BYTES;
            let bytes = self.queue.memory();
            assert!(
                bytes <= bound,
                "{bytes} bytes for {} timers, {} at most",
                self.timers.len(),
                self.peak
            );
            if let Some(stale) = self.stale {
                assert!(self.queue.get(stale).is_none() && !self.queue.reset(stale, 0));
            }
        }
    }

    /// Arms timers until there are `crowd` of them.
    fn refill(&mut self, crowd: usize, span: u64) {
        while self.timers.len() < crowd {
            let deadline = 1 + self.random.below(span);
            self.arm(self.after(deadline));
        }
    }
}

/// Returns the memory per timer in a queue of a few thousand. Vectors grow by doubling, so it may be
/// twice that for another number.
fn bytes_per_timer<Q: DeadlineQueue<u64> + Default>() -> usize {
    let many = if cfg!(miri) { 64 } else { 4_096 };
    let (mut queue, mut random) = (Q::default(), Random(1));
    for value in 0..many as u64 {
        queue.insert(random.below(1 << 20), value);
    }
    queue.memory().div_ceil(many)
}

/// Runs a storm from a fresh seed, then fires the remaining timers.
fn run<Q: DeadlineQueue<u64> + Default>(storm: fn(&mut Storm<Q>), crowd: usize) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("PUNCTUAL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let ops = number("STORM_OPS").map_or(if cfg!(miri) { 100 } else { 60_000 }, |ops| ops as usize);
    let crowd = number("STORM_TIMERS").map_or(crowd, |timers| timers as usize);
    let crowd = if cfg!(miri) { crowd / 20 } else { crowd };
    let _seed = Seed(seed);
    let mut state = Storm::<Q>::new(seed);
    // Any start: the wheel's levels begin at other ticks each time.
    state.now = state.random.span() / 2;
    while state.ops < ops {
        state.refill(crowd, 10_000);
        storm(&mut state);
    }
    state.fire(u64::MAX);
    assert_eq!(
        state.armed,
        state.fired + state.cancelled,
        "every timer fired or was cancelled, once"
    );
    assert_eq!(state.next(), None);
    assert!(state.queue.is_empty() && state.queue.iter().next().is_none());
}

/// The same timers are re-armed later, repeatedly.
fn later<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for place in 0..storm.timers.len() {
        let deadline = storm.timers[place]
            .deadline
            .saturating_add(storm.random.below(500));
        storm.rearm(place, deadline);
    }
    let now = storm.after(storm.random.0 % 400);
    storm.fire(now);
}

/// The same timers are re-armed earlier, repeatedly: half the distance each time.
fn earlier<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for place in 0..storm.timers.len() {
        let left = storm.timers[place].deadline.saturating_sub(storm.now);
        let left = left / 2 + storm.random.below(3);
        storm.rearm(place, storm.after(left));
    }
    let now = storm.after(1);
    storm.fire(now);
}

/// Alternately earlier and later, across slots and levels.
fn earlier_and_later<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for turn in 0..100 {
        let place = storm.pick();
        let deadline = storm.timers[place].deadline;
        let span = storm.random.below(1 << (turn % 20));
        let deadline = if turn % 2 == 0 {
            deadline.saturating_sub(span)
        } else {
            storm.after(span)
        };
        storm.rearm(place, deadline);
    }
    let now = storm.after(storm.random.0 % 64);
    storm.fire(now);
}

/// Re-armed to the current tick or to an earlier one.
fn at_once<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for turn in 0..20 {
        let place = storm.pick();
        storm.rearm(place, storm.now.saturating_sub(turn % 3));
    }
    let due = storm.order.range(..=(storm.now, u64::MAX)).count();
    assert!(due > 0);
    assert_eq!(storm.fire(storm.now), due);
    storm.now = storm.after(storm.random.0 % 100);
}

/// Armed, re-armed and cancelled while timers of the same tick fire.
fn while_firing<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    let Some(next) = storm.next() else { return };
    storm.now = storm.now.max(next);
    for _ in 0..40 {
        if !storm.fire_one() {
            break;
        }
        match storm.random.below(6) {
            0 => storm.arm(storm.now),
            1 => storm.arm(storm.after(1_000)),
            2 => storm.arm(storm.now.saturating_sub(5)),
            _ if storm.timers.is_empty() => {}
            // The timer that fires next is cancelled, or fires last, or is re-armed later.
            what => {
                let first = *storm.order.first_key_value().expect("there are timers").1;
                let place = storm.places[&first];
                match what {
                    3 => storm.cancel(place),
                    4 => storm.rearm(place, storm.now),
                    _ => storm.rearm(place, storm.after(200)),
                }
            }
        }
    }
    storm.fire(storm.now);
}

/// Records are reused while entries of their previous timers are still filed.
fn reuse<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for _ in 0..30 {
        let together = 1 + storm.random.below(4) as usize;
        let mut deadlines = Vec::new();
        for _ in 0..together.min(storm.timers.len()) {
            let place = storm.pick();
            deadlines.push(storm.timers[place].deadline);
            storm.cancel(place);
        }
        // At the previous timer's deadline, shortly before and after it, and anywhere.
        for deadline in deadlines {
            let near = storm.random.below(5);
            match storm.random.below(3) {
                0 => storm.arm(deadline),
                1 => storm.arm((deadline + near).saturating_sub(2)),
                _ => storm.arm(storm.after(near * 1_000)),
            }
        }
    }
    let now = storm.after(storm.random.0 % 50);
    storm.fire(now);
}

/// A clock that jumps ahead, stands still and steps back.
fn clock_jumps<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for _ in 0..20 {
        let (place, span) = (storm.pick(), storm.random.span());
        storm.rearm(place, storm.after(span));
    }
    let span = storm.random.span();
    match storm.random.below(4) {
        0 => storm.now = storm.after(span),
        1 => storm.now = storm.now.saturating_sub(span),
        // So far back that all deadlines are in the future again.
        2 => storm.now = span / 2,
        _ => {}
    }
    for _ in 0..storm.random.below(30) {
        storm.fire_one();
    }
    if storm.random.below(4) == 0 {
        storm.fire(storm.now);
    }
}

/// Near and far deadlines on all levels.
fn all_levels<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for _ in 0..50 {
        let (place, span) = (storm.pick(), storm.random.span());
        let deadline = match storm.random.below(8) {
            0 => u64::MAX - span % 3,
            1 => storm.now,
            _ => storm.after(span),
        };
        storm.rearm(place, deadline);
    }
    if storm.random.below(3) == 0 {
        let now = storm.next().map_or(storm.now, |next| next.max(storm.now));
        storm.fire(now);
    }
    // Not so far that the last tick is reached at once.
    if storm.now > 1 << 62 {
        storm.now = storm.random.below(1 << 20);
    }
}

/// The next deadline is queried in between, so that the cursor runs ahead; then timers are armed
/// before it again.
fn before_the_cursor<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    let ahead = 1 + storm.random.below(1 << 30);
    for place in 0..storm.timers.len() {
        storm.rearm(place, storm.after(ahead + place as u64 % 7));
    }
    storm.next();
    for _ in 0..storm.random.below(60) {
        let (place, span) = (storm.pick(), storm.random.below(ahead));
        storm.rearm(place, storm.after(span));
        if span % 4 == 0 {
            storm.next();
        }
    }
    let now = storm.after(storm.random.0 % ahead);
    storm.fire(now);
}

/// Many timers on few ticks: arming order decides.
fn ties<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    for _ in 0..60 {
        let (place, tick) = (storm.pick(), storm.random.below(3));
        storm.rearm(place, storm.after(tick * 70));
    }
    for _ in 0..storm.random.below(60) {
        storm.fire_one();
    }
    let now = storm.after(storm.random.0 % 3 * 70);
    storm.fire(now);
}

/// Many timers are armed, re-armed earlier (which leaves dead entries), and nearly all removed.
fn growing_and_shrinking<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    let crowd = 1 + storm.random.below(storm.timers.len() as u64 * 20) as usize;
    storm.refill(crowd, 1 << 40);
    for _ in 0..crowd {
        let place = storm.pick();
        let deadline = storm.timers[place].deadline;
        storm.rearm(place, storm.now.midpoint(deadline));
    }
    let left = storm.random.below(20) as usize;
    while storm.timers.len() > left {
        let place = storm.pick();
        storm.cancel(place);
    }
}

/// Fires within a budget, and re-arms between the calls.
fn within_budgets<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    storm.now = storm.after(storm.random.0 % 3_000);
    for _ in 0..200 {
        let mut budget = storm.random.below(8) as usize;
        match storm.queue.poll_due(storm.now, &mut budget) {
            Polled::Due(expired) => assert!(storm.expect(Some(expired))),
            Polled::Busy => assert_eq!(budget, 0, "busy with budget left"),
            Polled::Idle => {
                storm.expect(None);
                break;
            }
        }
        if storm.timers.is_empty() {
            break;
        }
        let (place, span) = (storm.pick(), storm.random.below(4_000));
        match span % 4 {
            0 => storm.rearm(place, storm.after(span)),
            1 => storm.rearm(place, storm.now.saturating_sub(span)),
            _ => {}
        }
    }
}

/// Everything at random. In some storms the clock stands still, so that only sweeps remove the dead
/// entries of cancels and re-arms.
fn mixed<Q: DeadlineQueue<u64> + Default>(storm: &mut Storm<Q>) {
    // Weights: cancel and arm, re-arm later, re-arm earlier, move the clock, move it to the next deadline.
    const PHASES: [[u64; 5]; 7] = [
        [8, 8, 8, 8, 8],
        [4, 4, 4, 32, 10],
        [2, 40, 8, 8, 2],
        [2, 2, 40, 8, 2],
        [8, 40, 20, 0, 0],
        [2, 2, 40, 0, 0],
        [40, 2, 2, 0, 0],
    ];
    let weights = PHASES[storm.random.below(PHASES.len() as u64) as usize];
    let range = 1 << [8, 12, 20, 30, 40, 62][storm.random.below(6) as usize];
    for _ in 0..storm.random.below(4_000) {
        if storm.timers.is_empty() {
            return;
        }
        let mut drawn = storm.random.below(weights.iter().sum());
        let chosen = weights.iter().position(|&weight| {
            let is_chosen = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is_chosen
        });
        let place = storm.pick();
        let (old, timeout) = (storm.timers[place].deadline, storm.random.below(range));
        match chosen {
            Some(0) => {
                storm.cancel(place);
                storm.arm(storm.after(timeout));
            }
            Some(1) => storm.rearm(place, old.max(storm.after(timeout))),
            Some(2) => {
                let left = old.saturating_sub(storm.now).max(1);
                let sooner = storm.random.below(left);
                storm.rearm(place, storm.after(sooner));
            }
            Some(3) => {
                let now = storm.after(timeout / storm.timers.len() as u64);
                storm.fire(now);
            }
            _ => {
                let now = storm.next().map_or(storm.now, |next| next.max(storm.now));
                assert!(storm.fire(now) > 0, "the timer of the next deadline fires");
            }
        }
    }
    // Not so far that the last tick is reached.
    if storm.now > 1 << 62 {
        storm.now = storm.random.below(1 << 20);
    }
}

/// Runs each storm on each queue.
macro_rules! storms {
    ($($(#[$only:meta])* $module:ident: $queue:ty),* $(,)?) => {
        $($(#[$only])* mod $module {
            use super::*;
            storms!(@tests $queue: later, earlier, earlier_and_later, at_once, while_firing, reuse, clock_jumps,
                all_levels, before_the_cursor, ties, growing_and_shrinking, within_budgets, mixed);
        })*
    };
    (@tests $queue:ty: $($storm:ident),*) => {
        $(#[test]
        fn $storm() {
            run::<$queue>(super::$storm, 400);
        })*
    };
}

storms! {
    // Under Miri only the queue that may have unsafe code.
    wheel: Wheel<u64>,
    #[cfg(not(miri))] binary_heap: Heap<u64, 2>,
    #[cfg(not(miri))] heap_of_four: Heap<u64, 4>,
}
