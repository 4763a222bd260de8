//! The two benchmarks of the discussion that ended with neqo's wheel being replaced
//! (mozilla/neqo#1780). One drains a queue of eight timers, one by one. The other asks an empty
//! queue for due timers and for its next deadline.

use std::hint::black_box;

use super::MS;
use crate::clock::{Pace, Sections, timed};
use crate::contender::Contender;
use crate::results::{Figure, Sample};

/// Deadlines in seconds: a Fibonacci sequence.
const SECONDS: [u64; TIMERS] = [1, 2, 3, 5, 8, 13, 21, 34];
pub const TIMERS: usize = 8;

/// Number of queues that are drained in a section, so that a section is long enough for the
/// resolution of the time-stamp counter.
const QUEUES: usize = 8;

/// Asks for the next deadline and fires what is due then, until the queue is empty. Returns the
/// number of fired timers.
fn drain<C: Contender>(queue: &mut C) -> usize {
    let mut fired = 0;
    while let Some(next) = queue.next_deadline() {
        queue.fire(next, &mut |payload| {
            black_box(payload);
            fired += 1;
        });
    }
    fired
}

/// Drains queues of eight timers. A queue is used again, as in a program that runs for long.
pub fn round<C: Contender>(pace: &Pace) -> Option<Vec<Sample>> {
    let mut queues: Vec<C> = (0..QUEUES).map(|_| C::default()).collect();
    let (mut sections, mut start, mut wrong) = (Sections::of(QUEUES), 0, 0);
    while sections.wants_more(pace) {
        for queue in &mut queues {
            for (payload, seconds) in SECONDS.iter().enumerate() {
                queue.arm(start + seconds * 1_000 * MS, payload as u64);
            }
        }
        sections.time(|| {
            for queue in &mut queues {
                wrong += TIMERS.abs_diff(drain(queue));
            }
        });
        start += 60_000 * MS;
    }
    let mut empty = C::default();
    let asked = timed(pace.operations, pace, || {
        let queue = black_box(&mut empty);
        queue.fire(1, &mut |_| wrong += 1);
        wrong += drain(queue);
    });
    Some(vec![
        Sample::timing(Figure::Drain, sections.took(pace), wrong),
        Sample::timing(Figure::DrainEmpty, asked, wrong),
    ])
}
