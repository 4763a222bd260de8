//! The results: samples by figure, number of timers and contender, and the best peer.

use std::collections::BTreeMap;

use punctual_figures::spread::Spread;

use crate::contender::Role;
use crate::exactness::Verdict;
use crate::field::Entry;
use crate::figure::{Figure, Sample};

/// The rounds of one contender in one cell.
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

    fn faults(&self) -> usize {
        self.samples.iter().map(|sample| sample.faults).sum()
    }

    /// Returns whether a batch was cut short.
    pub fn cut(&self) -> bool {
        self.samples.iter().any(|sample| sample.cut)
    }
}

/// All results of a run.
pub struct Results {
    pub entries: Vec<Entry>,
    /// Mistakes of each entry in the check of exactness; `None` for entries that are no queues.
    pub verdicts: Vec<Option<Verdict>>,
    cells: BTreeMap<(Figure, usize), Vec<Rounds>>,
}

impl Results {
    /// Returns results without a measurement.
    pub fn new(entries: Vec<Entry>) -> Self {
        Results {
            verdicts: vec![None; entries.len()],
            entries,
            cells: BTreeMap::new(),
        }
    }

    /// Returns the rounds of this contender in this cell, for additions.
    pub fn rounds_mut(&mut self, figure: Figure, size: usize, entry: usize) -> &mut Rounds {
        let count = self.entries.len();
        let cell = self.cells.entry((figure, size));
        &mut cell.or_insert_with(|| vec![Rounds::default(); count])[entry]
    }

    /// Returns the rounds of this contender in this cell.
    pub fn rounds(&self, figure: Figure, size: usize, entry: usize) -> Option<&Rounds> {
        self.cells.get(&(figure, size)).map(|cell| &cell[entry])
    }

    /// Returns the median, if there is one.
    pub fn median(&self, figure: Figure, size: usize, entry: usize) -> Option<f64> {
        Some(self.rounds(figure, size, entry)?.spread()?.median)
    }

    /// Returns the numbers of timers with measurements of this figure.
    pub fn sizes(&self, figure: Figure) -> Vec<usize> {
        self.cells
            .keys()
            .filter(|key| key.0 == figure)
            .map(|key| key.1)
            .collect()
    }

    /// Returns the number of this contender's wrong answers in the timed rounds.
    pub fn timed_faults(&self, entry: usize) -> usize {
        self.cells.values().map(|cell| cell[entry].faults()).sum()
    }

    /// Returns whether the entry is a queue without mistakes, except those that its tick excuses.
    pub fn faultless(&self, entry: usize) -> bool {
        let clean = self.verdicts[entry].is_none_or(|verdict| verdict.faults() == 0);
        let is_queue = self.entries[entry].role != Role::Floor;
        is_queue && clean && self.timed_faults(entry) == 0
    }

    /// Returns whether the queue is faultless and fires exact to the microsecond.
    pub fn exact(&self, entry: usize) -> bool {
        self.faultless(entry) && self.entries[entry].tick == 1
    }

    /// Returns the peer with the least median, and that median. `exact` excludes peers that are not
    /// exact, or cannot give the figure's answer.
    pub fn best_peer(&self, figure: Figure, size: usize, exact: bool) -> Option<(usize, f64)> {
        let able = |&entry: &usize| {
            let answers = self.entries[entry].exact_next || !figure.asks_exactly();
            self.entries[entry].role == Role::Peer && (!exact || (self.exact(entry) && answers))
        };
        (0..self.entries.len())
            .filter(able)
            .filter_map(|entry| Some((entry, self.median(figure, size, entry)?)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;
    use crate::floor::Floor;

    /// Returns an entry that never runs; only its properties matter.
    fn entry(name: &'static str, role: Role, tick: u64, exact_next: bool) -> Entry {
        Entry {
            name,
            role,
            tick,
            exact_next,
            ..Entry::of::<Floor>()
        }
    }

    fn measured(results: &mut Results, figure: Figure, entry: usize, values: &[f64]) {
        let samples = values.iter().map(|&value| Sample {
            figure,
            value,
            operations: 1,
            cut: false,
            faults: 0,
        });
        results
            .rounds_mut(figure, 10, entry)
            .samples
            .extend(samples);
    }

    #[test]
    fn the_best_peer_is_exact_and_not_ours() {
        let mut results = Results::new(vec![
            entry("ours", Role::Ours, 1, true),
            entry("slow", Role::Peer, 1, true),
            entry("coarse", Role::Peer, 1000, true),
            entry("vague", Role::Peer, 1, false),
            entry(Floor::NAME, Role::Floor, 1, false),
        ]);
        for figure in [Figure::Arm, Figure::Quic] {
            for (at, value) in [1.0, 9.0, 3.0, 5.0, 0.5].into_iter().enumerate() {
                measured(&mut results, figure, at, &[value, value + 1.0, value - 1.0]);
            }
        }
        assert_eq!(results.best_peer(Figure::Arm, 10, true), Some((3, 5.0)));
        assert_eq!(results.best_peer(Figure::Arm, 10, false), Some((2, 3.0)));
        assert_eq!(results.best_peer(Figure::Quic, 10, true), Some((1, 9.0)));
        assert_eq!(results.best_peer(Figure::Fire, 10, true), None);
        // A fault in the timed rounds or in the check of exactness disqualifies a peer.
        results.rounds_mut(Figure::Arm, 10, 3).samples[0].faults = 1;
        assert_eq!(results.best_peer(Figure::Arm, 10, true), Some((1, 9.0)));
        results.verdicts[1] = Some(Verdict {
            early: 1,
            ..Verdict::default()
        });
        assert_eq!(results.best_peer(Figure::Arm, 10, true), None);
    }
}
