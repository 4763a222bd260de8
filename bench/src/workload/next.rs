//! Ask for the next deadline.

use std::hint::black_box;

use super::{Filled, HOUR, MS, SPAN, filled, uniform};
use crate::clock::{Pace, Took, batch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// Factor by which the operations exceed those of other workloads, because they are cheap.
const QUESTIONS: usize = 8;

pub fn uniform_round<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let mut samples = vec![asked(Figure::NextUniform, &mut all, pace)];
    let mut sum = 0_u64;
    let took = ask(pace, || {
        sum = sum.wrapping_add(black_box(&mut all.queue).next_wakeup().unwrap_or(0))
    });
    black_box(sum);
    samples.push(Sample::timing(Figure::Wakeup, took));
    Ok(samples)
}

pub fn one_far<C: Contender>(pace: &Pace) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(1, pace, || HOUR + 123_456)?;
    Ok(vec![asked(Figure::NextOneFar, &mut all, pace)])
}

pub fn far_slot<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || HOUR + random.below(MS))?;
    Ok(vec![asked(Figure::NextFarSlot, &mut all, pace)])
}

/// N timers are an hour or more ahead; one earlier than all is armed and cancelled again and again.
pub fn churn<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    let mut all = filled::<C>(size, pace, || HOUR + random.below(SPAN))?;
    let others = all.deadlines.iter().min().copied().unwrap_or(u64::MAX);
    let mut faults = 0;
    let exact = C::EXACT_NEXT && C::TICK == 1;
    let mut first = all.queue.arm(uniform(random), size as u64);
    let mut turns = |count: usize| {
        for _ in 0..count {
            all.queue.cancel(first);
            let without = all.queue.next_deadline();
            let at = uniform(random);
            first = all.queue.arm(at, size as u64);
            let with = all.queue.next_deadline();
            let wrong = without != Some(others) || with != Some(at);
            faults += usize::from(exact && wrong);
        }
    };
    batch(pace.operations / 8, pace.cut_after / 4, &mut turns);
    let took = batch(pace.operations, pace.cut_after, &mut turns);
    Ok(vec![
        Sample::timing(Figure::NextChurn, took).with_faults(faults),
    ])
}

/// Times a query of a queue that does not change.
fn asked<C: Contender>(figure: Figure, all: &mut Filled<C>, pace: &Pace) -> Sample {
    let earliest = all.deadlines.iter().min().copied();
    let mut sum = 0_u64;
    let took = ask(pace, || {
        sum = sum.wrapping_add(black_box(&mut all.queue).next_deadline().unwrap_or(0));
    });
    black_box(sum);
    let answer = all.queue.next_deadline();
    let wrong = C::EXACT_NEXT && C::TICK == 1 && answer != earliest;
    Sample::timing(figure, took).with_faults(usize::from(wrong))
}

fn ask(pace: &Pace, mut question: impl FnMut()) -> Took {
    let mut questions = |count: usize| (0..count).for_each(|_| question());
    batch(pace.operations / 8, pace.cut_after / 4, &mut questions);
    batch(pace.operations * QUESTIONS, pace.cut_after, &mut questions)
}
