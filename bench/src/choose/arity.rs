//! How many children a heap's entries should have.

use punctual::Heap;

use super::{Measured, Point, Scale, Shown, Study, value};
use crate::clock::Pace;
use crate::field::Entry;
use crate::figure::{Figure, GaveUp, Sample};
use crate::ours::{Ours, Queue};
use crate::random::Random;
use crate::table::count;
use crate::workload::Workload;

/// A heap of this arity.
struct Of<const D: usize>;

impl<const D: usize> Ours for Of<D> {
    type Queue = Heap<u64, D>;
    const NAME: &'static str = "Heap";
    fn empty() -> Self::Queue {
        Heap::default()
    }
}

const ARITIES: [usize; 7] = [2, 3, 4, 6, 8, 12, 16];

fn heaps() -> [Entry; 7] {
    [
        Entry::of::<Queue<Of<2>>>(),
        Entry::of::<Queue<Of<3>>>(),
        Entry::of::<Queue<Of<4>>>(),
        Entry::of::<Queue<Of<6>>>(),
        Entry::of::<Queue<Of<8>>>(),
        Entry::of::<Queue<Of<12>>>(),
        Entry::of::<Queue<Of<16>>>(),
    ]
}

const FIGURES: [Figure; 5] = [
    Figure::PushN,
    Figure::PushNPopN,
    Figure::PushPop,
    Figure::ArmCancel,
    Figure::RearmLater,
];

pub fn study(quick: bool) -> Study {
    let sizes: &[usize] = if quick {
        &[10, 1_000, 100_000]
    } else {
        &[10, 1_000, 100_000, 1_000_000]
    };
    let heaps = heaps();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let (entry, size) = (heaps[point], sizes[series]);
        let mut samples: Vec<Sample> = Vec::new();
        for workload in [Workload::Priority, Workload::Steady, Workload::Later] {
            samples.extend((entry.round)(workload, size, random, pace)?);
        }
        Ok::<_, GaveUp>(
            FIGURES
                .iter()
                .map(|&figure| value(&samples, figure))
                .collect(),
        )
    };
    Study {
        title: "Which d is best for a heap?",
        about: "Heap<D> with D children to an entry, by what is done to it; a series for each number of timers",
        x_axis: "children of an entry, D",
        scale: Scale::Linear,
        shown: FIGURES
            .iter()
            .map(|figure| Shown {
                name: format!("d-{}", figure.name()),
                title: format!("heaps by D: {}", figure.title()),
                unit: figure.unit(),
            })
            .collect(),
        points: ARITIES
            .iter()
            .map(|&arity| Point {
                label: format!("D = {arity}"),
                at: arity as f64,
            })
            .collect(),
        series: sizes
            .iter()
            .map(|&size| format!("N = {}", count(size)))
            .collect(),
        measure: Box::new(measure),
        says,
    }
}

/// The best arity of each figure and number of timers.
fn says(measured: &Measured, study: &Study) -> Vec<String> {
    let mut lines = Vec::new();
    for (shown, series) in study.shown.iter().zip(measured) {
        let best = series
            .iter()
            .zip(&study.series)
            .filter_map(|(points, name)| {
                let medians = points.iter().zip(&study.points);
                let (_, point) = medians
                    .filter_map(|(spread, point)| Some((spread.as_ref()?.median, point)))
                    .min_by(|one, other| one.0.total_cmp(&other.0))?;
                Some(format!("{} at {name}", point.label))
            });
        lines.push(format!(
            "best, {}: {}",
            shown.name,
            best.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}
