//! The options of `bench streams`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Output, Target, parse_seconds};

/// A part of `bench streams`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamsTest {
    /// Lateness of entries whose lease has ended, at a blocked reader.
    Lease,
    /// Lateness of entries that leave because of their age.
    Retention,
    /// CPU time and memory of consumer groups, beside redis-server.
    Groups,
    /// Time of the save and the load of a large stream, beside redis-server.
    File,
}

#[derive(Debug, Args)]
pub(crate) struct StreamsOptions {
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<StreamsTest>,
    /// Entries with a lease [default: 100000; quick: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    leased: Option<u64>,
    /// Duration in which these are delivered [default: 20; quick: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    delivery: Option<Duration>,
    /// Entries that age [default: 1000000; quick: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    aging: Option<u64>,
    /// Duration in which these leave [default: 45; quick: 5]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    spread: Option<Duration>,
    /// XREADGROUPs of ten entries, each with an XACK [default: 20000; quick: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    group_reads: Option<u64>,
    /// Entries that become pending [default: 1000000; quick: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pending: Option<u64>,
    /// Entries that are saved and loaded [default: 5000000; quick: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    file: Option<u64>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl StreamsOptions {
    fn usual<T>(&self, given: Option<T>, quick: T, full: T) -> T {
        given.unwrap_or(if self.output.quick { quick } else { full })
    }

    /// Returns whether a part was asked for.
    pub(crate) fn has(&self, test: StreamsTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    pub(crate) fn leased(&self) -> u64 {
        self.usual(self.leased, 10_000, 100_000)
    }

    pub(crate) fn delivery(&self) -> Duration {
        let seconds = Duration::from_secs;
        self.usual(self.delivery, seconds(2), seconds(20))
    }

    pub(crate) fn aging(&self) -> u64 {
        self.usual(self.aging, 100_000, 1_000_000)
    }

    pub(crate) fn spread(&self) -> Duration {
        let seconds = Duration::from_secs;
        self.usual(self.spread, seconds(5), seconds(45))
    }

    pub(crate) fn group_reads(&self) -> u64 {
        self.usual(self.group_reads, 2_000, 20_000)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.usual(self.pending, 100_000, 1_000_000)
    }

    pub(crate) fn file(&self) -> u64 {
        self.usual(self.file, 200_000, 5_000_000)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }
}
