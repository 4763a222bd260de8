//! Benchmarks of Redis-compatible servers, and of a program's timers: lateness of expiry and
//! timeouts, server CPU per command, and memory per key and connection.
//!
//! `punctual-bench` runs them. Invariants:
//!
//! - **A comparison is one run.** Servers are measured one after the other, never at the same time,
//!   because the machines have few cores. Their rounds alternate, so that other load on the machine
//!   affects all of them.
//! - **Cost is the server's own CPU time**, read from `/proc`. Requests per second mostly depend on
//!   the load generator, which shares the machine with the server.
//! - **A busy machine gets no verdict.** A thread sleeps for a millisecond again and again during
//!   the run. If its sleeps end late, rows of durations, CPU times and rates have the verdict
//!   `BUSY` instead of `PASS` or `MISS`.
//! - **No stored results.** Every printed result was measured in the same run.
//! - **Servers are started for the run**, in temporary directories, and stopped at its end.
//!
//! The module `sheet` is common to all benchmarks: rounds, medians, ratios, bars (limits of
//! figures) and verdicts. The module of a benchmark starts servers, has a function that measures
//! one server once, and lists the bars.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[macro_use]
mod output;

mod background;
mod blocking;
mod cleanup;
mod client;
mod clock;
mod cluster;
mod durability;
mod error;
mod events;
mod eviction;
mod expiry;
mod idle;
mod jobs;
mod keyload;
mod late;
mod launch;
mod load;
mod memory;
mod options;
mod plot;
mod probe;
mod process;
mod replication;
mod report;
mod scripts;
mod server;
mod sheet;
mod storm;
mod streams;
mod time;
mod tls;
mod tracking;
mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use punctual_figures::{spread, table};

use crate::error::Error;
use crate::options::{Bench, Cli};
use crate::report::Report;

/// Runs `punctual-bench` with these command-line arguments, without the program's name.
///
/// Prints tables to standard output and progress to standard error. Blocks until the end of the
/// run, which takes seconds (`--quick`) to many minutes.
///
/// # Exit code
///
/// 0 after a complete run; 1 after an error, or if `--strict` is set and a bar was missed or not
/// judged; 2 for invalid arguments; 128 + the signal's number after SIGINT, SIGTERM or SIGHUP, or
/// SIGPIPE's if the output is closed (started servers are stopped first).
///
/// # Examples
///
/// ```
/// use std::process::ExitCode;
///
/// let code = punctual_bench::run(["--help"].iter().map(Into::into));
/// assert_eq!(code, ExitCode::SUCCESS);
/// ```
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let cli =
        match Cli::try_parse_from(std::iter::once("punctual-bench".into()).chain(args.clone())) {
            Ok(cli) => cli,
            Err(error) => {
                // If the print fails, as on a closed pipe, the failure cannot be reported either.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
    if let Err(error) = cleanup::install() {
        output::print_error(format_args!(
            "punctual-bench: cannot handle signals ({error}); started servers may continue after an interrupt"
        ));
    }
    match measure(&cli, &args) {
        Ok(report) if report.strict_failure() => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(format_args!("punctual-bench: {error}"));
            ExitCode::from(1)
        }
    }
}

/// Runs the measurement that the options name.
fn measure(cli: &Cli, args: &[OsString]) -> Result<Report, Error> {
    let common = cli.command.common();
    let mut report = Report::open(&common.output, args)?;
    let programs = match &cli.command {
        // `bench time` measures this program itself, not servers.
        Bench::Time(_) => Vec::new(),
        _ => launch::programs(&common.target, &mut report.notes)?,
    };
    let out = &mut report;
    match &cli.command {
        Bench::Expiry(options) if options.storm => storm::run(options, &programs, out)?,
        Bench::Expiry(options) if options.probe => probe::run(options, &programs, out)?,
        Bench::Expiry(options) => expiry::run(options, &programs, out)?,
        Bench::Server(options) if options.memory => memory::run(options, &programs, out)?,
        Bench::Server(options) if options.idle.is_some() => idle::run(options, &programs, out)?,
        Bench::Server(options) => server::run(options, &programs, out)?,
        Bench::Blocking(common) => blocking::run(common, &programs, out)?,
        Bench::Time(common) => time::run(common, out)?,
        Bench::Snapshot(common) => background::snapshot(common, &programs, out)?,
        Bench::Durability(common) => durability::run(common, &programs, out)?,
        Bench::Replication(common) => replication::run(common, &programs, out)?,
        Bench::Eviction(common) => eviction::run(common, &programs, out)?,
        Bench::Streams(common) => streams::run(common, &programs, out)?,
        Bench::Jobs(options) => jobs::run(options, &programs, out)?,
        Bench::Tracking(common) => tracking::run(common, &programs, out)?,
        Bench::Tls(common) => tls::run(common, &programs, out)?,
        Bench::Cluster(common) => cluster::run(common, &programs, out)?,
    }
    report.close()?;
    Ok(report)
}
