//! Where the sorted array loses to the wheel, and what going over costs:
//! `cargo run --release -p punctual --example small_queues -- [N ...] [part ...]`,
//! where a part is a word of a row's name.
//!
//! Nanoseconds of CPU time per turn with N timers live; the median of several rounds, the queues in
//! turn. Ticks are microseconds, deadlines lie 1 ms..60 s ahead. `Adaptive` takes its thresholds
//! from this table.
#![allow(missing_docs)]

use punctual::queue::{Fifo, Sorted};
use punctual::{Adaptive, DeadlineQueue, TimerKey, Wheel};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const ROUNDS: usize = 15;
/// Turns in a round.
const TURNS: usize = 100_000;

/// xorshift64*: the same stream every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn ahead(&mut self) -> u64 {
        1_000 + self.below(60_000_000)
    }
}

fn nanos(work: impl FnOnce()) -> f64 {
    let time = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let start = time();
    work();
    time() - start
}

/// A queue with N timers, and the clock.
struct Loaded<Q> {
    queue: Q,
    keys: Vec<TimerKey>,
    now: u64,
    random: Random,
}

impl<Q: DeadlineQueue<usize> + Default> Loaded<Q> {
    fn new(live: usize) -> Self {
        let mut random = Random(7);
        let mut queue = Q::default();
        let now = 1 << 40;
        queue.pop_due(now);
        let keys = (0..live)
            .map(|n| queue.insert(now + random.ahead(), n))
            .collect();
        Loaded {
            queue,
            keys,
            now,
            random,
        }
    }

    fn turn(&mut self, what: What) {
        self.now += 1;
        let at = self.random.below(self.keys.len() as u64) as usize;
        match what {
            What::Cancel => {
                black_box(self.queue.remove(self.keys[at]));
                self.keys[at] = self.queue.insert(self.now + self.random.ahead(), at);
            }
            What::SameTimeout => {
                black_box(self.queue.remove(self.keys[at]));
                self.keys[at] = self.queue.insert(self.now + 30_000_000, at);
            }
            What::Rearm => {
                black_box(
                    self.queue
                        .reset(self.keys[at], self.now + self.random.ahead()),
                );
            }
            What::RearmLater => {
                black_box(self.queue.reset(self.keys[at], self.now + 60_000_000));
            }
            What::FullTurn => {
                self.queue.reset(self.keys[at], self.now + 60_000_000);
                black_box(self.queue.pop_due(self.now));
                black_box(self.queue.next_deadline());
            }
            What::Fire => {
                self.now = self.queue.next_wakeup().unwrap_or(self.now).max(self.now);
                while let Some(expired) = self.queue.pop_due(self.now) {
                    let at = expired.value;
                    self.keys[at] = self.queue.insert(self.now + self.random.ahead(), at);
                }
            }
            What::Quic => {
                let deadline = self.now + 10_000 + self.random.below(290_000);
                self.queue.reset(self.keys[at], deadline);
                while let Some(expired) = self.queue.pop_due(self.now) {
                    let at = expired.value;
                    self.keys[at] = self.queue.insert(self.now + self.random.ahead(), at);
                }
                black_box(self.queue.next_deadline());
            }
        }
    }
}

#[derive(Clone, Copy)]
enum What {
    Cancel,
    SameTimeout,
    Rearm,
    RearmLater,
    Fire,
    Quic,
    FullTurn,
}

const WHATS: [(&str, What); 7] = [
    ("arm + cancel", What::Cancel),
    ("arm + cancel, one timeout", What::SameTimeout),
    ("re-arm, earlier or later", What::Rearm),
    ("re-arm to the latest", What::RearmLater),
    ("fire and arm again", What::Fire),
    ("re-arm, pop, ask", What::Quic),
    ("re-arm to the latest, pop, ask", What::FullTurn),
];

/// A round with one of the queues.
type Round = Box<dyn FnMut() -> f64>;

fn rounds<Q: DeadlineQueue<usize> + Default + 'static>(live: usize, what: What) -> Round {
    let mut loaded = Loaded::<Q>::new(live);
    Box::new(move || nanos(|| (0..TURNS).for_each(|_| loaded.turn(what))) / TURNS as f64)
}

fn main() {
    let (sizes, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.parse::<usize>().is_ok());
    let mut sizes: Vec<usize> = sizes.iter().flat_map(|n| n.parse()).collect();
    if sizes.is_empty() {
        sizes = vec![1, 4, 10, 16, 32, 48, 64, 96, 128, 192, 256, 512];
    }
    println!(
        "{:<32} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "ns a turn", "timers", "Sorted", "Wheel", "Adaptive", "Fifo"
    );
    for (name, what) in WHATS {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        for &live in &sizes {
            let mut queues: Vec<(Round, Vec<f64>)> = [
                rounds::<Sorted<usize>>(live, what),
                rounds::<Wheel<usize>>(live, what),
                rounds::<Adaptive<usize>>(live, what),
                rounds::<Fifo<usize>>(live, what),
            ]
            .into_iter()
            .map(|round| (round, Vec::new()))
            .collect();
            for _ in 0..ROUNDS {
                for (round, took) in &mut queues {
                    took.push(round());
                }
            }
            print!("{name:<32} {live:>6}");
            for (_, took) in &mut queues {
                took.sort_by(f64::total_cmp);
                print!(" {:>9.1}", took[ROUNDS / 2]);
            }
            println!();
        }
    }
}
