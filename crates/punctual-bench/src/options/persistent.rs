//! The options of `bench durability` and `bench replication`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Output, Target, parse_seconds};

/// The options of both.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Keys of the rewritten file, or of the full sync [default: 5000000; quick: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: Option<u64>,
    /// SETs per measurement of CPU [default: depends on the pipeline, about half a second each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Number of rounds, in which the servers alternate [default: 5; quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Common {
    pub(crate) fn keys(&self) -> u64 {
        let usual = if self.output.quick {
            200_000
        } else {
            5_000_000
        };
        self.keys.unwrap_or(usual)
    }

    pub(crate) fn requests(&self, pipeline: u32) -> u64 {
        let full = if pipeline < 32 { 500_000 } else { 1_000_000 };
        let usual = if self.output.quick { full / 4 } else { full };
        self.requests.unwrap_or(usual)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.output.quick { 2 } else { 5 })
    }
}

/// A part of `bench durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityTest {
    /// CPU per SET with appendfsync everysec.
    Everysec,
    /// SETs a second with appendfsync always, and GETs meanwhile.
    Always,
    /// The longest GET during a rewrite.
    Rewrite,
}

#[derive(Debug, Args)]
pub(crate) struct DurabilityOptions {
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<DurabilityTest>,
    /// Duration of each measurement with appendfsync always [default: 5; quick: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl DurabilityOptions {
    /// Returns whether a part was asked for.
    pub(crate) fn has(&self, test: DurabilityTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    pub(crate) fn duration(&self) -> Duration {
        let usual = if self.common.output.quick { 1 } else { 5 };
        self.duration.unwrap_or(Duration::from_secs(usual))
    }
}

/// A part of `bench replication`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplicationTest {
    /// Duration of a full sync, and the longest GET on the primary.
    Sync,
    /// CPU per SET on a replica.
    Apply,
    /// Lateness of expired keys on a replica's event stream. Takes a minute and more for each pair.
    Expiry,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicationOptions {
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<ReplicationTest>,
    /// Keys that expire [default: 1000000; quick: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    expiring: Option<u64>,
    /// Time over which their deadlines are spread [default: 45; quick: 4]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    spread: Option<Duration>,
    /// Time between the start of loading and the first deadline [default: measured, so that
    /// loading ends before it]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) lead: Option<Duration>,
    /// Time to wait for missing events after the last deadline [default: 40; quick: 6]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl ReplicationOptions {
    /// Returns whether a part was asked for.
    pub(crate) fn has(&self, test: ReplicationTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    pub(crate) fn expiring(&self) -> u64 {
        let usual = if self.common.output.quick {
            50_000
        } else {
            1_000_000
        };
        self.expiring.unwrap_or(usual)
    }

    pub(crate) fn spread(&self) -> Duration {
        let usual = if self.common.output.quick { 4 } else { 45 };
        self.spread.unwrap_or(Duration::from_secs(usual))
    }

    pub(crate) fn wait(&self) -> Duration {
        let usual = if self.common.output.quick { 6 } else { 40 };
        self.wait.unwrap_or(Duration::from_secs(usual))
    }
}
