//! The command line of `punctual-bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::{Error, Result};
use crate::workload;

const EXAMPLES: &str = "\
Examples:
  punctual-bench expiry                how late `expired` events arrive: 1M keys over 45 s
  punctual-bench expiry --storm        1M keys due in one millisecond, while a client reads
  punctual-bench expiry --fields       how late `hexpired` events arrive: 1M fields of hashes
  punctual-bench expiry --timers       how late the commands of timers are: 1M timers over 45 s
  punctual-bench server                server CPU per SET, GET, INCR; pipeline 1, 16, 64
  punctual-bench server --tests all --pipeline 16
  punctual-bench server --memory       bytes per key
  punctual-bench server --threads 1,2,4
  punctual-bench server --idle 10000

By default the `punctual` beside this program, redis-server from the PATH, and Redis 8 and Valkey 9 where
`scripts/setup peers` has put them are started for the run and measured in turn. --quick makes each run short.";

/// Measure Redis-compatible servers in one run.
#[derive(Debug, Parser)]
#[command(
    name = "punctual-bench",
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
    /// Lateness of expiry: keys with different deadlines over --seconds, or with the same
    /// deadline (--storm)
    Expiry(ExpiryOptions),
    /// Lateness of timeouts of clients (--keys) that wait in BLPOP, from one second to --seconds
    Blocking(Common),
    /// Cost of a command, a key, a thread and an idle connection
    Server(ServerOptions),
    /// Lateness of a program's sleeps and tickers, and the CPU cost of timeouts in a polling loop
    Time(Common),
    /// Latency of commands during a snapshot, and the time to load the snapshot
    Snapshot(Common),
    /// Cost of the append-only file; --tests everysec, always, rewrite
    Durability(Common),
    /// Replicas; --tests sync, apply, expiry
    Replication(Common),
    /// A store that has reached maxmemory: CPU per SET, memory, latency
    Eviction(Common),
    /// Streams: lateness of ended leases and of retention by age, cost of groups; --tests lease,
    /// retention, groups
    Streams(Common),
    /// Jobs; --tests late, storm, memory, cost, peers
    Jobs(JobsOptions),
    /// Server CPU for client-side caching: clients (--keys) that read keys, and writes that
    /// invalidate them
    Tracking(Common),
    /// Cost of encrypted commands and of new encrypted connections
    Tls(Common),
    /// Cluster mode; --tests cost, instructions, failover, reshard, bus
    Cluster(Common),
}

impl Bench {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Expiry(options) => &options.common,
            Self::Server(options) => &options.common,
            Self::Jobs(options) => &options.common,
            Self::Blocking(common)
            | Self::Time(common)
            | Self::Snapshot(common)
            | Self::Durability(common)
            | Self::Replication(common)
            | Self::Eviction(common)
            | Self::Streams(common)
            | Self::Tracking(common)
            | Self::Tls(common)
            | Self::Cluster(common) => common,
        }
    }
}

/// A server that the benchmark can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The program `punctual` beside this program, or on the PATH.
    Punctual,
    /// The program `redis-server` on the PATH, or the program of --redis.
    Redis7,
    /// The redis-server of `scripts/setup peers`.
    Redis8,
    /// The valkey-server of `scripts/setup peers`. It is started with jemalloc preloaded if the
    /// machine has that library, because the packages of distributions contain jemalloc.
    Valkey9,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which servers")]
pub(crate) struct Target {
    /// Servers to measure beside punctual, on free ports of 127.0.0.1 [default: all that are
    /// installed; with --redis only that program]
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    beside: Vec<Kind>,
    /// Servers to measure, instead of punctual and the servers of --beside
    #[arg(
        long,
        value_name = "NAMES",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "beside"
    )]
    start: Vec<Kind>,
    /// The program to start as punctual [default: beside this program, or on the PATH]
    #[arg(long = "punctual", value_name = "PATH")]
    pub(crate) punctual_path: Option<PathBuf>,
    /// The program to start as redis7, for example an older punctual
    #[arg(long = "redis", value_name = "PATH")]
    pub(crate) redis_path: Option<PathBuf>,
    /// A setting for punctual, for example threads=2; may be given several times
    #[arg(long = "punctual-option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) punctual_options: Vec<(String, String)>,
    /// A setting for the servers beside punctual, for example io-threads=2; may be given several
    /// times
    #[arg(long = "redis-option", value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) redis_options: Vec<(String, String)>,
}

impl Target {
    /// Returns the kinds of servers to start, Punctual first.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let peers = match (&*self.beside, &self.redis_path) {
            ([], Some(_)) => &[Kind::Redis7][..],
            ([], None) => &[Kind::Redis7, Kind::Redis8, Kind::Valkey9],
            (given, _) => given,
        };
        match &*self.start {
            [] => [&[Kind::Punctual], peers].concat(),
            given => given.to_vec(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// A short run (under half a minute); the bars are meant for longer runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write SVG plots into this directory, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write every figure of every round into this CSV file, one figure per line
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Append the figures that have a bar to this page, in Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
    /// Exit with status 1 if punctual misses a bar, or if the machine was too busy for a verdict
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options of every benchmark. Each benchmark has its own defaults.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to run and what to write")]
pub(crate) struct Common {
    /// Number of rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Number of keys, fields, timers, jobs, entries or clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,
    /// Duration over which deadlines are spread, or duration of a load
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Parts or commands to measure, separated by commas [default: all parts; commands with a bar]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tests: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Common {
    /// Returns `quick` for a quick run, and `full` otherwise.
    pub(crate) fn usual<T>(&self, quick: T, full: T) -> T {
        if self.output.quick { quick } else { full }
    }

    pub(crate) fn rounds(&self, quick: u32, full: u32) -> u32 {
        self.rounds.unwrap_or(self.usual(quick, full))
    }

    pub(crate) fn keys(&self, quick: u64, full: u64) -> u64 {
        self.keys.unwrap_or(self.usual(quick, full))
    }

    pub(crate) fn seconds(&self, quick: u64, full: u64) -> Duration {
        let usual = Duration::from_secs(self.usual(quick, full));
        self.seconds.unwrap_or(usual)
    }

    /// Returns the parts that `--tests` names, or all `known` parts without `--tests`.
    pub(crate) fn parts(&self, known: &[&'static str]) -> Result<Vec<&'static str>> {
        if let Some(unknown) = self
            .tests
            .iter()
            .find(|test| !known.contains(&test.as_str()))
        {
            return Err(Error::Options(format!(
                "--tests {unknown}: known are {}",
                known.join(", ")
            )));
        }
        let wanted =
            |part: &&&str| self.tests.is_empty() || self.tests.iter().any(|test| test == **part);
        Ok(known.iter().filter(wanted).copied().collect())
    }
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
    #[command(flatten)]
    pub(crate) common: Common,
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
    /// Numbers of commands in flight on each connection
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["1", "16", "64"],
          value_parser = clap::value_parser!(u32).range(1..=100_000), long_help = workload::help())]
    pub(crate) pipeline: Vec<u32>,
    /// Number of connections [default: 50; with --threads 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) clients: Option<u32>,
    /// Size of a value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) size: u32,
    /// Number of commands per measurement [default: about half a second of commands]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Number of keys, from which commands draw at random
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) keyspace: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct JobsOptions {
    /// Number of jobs that are due after the run, in the same queue as the jobs of `late`
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub(crate) pending: u64,
    /// Folder of the packages for the part `peers`, which scripts/setup job-peers creates
    #[arg(long, value_name = "DIR", default_value = "target/job-peers")]
    pub(crate) packages: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Parses a server's setting, `NAME=VALUE`.
fn parse_setting(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as name=value, for example threads=2".into()),
    }
}

/// Parses seconds, with an optional decimal point, up to a day.
fn parse_seconds(text: &str) -> std::result::Result<Duration, String> {
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
            Cli::try_parse_from(["b", "expiry", "--quick", "--keys", "77", "--seconds", "1.5"]);
        let common = &cli.unwrap().command;
        let common = common.common();
        assert_eq!(common.keys(5, 6), 77);
        assert_eq!(common.seconds(5, 6), Duration::from_millis(1500));
        assert_eq!(common.rounds(1, 3), 1);
    }

    #[test]
    fn unknown_parts_are_refused() {
        let cli = Cli::try_parse_from(["b", "streams", "--tests", "lease"]).unwrap();
        let parts = |known| cli.command.common().parts(known);
        assert_eq!(parts(&["groups", "lease"]).unwrap(), ["lease"]);
        assert!(parts(&["groups"]).is_err());
    }

    #[test]
    fn modes_exclude_each_other() {
        assert!(Cli::try_parse_from(["b", "server", "--memory", "--idle", "5"]).is_err());
        assert!(Cli::try_parse_from(["b", "expiry", "--storm", "--fields"]).is_err());
    }

    #[test]
    fn seconds_are_checked() {
        for bad in ["-1", "0", "nan", "inf", "1e9", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
