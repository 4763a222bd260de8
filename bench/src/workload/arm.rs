//! Arm N, then cancel all of them in random order.

use super::uniform;
use crate::clock::{Pace, Sections, Stopwatch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;
use std::hint::black_box;

/// From this number of timers on, each section begins with a new queue, which has to grow. Fewer timers
/// are armed in a few queues that stay in the cache, like those of a program that rarely arms a timer.
const GROWS_FROM: usize = 256;

/// Timers in a section with warm queues: enough for the counter's resolution.
const WARM_TIMERS: usize = 32;

pub fn round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let queues = (WARM_TIMERS / size).max(1);
    let mut arms = Sections::of(size * queues);
    let mut cancels = Sections::of(size * queues);
    let mut handles: Vec<C::Handle> = Vec::with_capacity(size * queues);
    let mut warm: Vec<C> = (0..queues).map(|_| C::new()).collect();
    let (mut refused, mut warmed_up) = (0, size >= GROWS_FROM);
    let start = Stopwatch::start();
    while arms.wants_more(pace) && cancels.wants_more(pace) {
        if start.elapsed() > pace.patience * 2 {
            break;
        }
        if size >= GROWS_FROM {
            warm = vec![C::new()];
        }
        let order = random.order(size);
        handles.clear();
        arms.time(|| {
            for queue in &mut warm {
                for payload in 0..size {
                    handles.push(queue.arm(uniform(random), payload as u64));
                }
            }
            size * queues
        });
        cancels.time(|| {
            for (at, queue) in warm.iter_mut().enumerate() {
                for &timer in &order {
                    let live = queue.cancel(handles[at * size + timer as usize]);
                    refused += usize::from(!black_box(live));
                }
            }
            size * queues
        });
        if !warmed_up && arms.operations() > pace.operations / 8 {
            warmed_up = true;
            arms = Sections::of(size * queues);
            cancels = Sections::of(size * queues);
        }
    }
    Ok(vec![
        Sample::timing(Figure::Arm, arms.took(pace)),
        Sample::timing(Figure::CancelAll, cancels.took(pace)).with_faults(refused),
    ])
}
