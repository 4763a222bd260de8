//! Comparison of timers: Punctual's queues and those of other libraries in one run.
//!
//! `contender` defines the operations of a queue; `ours` and `peers` implement it; `workload` has the
//! workloads, which `run` runs in rounds; `results` finds the best peer; `table`, `bars` and `plot`
//! show the results. `exactness` checks that the queues fire on time.

mod allocation;
mod bars;
mod clock;
mod contender;
mod csv;
mod error;
mod exactness;
mod field;
mod figure;
mod floor;
mod options;
mod ours;
mod peers;
mod plot;
mod random;
mod results;
mod run;
mod table;
mod timeouts;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use punctual_figures::machine::Machine;
use punctual_figures::make_directory;
use punctual_figures::sleeper::{LIMIT, Sleeper};

use crate::contender::Role;
use crate::error::{Error, Result};
use crate::field::Entry;
use crate::options::{Field, Options, What};
use crate::plot::{Curve, Plot};
use crate::results::Results;
use crate::run::Plan;
use crate::workload::Workload;

#[global_allocator]
static ALLOCATOR: allocation::Counted = allocation::Counted;

fn main() -> ExitCode {
    let options = Options::parse();
    match go(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("one of ours does not keep to the time: see the table");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command. Returns whether Punctual's queues are faultless.
fn go(options: &Options) -> Result<bool> {
    let plan = plan(&options.field);
    // The comparison of timeouts has its own contenders.
    let entries = match options.what {
        Some(What::Timeouts { .. }) => Vec::new(),
        _ => chosen(field::all(), &options.field.contenders)?,
    };
    match &options.what {
        Some(What::List) => {
            list(&entries);
            Ok(true)
        }
        Some(What::Check) => {
            let mut results = Results::new(entries);
            run::try_exactness(&mut results, &plan);
            println!("{}", table::exactness(&results));
            Ok(ours_are_right(&results))
        }
        Some(What::Timeouts { only }) => {
            let out = options.field.out.as_deref();
            if let Some(folder) = out {
                make_directory(folder)?;
            }
            header(&plan);
            timeouts::compare(&plan, &options.field.contenders, only, out)?;
            Ok(true)
        }
        None => compare(entries, &plan, options.field.out.as_deref()),
    }
}

fn compare(entries: Vec<Entry>, plan: &Plan, out: Option<&Path>) -> Result<bool> {
    let mut csv = None;
    if let Some(folder) = out {
        make_directory(folder)?;
        csv = Some(csv::create(&folder.join("timers.csv"))?);
    }
    header(plan);
    let mut sleeper = Sleeper::start().map_err(Error::Sleeper)?;
    let mut results = Results::new(entries);
    run::try_exactness(&mut results, plan);
    run::run(&mut results, plan, &mut csv)?;
    println!("{}", table::exactness(&results));
    let sleeps = sleeper.take();
    println!("{}", bars::table(&results, sleeps.late()));
    if sleeps.late() {
        println!(
            "BUSY: sleeps of a millisecond were late by more than {} ms at p99: the machine had other work\n",
            LIMIT.as_secs_f64() * 1e3
        );
    }
    if let Some(folder) = out {
        draw(&results, plan, folder)?;
    }
    if let Some(mut csv) = csv {
        println!("wrote {}", csv.finish()?.display());
    }
    Ok(ours_are_right(&results))
}

fn header(plan: &Plan) {
    println!("Timers side by side");
    let machine = Machine::here();
    println!("  machine  {}, load {}", machine.provenance(), machine.load);
    if plan.quick {
        println!("  note     a quick run: fewer timers and rounds than the bars are meant for");
    }
    if cfg!(debug_assertions) {
        println!("  note     a debug build: build with --release for figures that count");
    }
    println!(
        "  method   medians of rounds of CPU time; \"middle half\" of the rounds; \"ratio\" to the best exact peer\n"
    );
}

fn plan(field: &Field) -> Plan {
    let sizes = match (field.sizes.is_empty(), field.quick) {
        (false, _) => field.sizes.clone(),
        (true, true) => vec![1, 10, 1_000, 100_000],
        (true, false) => vec![1, 10, 1_000, 100_000, 1_000_000],
    };
    let workloads = match field.workloads.is_empty() {
        true => Workload::value_variants().to_vec(),
        false => field.workloads.clone(),
    };
    Plan {
        workloads,
        sizes,
        rounds: field.rounds.map(|rounds| rounds as usize),
        quick: field.quick,
        seed: field.seed,
    }
}

fn chosen(all: Vec<Entry>, wanted: &[String]) -> Result<Vec<Entry>> {
    let has =
        |entry: &Entry, part: &String| entry.name.to_lowercase().contains(&part.to_lowercase());
    if let Some(given) = wanted
        .iter()
        .find(|part| !all.iter().any(|entry| has(entry, part)))
    {
        let names: Vec<_> = all.iter().map(|entry| entry.name).collect();
        return Err(Error::Nobody {
            given: given.clone(),
            names: names.join(", "),
        });
    }
    let takes_part =
        |entry: &Entry| wanted.is_empty() || wanted.iter().any(|part| has(entry, part));
    Ok(all.into_iter().filter(takes_part).collect())
}

fn list(entries: &[Entry]) {
    let mut table = table::Table::new(2, ["contender", "", "tick us", "next deadline"]);
    for entry in entries {
        let role = match entry.role {
            Role::Ours => "ours",
            Role::Peer => "peer",
            Role::Floor => "no queue",
        };
        let next = if entry.exact_next { "exact" } else { "a bound" };
        table.row([
            entry.name,
            role,
            &table::thousands(entry.tick as usize),
            next,
        ]);
    }
    print!("{table}");
}

/// Returns whether Punctual's queues made no mistake in this run.
fn ours_are_right(results: &Results) -> bool {
    let ours = |&at: &usize| results.entries[at].role == Role::Ours;
    (0..results.entries.len())
        .filter(ours)
        .all(|at| results.exact(at))
}

/// Writes one plot per figure.
fn draw(results: &Results, plan: &Plan, folder: &Path) -> Result<()> {
    let machine = Machine::here().provenance();
    for figure in plan
        .workloads
        .iter()
        .flat_map(|workload| workload.figures())
    {
        let sizes = results.sizes(*figure);
        let curve = |at: usize| Curve {
            name: results.entries[at].name.to_owned(),
            role: results.entries[at].role,
            points: sizes
                .iter()
                .filter_map(|&size| Some((size as f64, results.median(*figure, size, at)?)))
                .collect(),
        };
        let plot = Plot {
            title: figure.title().to_owned(),
            x_axis: "timers, N (logarithmic)".into(),
            y_axis: format!("{} (logarithmic)", figure.unit()),
            foot: format!("Punctual's thick, peers' dashed; {machine}"),
            names: Vec::new(),
            curves: (0..results.entries.len()).map(curve).collect(),
        };
        let path = folder.join(format!("timers-{}.svg", figure.name()));
        if plot.write(&path)? {
            println!("wrote {}", path.display());
        }
    }
    Ok(())
}
