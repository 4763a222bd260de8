//! What lazy deletion saves, and what it costs: the more timers are cancelled, the more it saves.

use std::hint::black_box;

use super::{Point, Scale, Shown, Study};
use crate::clock::{Pace, batch};
use crate::contender::{Contender, Visitor};
use crate::figure::GaveUp;
use crate::random::Random;
use crate::table::count;
use crate::workload::{filled, touching, uniform};

/// Of a hundred timers, so many are cancelled; the others fire.
const SHARES: [u64; 4] = [0, 50, 90, 99];

const QUEUES: [&str; 3] = ["Heap<4>", "LazyHeap<4>", "Wheel"];

type Lives = fn(usize, u64, &mut Random, &Pace) -> Result<Option<f64>, GaveUp>;

/// What a timer's life costs: armed, then cancelled or fired, with N alive.
fn lives<C: Contender>(
    size: usize,
    share: u64,
    random: &mut Random,
    pace: &Pace,
) -> Result<Option<f64>, GaveUp> {
    let mut all = filled::<C>(size, pace, || uniform(random))?;
    let mut now = 0;
    let mut popped: Vec<u64> = Vec::with_capacity(64);
    let mut turns = |count: usize| {
        for _ in 0..count {
            let at = random.place(size);
            if random.below(100) < share {
                black_box(all.queue.cancel(all.handles[at]));
                popped.push(at as u64);
            } else {
                all.queue.pop_earliest(&mut |payload| popped.push(payload));
                // The clock stands at the last that fired.
                let fired = popped
                    .iter()
                    .map(|&payload| all.deadlines[payload as usize]);
                now = fired.fold(now, u64::max);
            }
            for payload in popped.drain(..) {
                let at = payload as usize;
                all.deadlines[at] = now + uniform(random);
                all.handles[at] = all.queue.arm(all.deadlines[at], payload);
            }
        }
    };
    let operations = touching(size, pace);
    batch(operations / 4, pace.cut_after / 4, &mut turns);
    Ok(Some(batch(operations, pace.cut_after, &mut turns).nanos))
}

pub fn study(quick: bool) -> Study {
    #[derive(Default)]
    struct Found(Vec<(&'static str, Lives)>);
    impl Visitor for Found {
        fn visit<C: Contender>(&mut self) {
            if QUEUES.contains(&C::NAME) {
                self.0.push((C::NAME, lives::<C>));
            }
        }
    }
    let mut found = Found::default();
    crate::ours::for_each(&mut found);
    let sizes: &[usize] = if quick {
        &[1_000, 100_000]
    } else {
        &[1_000, 100_000, 1_000_000]
    };
    let queues = found.0;
    let series = queues.iter().map(|(name, _)| (*name).to_owned()).collect();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let (_, lives) = queues[series];
        let of = |&size: &usize| lives(size, SHARES[point], &mut random.clone(), pace);
        sizes.iter().map(of).collect::<Result<Vec<_>, GaveUp>>()
    };
    Study {
        title: "What does lazy deletion save, and what does it cost?",
        about: "A timer's life, armed and then cancelled or fired, with N alive: eager and lazy deletion, and a wheel",
        x_axis: "cancelled, per cent",
        scale: Scale::Linear,
        shown: sizes
            .iter()
            .map(|&size| Shown {
                name: format!("lazy-{}", count(size)),
                title: format!("a timer's life, with {} alive", count(size)),
                unit: "ns a life",
            })
            .collect(),
        points: SHARES
            .iter()
            .map(|&share| Point {
                label: format!("{share} %"),
                at: share as f64,
            })
            .collect(),
        series,
        measure: Box::new(measure),
        says: super::says_nothing,
    }
}
