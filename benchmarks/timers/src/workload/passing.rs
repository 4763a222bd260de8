//! Workloads in which time goes on, as it does in programs: each operation first advances the clock
//! by 1/N of the mean timeout and fires what is due. Each timer that fires is armed again, so N
//! timers stay armed.

use std::hint::black_box;

use fastrand::Rng;

use super::{Filled, HOUR, MS, SPAN, uniform};
use crate::clock::{Pace, timed};
use crate::contender::Contender;
use crate::results::{Figure, Sample};

/// Maximum change of a deadline by re-arming, in microseconds.
const REARM_MAX: u64 = 64 * MS;

/// Mean of the uniform timeouts of most workloads, in microseconds.
const MEAN: u64 = (MS + SPAN) / 2;

/// Mean of the timeouts of a QUIC connection, in microseconds.
const QUIC_MEAN: u64 = 155 * MS;

/// Returns the timeout of a QUIC connection.
fn quic_timeout(random: &mut Rng) -> u64 {
    random.u64(10 * MS..300 * MS)
}

/// A queue with N timers, and a clock.
struct Running<C: Contender> {
    all: Filled<C>,
    now: u64,
    /// Time by which the clock advances with each operation, in units of 2^-32 µs.
    step: u64,
    /// Part of a microsecond that has passed since `now`, in units of 2^-32 µs.
    fraction: u64,
    due: Vec<u64>,
    timeout: fn(&mut Rng) -> u64,
}

impl<C: Contender> Running<C> {
    fn with(
        size: usize,
        pace: &Pace,
        mean: u64,
        random: &mut Rng,
        timeout: fn(&mut Rng) -> u64,
    ) -> Option<Self> {
        Some(Running {
            all: Filled::with(size, pace, || timeout(random))?,
            now: 0,
            step: ((mean << 24) / size as u64) << 8,
            fraction: 0,
            due: Vec::with_capacity(1024),
            timeout,
        })
    }

    /// Advances the clock, and fires and arms again what is due.
    #[inline]
    fn advance(&mut self, random: &mut Rng) {
        self.fraction += self.step;
        self.now += self.fraction >> 32;
        self.fraction &= u64::from(u32::MAX);
        let Running { all, now, due, .. } = self;
        all.queue.fire(*now, &mut |payload| due.push(payload));
        for payload in due.drain(..) {
            let deadline = *now + (self.timeout)(random);
            let at = payload as usize;
            all.handles[at] = all.queue.arm(deadline, payload);
            all.deadlines[at] = deadline;
        }
    }

    /// Re-arms a timer.
    #[inline]
    fn rearm(&mut self, at: usize, deadline: u64) {
        self.all.deadlines[at] = deadline;
        self.all.queue.rearm(&mut self.all.handles[at], deadline);
    }
}

/// Returns the number of operations: at least one for each timer.
fn operations(size: usize, pace: &Pace) -> usize {
    pace.operations.max(size)
}

/// Cancels a random timer of N, and arms another timer.
pub fn steady<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut on = Running::<C>::with(size, pace, MEAN, random, uniform)?;
    let mut refused = 0;
    let took = timed(operations(size, pace), pace, || {
        on.advance(random);
        let at = random.usize(..size);
        let deadline = on.now + uniform(random);
        refused += usize::from(!on.all.queue.cancel(on.all.handles[at]));
        on.all.handles[at] = on.all.queue.arm(deadline, at as u64);
        on.all.deadlines[at] = deadline;
    });
    let faults = refused + on.all.wrong_next();
    Some(vec![Sample::timing(Figure::ArmCancelOn, took, faults)])
}

/// Re-arms a random timer of N, a little later.
pub fn later<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut on = Running::<C>::with(size, pace, MEAN, random, uniform)?;
    let took = timed(operations(size, pace), pace, || {
        on.advance(random);
        let at = random.usize(..size);
        on.rearm(at, on.all.deadlines[at] + random.u64(1..=REARM_MAX));
    });
    let faults = on.all.wrong_next();
    Some(vec![Sample::timing(Figure::RearmLaterOn, took, faults)])
}

/// Re-arms a random timer of N, a little earlier but after now.
pub fn earlier<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut on = Running::<C>::with(size, pace, MEAN, random, uniform)?;
    let took = timed(operations(size, pace), pace, || {
        on.advance(random);
        let at = random.usize(..size);
        let deadline = on.all.deadlines[at].saturating_sub(random.u64(1..=REARM_MAX));
        on.rearm(at, deadline.max(on.now + 1));
    });
    let faults = on.all.wrong_next();
    Some(vec![Sample::timing(Figure::RearmEarlierOn, took, faults)])
}

/// Arms and cancels an earliest timer again and again. N other timers are due an hour or more
/// later.
pub fn churn<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let far = |random: &mut Rng| HOUR + random.u64(..SPAN);
    let mut on = Running::<C>::with(size, pace, MEAN, random, far)?;
    let mut faults = 0;
    let took = timed(pace.operations, pace, || {
        on.advance(random);
        let deadline = on.now + random.u64(1..MS);
        let first = on.all.queue.arm(deadline, size as u64);
        let with = on.all.queue.next_deadline();
        on.all.queue.cancel(first);
        let without = black_box(on.all.queue.next_deadline());
        let is_wrong = with.is_none_or(|at| at > deadline) || without.is_none();
        faults += usize::from(C::TICK == 1 && is_wrong);
    });
    let faults = faults + on.all.wrong_next();
    Some(vec![Sample::timing(Figure::NextChurnOn, took, faults)])
}

/// A QUIC endpoint with N connections: each packet re-arms the timer of its connection, 10 to 300
/// ms ahead. Then due timers fire, and the endpoint asks for the next deadline.
pub fn quic<C: Contender>(
    figure: Figure,
    size: usize,
    random: &mut Rng,
    pace: &Pace,
) -> Option<Vec<Sample>> {
    let mut on = Running::<C>::with(size, pace, QUIC_MEAN, random, quic_timeout)?;
    let mut early = 0;
    let took = timed(operations(size, pace), pace, || {
        on.advance(random);
        let deadline = on.now + quic_timeout(random);
        on.rearm(random.usize(..size), deadline);
        let next = black_box(on.all.queue.next_deadline());
        early += usize::from(C::TICK == 1 && next.is_none_or(|at| at <= on.now));
    });
    let faults = early + on.all.wrong_next();
    Some(vec![Sample::timing(figure, took, faults)])
}
