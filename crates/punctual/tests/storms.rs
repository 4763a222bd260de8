//! Storms of re-arming on deadline queues: no timer is lost, fires twice, early or out of order,
//! and memory stays bounded.
//!
//! A storm runs thousands of operations of one kind on many timers and compares each result with a
//! `BTreeMap` of (deadline, arming). A failure prints the seed.
//!
//! - `STORM_OPS=1000000` makes each storm longer than the usual 60,000 operations, and
//!   `STORM_TIMERS=20000` gives it more than the usual 400 timers. `make soak` sets both.
//! - `PUNCTUAL_SEED=17` repeats a failure.
#![allow(missing_docs)]
#![allow(unexpected_cfgs)] // cargo-fuzz sets `fuzzing`

mod model;

use model::{Model, Op, Subject};
use punctual::{Heap, TimerKey, Wheel};
use punctual_harness::{Random, number, seed};

/// A queue that a storm may fill.
trait Queue: Subject + Default {}

impl<Q: Subject + Default> Queue for Q {}

/// A queue in a storm, with its model.
struct Storm<Q> {
    model: Model<Q>,
    random: Random,
    ops: usize,
    /// Maximum number of timers since the queue was last empty.
    peak: usize,
    bytes_per_timer: usize,
}

/// Number of bytes that a queue may take besides its timers: a wheel may have a chunk of 248 bytes
/// in each of its 704 slots.
const SPARE_BYTES: usize = 192 << 10;

impl<Q: Queue> Storm<Q> {
    fn new(seed: u64) -> Self {
        Storm {
            model: Model::new(Q::default()),
            random: Random::new(seed),
            ops: 0,
            peak: 0,
            bytes_per_timer: bytes_per_timer::<Q>(),
        }
    }

    /// Returns a random live timer.
    fn pick(&mut self) -> TimerKey {
        let place = self.random.below(self.model.len() as u64);
        self.model.key(place as usize)
    }

    fn after(&self, span: u64) -> u64 {
        self.model.now.saturating_add(span)
    }

    /// Returns a random tick less than `span` ticks from now.
    fn soon(&mut self, span: u64) -> u64 {
        let span = self.random.below(span);
        self.after(span)
    }

    fn arm(&mut self, deadline: u64) {
        self.model.insert_at(deadline);
        self.done();
    }

    fn rearm(&mut self, key: TimerKey, deadline: u64) {
        self.model.reset_to(key, deadline);
        self.done();
    }

    fn cancel(&mut self, key: TimerKey) {
        self.model.remove(key);
        self.done();
    }

    fn fire_one(&mut self) -> bool {
        let fired = self.model.pop();
        if fired {
            self.done();
        }
        fired
    }

    /// Moves the clock, fires all due timers, and returns their number.
    fn fire(&mut self, now: u64) -> usize {
        self.model.now = now;
        let mut fired = 0;
        while self.fire_one() {
            fired += 1;
        }
        fired
    }

    /// Checks the queue after each operation.
    fn done(&mut self) {
        self.ops += 1;
        self.peak = self.peak.max(self.model.len());
        self.model.compare();
        if self.model.len() == 0 && self.peak > 0 {
            // An empty queue frees its memory in pieces, in calls that find nothing due.
            for _ in 0..self.peak {
                if self.model.queue.memory() <= SPARE_BYTES {
                    break;
                }
                assert!(self.model.poll(1_000));
            }
            self.peak = 0;
        }
        if self.ops.is_multiple_of(16) {
            let bound = 2 * self.bytes_per_timer * self.peak + SPARE_BYTES;
            let (bytes, timers) = (self.model.queue.memory(), self.model.len());
            assert!(
                bytes <= bound,
                "{bytes} bytes for {timers} timers, {} at most",
                self.peak
            );
            self.model.refuse_last();
        }
    }

    /// Arms timers until the queue has `crowd` timers.
    fn refill(&mut self, crowd: usize, span: u64) {
        while self.model.len() < crowd {
            let deadline = 1 + self.random.below(span);
            self.arm(self.after(deadline));
        }
    }
}

/// Returns the memory per timer in a queue of a few thousand timers. Vectors grow by doubling, so a
/// queue of another size may take twice as much per timer.
fn bytes_per_timer<Q: Queue>() -> usize {
    let many = if cfg!(miri) { 64 } else { 4_096 };
    let (mut queue, mut random) = (Q::default(), Random::new(1));
    for value in 0..many as u64 {
        queue.insert(random.below(1 << 20), value);
    }
    queue.memory().div_ceil(many)
}

/// Runs a storm from a fresh seed, then fires the remaining timers.
fn run<Q: Queue>(storm: fn(&mut Storm<Q>), crowd: usize) {
    let ops = number("STORM_OPS").unwrap_or(if cfg!(miri) { 100 } else { 60_000 });
    let crowd = number("STORM_TIMERS").unwrap_or(crowd);
    let crowd = if cfg!(miri) { crowd / 20 } else { crowd };
    let mut state = Storm::<Q>::new(seed(&["PUNCTUAL_SEED"]));
    // Starts at a random tick, so that the digits of the cursor differ in each run.
    state.model.now = state.random.length(64) / 2;
    while state.ops < ops {
        state.refill(crowd, 10_000);
        storm(&mut state);
    }
    state.fire(u64::MAX);
    assert_eq!((state.model.len(), state.model.next()), (0, None));
    state.model.apply(Op::Iterate);
}

/// Re-arms all timers to later ticks.
fn later<Q: Queue>(storm: &mut Storm<Q>) {
    for key in storm.model.keys() {
        let deadline = storm
            .model
            .deadline(key)
            .saturating_add(storm.random.below(500));
        storm.rearm(key, deadline);
    }
    let now = storm.soon(400);
    storm.fire(now);
}

/// Re-arms all timers to earlier ticks: at about half the distance.
fn earlier<Q: Queue>(storm: &mut Storm<Q>) {
    for key in storm.model.keys() {
        let left = storm.model.deadline(key).saturating_sub(storm.model.now);
        let left = left / 2 + storm.random.below(3);
        storm.rearm(key, storm.after(left));
    }
    let now = storm.after(1);
    storm.fire(now);
}

/// Re-arms timers alternately to earlier and later ticks, across slots and levels.
fn earlier_and_later<Q: Queue>(storm: &mut Storm<Q>) {
    for turn in 0..100 {
        let key = storm.pick();
        let deadline = storm.model.deadline(key);
        let span = storm.random.below(1 << (turn % 20));
        let deadline = if turn % 2 == 0 {
            deadline.saturating_sub(span)
        } else {
            storm.after(span)
        };
        storm.rearm(key, deadline);
    }
    let now = storm.soon(64);
    storm.fire(now);
}

/// Re-arms timers to the current tick or to an earlier tick.
fn at_once<Q: Queue>(storm: &mut Storm<Q>) {
    for turn in 0..20 {
        let key = storm.pick();
        storm.rearm(key, storm.model.now.saturating_sub(turn % 3));
    }
    let due = storm.model.count_due();
    assert!(due > 0);
    assert_eq!(storm.fire(storm.model.now), due);
    storm.model.now = storm.soon(100);
}

/// Arms, re-arms and cancels timers while timers of the same tick fire.
fn while_firing<Q: Queue>(storm: &mut Storm<Q>) {
    let Some(next) = storm.model.next() else {
        return;
    };
    storm.model.now = storm.model.now.max(next);
    for _ in 0..40 {
        if !storm.fire_one() {
            break;
        }
        match storm.random.below(6) {
            0 => storm.arm(storm.model.now),
            1 => storm.arm(storm.after(1_000)),
            2 => storm.arm(storm.model.now.saturating_sub(5)),
            _ if storm.model.len() == 0 => {}
            // The timer that fires next is cancelled, or fires last, or is re-armed later.
            what => {
                let key = storm.model.first().expect("there are timers");
                match what {
                    3 => storm.cancel(key),
                    4 => storm.rearm(key, storm.model.now),
                    _ => storm.rearm(key, storm.after(200)),
                }
            }
        }
    }
    storm.fire(storm.model.now);
}

/// Reuses records while the entries of their previous timers are still filed.
fn reuse<Q: Queue>(storm: &mut Storm<Q>) {
    for _ in 0..30 {
        let together = 1 + storm.random.below(4) as usize;
        let mut deadlines = Vec::new();
        for _ in 0..together.min(storm.model.len()) {
            let key = storm.pick();
            deadlines.push(storm.model.deadline(key));
            storm.cancel(key);
        }
        // The new deadline is the previous timer's, or shortly before or after it, or soon.
        for deadline in deadlines {
            let near = storm.random.below(5);
            match storm.random.below(3) {
                0 => storm.arm(deadline),
                1 => storm.arm((deadline + near).saturating_sub(2)),
                _ => storm.arm(storm.after(near * 1_000)),
            }
        }
    }
    let now = storm.soon(50);
    storm.fire(now);
}

/// Moves the clock far ahead or back, or lets it stand still.
fn clock_jumps<Q: Queue>(storm: &mut Storm<Q>) {
    for _ in 0..20 {
        let (key, span) = (storm.pick(), storm.random.length(64));
        storm.rearm(key, storm.after(span));
    }
    let span = storm.random.length(64);
    match storm.random.below(4) {
        0 => storm.model.now = storm.after(span),
        1 => storm.model.now = storm.model.now.saturating_sub(span),
        // Back so far that nearly all deadlines are in the future again.
        2 => storm.model.now = span / 2,
        _ => {}
    }
    for _ in 0..storm.random.below(30) {
        storm.fire_one();
    }
    if storm.random.below(4) == 0 {
        storm.fire(storm.model.now);
    }
}

/// Re-arms timers to near and far deadlines on all levels.
fn all_levels<Q: Queue>(storm: &mut Storm<Q>) {
    for _ in 0..50 {
        let (key, span) = (storm.pick(), storm.random.length(64));
        let deadline = match storm.random.below(8) {
            0 => u64::MAX - span % 3,
            1 => storm.model.now,
            _ => storm.after(span),
        };
        storm.rearm(key, deadline);
    }
    if storm.random.below(3) == 0 {
        let now = storm
            .model
            .next()
            .map_or(storm.model.now, |next| next.max(storm.model.now));
        storm.fire(now);
    }
    // Sets the clock back before it comes near the last tick.
    if storm.model.now > 1 << 62 {
        storm.model.now = storm.random.below(1 << 20);
    }
}

/// Queries the next deadline, which moves the wheel's cursor ahead of the clock, and then re-arms
/// timers to ticks before the cursor.
fn before_the_cursor<Q: Queue>(storm: &mut Storm<Q>) {
    let ahead = 1 + storm.random.below(1 << 30);
    for (number, key) in (0..).zip(storm.model.keys()) {
        storm.rearm(key, storm.after(ahead + number % 7));
    }
    storm.model.next();
    for _ in 0..storm.random.below(60) {
        let (key, span) = (storm.pick(), storm.random.below(ahead));
        storm.rearm(key, storm.after(span));
        if span % 4 == 0 {
            storm.model.next();
        }
    }
    let now = storm.soon(ahead);
    storm.fire(now);
}

/// Re-arms many timers to few ticks. The order of arming decides between timers of the same tick.
fn ties<Q: Queue>(storm: &mut Storm<Q>) {
    for _ in 0..60 {
        let (key, tick) = (storm.pick(), storm.random.below(3));
        storm.rearm(key, storm.after(tick * 70));
    }
    for _ in 0..storm.random.below(60) {
        storm.fire_one();
    }
    let now = storm.random.below(3) * 70;
    let now = storm.after(now);
    storm.fire(now);
}

/// Arms many timers, re-arms them to earlier ticks (which leaves dead entries), and removes nearly
/// all.
fn growing_and_shrinking<Q: Queue>(storm: &mut Storm<Q>) {
    let crowd = 1 + storm.random.below(storm.model.len() as u64 * 20) as usize;
    storm.refill(crowd, 1 << 40);
    for _ in 0..crowd {
        let key = storm.pick();
        let deadline = storm.model.deadline(key);
        storm.rearm(key, storm.model.now.midpoint(deadline));
    }
    let left = storm.random.below(20) as usize;
    while storm.model.len() > left {
        let key = storm.pick();
        storm.cancel(key);
    }
}

/// Fires timers within a budget, and re-arms timers between the calls.
fn within_budgets<Q: Queue>(storm: &mut Storm<Q>) {
    storm.model.now = storm.soon(3_000);
    for _ in 0..200 {
        let budget = storm.random.below(8) as usize;
        let idle = storm.model.poll(budget);
        storm.done();
        if idle || storm.model.len() == 0 {
            break;
        }
        let (key, span) = (storm.pick(), storm.random.below(4_000));
        match span % 4 {
            0 => storm.rearm(key, storm.after(span)),
            1 => storm.rearm(key, storm.model.now.saturating_sub(span)),
            _ => {}
        }
    }
}

/// Applies all operations at random. In some calls the clock stands still, so that only sweeps
/// remove the dead entries that cancels and re-arms leave.
fn mixed<Q: Queue>(storm: &mut Storm<Q>) {
    // Weights of: cancel one timer and arm another, re-arm later, re-arm earlier, move the clock,
    // move the clock to the next deadline.
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
        if storm.model.len() == 0 {
            return;
        }
        let mut drawn = storm.random.below(weights.iter().sum());
        let chosen = weights.iter().position(|&weight| {
            let is_chosen = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is_chosen
        });
        let key = storm.pick();
        let (old, timeout) = (storm.model.deadline(key), storm.random.below(range));
        match chosen {
            Some(0) => {
                storm.cancel(key);
                storm.arm(storm.after(timeout));
            }
            Some(1) => storm.rearm(key, old.max(storm.after(timeout))),
            Some(2) => {
                let left = old.saturating_sub(storm.model.now).max(1);
                let sooner = storm.random.below(left);
                storm.rearm(key, storm.after(sooner));
            }
            Some(3) => {
                let now = storm.after(timeout / storm.model.len() as u64);
                storm.fire(now);
            }
            _ => {
                let now = storm
                    .model
                    .next()
                    .map_or(storm.model.now, |next| next.max(storm.model.now));
                assert!(storm.fire(now) > 0, "the timer of the next deadline fires");
            }
        }
    }
    // Sets the clock back before it comes near the last tick.
    if storm.model.now > 1 << 62 {
        storm.model.now = storm.random.below(1 << 20);
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

impl Subject for Wheel<u64> {}
impl<const D: usize> Subject for Heap<u64, D> {}

storms! {
    // Under Miri only the wheel, because Miri is slow.
    wheel: Wheel<u64>,
    #[cfg(not(miri))] binary_heap: Heap<u64, 2>,
    #[cfg(not(miri))] heap_of_four: Heap<u64, 4>,
}
