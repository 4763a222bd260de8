//! The bars of `Wheel`, the default queue: limits for its figures, which were set before the
//! measurements.

use std::ops::RangeInclusive;

use punctual_figures::bar::Bar::{self, AtMost, RatioAtMost};
use punctual_figures::spread::Spread;
use punctual_figures::table::Table;

use crate::results::{Figure, Results};
use crate::table::{count, number};
use crate::workload::FEW_HUNDRED;

/// A figure, the range of numbers of timers for which the bar holds, and the bar.
type Limit = (Figure, RangeInclusive<usize>, Bar);

const EVERY: RangeInclusive<usize> = 1..=usize::MAX;

const BARS: [Limit; 31] = [
    (Figure::ArmCancel, 1..=100_000, RatioAtMost(0.85)),
    (Figure::ArmCancel, 100_001..=usize::MAX, RatioAtMost(0.75)),
    (Figure::CancelAll, EVERY, RatioAtMost(0.6)),
    (Figure::RearmLater, EVERY, RatioAtMost(0.45)),
    (Figure::Arm, 1..=1_000, RatioAtMost(1.0)),
    (Figure::Arm, 1_001..=100_000, RatioAtMost(1.3)),
    (Figure::Arm, 100_001..=usize::MAX, RatioAtMost(0.8)),
    (Figure::Fire, 1..=1_000, RatioAtMost(1.0)),
    (Figure::Fire, 1_001..=usize::MAX, RatioAtMost(0.5)),
    (Figure::Wakeup, EVERY, AtMost(3.0)),
    (Figure::Next, EVERY, AtMost(3.0)),
    (Figure::NextFarSlot, EVERY, AtMost(3.0)),
    (Figure::NextChurn, 1..=1_000, RatioAtMost(1.0)),
    (Figure::NextChurn, 1_001..=usize::MAX, RatioAtMost(1.2)),
    (Figure::Quic, 1..=1_000, RatioAtMost(0.5)),
    (Figure::Quic, 1_001..=usize::MAX, RatioAtMost(0.8)),
    (Figure::Quic, 1..=1, AtMost(20.0)),
    (Figure::Connections, EVERY, RatioAtMost(1.0)),
    (Figure::ArmCancelOn, 1..=100_000, RatioAtMost(0.85)),
    (Figure::ArmCancelOn, 100_001..=usize::MAX, RatioAtMost(0.75)),
    (Figure::RearmLaterOn, EVERY, RatioAtMost(0.45)),
    (Figure::NextChurnOn, 1..=1_000, RatioAtMost(1.0)),
    (Figure::NextChurnOn, 1_001..=usize::MAX, RatioAtMost(1.2)),
    (Figure::QuicOn, 1..=1_000, RatioAtMost(0.5)),
    (Figure::QuicOn, 1_001..=usize::MAX, RatioAtMost(0.8)),
    (Figure::Drain, EVERY, RatioAtMost(1.0)),
    (Figure::DrainEmpty, EVERY, RatioAtMost(1.0)),
    // 24 KiB for all timers together.
    (
        Figure::Memory,
        FEW_HUNDRED..=FEW_HUNDRED,
        AtMost(24.0 * 1024.0 / FEW_HUNDRED as f64),
    ),
    (Figure::Memory, 1_000_000..=1_000_000, AtMost(48.0)),
    (
        Figure::MemoryPeak,
        FEW_HUNDRED + 1..=usize::MAX,
        AtMost(2.0),
    ),
    (Figure::RearmEarlierOn, EVERY, RatioAtMost(1.0)),
];

/// Returns the table of the bars whose figures were measured. If the machine was `busy`, durations
/// have the verdict `BUSY`.
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
    for (figure, sizes, bar) in BARS {
        for size in results
            .sizes(figure)
            .into_iter()
            .filter(|size| sizes.contains(size))
        {
            let ours = results.rounds(figure, size, wheel).spread();
            let Some(median) = ours.map(|ours| ours.median) else {
                continue;
            };
            let best = results.best_peer(figure, size);
            let ratio = best.map(|best| median / best.1);
            let busy = busy && figure.is_duration();
            let verdict = bar.judge(ours, Spread::of(ratio), ratio.is_some(), busy);
            let (name, _, unit) = figure.about();
            table.row([
                format!("{name}, {unit}"),
                count(size),
                bar.to_string(),
                best.map_or("none", |best| best.0).to_owned(),
                best.map_or_else(String::new, |best| number(best.1)),
                number(median),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                verdict.map_or("?".to_owned(), |verdict| verdict.to_string()),
            ]);
        }
    }
    table.to_string()
}
