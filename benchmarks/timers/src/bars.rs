//! The bars of `Wheel`, the default choice: limits of its figures, which are set independently of measurements.

use std::ops::RangeInclusive;

use punctual_figures::table::Table;

use crate::results::{Figure, Results};
use crate::table::{count, number};
use crate::workload::FEW_HUNDRED;

/// Limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// At most this many times the best peer of the run.
    Ratio(f64),
    /// At most this value, in the figure's unit.
    Most(f64),
}
use Bound::{Most, Ratio};

/// A figure, the numbers of timers that the bar applies to, and its limit.
type Bar = (Figure, RangeInclusive<usize>, Bound);

const EVERY: RangeInclusive<usize> = 1..=usize::MAX;

const BARS: [Bar; 20] = [
    (Figure::ArmCancel, 1..=100_000, Ratio(0.8)),
    (Figure::ArmCancel, 100_001..=1_000_000, Ratio(0.7)),
    (Figure::ArmCancel, 1_000_001..=usize::MAX, Ratio(0.65)),
    (Figure::CancelAll, EVERY, Ratio(0.6)),
    (Figure::RearmLater, 1..=1_000, Ratio(0.8)),
    (Figure::RearmLater, 1_001..=usize::MAX, Ratio(0.4)),
    (Figure::Arm, EVERY, Ratio(1.0)),
    (Figure::Fire, 1_000..=1_000, Ratio(1.0)),
    (Figure::Fire, 1_001..=100_000, Ratio(0.4)),
    (Figure::Fire, 100_001..=usize::MAX, Ratio(0.5)),
    (Figure::Wakeup, EVERY, Most(3.0)),
    (Figure::Next, EVERY, Most(3.0)),
    (Figure::NextFarSlot, EVERY, Most(3.0)),
    (Figure::NextChurn, 1..=1_000, Ratio(1.0)),
    (Figure::NextChurn, 1_001..=usize::MAX, Ratio(1.2)),
    (Figure::Quic, EVERY, Ratio(1.0)),
    (Figure::Quic, 1..=1, Most(20.0)),
    // 24 KiB in total.
    (
        Figure::Memory,
        FEW_HUNDRED..=FEW_HUNDRED,
        Most(24.0 * 1024.0 / FEW_HUNDRED as f64),
    ),
    (Figure::Memory, 1_000_000..=1_000_000, Most(48.0)),
    (Figure::MemoryPeak, FEW_HUNDRED + 1..=usize::MAX, Most(2.0)),
];

impl Bound {
    fn text(self) -> String {
        match self {
            Ratio(most) => format!("<= {most:.2} x best"),
            Most(most) => format!("<= {}", number(most)),
        }
    }

    fn met(self, value: f64, best: Option<f64>) -> Option<bool> {
        match self {
            Ratio(most) => Some(value / best? <= most),
            Most(most) => Some(value <= most),
        }
    }
}

/// Returns the table of the bars whose figures were measured. If the machine was `busy`, durations get no verdict.
pub fn table(results: &Results, busy: bool) -> String {
    let mut table = Table::new(
        4,
        [
            "bar",
            "N",
            "bound",
            "best exact peer",
            "",
            "Wheel",
            "ratio",
            "",
        ],
    );
    let Some(wheel) = results
        .entries
        .iter()
        .position(|entry| entry.name == "Wheel")
    else {
        return String::new();
    };
    for (figure, sizes, bound) in BARS {
        for size in results
            .sizes(figure)
            .into_iter()
            .filter(|size| sizes.contains(size))
        {
            let Some(ours) = results.rounds(figure, size, wheel).spread() else {
                continue;
            };
            let ours = ours.median;
            let best = results.best_peer(figure, size);
            let verdict = match bound.met(ours, best.map(|best| best.1)) {
                Some(_) if busy && figure.is_duration() => "BUSY",
                Some(true) => "PASS",
                Some(false) => "MISS",
                None => "?",
            };
            let (name, _, unit) = figure.about();
            table.row([
                format!("{name}, {unit}"),
                count(size),
                bound.text(),
                best.map_or("none", |best| best.0).to_owned(),
                best.map_or_else(String::new, |best| number(best.1)),
                number(ours),
                best.map_or_else(String::new, |best| format!("{:.2}", ours / best.1)),
                verdict.to_owned(),
            ]);
        }
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(Ratio(0.9).met(8.9, Some(10.0)), Some(true));
        assert_eq!(Ratio(0.9).met(9.1, Some(10.0)), Some(false));
        assert_eq!(Ratio(0.9).met(9.1, None), None);
        assert_eq!(Most(3.0).met(3.1, None), Some(false));
    }
}
