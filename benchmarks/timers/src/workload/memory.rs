//! The memory of N timers, and its maximum while timers are armed and cancelled.

use fastrand::Rng;

use super::{Filled, HOUR, MS, uniform};
use crate::allocation;
use crate::clock::{Pace, batch};
use crate::contender::Contender;
use crate::results::{Figure, Sample};

pub fn round<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    allocation::set_counting(true);
    let samples = measure::<C>(size, random, pace);
    allocation::set_counting(false);
    samples
}

fn measure<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let Filled {
        mut queue,
        mut handles,
        mut deadlines,
    } = Filled::<C>::with(size, pace, || uniform(random))?;
    let kept = size * (size_of::<C::Handle>() + size_of::<u64>());
    let of_queue = |counted: usize| (counted - kept) as f64;
    let armed = of_queue(allocation::live());
    allocation::take_peak();
    let mut cut = false;
    let mut churn = |operation: &mut dyn FnMut(&mut C, usize)| {
        let operation = || operation(&mut queue, random.usize(..size));
        cut |= batch(3 * size, pace.cut_after, operation).cut;
    };
    let mut ahead = Rng::with_seed(1);
    // Timeouts that are always cancelled before they expire: first near ones, then far ones.
    for far in [0, HOUR] {
        churn(&mut |queue, at| {
            queue.cancel(handles[at]);
            deadlines[at] = far + uniform(&mut ahead);
            handles[at] = queue.arm(deadlines[at], at as u64);
        });
    }
    // Timers that are re-armed again and again.
    churn(&mut |queue, at| {
        deadlines[at] += ahead.u64(..64 * MS);
        queue.rearm(&mut handles[at], deadlines[at]);
    });
    // One timer is armed and cancelled again and again, while all other timers stay.
    churn(&mut |queue, _| {
        let handle = queue.arm(HOUR + uniform(&mut ahead), 0);
        queue.cancel(handle);
    });
    let peak = of_queue(allocation::take_peak());
    let sample = |figure, value, cut| Sample {
        figure,
        value,
        cut,
        faults: 0,
    };
    Some(vec![
        sample(Figure::Memory, armed / size as f64, false),
        sample(Figure::MemoryPeak, peak / armed, cut),
    ])
}
