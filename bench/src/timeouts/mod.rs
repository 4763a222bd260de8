//! Comparison of timeouts in async programs: `timeout` and `sleep` of Punctual, tokio, pingora and futures-timer.
//!
//! `contenders` has the libraries, `workload` the operations; this file runs the rounds and shows the results.

mod contenders;
mod workload;

use std::path::Path;
use std::thread::available_parallelism;

use punctual_figures::machine::Machine;
use punctual_figures::progress;
use punctual_figures::spread::Spread;
use tokio::runtime::{Builder, Runtime};

use self::contenders::{
    Contender, FuturesTimer, Nothing, Pingora, Punctual, Tokio, TokioAlternative,
};
use self::workload::{Took, Workload, round};
use crate::contender::Role;
use crate::error;
use crate::plot::{Curve, Plot};
use crate::run::Plan;
use crate::table::{Table, number};

/// One contender, and its monomorphised function that runs a round.
struct Entry {
    name: &'static str,
    role: Role,
    alternative: bool,
    round: fn(Workload, &Runtime, usize, usize, u64) -> Took,
}

fn entry<C: Contender>() -> Entry {
    Entry {
        name: C::NAME,
        role: C::ROLE,
        alternative: C::ALTERNATIVE,
        round: round::<C>,
    }
}

fn entries() -> Vec<Entry> {
    vec![
        entry::<Punctual>(),
        entry::<Tokio>(),
        entry::<TokioAlternative>(),
        entry::<Pingora>(),
        entry::<FuturesTimer>(),
        entry::<Nothing>(),
    ]
}

/// Runtimes of the tasks.
struct Setup {
    name: String,
    threads: usize,
    runtime: Runtime,
    /// The same with tokio's alternative timers.
    alternative: Option<Runtime>,
}

impl Setup {
    /// Returns the runtime for a contender, if there is one.
    fn runtime(&self, entry: &Entry) -> Option<&Runtime> {
        match entry.alternative {
            true => self.alternative.as_ref(),
            false => Some(&self.runtime),
        }
    }
}

/// Unit of a round's figure.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    /// CPU nanoseconds per operation.
    Nanos,
    /// Number of processors in use.
    Processors,
}

/// Limit of a figure, as a ratio to that of another contender.
#[derive(Clone, Copy)]
struct Bar {
    most: f64,
    of: &'static str,
    /// Number of threads of the setup.
    threads: usize,
}

struct Study {
    title: &'static str,
    file: &'static str,
    workload: Workload,
    unit: Unit,
    operations: usize,
    bars: Vec<Bar>,
}

fn studies(quick: bool) -> Vec<Study> {
    // A round of ours takes some 50 ms, or 10 ms with `quick`: far more than starting a task.
    let operations = if quick { 64 * 1_500 } else { 64 * 8_000 };
    let millis = if quick { 1_000 } else { 2_000 };
    let bar = |most, of, threads| Bar { most, of, threads };
    let of_new_tokio = [2, MANY].map(|threads| bar(0.7, TokioAlternative::NAME, threads));
    let [with_2, with_many] = of_new_tokio;
    let of_both_tokios = vec![bar(0.5, Tokio::NAME, 2), with_2, with_many];
    vec![
        Study {
            title: "timeout around a future that is ready",
            file: "ready",
            workload: Workload::Ready,
            unit: Unit::Nanos,
            operations: 8 * operations,
            bars: of_both_tokios.clone(),
        },
        Study {
            title: "timeout around a future that is pending once",
            file: "pending-once",
            workload: Workload::PendingOnce,
            unit: Unit::Nanos,
            operations,
            bars: of_both_tokios,
        },
        Study {
            title: "arm and drop a sleep, 1M others waiting",
            file: "sleep-1m",
            workload: Workload::ArmAndDrop {
                live: if quick { 100_000 } else { 1_000_000 },
            },
            unit: Unit::Nanos,
            operations,
            bars: of_new_tokio.to_vec(),
        },
        Study {
            title: "1M timeouts armed and dropped a second",
            file: "rate-1m",
            workload: Workload::Rate {
                per_second: 1_000_000,
                millis,
            },
            unit: Unit::Processors,
            operations: 0,
            bars: of_new_tokio.to_vec(),
        },
        Study {
            title: "1,000 timeouts armed and dropped a second",
            file: "rate-1k",
            workload: Workload::Rate {
                per_second: 1_000,
                millis,
            },
            unit: Unit::Processors,
            operations: 0,
            bars: vec![bar(1.2, Nothing::NAME, 1)],
        },
    ]
}

fn setups() -> Vec<Setup> {
    let many = |threads: usize| Setup {
        name: format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
        threads,
        runtime: built(Builder::new_multi_thread().worker_threads(threads)),
        alternative: alternative(threads),
    };
    let mut setups = vec![
        Setup {
            name: "current thread".into(),
            threads: 1,
            runtime: built(&mut Builder::new_current_thread()),
            alternative: None,
        },
        many(1),
        many(2),
    ];
    let cores = available_parallelism().map_or(1, usize::from);
    setups.push(many(MANY));
    if cores > 2 && cores != MANY {
        setups.push(many(cores));
    }
    setups
}

/// Returns a runtime with tokio's alternative timers, if tokio is built with them.
fn alternative(threads: usize) -> Option<Runtime> {
    #[cfg(tokio_unstable)]
    return Some(built(
        Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_alt_timer(),
    ));
    #[cfg(not(tokio_unstable))]
    {
        let _ = threads;
        None
    }
}

fn built(builder: &mut Builder) -> Runtime {
    let built = builder.enable_all().build();
    built.unwrap_or_else(|error| panic!("tokio's runtime cannot be built: {error}"))
}

/// Number of threads of the largest setup, which may be more than there are processors.
const MANY: usize = 8;

/// Rounds by study, entry and setup.
type Measured = Vec<Vec<Vec<Vec<Took>>>>;

/// Measures, prints and plots. The exit status does not depend on the bars, because machines differ.
pub fn compare(
    plan: &Plan,
    wanted: &[String],
    only: &[String],
    out: Option<&Path>,
) -> error::Result<()> {
    let chosen = |name: &str, parts: &[String]| {
        parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
    };
    let mut entries = entries();
    entries.retain(|entry| chosen(entry.name, wanted));
    let mut studies = studies(plan.quick);
    studies.retain(|study| chosen(study.file, only));
    let setups = setups();
    let rounds = plan.rounds.unwrap_or(if plan.quick { 3 } else { 7 });
    let measured = run(&studies, &entries, &setups, rounds, plan.seed);
    for (study, rows) in studies.iter().zip(&measured) {
        println!("{}", written(study, &entries, &setups, rows));
        if let Some(folder) = out {
            draw(study, &entries, &setups, rows, folder)?;
        }
    }
    println!("{}", bars(&studies, &entries, &setups, &measured));
    Ok(())
}

fn run(
    studies: &[Study],
    entries: &[Entry],
    setups: &[Setup],
    rounds: usize,
    seed: u64,
) -> Measured {
    let cells = entries.len() * setups.len();
    let bar = progress((studies.len() * cells * (rounds + 1)) as u64, "");
    let mut measured = Vec::new();
    for study in studies {
        let mut rows = vec![vec![Vec::new(); setups.len()]; entries.len()];
        // Round 0 warms up.
        for number in 0..=rounds {
            for turn in 0..cells {
                // Contenders run one after the other in each setup; the first one changes from round to round.
                let (at, setup) = ((turn + number) % entries.len(), turn / entries.len());
                let Setup { name, threads, .. } = &setups[setup];
                let Some(runtime) = setups[setup].runtime(&entries[at]) else {
                    continue;
                };
                bar.set_message(format!("{}, {name}: {}", study.file, entries[at].name));
                bar.inc(1);
                let seed = seed ^ (number as u64) << 32;
                let took =
                    (entries[at].round)(study.workload, runtime, *threads, study.operations, seed);
                if number > 0 {
                    rows[at][setup].push(took);
                }
            }
        }
        measured.push(rows);
    }
    bar.finish_and_clear();
    measured
}

impl Unit {
    fn of(self, took: &Took) -> f64 {
        match self {
            Unit::Nanos => took.nanos(),
            Unit::Processors => took.processors(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Nanos => "ns of CPU time an operation, all threads of the process",
            Unit::Processors => "processors in use",
        }
    }

    /// Returns the meaning of the column "wall".
    fn wall(self) -> &'static str {
        match self {
            Unit::Nanos => "ns of a thread an operation, waits for locks and processors included",
            Unit::Processors => "done a second",
        }
    }

    fn written(self, value: f64) -> String {
        match self {
            Unit::Nanos => number(value),
            Unit::Processors => format!("{value:.3}"),
        }
    }
}

fn spread(study: &Study, rounds: &[Took]) -> Option<Spread> {
    Spread::of(rounds.iter().map(|took| study.unit.of(took)))
}

fn named(entries: &[Entry], name: &str) -> Option<usize> {
    entries.iter().position(|entry| entry.name == name)
}

fn written(study: &Study, entries: &[Entry], setups: &[Setup], rows: &[Vec<Vec<Took>>]) -> String {
    let mut head = vec![String::new()];
    for setup in setups {
        head.extend([
            setup.name.clone(),
            String::new(),
            "wall".into(),
            "ratio".into(),
        ]);
    }
    let tokio = named(entries, Tokio::NAME);
    let mut table = Table::new(1, head);
    for (entry, cells) in entries.iter().zip(rows) {
        let mut row = vec![entry.name.to_owned()];
        for (setup, rounds) in cells.iter().enumerate() {
            let Some(shown) = spread(study, rounds) else {
                row.extend(std::iter::repeat_n("-".to_owned(), 4));
                continue;
            };
            let unit = study.unit;
            row.push(unit.written(shown.median));
            row.push(format!(
                "{}-{}",
                unit.written(shown.low),
                unit.written(shown.high)
            ));
            row.push(wall(study, &setups[setup], rounds));
            let peer = tokio.and_then(|tokio| spread(study, &rows[tokio][setup]));
            row.push(peer.map_or_else(String::new, |peer| number(shown.median / peer.median)));
        }
        table.row(row);
    }
    format!(
        "{} ({}; beside it the middle half; wall: {}; ratio to {})\n\n{table}",
        study.title,
        study.unit.name(),
        study.unit.wall(),
        Tokio::NAME,
    )
}

fn wall(study: &Study, setup: &Setup, rounds: &[Took]) -> String {
    let wall = |took: &Took| {
        let (wall, operations) = (took.wall.as_secs_f64(), took.operations as f64);
        match study.unit {
            Unit::Nanos => wall * 1e9 * setup.threads as f64 / operations,
            Unit::Processors => operations / wall,
        }
    };
    let spread = Spread::of(rounds.iter().map(wall));
    spread.map_or_else(String::new, |spread| number(spread.median))
}

fn bars(studies: &[Study], entries: &[Entry], setups: &[Setup], measured: &Measured) -> String {
    let mut table = Table::new(2, ["bar", "where", "bound", "against", "ours", "ratio", ""]);
    let Some(ours) = named(entries, Punctual::NAME) else {
        return String::new();
    };
    let bars = studies.iter().zip(measured).flat_map(|(study, rows)| {
        let bars = study.bars.iter();
        bars.map(move |bar| (study, rows, bar))
    });
    for (study, rows, bar) in bars {
        let setup = setups
            .iter()
            .rposition(|setup| setup.threads == bar.threads);
        let (Some(setup), Some(peer)) = (setup, named(entries, bar.of)) else {
            continue;
        };
        let median = |at: usize| Some(spread(study, &rows[at][setup])?.median);
        let (Some(ours), Some(peer)) = (median(ours), median(peer)) else {
            continue;
        };
        let ratio = ours / peer;
        table.row([
            study.title.to_owned(),
            setups[setup].name.clone(),
            format!("<= {} x {}", bar.most, bar.of),
            study.unit.written(peer),
            study.unit.written(ours),
            format!("{ratio:.2}"),
            if ratio <= bar.most { "PASS" } else { "MISS" }.to_owned(),
        ]);
    }
    table.to_string()
}

fn draw(
    study: &Study,
    entries: &[Entry],
    setups: &[Setup],
    rows: &[Vec<Vec<Took>>],
    folder: &Path,
) -> error::Result<()> {
    let curve = |(entry, cells): (&Entry, &Vec<Vec<Took>>)| Curve {
        name: entry.name.to_owned(),
        role: entry.role,
        points: (0..)
            .zip(cells)
            .filter_map(|(at, rounds)| Some((f64::from(at), spread(study, rounds)?.median)))
            .collect(),
    };
    let plot = Plot {
        title: study.title.to_owned(),
        x_axis: "runtime".into(),
        y_axis: format!("{} (logarithmic)", study.unit.name()),
        foot: Machine::here().provenance(),
        names: setups.iter().map(|setup| setup.name.clone()).collect(),
        curves: entries.iter().zip(rows).map(curve).collect(),
    };
    let path = folder.join(format!("timeouts-{}.svg", study.file));
    if plot.write(&path)? {
        println!("wrote {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tiny(file: &'static str, workload: Workload) -> Study {
        Study {
            title: "t",
            file,
            workload,
            unit: Unit::Nanos,
            operations: 128,
            bars: Vec::new(),
        }
    }

    #[test]
    fn every_contender_does_every_workload() {
        let studies = [
            tiny("ready", Workload::Ready),
            tiny("pending-once", Workload::PendingOnce),
            tiny("live", Workload::ArmAndDrop { live: 128 }),
            tiny(
                "rate",
                Workload::Rate {
                    per_second: 10_000,
                    millis: 3,
                },
            ),
        ];
        let (entries, setups) = (entries(), setups());
        let measured = run(&studies, &entries, &setups, 1, 1);
        for (study, rows) in studies.iter().zip(&measured) {
            for (entry, cells) in entries.iter().zip(rows) {
                for (rounds, setup) in cells.iter().zip(&setups) {
                    if setup.runtime(entry).is_none() {
                        continue;
                    }
                    let each = if study.file == "rate" {
                        (10 / setup.threads).max(1) * 3
                    } else {
                        128
                    };
                    assert_eq!(rounds.len(), 1);
                    assert_eq!(rounds[0].operations, each * setup.threads, "{}", study.file);
                }
            }
            let text = written(study, &entries, &setups, rows);
            assert!(entries.iter().all(|entry| text.contains(entry.name)));
        }
    }

    #[test]
    fn bars_are_held_against_the_one_that_is_meant() {
        let took = |nanos| Took {
            cpu: Duration::from_nanos(nanos),
            wall: Duration::from_nanos(nanos),
            operations: 1,
        };
        let studies = &studies(true)[..2];
        let (entries, setups) = (entries(), setups());
        let judged = |ours: u64| {
            let nanos = |name| match name {
                Punctual::NAME => ours,
                Tokio::NAME | TokioAlternative::NAME => 100,
                _ => 1,
            };
            let row = |entry: &Entry| vec![vec![took(nanos(entry.name))]; setups.len()];
            let rows: Vec<_> = entries.iter().map(row).collect();
            bars(studies, &entries, &setups, &vec![rows.clone(), rows])
        };
        assert_eq!(judged(50).matches("PASS").count(), 6);
        assert_eq!(judged(51).matches("MISS").count(), 2);
        assert_eq!(judged(71).matches("MISS").count(), 6);
        assert!(judged(51).contains("0.51"));
    }
}
