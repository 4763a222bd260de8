//! Benchmarks of Redis-compatible servers: how late keys expire and timeouts come, what a command costs the server,
//! what a key and a connection weigh. And of the timers of a program.
//!
//! Behind `punctual bench`. Ground rules:
//!
//! - **The other side stands in the same run.** Servers are measured one after the other, never at
//!   once (the machines have few cores), and rounds are interleaved, so that a slow minute of the
//!   machine hits all of them.
//! - **Cost is the server's own CPU**, read from `/proc`. Requests per second mostly show the load
//!   generator, which shares the machine with the server.
//! - **Nothing is remembered.** Every figure printed was measured in that run; the bars beside them
//!   are constants of the module `bars` and no figure is ever derived from them.
//! - **A server that was here before us stays as it was**: settings that we change are set back,
//!   nothing is flushed unless asked for. Servers that we start live in a directory of their own
//!   and die with us.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[macro_use]
mod output;

mod bars;
mod blocking;
mod cleanup;
mod client;
mod clock;
mod cost;
mod cpu;
mod csv;
mod error;
mod events;
mod expiring;
mod idle;
mod keyload;
mod lateness;
mod launch;
mod load;
mod memory;
mod options;
mod plot;
mod process;
mod programs;
mod reader;
mod report;
mod rounds;
mod sheet;
mod snapshot;
mod storm;
mod threads;
mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use punctual_figures::{spread, table};

use crate::error::Error;
use crate::options::{Bench, Cli};
use crate::report::Report;

/// Runs `punctual bench` with the arguments that follow the word `bench`.
///
/// Prints its tables to standard output and progress to standard error. Blocks until the run is
/// over, which takes seconds (`--quick`) to many minutes.
///
/// # Exit code
///
/// 0 when the run finished; 1 when it could not be made, or when `--strict` was given and a bar
/// was missed; 2 when the arguments make no sense; 128 + the signal's number when SIGINT, SIGTERM
/// or SIGHUP ended it, or SIGPIPE's when nobody reads its output any more (servers that it started are stopped and
/// settings set back first).
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
        match Cli::try_parse_from(std::iter::once("punctual bench".into()).chain(args.clone())) {
            Ok(cli) => cli,
            Err(error) => {
                // A failed print (a closed pipe) leaves nothing better to do.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
    if let Err(error) = cleanup::install() {
        output::complain(format_args!(
            "punctual bench: signals cannot be watched ({error}); started servers may outlive an interrupt"
        ));
    }
    match measure(&cli, &args) {
        Ok(report) if report.strict_failure() => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("punctual bench: {error}"));
            ExitCode::from(1)
        }
    }
}

/// Runs the measurement that the options name.
fn measure(cli: &Cli, args: &[OsString]) -> Result<Report, Error> {
    let mut report = Report::open(cli.command.output(), args)?;
    match &cli.command {
        Bench::Expiry(options) if options.storm => storm::run(options, &mut report)?,
        Bench::Expiry(options) => lateness::run(options, &mut report)?,
        Bench::Blocking(options) => blocking::run(options, &mut report)?,
        Bench::Time(options) => programs::run(options, &mut report)?,
        Bench::Snapshot(options) => snapshot::run(options, &mut report)?,
        Bench::Server(options) if options.memory => memory::run(options, &mut report)?,
        Bench::Server(options) if options.idle.is_some() => idle::run(options, &mut report)?,
        Bench::Server(options) if !options.threads.is_empty() => {
            threads::run(options, &mut report)?
        }
        Bench::Server(options) => cpu::run(options, &mut report)?,
    }
    report.close()?;
    Ok(report)
}
