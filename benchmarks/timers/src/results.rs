//! The figures, and the results: samples by figure, number of timers and contender.

use std::collections::BTreeMap;

use punctual_figures::spread::Spread;

use crate::clock::Took;
use crate::contender::{Entry, Role};
use crate::exactness::Verdict;

/// A figure: one table of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    Arm,
    CancelAll,
    ArmCancel,
    RearmLater,
    RearmEarlier,
    Fire,
    Next,
    Wakeup,
    NextFarSlot,
    NextChurn,
    Quic,
    Connections,
    ArmCancelOn,
    RearmLaterOn,
    RearmEarlierOn,
    NextChurnOn,
    QuicOn,
    Drain,
    DrainEmpty,
    Memory,
    MemoryPeak,
}

impl Figure {
    /// Returns the figure's short name, its title, and its unit.
    pub fn about(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Figure::Arm => ("arm", "arm N, from empty", "ns a timer"),
            Figure::CancelAll => ("cancel-all", "cancel all N in random order", "ns a timer"),
            Figure::ArmCancel => (
                "arm-cancel",
                "cancel a random one of N and arm another",
                "ns an operation",
            ),
            Figure::RearmLater => (
                "rearm-later",
                "re-arm a random one of N to 1..64 ms later",
                "ns an operation",
            ),
            Figure::RearmEarlier => (
                "rearm-earlier",
                "re-arm a random one of N to 1..64 ms earlier",
                "ns an operation",
            ),
            Figure::Fire => (
                "fire",
                "fire N as the clock passes, a millisecond at a time",
                "ns a timer",
            ),
            Figure::Next => (
                "next",
                "ask for the next deadline of N again and again",
                "ns a question",
            ),
            Figure::Wakeup => (
                "wakeup",
                "ask when to wake up for N again and again",
                "ns a question",
            ),
            Figure::NextFarSlot => (
                "next-far-slot",
                "ask for the next deadline: N timers in one far millisecond",
                "ns a question",
            ),
            Figure::NextChurn => (
                "next-churn",
                "cancel the earliest and arm an earliest above N, asking after each",
                "ns a turn",
            ),
            Figure::Quic => (
                "quic",
                "QUIC turn: re-arm one of N, advance 1 us, fire and re-arm what is due, ask",
                "ns a turn",
            ),
            Figure::Connections => (
                "connections",
                "N connections: a packet re-arms one's timer, fire what is due, ask",
                "ns a turn",
            ),
            Figure::ArmCancelOn => (
                "arm-cancel-on",
                "time goes on: cancel a random one of N and arm another",
                "ns an operation",
            ),
            Figure::RearmLaterOn => (
                "rearm-later-on",
                "time goes on: re-arm a random one of N to 1..64 ms later",
                "ns an operation",
            ),
            Figure::RearmEarlierOn => (
                "rearm-earlier-on",
                "time goes on: re-arm a random one of N to 1..64 ms earlier",
                "ns an operation",
            ),
            Figure::NextChurnOn => (
                "next-churn-on",
                "time goes on: cancel the earliest and arm an earliest above N, asking after each",
                "ns a turn",
            ),
            Figure::QuicOn => (
                "quic-on",
                "time goes on: QUIC turn, which re-arms one of N, fires what is due and asks",
                "ns a turn",
            ),
            Figure::Drain => (
                "drain",
                "drain a timer quickly: eight timers at Fibonacci seconds, ask and fire one by one",
                "ns a drain",
            ),
            Figure::DrainEmpty => (
                "drain-empty",
                "drain an empty timer: ask an empty queue, and fire what is due",
                "ns a drain",
            ),
            Figure::Memory => ("memory", "memory of N timers", "bytes a timer"),
            Figure::MemoryPeak => (
                "memory-peak",
                "most memory under churn, against the memory of N armed timers",
                "times",
            ),
        }
    }

    /// Returns true if the figure is a duration, which a busy machine affects.
    pub fn is_duration(self) -> bool {
        !matches!(self, Figure::Memory | Figure::MemoryPeak)
    }
}

/// One measurement of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub figure: Figure,
    /// Value in the figure's unit.
    pub value: f64,
    /// True if the batch was cut short because it took too long.
    pub cut: bool,
    /// Number of faults in the round: early timers, timers out of order, lost timers, and wrong
    /// next deadlines.
    pub faults: usize,
}

impl Sample {
    /// Creates a sample of a duration.
    pub fn timing(figure: Figure, took: Took, faults: usize) -> Self {
        Sample {
            figure,
            value: took.nanos,
            cut: took.cut,
            faults,
        }
    }
}

/// The rounds of one contender with one number of timers.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub samples: Vec<Sample>,
    /// Reason for missing rounds.
    pub note: Option<String>,
}

impl Rounds {
    /// Returns the median and the middle half, or `None` without a sample.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.samples.iter().map(|sample| sample.value))
    }
}

/// All results of a run.
pub struct Results {
    pub entries: Vec<Entry>,
    /// Faults of each entry in the check of exactness; `None` for entries that are not queues.
    pub verdicts: Vec<Option<Verdict>>,
    cells: BTreeMap<(Figure, usize), Vec<Rounds>>,
}

impl Results {
    /// Creates results without measurements.
    pub fn new(entries: Vec<Entry>) -> Self {
        Results {
            verdicts: vec![None; entries.len()],
            entries,
            cells: BTreeMap::new(),
        }
    }

    /// Returns the rounds of an entry with this number of timers, to add samples.
    pub fn rounds_mut(&mut self, figure: Figure, size: usize, entry: usize) -> &mut Rounds {
        let empty = || vec![Rounds::default(); self.entries.len()];
        &mut self.cells.entry((figure, size)).or_insert_with(empty)[entry]
    }

    /// Returns the rounds of an entry with this number of timers.
    pub fn rounds(&self, figure: Figure, size: usize, entry: usize) -> &Rounds {
        &self.cells[&(figure, size)][entry]
    }

    /// Returns the numbers of timers with measurements of this figure.
    pub fn sizes(&self, figure: Figure) -> Vec<usize> {
        let sizes = self.cells.keys().filter(|key| key.0 == figure);
        sizes.map(|key| key.1).collect()
    }

    /// Returns the number of an entry's faults in the measured rounds.
    pub fn timed_faults(&self, entry: usize) -> usize {
        let samples = self.cells.values().flat_map(|cell| &cell[entry].samples);
        samples.map(|sample| sample.faults).sum()
    }

    /// Returns true if the queue has no faults. Lateness of less than its tick is not a fault.
    pub fn is_faultless(&self, entry: usize) -> bool {
        let clean = |verdict: Verdict| verdict.faults() == 0;
        self.verdicts[entry].is_none_or(clean) && self.timed_faults(entry) == 0
    }

    /// Returns the exact peer with the least median, and that median.
    pub fn best_peer(&self, figure: Figure, size: usize) -> Option<(&'static str, f64)> {
        let entries = self.entries.iter().enumerate();
        let exact = entries.filter(|(at, entry)| {
            let is_peer = matches!(entry.role, Role::Peer | Role::Scan);
            is_peer && entry.tick == 1 && self.is_faultless(*at)
        });
        let medians = exact.filter_map(|(at, entry)| {
            Some((entry.name, self.rounds(figure, size, at).spread()?.median))
        });
        medians.min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Floor;

    /// Returns an entry that never runs; only its properties matter.
    fn entry(name: &'static str, role: Role, tick: u64) -> Entry {
        Entry {
            name,
            role,
            tick,
            ..Entry::of::<Floor>()
        }
    }

    #[test]
    fn the_best_peer_is_exact_and_not_ours() {
        let mut results = Results::new(vec![
            entry("ours", Role::Ours, 1),
            entry("slow", Role::Peer, 1),
            entry("coarse", Role::Peer, 1000),
            entry("quick", Role::Peer, 1),
            entry("floor", Role::Floor, 1),
        ]);
        for (at, nanos) in [1.0, 9.0, 3.0, 5.0, 0.5].into_iter().enumerate() {
            let took = Took { nanos, cut: false };
            let rounds = results.rounds_mut(Figure::Arm, 10, at);
            rounds.samples.push(Sample::timing(Figure::Arm, took, 0));
        }
        assert_eq!(results.best_peer(Figure::Arm, 10), Some(("quick", 5.0)));
        // A fault in the timed rounds or in the check of exactness disqualifies a peer.
        results.rounds_mut(Figure::Arm, 10, 3).samples[0].faults = 1;
        assert_eq!(results.best_peer(Figure::Arm, 10), Some(("slow", 9.0)));
        results.verdicts[1] = Some(Verdict {
            early: 1,
            ..Verdict::default()
        });
        assert_eq!(results.best_peer(Figure::Arm, 10), None);
    }
}
