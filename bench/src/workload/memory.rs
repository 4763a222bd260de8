//! Memory of N timers, and the maximum under churn.

use super::{Filled, HOUR, MS, filled, uniform};
use crate::allocation;
use crate::clock::{Pace, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

pub fn round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    allocation::start();
    let measured = measure::<C>(size, random, pace);
    allocation::stop();
    let (armed, most, cut) = measured?;
    let sample = |figure, value, cut| Sample {
        figure,
        value,
        operations: size,
        cut,
        faults: 0,
    };
    let handle = size_of::<C::Handle>() as f64;
    Ok(vec![
        sample(Figure::Memory, armed / size as f64, false),
        sample(Figure::HandleMemory, handle, false),
        sample(Figure::MemoryPeak, most / armed, cut),
    ])
}

/// Returns the bytes with N timers armed, the maximum under churn, and whether the churn was cut short.
fn measure<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<(f64, f64, bool), GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let kept = all.handles.capacity() * size_of::<C::Handle>()
        + all.deadlines.capacity() * size_of::<u64>();
    let bytes = |queue: &C, counted: usize| (counted - kept + queue.extra_memory()) as f64;
    let armed = bytes(&all.queue, allocation::live());
    allocation::take_most();
    let Filled {
        queue,
        handles,
        deadlines,
    } = &mut all;
    let mut most = armed;
    let mut cut = false;
    // Timeouts that are always cancelled, near and far; then timers that are re-armed again and again.
    for far in [0, HOUR] {
        let took = batch(3 * size, pace.cut_after, |count| {
            for _ in 0..count {
                let at = random.place(size);
                queue.cancel(handles[at]);
                deadlines[at] = far + uniform(random);
                handles[at] = queue.arm(deadlines[at], at as u64);
            }
            most = most.max(bytes(queue, allocation::take_most()));
        });
        cut |= took.cut;
    }
    let took = batch(3 * size, pace.cut_after, |count| {
        for _ in 0..count {
            let at = random.place(size);
            deadlines[at] += random.below(64 * MS);
            queue.rearm(&mut handles[at], deadlines[at]);
        }
        most = most.max(bytes(queue, allocation::take_most()));
    });
    cut |= took.cut;
    // One timer is armed and cancelled again and again, while all others stay.
    let took = batch(3 * size, pace.cut_after, |count| {
        for _ in 0..count {
            let handle = queue.arm(HOUR + uniform(random), 0);
            queue.cancel(handle);
        }
        most = most.max(bytes(queue, allocation::take_most()));
    });
    Ok((armed, most, cut | took.cut))
}
