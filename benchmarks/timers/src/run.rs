//! Runs the rounds of the comparison. In each round every contender runs once with the same random
//! numbers. The order rotates, so that other load on the machine affects all contenders.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use indicatif::ProgressBar;
use punctual_figures::progress;

use crate::Options;
use crate::clock::{Pace, cpu};
use crate::contender::Role;
use crate::results::Results;
use crate::table;
use crate::workload::Workload;

impl Options {
    fn pace(&self) -> Pace {
        let seconds = |full, quick| Duration::from_millis(if self.quick { quick } else { full });
        Pace {
            operations: if self.quick { 100_000 } else { 300_000 },
            cut_after: seconds(3_000, 250),
            patience: seconds(20_000, 3_000),
        }
    }

    /// Returns the number of counted rounds with `size` timers.
    fn rounds(&self, workload: Workload, size: usize) -> usize {
        self.rounds.unwrap_or(match size {
            // One round suffices for memory: no time is measured, and only the random numbers would
            // differ.
            _ if workload == Workload::Memory => 1,
            _ if self.quick => 3,
            0..10_000 => 9,
            10_000..200_000 => 7,
            200_000..2_000_000 => 5,
            _ => 3,
        })
    }

    fn sizes(&self) -> &[usize] {
        match (self.sizes.as_slice(), self.quick) {
            ([], true) => &[1, 10, 1_000, 100_000],
            ([], false) => &[1, 10, 1_000, 100_000, 1_000_000],
            (sizes, _) => sizes,
        }
    }
}

/// Checks the exactness of each queue.
pub fn check(results: &mut Results, options: &Options) {
    let operations = if options.quick { 100_000 } else { 1_000_000 };
    for (entry, verdict) in results.entries.iter().zip(&mut results.verdicts) {
        if entry.role != Role::Floor {
            *verdict = Some((entry.check)(options.seed, operations));
        }
    }
}

/// Runs all rounds, and prints the tables of each workload after its rounds.
pub fn run(results: &mut Results, options: &Options) {
    let workloads = match options.workloads.as_slice() {
        [] => Workload::value_variants(),
        chosen => chosen,
    };
    let sizes = |workload: Workload| workload.sizes(options.sizes()).into_iter();
    let cells = workloads
        .iter()
        .flat_map(|&workload| sizes(workload).map(move |size| (workload, size)));
    let rounds: usize = cells
        .map(|(workload, size)| options.rounds(workload, size) + 1)
        .sum();
    let bar = progress((rounds * results.entries.len()) as u64, "");
    for &workload in workloads {
        for size in sizes(workload) {
            run_cell(results, options, workload, size, &bar);
        }
        for &figure in workload.figures() {
            bar.suspend(|| println!("{}", table::figure(results, figure)));
        }
    }
    bar.finish_and_clear();
}

fn run_cell(
    results: &mut Results,
    options: &Options,
    workload: Workload,
    size: usize,
    bar: &ProgressBar,
) {
    let (pace, rounds) = (options.pace(), options.rounds(workload, size));
    let count = results.entries.len();
    let mut running: Vec<bool> = Vec::with_capacity(count);
    for at in 0..count {
        let entry = results.entries[at];
        let takes_part = workload.has(entry.role);
        if takes_part && size > entry.max_timers {
            note(
                results,
                workload,
                size,
                at,
                "not measured with so many timers",
            );
        }
        running.push(takes_part && size <= entry.max_timers);
    }
    // Round 0 warms up. It counts only if it was too slow for another round.
    for round in 0..=rounds {
        for turn in 0..count {
            let at = (turn + round) % count;
            bar.inc(1);
            if !running[at] {
                continue;
            }
            let entry = results.entries[at];
            let figure = workload.figures()[0].about().0;
            bar.set_message(format!(
                "{figure} at {}: {}",
                table::count(size),
                entry.name
            ));
            let mut random = Rng::with_seed(options.seed ^ (round as u64) << 32 ^ size as u64);
            let start = cpu();
            let samples = (entry.round)(workload, size, &mut random, &pace);
            let slow = cpu() - start > pace.patience;
            running[at] = samples.is_some() && !slow;
            if !running[at] {
                note(
                    results,
                    workload,
                    size,
                    at,
                    "rounds are missing: one took too long",
                );
            }
            for sample in samples.into_iter().flatten() {
                if round > 0 || slow {
                    let rounds = results.rounds_mut(sample.figure, size, at);
                    rounds.samples.push(sample);
                }
            }
        }
    }
}

fn note(results: &mut Results, workload: Workload, size: usize, entry: usize, text: &str) {
    for &figure in workload.figures() {
        results.rounds_mut(figure, size, entry).note = Some(text.to_owned());
    }
}
