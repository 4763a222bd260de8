//! A QUIC endpoint with N connections: each packet re-arms the timer of its connection; then the endpoint
//! asks for the next deadline.

use std::hint::black_box;

use super::{MS, filled, uniform};
use crate::clock::{Pace, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// Returns the delay of a loss or idle timer: 10..300 ms.
fn ahead(random: &mut Random) -> u64 {
    10 * MS + random.below(290 * MS)
}

/// Runs one round: a new queue and the same turns for any number of timers, because the number of due
/// timers grows with the turns.
pub fn round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let (mut now, mut early) = (0, 0);
    let mut due: Vec<u64> = Vec::with_capacity(1024);
    let mut turns = |count: usize| {
        for _ in 0..count {
            now += 1;
            let at = random.place(size);
            let deadline = now + ahead(random);
            all.queue.rearm(&mut all.handles[at], deadline);
            all.queue.fire(now, &mut |payload| due.push(payload));
            for payload in due.drain(..) {
                let at = payload as usize;
                all.handles[at] = all.queue.arm(now + ahead(random), payload);
            }
            // A timer that is already due would have fired.
            let next = black_box(all.queue.next_deadline());
            early += usize::from(C::EXACT_NEXT && C::TICK == 1 && next.is_none_or(|at| at <= now));
        }
    };
    batch(pace.operations / 8, pace.cut_after / 4, &mut turns);
    let took = batch(pace.operations, pace.cut_after, &mut turns);
    Ok(vec![Sample::timing(Figure::Quic, took).with_faults(early)])
}
