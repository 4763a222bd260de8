//! What a wheel costs with one timer in it, beside queues that are made for few.

use super::crossing::named;
use super::{Point, Scale, Shown, Study, measured};
use crate::clock::Pace;
use crate::figure::{Figure, GaveUp};
use crate::random::Random;
use crate::workload::Workload;

const QUEUES: [&str; 6] = [
    "Wheel",
    "Adaptive",
    "Sorted",
    "Heap<4>",
    "LazyHeap<4>",
    "BTree",
];

const WHAT: [(Workload, Figure, &str); 7] = [
    (Workload::Steady, Figure::ArmCancel, "arm + cancel"),
    (Workload::Later, Figure::RearmLater, "later"),
    (Workload::Earlier, Figure::RearmEarlier, "earlier"),
    (Workload::Fire, Figure::Fire, "fire"),
    (Workload::Next, Figure::NextUniform, "next"),
    (Workload::Next, Figure::Wakeup, "wake-up"),
    (Workload::Quic, Figure::Quic, "QUIC turn"),
];

pub fn study() -> Study {
    let entries = named(&QUEUES);
    let series = entries.iter().map(|entry| entry.name.to_owned()).collect();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let (workload, figure, _) = WHAT[point];
        let value = measured(&entries[series], workload, figure, 1, random, pace)?;
        Ok::<_, GaveUp>(vec![value])
    };
    Study {
        title: "What does a wheel cost with one timer in it?",
        about: "Every operation with a single timer: what a program pays that has one connection",
        x_axis: "operation",
        scale: Scale::Names,
        shown: vec![Shown {
            name: "one-timer".into(),
            title: "one timer".into(),
            unit: "ns an operation",
        }],
        points: WHAT
            .iter()
            .enumerate()
            .map(|(at, (_, _, label))| Point {
                label: (*label).to_owned(),
                at: at as f64,
            })
            .collect(),
        series,
        measure: Box::new(measure),
        says: super::says_nothing,
    }
}
