//! Workloads that repeat the same operations on a queue with N timers.

use std::hint::black_box;

use fastrand::Rng;

use super::{Filled, HOUR, MS, SPAN, uniform};
use crate::clock::{Pace, Took, timed};
use crate::contender::{Contender, Role};
use crate::results::{Figure, Sample};

/// Maximum change of a deadline by re-arming, in microseconds.
const REARM_MAX: u64 = 64 * MS;

/// A round has this many times more queries than other operations, because queries are cheap.
const QUESTIONS: usize = 8;

/// Returns the number of operations that change one of N timers: at least N in a round, so that the
/// round includes deferred work of the queue (sweeping, compaction).
fn changes(size: usize, pace: &Pace) -> usize {
    pace.operations.max(size)
}

/// The pattern of timeouts: cancels a random timer of N, and arms another timer.
pub fn steady<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || uniform(random))?;
    let mut refused = 0;
    let took = timed(changes(size, pace), pace, || {
        let at = random.usize(..size);
        refused += usize::from(!all.queue.cancel(all.handles[at]));
        all.handles[at] = all.queue.arm(uniform(random), at as u64);
    });
    Some(vec![Sample::timing(Figure::ArmCancel, took, refused)])
}

/// Re-arms a random timer of N, a little later.
pub fn later<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    rearm::<C>(Figure::RearmLater, size, random, pace, |deadline, by| {
        deadline + by
    })
}

/// Re-arms a random timer of N, a little earlier.
pub fn earlier<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    rearm::<C>(Figure::RearmEarlier, size, random, pace, |deadline, by| {
        // A deadline that is already at the minimum moves by [`SPAN`] to the far end. With few
        // timers, this is one move in a thousand.
        deadline
            .checked_sub(by)
            .filter(|&at| at > MS)
            .unwrap_or(deadline + SPAN)
    })
}

fn rearm<C: Contender>(
    figure: Figure,
    size: usize,
    random: &mut Rng,
    pace: &Pace,
    moved: impl Fn(u64, u64) -> u64,
) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || uniform(random))?;
    let took = timed(changes(size, pace), pace, || {
        let at = random.usize(..size);
        let deadline = moved(all.deadlines[at], random.u64(1..=REARM_MAX));
        all.deadlines[at] = deadline;
        all.queue.rearm(&mut all.handles[at], deadline);
    });
    let wrong = match C::ROLE {
        Role::Floor => 0,
        _ => all.wrong_next(),
    };
    Some(vec![Sample::timing(figure, took, wrong)])
}

/// Queries the next deadline, and the next wake-up.
pub fn next<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || uniform(random))?;
    let next = ask(pace, || black_box(&mut all.queue).next_deadline());
    let wakeup = ask(pace, || black_box(&mut all.queue).next_wakeup());
    Some(vec![
        Sample::timing(Figure::Next, next, all.wrong_next()),
        Sample::timing(Figure::Wakeup, wakeup, 0),
    ])
}

/// Queries the next deadline of N timers within one millisecond, an hour ahead.
pub fn far_slot<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || HOUR + random.u64(..MS))?;
    let next = ask(pace, || black_box(&mut all.queue).next_deadline());
    let wrong = all.wrong_next();
    Some(vec![Sample::timing(Figure::NextFarSlot, next, wrong)])
}

/// Measures a query. The caller hides the queue from the compiler with `black_box`, because the
/// compiler would otherwise make only one query.
fn ask(pace: &Pace, mut question: impl FnMut() -> Option<u64>) -> Took {
    timed(pace.operations * QUESTIONS, pace, || {
        black_box(question());
    })
}

/// Arms and cancels an earliest timer again and again. N other timers are due an hour or more
/// later.
pub fn churn<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || HOUR + random.u64(..SPAN))?;
    let others = all.deadlines.iter().min().copied();
    let mut first = all.queue.arm(uniform(random), size as u64);
    let mut faults = 0;
    let took = timed(pace.operations, pace, || {
        all.queue.cancel(first);
        let without = all.queue.next_deadline();
        let at = uniform(random);
        first = all.queue.arm(at, size as u64);
        let with = all.queue.next_deadline();
        faults += usize::from(C::TICK == 1 && (without != others || with != Some(at)));
    });
    Some(vec![Sample::timing(Figure::NextChurn, took, faults)])
}

/// A QUIC endpoint with N connections: each packet re-arms the timer of its connection, 10 to 300
/// ms ahead. Then due timers fire, and the endpoint queries the next deadline.
pub fn quic<C: Contender>(size: usize, random: &mut Rng, pace: &Pace) -> Option<Vec<Sample>> {
    let mut all = Filled::<C>::with(size, pace, || uniform(random))?;
    let (mut now, mut early) = (0, 0);
    let mut due: Vec<u64> = Vec::with_capacity(1024);
    // The number of operations does not depend on the number of timers, because more operations
    // would make more timers due.
    let took = timed(pace.operations, pace, || {
        now += 1;
        let at = random.usize(..size);
        let deadline = now + random.u64(10 * MS..300 * MS);
        all.queue.rearm(&mut all.handles[at], deadline);
        all.queue.fire(now, &mut |payload| due.push(payload));
        for payload in due.drain(..) {
            let deadline = now + random.u64(10 * MS..300 * MS);
            all.handles[payload as usize] = all.queue.arm(deadline, payload);
        }
        // The next deadline must be later than now: due timers have fired.
        let next = black_box(all.queue.next_deadline());
        early += usize::from(C::TICK == 1 && next.is_none_or(|at| at <= now));
    });
    Some(vec![Sample::timing(Figure::Quic, took, early)])
}
