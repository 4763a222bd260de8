//! Where a sorted array loses to a heap, and to a wheel.

use super::{Scale, Shown, Study, crossings, measured, sizes};
use crate::clock::Pace;
use crate::field::{Entry, Gathered};
use crate::figure::{Figure, GaveUp};
use crate::random::Random;
use crate::workload::Workload;

/// In this order; the crossings are those of the first with the others.
const QUEUES: [&str; 5] = ["Sorted", "Heap<4>", "LazyHeap<4>", "Wheel", "Adaptive"];

const WHAT: [(Workload, Figure); 5] = [
    (Workload::Steady, Figure::ArmCancel),
    (Workload::Later, Figure::RearmLater),
    (Workload::Fire, Figure::Fire),
    (Workload::Churn, Figure::NextChurn),
    (Workload::Quic, Figure::Quic),
];

pub fn study(quick: bool) -> Study {
    let counts: &[usize] = if quick {
        &[1, 8, 64, 512, 4_096, 32_768]
    } else {
        &[
            1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 2_000, 4_000, 10_000, 100_000,
        ]
    };
    let entries = named(&QUEUES);
    let series = entries.iter().map(|entry| entry.name.to_owned()).collect();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let size = counts[point];
        WHAT.iter()
            .map(|&(workload, figure)| {
                measured(&entries[series], workload, figure, size, random, pace)
            })
            .collect::<Result<Vec<_>, GaveUp>>()
    };
    Study {
        title: "Where does a sorted array lose?",
        about: "Sorted beside heaps and wheels, for few timers and for many",
        x_axis: "timers, N (logarithmic)",
        scale: Scale::Logarithmic,
        shown: WHAT
            .iter()
            .map(|&(_, figure)| Shown {
                name: format!("sorted-{}", figure.name()),
                title: format!("few timers or many: {}", figure.title()),
                unit: figure.unit(),
            })
            .collect(),
        points: sizes(counts),
        series,
        measure: Box::new(measure),
        says: |spreads, study| {
            let place = |name: &str| study.series.iter().position(|series| series == name);
            let mut lines = Vec::new();
            for (slower, faster) in [
                ("Sorted", "Heap<4>"),
                ("Sorted", "Wheel"),
                ("Heap<4>", "Wheel"),
            ] {
                if let (Some(slower), Some(faster)) = (place(slower), place(faster)) {
                    lines.extend(crossings(spreads, study, slower, faster));
                }
            }
            lines
        },
    }
}

/// Ours of these names, in their order.
pub fn named(names: &[&str]) -> Vec<Entry> {
    let mut all = Gathered::default();
    crate::ours::for_each(&mut all);
    let find = |name: &&str| all.0.iter().find(|entry| entry.name == *name).copied();
    names.iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_names_are_known() {
        assert_eq!(super::named(&super::QUEUES).len(), super::QUEUES.len());
    }
}
