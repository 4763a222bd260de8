//! The cost of timers for a QUIC server: the same job on tokio's timers and on Punctual's, alternately.
//!
//!     cargo run --release -p punctual-quinn --example quic_timers -- --help

mod job;
mod metered;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use punctual_quinn::Stats;

use crate::job::{Failure, Job, Measurement, Outcome, Timers};
use crate::metered::Meter;

/// QUIC over loopback on quinn, with its timers on tokio and on Punctual, alternately, in one process.
///
/// Server and clients share one thread. Each round runs the whole job once with each: connections, transfers,
/// sequential requests on every connection, and idling with keep-alives. Prints medians over the rounds.
///
/// "calls ms" is the time within quinn's calls to create, reset, poll and drop timers, measured by the
/// same wrapper around both. "driver ms" is the task that fires Punctual's timers, including waking tasks.
/// tokio fires its timers while it parks its thread, which cannot be measured separately, so tokio's share
/// is a lower bound. "CPU" is the CPU time of the whole process; share.py beside this program finds the share
/// of both by sampling stacks.
#[derive(Debug, Parser)]
struct Options {
    /// Numbers of connections; each gets a table
    #[arg(long, value_delimiter = ',', default_value = "1,1000", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,

    /// Number of rounds of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,

    /// MiB transferred in total
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    transfer_mib: u32,

    /// Number of requests in total
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,

    /// Time in which the connections only keep themselves alive, in milliseconds
    #[arg(long, default_value_t = 1_000)]
    idle_ms: u32,

    /// Time between two keep-alives of a connection, in milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    keep_alive_ms: u32,

    /// Run only one of the two, without a table, for profilers
    #[arg(long)]
    only: Option<Timers>,

    /// Run one round with a tenth of the work
    #[arg(long)]
    quick: bool,
}

impl Options {
    fn job(&self, connections: u32) -> Job {
        let tenth = if self.quick { 10 } else { 1 };
        let transfer = u64::from(self.transfer_mib) * (1 << 20) / tenth;
        let requests = u64::from(self.requests) / tenth;
        Job {
            connections: connections as usize,
            transfer: transfer / u64::from(connections),
            requests: (requests / u64::from(connections)).max(1) as usize,
            idle: Duration::from_millis(u64::from(self.idle_ms)),
            keep_alive: Duration::from_millis(u64::from(self.keep_alive_ms)),
        }
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let meter = Arc::new(Meter::new());
    for &connections in &options.connections {
        let job = options.job(connections);
        let rounds = if options.quick { 1 } else { options.rounds };
        let (mut tokio, mut punctual) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Alternates which one runs first.
            let mut order = [Timers::Tokio, Timers::Punctual];
            if round % 2 == 1 {
                order.reverse();
            }
            for timers in order {
                if options.only.is_some_and(|only| only != timers) {
                    continue;
                }
                let outcome = job::run(job, timers, &meter)?;
                match timers {
                    Timers::Tokio => tokio.push(outcome),
                    Timers::Punctual => punctual.push(outcome),
                }
            }
        }
        if options.only.is_none() {
            report(&job, &tokio, &punctual);
        }
    }
    Ok(())
}

fn report(job: &Job, tokio: &[Outcome], punctual: &[Outcome]) {
    let connections = job.connections as f64;
    println!(
        "\n{} connection{}, medians of {} rounds",
        job.connections,
        if job.connections == 1 { "" } else { "s" },
        tokio.len(),
    );
    println!(
        "{:10} {:9} {:>9} {:>14} {:>9} {:>11} {:>8} {:>9} {:>9} {:>8}",
        "",
        "timers",
        "wall ms",
        "rate",
        "CPU ms",
        "timer calls",
        "ns each",
        "calls ms",
        "driver ms",
        "of CPU",
    );
    type Part = (
        &'static str,
        fn(&Outcome) -> &Measurement,
        f64,
        &'static str,
    );
    let parts: [Part; 4] = [
        ("connect", |outcome| &outcome.connect, connections, "/s"),
        (
            "transfer",
            |outcome| &outcome.transfer,
            connections * job.transfer as f64 / f64::from(1 << 20),
            "MiB/s",
        ),
        (
            "requests",
            |outcome| &outcome.requests,
            connections * job.requests as f64,
            "/s",
        ),
        ("idle", |outcome| &outcome.idle, 0.0, ""),
    ];
    for (name, part, amount, unit) in parts {
        for (at, (timers, outcomes)) in [("tokio", tokio), ("punctual", punctual)]
            .into_iter()
            .enumerate()
        {
            let median = |measure: fn(&Measurement) -> f64| {
                median(outcomes.iter().map(|outcome| measure(part(outcome))))
            };
            let wall = median(|spent| ms(spent.wall));
            let cpu = median(|spent| ms(spent.cpu));
            let calls = median(|spent| spent.calls as f64);
            let calls_ms = median(|spent| ms(spent.calls_time));
            let driver_ms = median(|spent| spent.stats.map_or(0.0, |stats| ms(stats.driver_time)));
            let rate = match amount {
                0.0 => String::new(),
                _ => format!("{:.0} {unit}", amount / wall * 1e3),
            };
            println!(
                "{:10} {timers:9} {wall:9.1} {rate:>14} {:9.1} {calls:11.0} {:8.1} {calls_ms:9.2} {:>9} {:7.2}%",
                if at == 0 { name } else { "" },
                cpu,
                calls_ms * 1e6 / calls.max(1.0),
                if at == 0 {
                    "?".into()
                } else {
                    format!("{driver_ms:.2}")
                },
                (calls_ms + driver_ms) / cpu * 100.0,
            );
        }
        let stats = |field: fn(&Stats) -> u64| {
            median(punctual.iter().filter_map(|outcome| {
                part(outcome)
                    .stats
                    .as_ref()
                    .map(|stats| field(stats) as f64)
            }))
        };
        println!(
            "{:10} CPU {:.3} of tokio's; arms {}, re-arms {}, fires {}, shortened sleeps {}, checks {} ({} spurious)",
            "",
            // Round by round, because the two ran side by side.
            median(
                tokio
                    .iter()
                    .zip(punctual)
                    .map(|pair| ms(part(pair.1).cpu) / ms(part(pair.0).cpu))
            ),
            stats(|stats| stats.arms),
            stats(|stats| stats.rearms),
            stats(|stats| stats.fires),
            stats(|stats| stats.hurries),
            stats(|stats| stats.turns),
            stats(|stats| stats.spurious),
        );
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
