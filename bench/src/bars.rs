//! The bars of the engine: limits of its figures, which are set independently of measurements.

use crate::contender::Role;
use crate::figure::Figure;
use crate::results::Results;
use crate::table::{Table, count, number};
use crate::workload::FEW_HUNDRED;

/// Limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// At most this many times the best peer of the run.
    Ratio(f64),
    /// At most this value, in the figure's unit.
    Most(f64),
}

/// Least and greatest number of timers of a bar, both included.
type Sizes = (usize, usize);

const EVERY: Sizes = (1, usize::MAX);

const HUNDRED_THOUSAND: usize = 100_000;
const MILLION: usize = 1_000_000;

const BARS: [(Figure, Sizes, Bound); 19] = [
    (Figure::ArmCancel, (1, HUNDRED_THOUSAND), Bound::Ratio(0.8)),
    (
        Figure::ArmCancel,
        (HUNDRED_THOUSAND + 1, MILLION),
        Bound::Ratio(0.7),
    ),
    (
        Figure::ArmCancel,
        (MILLION + 1, usize::MAX),
        Bound::Ratio(0.65),
    ),
    (Figure::CancelAll, EVERY, Bound::Ratio(0.6)),
    (Figure::RearmLater, (1, 1_000), Bound::Ratio(0.8)),
    (Figure::RearmLater, (1_001, usize::MAX), Bound::Ratio(0.4)),
    (Figure::Arm, EVERY, Bound::Ratio(1.0)),
    (Figure::Fire, (1_000, 1_000), Bound::Ratio(1.0)),
    (Figure::Fire, (1_001, HUNDRED_THOUSAND), Bound::Ratio(0.4)),
    (
        Figure::Fire,
        (HUNDRED_THOUSAND + 1, usize::MAX),
        Bound::Ratio(0.5),
    ),
    (Figure::Wakeup, EVERY, Bound::Most(3.0)),
    (Figure::NextUniform, EVERY, Bound::Most(3.0)),
    (Figure::NextFarSlot, EVERY, Bound::Most(3.0)),
    (Figure::NextChurn, (1, 1_000), Bound::Ratio(1.0)),
    (Figure::NextChurn, (1_001, usize::MAX), Bound::Ratio(1.2)),
    (Figure::Quic, EVERY, Bound::Ratio(1.0)),
    (Figure::Quic, (1, 1), Bound::Most(20.0)),
    // 24 KiB in total.
    (
        Figure::Memory,
        (FEW_HUNDRED, FEW_HUNDRED),
        Bound::Most(24.0 * 1024.0 / FEW_HUNDRED as f64),
    ),
    (Figure::Memory, (MILLION, MILLION), Bound::Most(48.0)),
];

/// Limit of memory under churn, as a ratio to the memory of the live timers.
const PEAK: (Figure, Sizes, Bound) = (
    Figure::MemoryPeak,
    (FEW_HUNDRED + 1, usize::MAX),
    Bound::Most(2.0),
);

/// The default choices among Punctual's queues; the bars apply to them.
const HELD: [&str; 1] = ["Wheel"];

impl Bound {
    fn written(self) -> String {
        match self {
            Bound::Ratio(most) => format!("<= {most:.2} x best"),
            Bound::Most(most) => format!("<= {}", number(most)),
        }
    }

    fn met(self, value: f64, best: Option<f64>) -> Option<bool> {
        match self {
            Bound::Ratio(most) => Some(value / best? <= most),
            Bound::Most(most) => Some(value <= most),
        }
    }
}

/// Returns the table of the bars whose figures were measured. If the machine was `busy`, durations get no verdict.
pub fn table(results: &Results, busy: bool) -> String {
    let held: Vec<usize> = (0..results.entries.len())
        .filter(|&at| results.entries[at].role == Role::Ours)
        .filter(|&at| HELD.contains(&results.entries[at].name))
        .collect();
    let mut head: Vec<String> = ["bar", "N", "bound", "best exact peer", ""]
        .map(String::from)
        .into();
    for &at in &held {
        let name = results.entries[at].name;
        head.extend([name.to_owned(), "ratio".into(), String::new()]);
    }
    head.push("a peer that is not exact".into());
    let mut table = Table::new(4, head);
    let mut rows = 0;
    for (figure, (from, to), bound) in BARS.iter().copied().chain([PEAK]) {
        let sizes = results.sizes(figure);
        for size in sizes.into_iter().filter(|&size| from <= size && size <= to) {
            let best = results.best_peer(figure, size, true);
            let (name, value) = match best {
                Some((at, value)) => (results.entries[at].name.to_owned(), number(value)),
                None => ("none".to_owned(), String::new()),
            };
            let title = format!("{}, {}", figure.name(), figure.unit());
            let mut row = vec![title, count(size), bound.written(), name, value];
            let mut slower_than_any = None;
            let any = results.best_peer(figure, size, false);
            for &at in &held {
                let Some(ours) = results.median(figure, size, at) else {
                    row.extend(["-".to_owned(), String::new(), String::new()]);
                    continue;
                };
                let ratio = best.map(|(_, value)| ours / value);
                let met = bound.met(ours, best.map(|(_, value)| value));
                row.push(number(ours));
                row.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
                row.push(verdict(met, busy && figure.is_duration()).to_owned());
                // Also shows that a peer that is not exact is faster.
                if met == Some(true) && bound.met(ours, any.map(|(_, value)| value)) == Some(false)
                {
                    slower_than_any = any;
                }
            }
            row.push(slower_than_any.map_or_else(String::new, |(at, value)| {
                format!(
                    "MISS against {} ({})",
                    results.entries[at].name,
                    number(value)
                )
            }));
            table.row(row);
            rows += 1;
        }
    }
    if rows == 0 {
        return String::new();
    }
    table.to_string()
}

fn verdict(met: Option<bool>, busy: bool) -> &'static str {
    match met {
        Some(_) if busy => "BUSY",
        Some(true) => "PASS",
        Some(false) => "MISS",
        None => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(Bound::Ratio(0.9).met(8.9, Some(10.0)), Some(true));
        assert_eq!(Bound::Ratio(0.9).met(9.1, Some(10.0)), Some(false));
        assert_eq!(Bound::Ratio(0.9).met(9.1, None), None);
        assert_eq!(Bound::Most(3.0).met(3.1, None), Some(false));
    }

    #[test]
    fn every_figure_has_one_ratio_bar_a_size_at_most() {
        for size in [1, 10, 1_000, 100_000, 1_000_000, 10_000_000] {
            for figure in [
                Figure::ArmCancel,
                Figure::CancelAll,
                Figure::RearmLater,
                Figure::Arm,
                Figure::Fire,
            ] {
                let bars = BARS
                    .iter()
                    .filter(|(of, (from, to), _)| *of == figure && *from <= size && size <= *to);
                assert!(bars.count() <= 1, "{figure:?} at {size}");
            }
        }
    }
}
