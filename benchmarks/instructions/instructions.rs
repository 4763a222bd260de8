//! Instructions of frequent operations, counted under Valgrind. The counts are equal in every run,
//! so a regression is found without measuring time.
//!
//! `make instructions` runs this and compares the counts with `instructions.txt` beside this file;
//! `scripts/instructions --renew` writes that table. Each benchmark does [`OPS`] operations, so a
//! count divided by [`OPS`] is the cost of one operation.
#![allow(missing_docs)] // the macros generate items without docs

use gungraun::Callgrind;
use gungraun::prelude::*;
use punctual::{DeadlineQueue, Heap, TimerKey, Wheel};
use std::hint::black_box;

/// Number of operations in each benchmark. One tick is a microsecond.
const OPS: usize = 1_000;
const MILLISECOND: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// The input of a benchmark. It is created before the count begins, and dropped after the count has
/// ended.
struct Stage<Q> {
    /// One queue; or several queues of the same size, if [`OPS`] operations are too many for one.
    queues: Vec<Queue<Q>>,
    /// Timeouts from 1 ms to 1 s, generated in advance.
    timeouts: Vec<u64>,
}

struct Queue<Q> {
    queue: Q,
    /// Keys of the queue's timers, in random order.
    keys: Vec<TimerKey>,
}

/// Random numbers that are equal on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn timeout(&mut self) -> u64 {
        MILLISECOND + self.below(999 * MILLISECOND)
    }
}

impl<Q: DeadlineQueue<u64> + Default> Stage<Q> {
    fn of(queues: usize, timers: usize) -> Self {
        let mut random = Random(7);
        let mut fill = || {
            let mut queue = Q::default();
            let mut keys: Vec<_> = (0..timers as u64)
                .map(|value| queue.insert(random.timeout(), value))
                .collect();
            for last in (1..keys.len()).rev() {
                keys.swap(last, random.below(last as u64 + 1) as usize);
            }
            Queue { queue, keys }
        };
        Stage {
            queues: (0..queues).map(|_| fill()).collect(),
            timeouts: (0..OPS)
                .map(|_| Random(random.below(1 << 30)).timeout())
                .collect(),
        }
    }

    /// Returns one queue with `timers` timers.
    fn steady(timers: usize) -> Self {
        Self::of(1, timers)
    }

    /// Returns queues from which [`OPS`] timers can be removed in total, at most half of each
    /// queue.
    fn draining(timers: usize) -> Self {
        Self::of((2 * OPS / timers).max(1), timers)
    }

    /// Returns queues of `timers / 2` timers each, into which [`OPS`] timers are inserted in total.
    fn filling(timers: usize) -> Self {
        Self::of((2 * OPS / timers).max(1), timers / 2)
    }
}

/// Defines a benchmark for each queue, with ten timers and with ten thousand.
macro_rules! benchmark {
    ($name:ident($setup:ident, $stage:ident) { $($body:tt)* }) => {
        #[library_benchmark]
        #[bench::wheel_10(Stage::<Wheel<u64>>::$setup(10))]
        #[bench::wheel_10k(Stage::<Wheel<u64>>::$setup(10_000))]
        #[bench::heap_10(Stage::<Heap<u64>>::$setup(10))]
        #[bench::heap_10k(Stage::<Heap<u64>>::$setup(10_000))]
        fn $name<Q: DeadlineQueue<u64>>(mut $stage: Stage<Q>) -> Stage<Q> {
            $($body)*
            $stage
        }
    };
}

benchmark! {
    arm(filling, stage) {
        let each = OPS / stage.queues.len();
        for (Queue { queue, .. }, timeouts) in stage.queues.iter_mut().zip(stage.timeouts.chunks(each)) {
            for &timeout in timeouts {
                black_box(queue.insert(timeout, timeout));
            }
        }
    }
}

benchmark! {
    cancel(draining, stage) {
        let each = OPS / stage.queues.len();
        for Queue { queue, keys } in &mut stage.queues {
            for &key in &keys[..each] {
                black_box(queue.remove(key));
            }
        }
    }
}

benchmark! {
    arm_and_cancel(steady, stage) {
        let Queue { queue, keys } = &mut stage.queues[0];
        let timers = keys.len();
        for (at, &timeout) in stage.timeouts.iter().enumerate() {
            let key = &mut keys[at % timers];
            black_box(queue.remove(*key));
            *key = queue.insert(timeout, timeout);
        }
    }
}

benchmark! {
    rearm_later(steady, stage) {
        let Queue { queue, keys } = &mut stage.queues[0];
        for (at, &timeout) in stage.timeouts.iter().enumerate() {
            black_box(queue.reset(keys[at % keys.len()], SECOND + 100 * at as u64 + timeout % 64));
        }
    }
}

benchmark! {
    rearm_earlier(steady, stage) {
        let Queue { queue, keys } = &mut stage.queues[0];
        for (at, &timeout) in stage.timeouts.iter().enumerate() {
            let left = (OPS - at) as u64;
            black_box(queue.reset(keys[at % keys.len()], left + timeout * left / (2 * OPS as u64)));
        }
    }
}

benchmark! {
    // Like a timer driver: advances to the next deadline and pops due timers, repeatedly.
    fire(draining, stage) {
        let each = OPS / stage.queues.len();
        for Queue { queue, .. } in &mut stage.queues {
            let (mut fired, mut now) = (0, 0);
            while fired < each {
                match queue.pop_due(now) {
                    Some(expired) => {
                        black_box(expired.value);
                        fired += 1;
                    }
                    None => now = queue.next_deadline().unwrap_or(u64::MAX),
                }
            }
        }
    }
}

benchmark! {
    next_deadline(steady, stage) {
        let Queue { queue, .. } = &mut stage.queues[0];
        for _ in 0..OPS {
            black_box(black_box(&mut *queue).next_deadline());
        }
    }
}

benchmark! {
    // A timer that is due first is armed and then cancelled. The next deadline is queried after
    // each of these operations.
    next_deadline_of_a_new_first(steady, stage) {
        let Queue { queue, .. } = &mut stage.queues[0];
        for &timeout in &stage.timeouts {
            let first = queue.insert(timeout % MILLISECOND, timeout);
            black_box(queue.next_deadline());
            black_box(queue.remove(first));
            black_box(queue.next_deadline());
        }
    }
}

benchmark! {
    // An iteration of a QUIC server: a packet re-arms one connection's timer, due timers are
    // popped, and the next deadline is queried.
    quic_turn(steady, stage) {
        let Queue { queue, keys } = &mut stage.queues[0];
        let timers = keys.len();
        for (turn, &timeout) in stage.timeouts.iter().enumerate() {
            let now = turn as u64;
            let timeout = 10 * MILLISECOND + timeout * 290 / 1_000;
            black_box(queue.reset(keys[turn % timers], now + timeout));
            while let Some(expired) = queue.pop_due(now) {
                black_box(expired.value);
            }
            black_box(queue.next_deadline());
        }
    }
}

library_benchmark_group!(
    name = queues,
    benchmarks = [
        arm,
        cancel,
        arm_and_cancel,
        rearm_later,
        rearm_earlier,
        fire,
        next_deadline,
        next_deadline_of_a_new_first,
        quic_turn
    ]
);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["cache-sim=no"])),
    library_benchmark_groups = queues
);
