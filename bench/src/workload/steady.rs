//! The pattern of timeouts: cancel a random one of N timers, arm another.

use super::{filled, touching, uniform};
use crate::clock::{Pace, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

pub fn round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let mut refused = 0;
    let mut turns = |count: usize| {
        for _ in 0..count {
            let at = random.place(size);
            refused += usize::from(!all.queue.cancel(all.handles[at]));
            all.handles[at] = all.queue.arm(uniform(random), at as u64);
        }
    };
    let operations = touching(size, pace);
    batch(operations / 8, pace.cut_after / 4, &mut turns);
    let took = batch(operations, pace.cut_after, &mut turns);
    Ok(vec![
        Sample::timing(Figure::ArmCancel, took).with_faults(refused),
    ])
}
