//! Instructions of `Timeouts`, a queue of `Instant`s. The bare wheel runs the same operations with
//! ticks that were converted in advance, so the difference is the cost of instants.
//!
//! `make instructions` runs this; `instructions.rs` explains the method.
#![allow(missing_docs)] // the macros generate items without docs

use gungraun::Callgrind;
use gungraun::prelude::*;
use punctual::{Timeouts, TimerKey, Wheel};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of operations in each benchmark. One tick of the bare wheel is 2^10 ns.
const OPS: usize = 1_000;
const GRANULARITY: Duration = Duration::from_nanos(1 << 10);
const MILLISECOND: u64 = 1_000_000;

/// A queue with its own type of times.
trait Queue {
    type Time: Copy;
    fn new(start: Instant) -> Self;
    /// Converts nanoseconds after the start.
    fn time(start: Instant, nanos: u64) -> Self::Time;
    fn insert(&mut self, time: Self::Time, value: u64) -> TimerKey;
    fn remove(&mut self, key: TimerKey) -> Option<u64>;
    fn reset(&mut self, key: TimerKey, time: Self::Time) -> bool;
    fn take_next(&mut self, now: Self::Time) -> Option<u64>;
    fn next_time(&mut self) -> Option<Self::Time>;
}

impl Queue for Timeouts<u64> {
    type Time = Instant;

    fn new(start: Instant) -> Self {
        Timeouts::new(start, GRANULARITY)
    }

    fn time(start: Instant, nanos: u64) -> Instant {
        start + Duration::from_nanos(nanos)
    }

    fn insert(&mut self, time: Instant, value: u64) -> TimerKey {
        self.insert(time, value)
    }

    fn remove(&mut self, key: TimerKey) -> Option<u64> {
        self.remove(key)
    }

    fn reset(&mut self, key: TimerKey, time: Instant) -> bool {
        self.reset(key, time)
    }

    fn take_next(&mut self, now: Instant) -> Option<u64> {
        self.take_next(now)
    }

    fn next_time(&mut self) -> Option<Instant> {
        (*self).next_time()
    }
}

impl Queue for Wheel<u64> {
    type Time = u64;

    fn new(_start: Instant) -> Self {
        Wheel::new()
    }

    fn time(_start: Instant, nanos: u64) -> u64 {
        nanos >> 10
    }

    fn insert(&mut self, tick: u64, value: u64) -> TimerKey {
        self.insert(tick, value)
    }

    fn remove(&mut self, key: TimerKey) -> Option<u64> {
        self.remove(key)
    }

    fn reset(&mut self, key: TimerKey, tick: u64) -> bool {
        self.reset(key, tick)
    }

    fn take_next(&mut self, now: u64) -> Option<u64> {
        self.pop_due(now).map(|expired| expired.value)
    }

    fn next_time(&mut self) -> Option<u64> {
        self.next_deadline()
    }
}

/// The input of a benchmark: a queue, its keys, and for each operation the clock and a later time.
struct Stage<Q: Queue> {
    queue: Q,
    keys: Vec<TimerKey>,
    turns: Vec<(Q::Time, Q::Time)>,
}

impl<Q: Queue> Stage<Q> {
    fn with(timers: usize) -> Self {
        let start = Instant::now();
        let mut state = 7u64;
        let mut timeout = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            10 * MILLISECOND + (state >> 33) % (290 * MILLISECOND)
        };
        let mut queue = Q::new(start);
        let keys = (0..timers as u64)
            .map(|value| queue.insert(Q::time(start, timeout()), value))
            .collect();
        let turns = (0..OPS as u64)
            .map(|turn| turn * 1_000)
            .map(|now| (Q::time(start, now), Q::time(start, now + timeout())))
            .collect();
        Stage { queue, keys, turns }
    }
}

/// Defines a benchmark for `Timeouts` and for the bare wheel.
macro_rules! benchmark {
    ($name:ident($stage:ident) { $($body:tt)* }) => {
        #[library_benchmark]
        #[bench::instants_1(Stage::<Timeouts<u64>>::with(1))]
        #[bench::instants_10(Stage::<Timeouts<u64>>::with(10))]
        #[bench::instants_10k(Stage::<Timeouts<u64>>::with(10_000))]
        #[bench::ticks_1(Stage::<Wheel<u64>>::with(1))]
        #[bench::ticks_10(Stage::<Wheel<u64>>::with(10))]
        #[bench::ticks_10k(Stage::<Wheel<u64>>::with(10_000))]
        fn $name<Q: Queue>(mut $stage: Stage<Q>) -> Stage<Q> {
            $($body)*
            $stage
        }
    };
}

benchmark! {
    replace(stage) {
        let timers = stage.keys.len();
        for (at, &(_, time)) in stage.turns.iter().enumerate() {
            let key = &mut stage.keys[at % timers];
            black_box(stage.queue.remove(*key));
            *key = stage.queue.insert(time, at as u64);
        }
    }
}

benchmark! {
    reset(stage) {
        let timers = stage.keys.len();
        for (at, &(_, time)) in stage.turns.iter().enumerate() {
            black_box(stage.queue.reset(stage.keys[at % timers], time));
        }
    }
}

benchmark! {
    next_time(stage) {
        for _ in 0..OPS {
            black_box(black_box(&mut stage.queue).next_time());
        }
    }
}

benchmark! {
    // Takes the earliest value and adds another, like a poll of one connection.
    take_and_insert(stage) {
        for (at, &(_, time)) in stage.turns.iter().enumerate() {
            if let Some(next) = stage.queue.next_time() {
                black_box(stage.queue.take_next(next));
            }
            stage.queue.insert(time, at as u64);
        }
    }
}

benchmark! {
    // An iteration of a QUIC server: a packet re-arms a timer, due timers are taken, and the next
    // time is queried.
    turn(stage) {
        let timers = stage.keys.len();
        for (at, &(now, time)) in stage.turns.iter().enumerate() {
            black_box(stage.queue.reset(stage.keys[at % timers], time));
            while let Some(value) = stage.queue.take_next(now) {
                black_box(value);
            }
            black_box(stage.queue.next_time());
        }
    }
}

library_benchmark_group!(
    name = instants,
    benchmarks = [replace, reset, next_time, take_and_insert, turn]
);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["cache-sim=no"])),
    library_benchmark_groups = instants
);
