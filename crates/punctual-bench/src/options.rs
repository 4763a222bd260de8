//! The command line of `punctual-bench`.

mod eviction;
mod jobs;
mod persistent;
mod streams;
mod tls;
mod tracking;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::eviction::{EvictionOptions, EvictionTest};
pub(crate) use self::jobs::{JobPeer, JobsOptions, JobsTest};
pub(crate) use self::persistent::{
    DurabilityOptions, DurabilityTest, ReplicationOptions, ReplicationTest,
};
pub(crate) use self::streams::{StreamsOptions, StreamsTest};
pub(crate) use self::tls::TlsOptions;
pub(crate) use self::tracking::TrackingOptions;
use crate::bars;
use crate::memory::Type;
use crate::workload;

const EXAMPLES: &str = "\
Examples:
  punctual-bench expiry                how late `expired` events arrive: 1M keys over 45 s
  punctual-bench expiry --storm        1M keys due in one millisecond, while a client reads
  punctual-bench expiry --fields       how late `hexpired` events arrive: 1M fields of hashes
  punctual-bench expiry --timers       how late the commands of timers are: 1M timers over 45 s
  punctual-bench blocking              how late the timeouts of 10,000 BLPOPs are
  punctual-bench server                server CPU per command
  punctual-bench server --memory       bytes per key
  punctual-bench server --threads 1,2,4
  punctual-bench server --idle 10000
  punctual-bench time                  how late a program's sleeps and tickers are, and a poller's CPU
  punctual-bench snapshot              BGSAVE of 5M keys under writes, and loading it
  punctual-bench durability            what the append-only file costs, and its rewrite of 5M keys
  punctual-bench replication           full syncs of 5M keys, a replica's CPU and its expired events
  punctual-bench tracking              what client-side caching costs: 1,000 clients x 1,000 keys
  punctual-bench eviction              SETs into a full store, and hit rates
  punctual-bench streams               how late entries are delivered again, and leave because of their age
  punctual-bench jobs                  how late delayed jobs are, and what a job costs
  punctual-bench tls                   CPU per encrypted command and per new encrypted connection

By default the `punctual` beside this program and, where it is installed, a redis-server are started for the run and
measured one after the other. --quick makes each run short; `punctual-bench expiry --help` and
`punctual-bench server --help` tell more.";

const EXPIRY_EXAMPLES: &str = "\
Examples:
  punctual-bench expiry                            1M keys over 45 s, punctual and redis-server
  punctual-bench expiry --quick                    the same in small: half a minute
  punctual-bench expiry --addr 10.0.0.7:6379       a server that already runs
  punctual-bench expiry --addr 127.0.0.1:7000 --start redis --out plots
                                                   the same beside a fresh redis-server; SVG into plots/
  punctual-bench expiry --storm                    1M keys due in one millisecond, while a client reads
  punctual-bench expiry --fields                   1M fields of 100k hashes; needs Redis 7.4's HPEXPIREAT
  punctual-bench expiry --timers                   1M timers over 45 s, deadline to `timer` event
  punctual-bench expiry --timers --storm           1M timers due in one millisecond, while a client reads

A server that already runs is given 1M keys that begin with `pb:` (they expire) and has its
notify-keyspace-events set to Ex (Eh with --fields, Eg with --timers) for the run and set back afterwards. Nothing else is touched.";

const SERVER_EXAMPLES: &str = "\
Examples:
  punctual-bench server                            CPU per SET, GET, INCR; pipeline 1, 16, 64
  punctual-bench server --tests all --pipeline 16  every command family
  punctual-bench server --tests set,get --rounds 9 --out plots --csv cpu.csv
  punctual-bench server --memory                   bytes per key
  punctual-bench server --threads 1,2,4            200 connections on 1, 2 and 4 threads
  punctual-bench server --idle 10000               what idle connections cost
  punctual-bench server --addr 127.0.0.1:7000 --addr 127.0.0.1:7001

The server's own CPU can only be read on the machine it runs on; for others the table shows
throughput and latency alone. A server that already runs keeps the keys that the tests write
(key:*, counter:*, my*), as with redis-benchmark; --flush empties its database before and after.";

/// Measure Redis-compatible servers in one run.
#[derive(Debug, Parser)]
#[command(
    name = "punctual-bench",
    bin_name = "punctual-bench",
    version,
    subcommand_required = true,
    max_term_width = 100,
    after_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Bench,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Lateness of expiry: many keys with different deadlines, or with the same one (--storm)
    #[command(after_help = EXPIRY_EXAMPLES)]
    Expiry(ExpiryOptions),
    /// Lateness of timeouts of blocked clients: many at once, with different timeouts
    Blocking(BlockingOptions),
    /// Cost of a command, a key, a thread and an idle connection
    #[command(after_help = SERVER_EXAMPLES)]
    Server(ServerOptions),
    /// Lateness of a program's sleeps and tickers, and the cost of a poller's timeouts
    Time(TimeOptions),
    /// Latency of commands during a snapshot, and the time to load the snapshot
    Snapshot(SnapshotOptions),
    /// Cost of the append-only file: CPU, fsync of every write, latency during a rewrite
    Durability(DurabilityOptions),
    /// Replicas: duration of a full sync, CPU per command, lateness of expired keys
    Replication(ReplicationOptions),
    /// A store at its limit of memory: CPU per SET, memory, latency, hit rates
    Eviction(EvictionOptions),
    /// Lateness of streams: entries whose lease or age ends
    Streams(StreamsOptions),
    /// Jobs: lateness at a worker that waits, memory, CPU
    Jobs(JobsOptions),
    /// Server CPU of client-side caching: clients that read keys, and writes that invalidate them
    Tracking(TrackingOptions),
    /// Cost of encrypted commands and of new encrypted connections
    Tls(TlsOptions),
}

impl Bench {
    pub(crate) fn output(&self) -> &Output {
        match self {
            Self::Expiry(options) => &options.output,
            Self::Tracking(options) => &options.output,
            Self::Blocking(options) => &options.output,
            Self::Server(options) => &options.output,
            Self::Time(options) => &options.output,
            Self::Snapshot(options) => &options.output,
            Self::Durability(options) => &options.common.output,
            Self::Replication(options) => &options.common.output,
            Self::Eviction(options) => &options.output,
            Self::Streams(options) => &options.output,
            Self::Jobs(options) => &options.output,
            Self::Tls(options) => &options.output,
        }
    }
}

/// A server that the benchmark can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// The `punctual` beside this program, or on the PATH.
    Punctual,
    /// The redis-server found on the PATH.
    Redis,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which servers")]
pub(crate) struct Target {
    /// A running server; may be given several times
    #[arg(long = "addr", value_name = "HOST:PORT")]
    pub(crate) addresses: Vec<String>,
    /// Servers to start for the run, on free ports of 127.0.0.1 [default: punctual,redis without
    /// --addr; none with it]
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    pub(crate) start: Vec<Program>,
    /// The program to start as punctual [default: the one beside this program, or on the PATH]
    #[arg(long = "punctual", value_name = "PATH")]
    pub(crate) punctual_path: Option<PathBuf>,
    /// The program to start as redis, for example a valkey-server
    #[arg(long = "redis", value_name = "PATH", default_value = "redis-server")]
    pub(crate) redis_path: PathBuf,
    /// A setting for the started punctual, for example threads=2; may be given several times
    #[arg(long = "punctual-option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) punctual_options: Vec<(String, String)>,
    /// A setting for the started redis, for example io-threads=2; may be given several times
    #[arg(long = "redis-option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) redis_options: Vec<(String, String)>,
    /// Password of the servers given with --addr
    #[arg(long, value_name = "PASSWORD")]
    pub(crate) password: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How to run and what to write")]
pub(crate) struct Output {
    /// A short run (under half a minute), smaller than the runs for which the bars hold
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write SVG plots into this directory, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write every measurement into this CSV file, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Exit with status 1 if punctual misses a bar, or if the machine was too busy to judge one
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExpiryOptions {
    /// All keys expire in the same millisecond, while a client reads continuously
    #[arg(long)]
    pub(crate) storm: bool,
    /// Expire fields of hashes instead of keys, ten per hash, with different deadlines
    #[arg(long, conflicts_with = "storm")]
    pub(crate) fields: bool,
    /// Fire timers instead of expiring keys; each does an INCR of one counter
    #[arg(long, conflicts_with_all = ["fields", "probe"])]
    pub(crate) timers: bool,
    /// Expire 1,000 keys among 0, 10k, 100k and 1M keys whose deadlines are a day away
    #[arg(long, conflicts_with_all = ["storm", "fields"])]
    pub(crate) probe: bool,
    /// Number of keys or fields; with --probe, the most others [default: 1000000; quick: 50000, with
    /// --storm 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,
    /// Time over which the deadlines are spread [default: 45, with --probe 5; quick: 4]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "storm")]
    spread: Option<Duration>,
    /// Time to wait for missing events after the last deadline [default: 40, with --probe 10;
    /// quick: 6]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    wait: Option<Duration>,
    /// Time between the start of loading and the first deadline [default: measured, so that
    /// loading ends before it]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) lead: Option<Duration>,
    /// Number of rounds [default: 1; with --storm 3, quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Number of connections that read during the storm
    #[arg(long, value_name = "N", default_value_t = 1, requires = "storm",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) readers: u32,
    /// Also send the expired events to a subscriber during the storm, and count them
    #[arg(long, requires = "storm")]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl ExpiryOptions {
    pub(crate) fn keys(&self) -> u64 {
        self.keys.unwrap_or(match (self.output.quick, self.storm) {
            (false, _) => 1_000_000,
            (true, false) => 50_000,
            (true, true) => 200_000,
        })
    }

    pub(crate) fn spread(&self) -> Duration {
        let seconds = match (self.output.quick, self.probe) {
            (true, _) => 4,
            (false, true) => 5,
            (false, false) => 45,
        };
        self.spread.unwrap_or(Duration::from_secs(seconds))
    }

    pub(crate) fn wait(&self) -> Duration {
        let seconds = match (self.output.quick, self.probe) {
            (true, _) => 6,
            (false, true) => 10,
            (false, false) => 40,
        };
        self.wait.unwrap_or(Duration::from_secs(seconds))
    }

    /// Returns true for 1M keys over 45 s, the load of the bar for the server's CPU time.
    pub(crate) fn is_full(&self) -> bool {
        !self.fields
            && !self.timers
            && self.keys() == 1_000_000
            && self.spread() == Duration::from_secs(45)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.storm && !self.output.quick {
            3
        } else {
            1
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct BlockingOptions {
    /// Number of clients that wait at the same time [default: 10000; quick: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: Option<u32>,
    /// The shortest timeout
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    least: Duration,
    /// The longest timeout [default: 10; quick: 3]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    greatest: Option<Duration>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl BlockingOptions {
    pub(crate) fn clients(&self) -> u32 {
        let usual = if self.output.quick { 1_000 } else { 10_000 };
        self.clients.unwrap_or(usual)
    }

    /// Returns the shortest and the longest timeout.
    pub(crate) fn timeouts(&self) -> (Duration, Duration) {
        let usual = Duration::from_secs(if self.output.quick { 3 } else { 10 });
        let greatest = self.greatest.unwrap_or(usual);
        (self.least.min(greatest), greatest)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[derive(Debug, Args)]
pub(crate) struct TimeOptions {
    /// Duration of the measurement of lateness [default: 60; quick: 5]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    lateness: Option<Duration>,
    /// Duration of the poller, both without and with timeouts [default: 30; quick: 4]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    poller: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl TimeOptions {
    pub(crate) fn lateness(&self) -> Duration {
        let usual = if self.output.quick { 5 } else { 60 };
        self.lateness.unwrap_or(Duration::from_secs(usual))
    }

    pub(crate) fn poller(&self) -> Duration {
        let usual = if self.output.quick { 4 } else { 30 };
        self.poller.unwrap_or(Duration::from_secs(usual))
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// Measure resident bytes per key and per member of collections, on a fresh server each time
    #[arg(long, group = "mode")]
    pub(crate) memory: bool,
    /// Measure these numbers of threads (redis: io-threads) under 200 connections
    #[arg(long, group = "mode", value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) threads: Vec<u32>,
    /// Open this number of idle connections and measure their cost
    #[arg(long, group = "mode", value_name = "CONNECTIONS",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) idle: Option<u32>,
    /// Commands to measure, or `all` [default: set,get,incr; with --threads the
    /// commands that have a bar]
    #[arg(long, value_name = "LIST", value_delimiter = ',', long_help = workload::help())]
    tests: Vec<String>,
    /// Commands in flight on each connection [default: 1,16,64]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pipeline: Vec<u32>,
    /// Number of connections [default: 50; with --threads 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    clients: Option<u32>,
    /// Size of a value [default: 32; with --memory 16]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    size: Option<u32>,
    /// Commands per measurement [default: depends on the pipeline, about half a second each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Number of rounds, in which the servers alternate [default: 5; quick: 3;
    /// with --memory 3, quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Number of keys, drawn at random
    #[arg(long, value_name = "N", default_value_t = 100_000, conflicts_with = "single_key",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    keyspace: u64,
    /// Use one key for all commands, as redis-benchmark without -r
    #[arg(long)]
    single_key: bool,
    /// Types to load with --memory, separated by commas [default: all]
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        requires = "memory"
    )]
    types: Vec<Type>,
    /// Keys, members or items to load with --memory [default: 1000000; quick: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,
    /// Threads of the load generator, over which the connections are distributed
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) generators: u32,
    /// Empty the database (FLUSHALL) of servers given with --addr, before and after
    #[arg(long, requires = "addresses")]
    pub(crate) flush: bool,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl ServerOptions {
    /// Returns the names given with `--tests`, or this mode's defaults.
    pub(crate) fn tests(&self) -> Vec<&str> {
        match (self.tests.as_slice(), self.threads.as_slice()) {
            ([], []) => vec!["set", "get", "incr"],
            ([], _) => [&bars::LOOPS_TESTS[..], &bars::CONTENDED_TESTS].concat(),
            (given, _) => given.iter().map(String::as_str).collect(),
        }
    }

    pub(crate) fn pipeline(&self) -> Vec<u32> {
        match self.pipeline.as_slice() {
            [] => vec![1, 16, 64],
            given => given.to_vec(),
        }
    }

    pub(crate) fn clients(&self) -> u32 {
        self.clients
            .unwrap_or(if self.threads.is_empty() { 50 } else { 200 })
    }

    pub(crate) fn size(&self) -> usize {
        self.size.unwrap_or(if self.memory { 16 } else { 32 }) as usize
    }

    /// Returns the number of commands per measurement at this pipeline depth.
    pub(crate) fn requests(&self, pipeline: u32) -> u64 {
        self.requests.unwrap_or_else(|| {
            let full = match pipeline {
                0..=3 => 60_000,
                4..=31 => 500_000,
                _ => 1_000_000,
            };
            if self.output.quick { full / 4 } else { full }
        })
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
            .unwrap_or(match (self.memory, self.output.quick) {
                (false, false) => 5,
                (true, true) => 1,
                _ => 3,
            })
    }

    /// Returns the types that `--memory` loads; empty for all.
    pub(crate) fn types(&self) -> &[Type] {
        &self.types
    }

    /// Returns the number of keys from which keys are drawn; `None` for a single key.
    pub(crate) fn keyspace(&self) -> Option<u64> {
        (!self.single_key).then_some(self.keyspace)
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keys.unwrap_or(if self.output.quick {
            200_000
        } else {
            1_000_000
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotOptions {
    /// Keys in the snapshot [default: 5000000; quick: 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,
    /// Number of starts of each server with the file [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl SnapshotOptions {
    pub(crate) fn keys(&self) -> u64 {
        let default = if self.output.quick {
            500_000
        } else {
            5_000_000
        };
        self.keys.unwrap_or(default)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.output.quick { 1 } else { 3 })
    }
}

/// Parses a server's setting, `NAME=VALUE`.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as name=value, for example threads=2".into()),
    }
}

/// Parses seconds, with an optional decimal point, up to a day.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("must be between 0.001 and 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn given_numbers_win_over_quick() {
        let cli =
            Cli::try_parse_from(["b", "expiry", "--quick", "--keys", "77", "--spread", "1.5"])
                .unwrap();
        let Bench::Expiry(options) = cli.command else {
            panic!("expiry expected")
        };
        assert_eq!(options.keys(), 77);
        assert_eq!(options.spread(), Duration::from_millis(1500));
        assert_eq!(options.wait(), Duration::from_secs(6));
    }

    #[test]
    fn modes_exclude_each_other() {
        assert!(Cli::try_parse_from(["b", "server", "--memory", "--idle", "5"]).is_err());
        assert!(Cli::try_parse_from(["b", "expiry", "--storm", "--spread", "5"]).is_err());
        assert!(Cli::try_parse_from(["b", "expiry", "--storm", "--fields"]).is_err());
    }

    #[test]
    fn seconds_are_checked() {
        for bad in ["-1", "0", "nan", "inf", "1e9", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
