//! Re-arm a random one of N timers, a little later or a little earlier.

use super::{MS, SPAN, filled, touching, uniform};
use crate::clock::{Pace, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// Greatest change of a deadline.
const MOST: u64 = 64 * MS;

pub fn later<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    round::<C>(Figure::RearmLater, size, random, pace, |deadline, by| {
        deadline + by
    })
}

pub fn earlier<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    round::<C>(Figure::RearmEarlier, size, random, pace, |deadline, by| {
        // A deadline that cannot be earlier moves to the far end: one move in a thousand with only a few
        // timers.
        if deadline > MOST + MS {
            deadline - by
        } else {
            deadline + SPAN
        }
    })
}

fn round<C: Contender>(
    figure: Figure,
    size: usize,
    random: &mut Random,
    pace: &Pace,
    moved: impl Fn(u64, u64) -> u64,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let mut turns = |count: usize| {
        for _ in 0..count {
            let at = random.place(size);
            let deadline = moved(all.deadlines[at], 1 + random.below(MOST));
            all.deadlines[at] = deadline;
            all.queue.rearm(&mut all.handles[at], deadline);
        }
    };
    let operations = touching(size, pace);
    batch(operations / 8, pace.cut_after / 4, &mut turns);
    let took = batch(operations, pace.cut_after, &mut turns);
    let earliest = all.deadlines.iter().min().copied();
    let wrong = C::EXACT_NEXT && C::TICK == 1 && all.queue.next_deadline() != earliest;
    Ok(vec![
        Sample::timing(figure, took).with_faults(usize::from(wrong)),
    ])
}
