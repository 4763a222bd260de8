//! Push and pop, as the benchmarks of the Ruby gem d_heap measure them: push N; push N and pop N; pop one
//! and push one with N in the queue. Deadlines are the priorities; payloads are the deadlines.
//!
//! The third pushes each deadline behind the last popped one (the hold model: Jones, 1986), like a timer
//! that is armed again when it fires.

use super::{SPAN, uniform};
use crate::clock::{Pace, Sections, Stopwatch, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// Timers in a section: enough for the counter's resolution.
const TIMERS: usize = 32;

pub fn round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let (pushes, both) = push_and_pop::<C>(size, random, pace)?;
    Ok(vec![pushes, both, hold::<C>(size, random, pace)?])
}

/// Measures pushing and popping. The queues are reused, so they have grown after the first time. Each
/// deadline is behind the last popped one, because no clock goes back.
fn push_and_pop<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<(Sample, Sample), GaveUp> {
    let mut queues: Vec<C> = (0..(TIMERS / size).max(1)).map(|_| C::new()).collect();
    let count = size * queues.len();
    let (mut pushes, mut pops) = (Sections::of(count), Sections::of(count));
    let (mut base, mut faults, mut warmed_up) = (0, 0, false);
    let start = Stopwatch::start();
    while pops.wants_more(pace) && pushes.wants_more(pace) {
        pushes.time(|| {
            for queue in &mut queues {
                for _ in 0..size {
                    let deadline = base + uniform(random);
                    queue.arm(deadline, deadline);
                }
            }
            count
        });
        pops.time(|| {
            for queue in &mut queues {
                faults += pop_all(queue, size);
            }
            count
        });
        base += SPAN + C::TICK;
        if start.elapsed() > pace.patience * 2 {
            break;
        }
        if !warmed_up && size < 1_000_000 {
            warmed_up = true;
            (pushes, pops) = (Sections::of(count), Sections::of(count));
        }
    }
    let pushed = Sample::timing(Figure::PushN, pushes.took(pace));
    let popped = Sample::timing(Figure::PushNPopN, pops.took(pace));
    let both = Sample {
        value: f64::midpoint(pushed.value, popped.value),
        operations: pushed.operations + popped.operations,
        cut: pushed.cut || popped.cut,
        ..popped
    };
    Ok((pushed, both.with_faults(faults)))
}

/// Pops all timers, and returns the number of those out of order or missing.
fn pop_all<C: Contender>(queue: &mut C, size: usize) -> usize {
    let (mut last, mut faults, mut popped) = (0, 0, 0);
    while popped < size {
        let count = queue.pop_earliest(&mut |deadline| {
            faults += usize::from(deadline + (C::TICK - 1) < last);
            last = deadline;
        });
        if count == 0 {
            break;
        }
        popped += count;
    }
    faults + size.abs_diff(popped)
}

fn hold<C: Contender>(size: usize, random: &mut Random, pace: &Pace) -> Result<Sample, GaveUp> {
    let mut queue = C::new();
    let start = Stopwatch::start();
    for n in 0..size {
        if n.is_multiple_of(1024) && start.elapsed() > pace.patience {
            return Err(GaveUp {
                doing: "pushing",
                seconds: pace.patience.as_secs(),
            });
        }
        let deadline = uniform(random);
        queue.arm(deadline, deadline);
    }
    let (mut last, mut faults) = (0, 0);
    let mut popped: Vec<u64> = Vec::with_capacity(1024);
    let mut turns = |count: usize| {
        let mut done = 0;
        while done < count {
            // Queues that cannot pop a single timer pop all that are due with it.
            let taken = queue.pop_earliest(&mut |deadline| popped.push(deadline));
            faults += usize::from(taken == 0);
            for deadline in popped.drain(..) {
                faults += usize::from(deadline + (C::TICK - 1) < last);
                last = last.max(deadline);
                // Behind the last popped one, because no clock goes back.
                let anew = last + uniform(random);
                queue.arm(anew, anew);
            }
            done += taken.max(1);
        }
    };
    batch(pace.operations / 8, pace.cut_after / 4, &mut turns);
    let took = batch(pace.operations.max(size / 4), pace.cut_after, &mut turns);
    // A turn is a push and a pop.
    let mut sample = Sample::timing(Figure::PushPop, took).with_faults(faults);
    sample.value /= 2.0;
    Ok(sample)
}
