//! Comparison of Punctual's queues with the timers of other libraries.
//!
//! `contender` defines the operations of a queue; `ours` and `peers` implement it; `workload` has
//! the workloads, which `run` runs in rounds; `table`, `bars` and `plot` show the results.
//! `exactness` checks that the queues fire on time. `timeouts` compares futures instead of queues.

mod allocation;
mod bars;
mod clock;
mod contender;
mod exactness;
mod ours;
mod peers;
mod plot;
mod results;
mod run;
mod table;
mod timeouts;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_figures::machine::Machine;
use punctual_figures::sleeper::{LIMIT, Sleeper};

use crate::contender::{Entry, Role};
use crate::results::{Figure, Results};
use crate::workload::Workload;

#[global_allocator]
static ALLOCATOR: allocation::Counted = allocation::Counted;

/// Compares Punctual's queues with the timers of other libraries in one run.
///
/// In each round every contender runs once, with the same random numbers, in an order that rotates.
/// Figures are medians of the rounds' CPU time, with the middle half of the rounds and the ratio to
/// the best exact peer. One tick is one microsecond. On two cores at 2-3 GHz the default run takes
/// about 40 minutes, and a run with --quick about five. 10M timers are measured only with
/// --sizes 10M, which takes about an hour and 3 GB of memory.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    #[command(subcommand)]
    what: Option<What>,
    /// Numbers of timers, for example 10,1k,100k,10M [default: 1,10,1k,100k,1M; with --quick
    /// 1,10,1k,100k]
    #[arg(long, value_delimiter = ',', value_parser = size, global = true)]
    sizes: Vec<usize>,
    /// Workloads to run [default: all]
    #[arg(long = "workload", value_enum, value_delimiter = ',', global = true)]
    workloads: Vec<Workload>,
    /// Only contenders whose name contains one of these texts [default: all]
    #[arg(long = "contender", value_delimiter = ',', global = true)]
    contenders: Vec<String>,
    /// Number of rounds after the warm-up [default: 9 for few timers, 3 for 10M]
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// Folder for the plot of the workload connections, which is drawn if that workload runs
    #[arg(long, global = true)]
    plots: Option<PathBuf>,
    /// Fewer timers, fewer and shorter rounds
    #[arg(long, global = true)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Compares futures: sleep and timeout of punctual, tokio and pingora-timeout
    Timeouts {
        /// Only workloads whose name contains one of these texts: ready, pending-once, sleep-1m,
        /// rate-1m
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
}

/// Parses a number, which may end with k or M.
fn size(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.to_lowercase() {
        lower if lower.ends_with('k') => (&text[..text.len() - 1], 1_000),
        lower if lower.ends_with('m') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number: Option<usize> = digits.parse().ok();
    match number.and_then(|number| number.checked_mul(factor)) {
        Some(size @ 1..=100_000_000) => Ok(size),
        _ => Err("write a whole number from 1 to 100M, for example 500, 10k or 2M".into()),
    }
}

impl Options {
    /// Returns true if the options select a contender.
    fn wants(&self, name: &str) -> bool {
        let has = |part: &String| name.to_lowercase().contains(&part.to_lowercase());
        self.contenders.is_empty() || self.contenders.iter().any(has)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    println!("Timers side by side");
    let machine = Machine::here();
    println!("  machine  {}, load {}", machine.provenance(), machine.load);
    if options.quick {
        println!("  note     a quick run: fewer timers and rounds than the bars are meant for");
    }
    if let Some(What::Timeouts { only }) = &options.what {
        timeouts::compare(&options, only);
        return ExitCode::SUCCESS;
    }
    println!(
        "  method   medians of rounds of CPU time, their middle half, ratio to the best exact peer\n"
    );
    let mut sleeper = Sleeper::start().expect("the system starts a thread");
    let mut entries = Entry::all();
    entries.retain(|entry| options.wants(entry.name));
    let mut results = Results::new(entries);
    run::check(&mut results, &options);
    run::run(&mut results, &options);
    println!("{}", table::exactness(&results));
    if let Some(folder) = &options.plots
        && !results.sizes(Figure::Connections).is_empty()
    {
        let path = folder.join("connections.svg");
        let foot = machine.provenance();
        if let Err(error) = plot::figure(&results, Figure::Connections, &path, &foot) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        println!("  plot     {}\n", path.display());
    }
    let busy = sleeper.take().late();
    println!("{}", bars::table(&results, busy));
    if busy {
        println!(
            "BUSY: of the sleeps of 1 ms, 1 % ended more than {LIMIT:?} late: the machine had other work\n"
        );
    }
    let faulty = |at: &usize| results.entries[*at].role == Role::Ours && !results.is_faultless(*at);
    if (0..results.entries.len()).any(|at| faulty(&at)) {
        eprintln!("one of Punctual's queues has a fault: see the table of exactness");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options() {
        Options::command().debug_assert();
        assert_eq!(size("10"), Ok(10));
        assert_eq!(size("100k"), Ok(100_000));
        assert_eq!(size("10M"), Ok(10_000_000));
        assert!(size("0").is_err() && size("x").is_err() && size("99999999999999999M").is_err());
    }
}
