//! Rounds of the comparison. In each round every contender runs once with the same random numbers, in
//! a rotating order, so that a disturbance of the machine affects all of them.

use std::time::Duration;

use indicatif::ProgressBar;
use punctual_figures::progress;

use crate::clock::{Pace, Stopwatch};
use crate::contender::Role;
use crate::csv::{self, Csv};
use crate::error::Result;
use crate::random::Random;
use crate::results::Results;
use crate::table;
use crate::workload::Workload;

/// Contents and duration of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub workloads: Vec<Workload>,
    pub sizes: Vec<usize>,
    /// Rounds of each cell, if all have the same number.
    pub rounds: Option<usize>,
    pub quick: bool,
    pub seed: u64,
}

impl Plan {
    /// Amount of work in a round.
    pub fn pace(&self) -> Pace {
        let seconds =
            |full: f64, quick: f64| Duration::from_secs_f64(if self.quick { quick } else { full });
        Pace {
            operations: if self.quick { 100_000 } else { 300_000 },
            cut_after: seconds(3.0, 0.25),
            patience: seconds(20.0, 3.0),
        }
    }

    /// Returns the number of counted rounds of a cell with `size` timers.
    fn rounds(&self, workload: Workload, size: usize) -> usize {
        self.rounds.unwrap_or(match size {
            // Nothing is timed here, and only the random numbers vary.
            _ if workload == Workload::Memory => 1,
            _ if self.quick => 3,
            0..10_000 => 9,
            10_000..200_000 => 7,
            200_000..2_000_000 => 5,
            _ => 3,
        })
    }

    fn cells(&self) -> impl Iterator<Item = (Workload, usize)> {
        self.workloads.iter().flat_map(|&workload| {
            let sizes = workload.sizes(&self.sizes, self.quick);
            sizes.into_iter().map(move |size| (workload, size))
        })
    }
}

/// Checks the exactness of each queue.
pub fn try_exactness(results: &mut Results, plan: &Plan) {
    let operations = if plan.quick { 100_000 } else { 1_000_000 };
    let bar = progress(results.entries.len() as u64, "exactness");
    for at in 0..results.entries.len() {
        let entry = results.entries[at];
        bar.set_message(format!("exactness: {}", entry.name));
        if entry.role != Role::Floor {
            results.verdicts[at] = Some((entry.check)(plan.seed, operations));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

/// Runs all rounds, and prints the block of each figure after its rounds.
pub fn run(results: &mut Results, plan: &Plan, csv: &mut Option<Csv>) -> Result<()> {
    let turns = plan
        .cells()
        .map(|(workload, size)| plan.rounds(workload, size) + 1)
        .sum::<usize>();
    let bar = progress((turns * results.entries.len()) as u64, "");
    for &workload in &plan.workloads {
        for size in workload.sizes(&plan.sizes, plan.quick) {
            run_cell(results, plan, workload, size, csv, &bar)?;
        }
        for &figure in workload.figures() {
            bar.suspend(|| println!("{}", table::block(results, figure)));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn run_cell(
    results: &mut Results,
    plan: &Plan,
    workload: Workload,
    size: usize,
    csv: &mut Option<Csv>,
    bar: &ProgressBar,
) -> Result<()> {
    let (pace, rounds, count) = (
        plan.pace(),
        plan.rounds(workload, size),
        results.entries.len(),
    );
    let mut standing: Vec<bool> = Vec::with_capacity(count);
    for at in 0..count {
        let entry = results.entries[at];
        let takes_part = entry.role != Role::Floor || workload.has_floor();
        let small_enough = size <= entry.max_timers;
        if takes_part && !small_enough {
            note(
                results,
                workload,
                size,
                at,
                &format!("not tried beyond {} timers", entry.max_timers),
            );
        }
        standing.push(takes_part && small_enough);
    }
    // Round 0 warms up.
    for round in usize::from(workload == Workload::Memory)..=rounds {
        for turn in 0..count {
            let at = (turn + round) % count;
            bar.inc(1);
            if !standing[at] {
                continue;
            }
            let entry = results.entries[at];
            bar.set_message(format!(
                "{} at {}: {}",
                name(workload),
                table::count(size),
                entry.name
            ));
            let mut random = Random::new(plan.seed ^ (round as u64) << 32 ^ size as u64);
            let start = Stopwatch::start();
            let outcome = (entry.round)(workload, size, &mut random, &pace);
            let slow = start.elapsed() > pace.patience;
            match outcome {
                Err(gave_up) => {
                    standing[at] = false;
                    note(results, workload, size, at, &gave_up.to_string());
                }
                Ok(samples) if round > 0 || slow => {
                    for sample in samples {
                        if let Some(csv) = csv {
                            csv::write(csv, entry.name, size, round, &sample)?;
                        }
                        results
                            .rounds_mut(sample.figure, size, at)
                            .samples
                            .push(sample);
                    }
                    if slow {
                        standing[at] = false;
                        let seconds = start.elapsed().as_secs();
                        note(
                            results,
                            workload,
                            size,
                            at,
                            &format!(
                                "a round took {seconds} s of CPU time: {} counted",
                                round.max(1)
                            ),
                        );
                    }
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}

/// Returns the workload's name on the command line.
fn name(workload: Workload) -> String {
    use clap::ValueEnum;
    let value = workload.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn note(results: &mut Results, workload: Workload, size: usize, entry: usize, text: &str) {
    for &figure in workload.figures() {
        results.rounds_mut(figure, size, entry).note = Some(text.to_owned());
    }
}
