//! What a timer costs: `cargo run --release -p punctual --example timings -- [N ...] [part ...]`
//! where the parts are cancel, rearm, arm, fire, next and memory.
//!
//! Nanoseconds of CPU time per operation on a `Wheel<u64>` with N timers live, deadlines uniform in 1 ms..60 s
//! and ticks of 1 ms. Every figure is the median of several rounds, with the spread of the middle
//! half of them.
#![allow(missing_docs)]

use punctual::{DeadlineQueue, TimerKey, Wheel};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const SPAN: u64 = 60_000;
const ROUNDS: usize = 11;
/// Operations in a round.
const OPS: usize = 200_000;

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
}

/// Nanoseconds per operation: the median of the rounds and the spread of the middle half.
fn report(name: &str, live: usize, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let at = |part: usize| rounds[rounds.len() * part / 4];
    println!(
        "{name:<34} {live:>9}  {:>9.1}  {:>8.1}-{:.1}",
        at(2),
        at(1),
        at(3)
    );
}

/// Runs rounds; each gives the nanoseconds it took and the operations it did.
fn measure(name: &str, live: usize, mut round: impl FnMut() -> (f64, usize)) {
    round(); // warms up
    let rounds = (0..ROUNDS).map(|_| {
        let (nanos, operations) = round();
        nanos / operations as f64
    });
    report(name, live, rounds.collect());
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

fn filled(live: usize, random: &mut Random) -> (Wheel<u64>, Vec<TimerKey>) {
    let mut wheel = Wheel::new();
    let keys = (0..live)
        .map(|n| wheel.insert(1 + random.below(SPAN), n as u64))
        .collect();
    (wheel, keys)
}

fn arm_and_cancel(live: usize) {
    let mut random = Random(1);
    let (mut wheel, mut keys) = filled(live, &mut random);
    measure("arm + cancel, random timer", live, || {
        let took = nanos(|| {
            for n in 0..OPS {
                let at = random.below(live as u64) as usize;
                black_box(wheel.remove(keys[at]));
                keys[at] = wheel.insert(1 + random.below(SPAN), n as u64);
            }
        });
        (took, OPS)
    });
    measure("arm + cancel, oldest timer", live, || {
        let took = nanos(|| {
            for n in 0..OPS {
                let at = n % live;
                black_box(wheel.remove(keys[at]));
                keys[at] = wheel.insert(1 + random.below(SPAN), n as u64);
            }
        });
        (took, OPS)
    });
    measure("arm + cancel, the same timer", live, || {
        let took = nanos(|| {
            for n in 0..OPS {
                let key = wheel.insert(1 + random.below(SPAN), n as u64);
                black_box(wheel.remove(key));
            }
        });
        (took, OPS)
    });
}

fn rearm(live: usize) {
    let mut random = Random(2);
    let (mut wheel, keys) = filled(live, &mut random);
    let mut later = vec![SPAN; live];
    measure("re-arm later", live, || {
        let took = nanos(|| {
            for _ in 0..OPS {
                let at = random.below(live as u64) as usize;
                later[at] += 1 + random.below(64);
                black_box(wheel.reset(keys[at], later[at]));
            }
        });
        (took, OPS)
    });
    let (mut wheel, keys) = filled(live, &mut random);
    measure("re-arm, earlier or later", live, || {
        let took = nanos(|| {
            for _ in 0..OPS {
                let at = random.below(live as u64) as usize;
                black_box(wheel.reset(keys[at], 1 + random.below(SPAN)));
            }
        });
        (took, OPS)
    });
}

/// A batch of wheels, so that little of what is timed is the reading of the clock.
fn batch(live: usize) -> usize {
    (2_000 / live).max(1)
}

fn arm(live: usize) {
    let mut random = Random(3);
    let count = batch(live);
    let times = (OPS / live / count).max(1);
    measure("arm, from empty", live, || {
        let mut took = 0.0;
        for _ in 0..times {
            let mut wheels: Vec<Wheel<u64>> = (0..count).map(|_| Wheel::new()).collect();
            took += nanos(|| {
                for wheel in &mut wheels {
                    for n in 0..live {
                        black_box(wheel.insert(1 + random.below(SPAN), n as u64));
                    }
                }
            });
        }
        (took, times * count * live)
    });
    let mut order: Vec<usize> = (0..live).collect();
    for n in (1..live).rev() {
        order.swap(n, random.below(n as u64 + 1) as usize);
    }
    measure("cancel all, random order", live, || {
        let mut took = 0.0;
        for _ in 0..times {
            let mut wheels: Vec<_> = (0..count).map(|_| filled(live, &mut random)).collect();
            took += nanos(|| {
                for (wheel, keys) in &mut wheels {
                    for &at in &order {
                        black_box(wheel.remove(keys[at]));
                    }
                }
            });
        }
        (took, times * count * live)
    });
}

fn fire(live: usize) {
    let mut random = Random(4);
    let count = batch(live);
    let times = (OPS / live / count).max(1);
    measure("fire, the clock ticking", live, || {
        let (mut took, mut fired) = (0.0, 0);
        for _ in 0..times {
            let mut wheels: Vec<_> = (0..count).map(|_| filled(live, &mut random).0).collect();
            took += nanos(|| {
                // As a loop does that sleeps until the next wake-up.
                for wheel in &mut wheels {
                    while let Some(now) = wheel.next_wakeup() {
                        while let Some(expired) = wheel.pop_due(now) {
                            black_box(expired.value);
                            fired += 1;
                        }
                    }
                }
            });
        }
        assert_eq!(fired, times * count * live);
        (took, fired)
    });
    measure("fire, all due at once", live, || {
        let mut took = 0.0;
        for _ in 0..times {
            let mut wheels: Vec<_> = (0..count).map(|_| filled(live, &mut random).0).collect();
            took += nanos(|| {
                for wheel in &mut wheels {
                    while black_box(wheel.pop_due(SPAN)).is_some() {}
                }
            });
        }
        (took, times * count * live)
    });
    let (mut wheel, mut now) = (filled(live, &mut random).0, 0);
    measure("fire and arm again", live, || {
        let (mut took, mut fired) = (0.0, 0);
        took += nanos(|| {
            while fired < OPS {
                now = wheel.next_wakeup().unwrap_or(now).max(now);
                while let Some(expired) = wheel.pop_due(now) {
                    wheel.insert(now + 1 + random.below(SPAN), expired.value);
                    fired += 1;
                }
            }
        });
        (took, fired)
    });
}

fn next_deadline(live: usize) {
    let mut random = Random(5);
    let (mut wheel, keys) = filled(live, &mut random);
    measure("next deadline, nothing changed", live, || {
        let took =
            nanos(|| (0..OPS).for_each(|_| assert!(black_box(wheel.next_deadline()).is_some())));
        (took, OPS)
    });
    let mut wheel = Wheel::new();
    (0..live).for_each(|n| {
        wheel.insert(3_600_000 + random.below(60_000), n as u64);
    });
    measure("next deadline, arm + cancel ahead", live, || {
        let took = nanos(|| {
            for n in 0..OPS {
                let key = wheel.insert(1 + random.below(SPAN), n as u64);
                black_box(wheel.next_deadline());
                black_box(wheel.remove(key));
                black_box(wheel.next_deadline());
            }
        });
        (took, OPS)
    });
    drop(keys);
    // A QUIC-like loop, in microseconds: re-arm one, advance, poll, ask.
    let mut wheel = Wheel::new();
    let mut now = 0;
    let mut keys: Vec<_> = (0..live)
        .map(|n| wheel.insert(1_000 + random.below(60_000_000), n))
        .collect();
    measure("re-arm, advance 1 us, poll, ask", live, || {
        let took = nanos(|| {
            for _ in 0..OPS {
                now += 1;
                let at = random.below(live as u64) as usize;
                wheel.reset(keys[at], now + 1_000 + random.below(60_000_000));
                while let Some(expired) = wheel.pop_due(now) {
                    keys[expired.value] =
                        wheel.insert(now + 1_000 + random.below(60_000_000), expired.value);
                }
                black_box(wheel.next_deadline());
            }
        });
        (took, OPS)
    });
}

fn memory(live: usize) {
    let mut random = Random(6);
    let (wheel, _) = filled(live, &mut random);
    println!(
        "{:<34} {live:>9}  {:>9.1}",
        "bytes a timer",
        wheel.memory() as f64 / live as f64
    );
}

/// The name of a part, and what runs it with so many timers.
type Part = (&'static str, fn(usize));

fn main() {
    let (sizes, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.parse::<usize>().is_ok());
    let mut sizes: Vec<usize> = sizes.iter().filter_map(|size| size.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![10, 1_000, 100_000, 1_000_000];
    }
    let parts: [Part; 6] = [
        ("cancel", arm_and_cancel),
        ("rearm", rearm),
        ("arm", arm),
        ("fire", fire),
        ("next", next_deadline),
        ("memory", memory),
    ];
    println!(
        "{:<34} {:>9}  {:>9}  {:>8}",
        "ns per operation", "timers", "median", "middle half"
    );
    for (_, part) in parts
        .iter()
        .filter(|(name, _)| names.is_empty() || names.iter().any(|word| word == name))
    {
        for &live in &sizes {
            part(live);
        }
    }
}
