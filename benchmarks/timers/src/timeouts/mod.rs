//! Comparison of timeouts in async programs: `timeout` and `sleep` of Punctual, tokio and pingora.
//!
//! `contenders` has the libraries, `workload` the operations; this file runs the rounds and shows
//! the results.

mod contenders;
mod workload;

use punctual_figures::progress;
use punctual_figures::spread::Spread;
use punctual_figures::table::Table;
use tokio::runtime::{Builder, Runtime};

use self::contenders::{Contender, Nothing, Pingora, Punctual, Tokio, TokioAlternative};
use self::workload::{Took, Workload, round};
use crate::Options;
use crate::table::number;

/// A contender, and its function that runs a round.
struct Entry {
    name: &'static str,
    alternative: bool,
    round: fn(Workload, &Runtime, usize, u64) -> Took,
}

fn entry<C: Contender>() -> Entry {
    Entry {
        name: C::NAME,
        alternative: C::ALTERNATIVE,
        round: round::<C>,
    }
}

fn entries() -> [Entry; 5] {
    [
        entry::<Punctual>(),
        entry::<Tokio>(),
        entry::<TokioAlternative>(),
        entry::<Pingora>(),
        entry::<Nothing>(),
    ]
}

/// The runtimes with a number of threads, which may exceed the number of processors.
struct Setup {
    threads: usize,
    runtime: Runtime,
    /// A runtime with tokio's alternative timers, if tokio is built with them.
    alternative: Option<Runtime>,
}

fn setup(threads: usize) -> Setup {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all();
    let mut built = || builder.build().expect("tokio's runtime is built");
    let runtime = built();
    #[cfg(tokio_unstable)]
    let alternative = Some(builder.enable_alt_timer().build().expect("as above"));
    #[cfg(not(tokio_unstable))]
    let alternative = None;
    Setup {
        threads,
        runtime,
        alternative,
    }
}

/// A workload with its bars. A bar is a number of threads, another contender, and the maximum ratio
/// of Punctual's figure to the figure of that contender.
struct Study {
    name: &'static str,
    title: &'static str,
    workload: Workload,
    bars: &'static [(usize, &'static str, f64)],
}

const ALTERNATIVE_BARS: &[(usize, &str, f64)] = &[
    (2, TokioAlternative::NAME, 0.7),
    (8, TokioAlternative::NAME, 0.7),
];
const BOTH_BARS: &[(usize, &str, f64)] = &[
    (2, Tokio::NAME, 0.5),
    (2, TokioAlternative::NAME, 0.7),
    (8, TokioAlternative::NAME, 0.7),
];

fn studies(quick: bool) -> [Study; 4] {
    // A round of Punctual takes some 50 ms, or 10 ms with `quick`, which is much more than the
    // start of a task.
    let operations = if quick { 64 * 1_500 } else { 64 * 8_000 };
    let few = |many: usize| if quick { many / 10 } else { many };
    [
        Study {
            name: "ready",
            title: "timeout around a future that is ready",
            workload: Workload::Ready {
                operations: 8 * operations,
            },
            bars: BOTH_BARS,
        },
        Study {
            name: "pending-once",
            title: "timeout around a future that is pending once",
            workload: Workload::PendingOnce { operations },
            bars: BOTH_BARS,
        },
        Study {
            name: "sleep-1m",
            title: "arm and drop a sleep, 1M others waiting",
            workload: Workload::ArmAndDrop {
                operations,
                live: few(1_000_000),
            },
            bars: ALTERNATIVE_BARS,
        },
        Study {
            name: "rate-1m",
            title: "1M timeouts armed and dropped a second",
            workload: Workload::Rate {
                per_second: 1_000_000,
                millis: if quick { 1_000 } else { 2_000 },
            },
            bars: ALTERNATIVE_BARS,
        },
    ]
}

/// Runs all workloads and prints their tables. The exit status does not depend on the bars, because
/// machines differ.
pub fn compare(options: &Options, only: &[String]) {
    let entries = entries();
    let setups = [1, 2, 8].map(setup);
    let wanted =
        |study: &Study| only.is_empty() || only.iter().any(|part| study.name.contains(part));
    let mut judged = Table::new(
        2,
        ["bar", "threads", "bound", "against", "ours", "ratio", ""],
    );
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 7 });
    for study in studies(options.quick).into_iter().filter(wanted) {
        let takes_part = |entry: &Entry| options.wants(entry.name);
        let medians = study.measure(&entries, &setups, rounds, options.seed, takes_part);
        let median = |name: &str, threads: usize| {
            let entry = entries.iter().position(|entry| entry.name == name)?;
            let setup = setups.iter().position(|setup| setup.threads == threads)?;
            medians[entry][setup]
        };
        for &(threads, of, most) in study.bars {
            let (Some(ours), Some(peer)) = (median(Punctual::NAME, threads), median(of, threads))
            else {
                continue;
            };
            judged.row([
                study.title.to_owned(),
                threads.to_string(),
                format!("<= {most} x {of}"),
                study.workload.text(peer),
                study.workload.text(ours),
                format!("{:.2}", ours / peer),
                if ours / peer <= most { "PASS" } else { "MISS" }.to_owned(),
            ]);
        }
    }
    println!("{judged}");
}

impl Study {
    /// Runs the rounds, prints the table, and returns the medians by entry and setup.
    fn measure(
        &self,
        entries: &[Entry],
        setups: &[Setup],
        rounds: usize,
        seed: u64,
        takes_part: impl Fn(&Entry) -> bool,
    ) -> Vec<Vec<Option<f64>>> {
        let mut took = vec![vec![Vec::new(); setups.len()]; entries.len()];
        let bar = progress(
            ((rounds + 1) * setups.len() * entries.len()) as u64,
            self.title,
        );
        // Round 0 warms up. Each round begins with another contender.
        for number in 0..=rounds {
            for (at, setup) in setups.iter().enumerate() {
                for turn in 0..entries.len() {
                    bar.inc(1);
                    let contender = (turn + number) % entries.len();
                    let runtime = match entries[contender].alternative {
                        true => setup.alternative.as_ref(),
                        false => Some(&setup.runtime),
                    };
                    let Some(runtime) = runtime.filter(|_| takes_part(&entries[contender])) else {
                        continue;
                    };
                    let seed = seed ^ (number as u64) << 32;
                    let round =
                        (entries[contender].round)(self.workload, runtime, setup.threads, seed);
                    if number > 0 {
                        took[contender][at].push(round);
                    }
                }
            }
        }
        bar.finish_and_clear();
        self.print(entries, setups, &took)
    }

    fn print(
        &self,
        entries: &[Entry],
        setups: &[Setup],
        took: &[Vec<Vec<Took>>],
    ) -> Vec<Vec<Option<f64>>> {
        let mut head = vec![String::new()];
        for setup in setups {
            head.extend([
                format!("threads = {}", setup.threads),
                String::new(),
                "wall".into(),
            ]);
        }
        let mut table = Table::new(1, head);
        let mut medians = vec![vec![None; setups.len()]; entries.len()];
        for (contender, entry) in entries.iter().enumerate() {
            let mut row = vec![entry.name.to_owned()];
            for (at, setup) in setups.iter().enumerate() {
                let rounds = &took[contender][at];
                let figures = Spread::of(rounds.iter().map(|took| self.workload.figure(took)));
                let walls = Spread::of(
                    rounds
                        .iter()
                        .map(|took| took.nanos(took.wall, setup.threads)),
                );
                let (Some(shown), Some(wall)) = (figures, walls) else {
                    row.extend(["-".to_owned(), String::new(), String::new()]);
                    continue;
                };
                let text = |value| self.workload.text(value);
                row.push(text(shown.median));
                row.push(format!("{}-{}", text(shown.low), text(shown.high)));
                row.push(number(wall.median));
                medians[contender][at] = Some(shown.median);
            }
            table.row(row);
        }
        println!("\n{} ({})\n\n{table}", self.title, self.workload.unit());
        medians
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_does_every_workload() {
        let workloads = [
            Workload::Ready { operations: 128 },
            Workload::PendingOnce { operations: 128 },
            Workload::ArmAndDrop {
                operations: 128,
                live: 128,
            },
            Workload::Rate {
                per_second: 20_000,
                millis: 3,
            },
        ];
        let setup = setup(2);
        for workload in workloads {
            for entry in entries().iter().filter(|entry| !entry.alternative) {
                let took = (entry.round)(workload, &setup.runtime, setup.threads, 1);
                let expected = if matches!(workload, Workload::Rate { .. }) {
                    60
                } else {
                    256
                };
                assert_eq!(took.operations, expected, "{workload:?} by {}", entry.name);
            }
        }
    }
}
