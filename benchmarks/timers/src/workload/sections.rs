//! Workloads that begin with an empty queue. With few timers, a section of work uses several
//! queues, which stay in the processor's cache.

use std::hint::black_box;

use fastrand::Rng;

use super::{MS, uniform};
use crate::clock::{Pace, Sections, cpu};
use crate::contender::Contender;
use crate::results::{Figure, Sample};

/// From this number of timers on, each section arms timers in new queues, which must grow. With
/// fewer timers, it uses queues that have already grown, because growing is a small part of the
/// life of a queue of few timers.
const GROWS_FROM: usize = 256;

/// Minimum number of timers in a section. So many operations are long enough for the resolution of
/// the time-stamp counter.
const TIMERS: usize = 32;

fn queues<C: Contender>(size: usize) -> Vec<C> {
    let count = (TIMERS / size).max(1);
    (0..count).map(|_| C::default()).collect()
}

/// Arms N timers, then cancels all of them in random order.
pub fn arm<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut queues = queues::<C>(size);
    let count = size * queues.len();
    let (mut arms, mut cancels) = (Sections::of(count), Sections::of(count));
    let mut handles: Vec<C::Handle> = Vec::with_capacity(count);
    let mut order: Vec<u32> = (0..size as u32).collect();
    let (start, mut refused) = (cpu(), 0);
    while arms.wants_more(pace) && cancels.wants_more(pace) && cpu() - start < pace.patience * 2 {
        if size >= GROWS_FROM {
            queues = vec![C::default()];
        }
        random.shuffle(&mut order);
        handles.clear();
        arms.time(|| {
            for queue in &mut queues {
                for payload in 0..size {
                    handles.push(queue.arm(uniform(random), payload as u64));
                }
            }
        });
        cancels.time(|| {
            for (at, queue) in queues.iter_mut().enumerate() {
                for &timer in &order {
                    let live = queue.cancel(handles[at * size + timer as usize]);
                    refused += usize::from(!black_box(live));
                }
            }
        });
    }
    Some(vec![
        Sample::timing(Figure::Arm, arms.took(pace), 0),
        Sample::timing(Figure::CancelAll, cancels.took(pace), refused),
    ])
}

/// Fires N timers: advances the clock in steps of whole milliseconds, and skips steps without due
/// timers. The payload is the deadline, so that the check of the order reads no other memory.
pub fn fire<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut queues = queues::<C>(size);
    let mut sections = Sections::of(size * queues.len());
    let (start, mut now, mut faults) = (cpu(), 0, 0);
    let mut deadlines = vec![0; size];
    while sections.wants_more(pace) && cpu() - start < pace.patience * 2 {
        // All queues get the same deadlines, so that the steps of the clock are the same.
        deadlines.fill_with(|| now + uniform(random));
        for queue in &mut queues {
            for (n, &deadline) in deadlines.iter().enumerate() {
                if n.is_multiple_of(1024) && cpu() - start > pace.patience {
                    return None;
                }
                queue.arm(deadline, deadline);
            }
        }
        let rounded = deadlines.iter().map(|at| at.next_multiple_of(MS));
        let mut steps: Vec<u64> = rounded.collect();
        steps.sort_unstable();
        steps.dedup();
        sections.time(|| {
            for queue in &mut queues {
                let (mut last, mut fired) = (0, 0);
                for &step in &steps {
                    queue.fire(step, &mut |deadline| {
                        let disordered = deadline + (C::TICK - 1) < last;
                        faults += usize::from(disordered || deadline > step);
                        last = deadline;
                        fired += 1;
                    });
                }
                faults += size.abs_diff(fired);
            }
        });
        now = steps.last().copied().unwrap_or(now);
    }
    Some(vec![Sample::timing(
        Figure::Fire,
        sections.took(pace),
        faults,
    )])
}
