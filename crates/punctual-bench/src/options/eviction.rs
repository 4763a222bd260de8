//! The options of `bench eviction`.

use clap::{Args, ValueEnum};

use super::{Output, Target};

/// A part of `bench eviction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictionTest {
    /// CPU per SET into a full store, its memory, and the latency of GETs, for each policy.
    Full,
    /// Hit rates of traces.
    Hits,
}

#[derive(Debug, Args)]
pub(crate) struct EvictionOptions {
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<EvictionTest>,
    /// Policies of the full store, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policies: Vec<String>,
    /// Keys of the full store; a trace has as many different keys, of which a tenth fits [default: 1000000; quick: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    keys: Option<u64>,
    /// SETs per measurement of CPU [default: 500000; quick: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..))]
    requests: Option<u64>,
    /// Length of a trace [default: 3000000; quick: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..))]
    trace: Option<u64>,
    /// Number of rounds of the full store, in which the servers alternate [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl EvictionOptions {
    fn usual<T>(&self, given: Option<T>, quick: T, full: T) -> T {
        given.unwrap_or(if self.output.quick { quick } else { full })
    }

    /// Returns whether a part was asked for.
    pub(crate) fn has(&self, test: EvictionTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    /// Returns whether the full store is measured with a policy.
    pub(crate) fn has_policy(&self, policy: &str) -> bool {
        self.policies.is_empty() || self.policies.iter().any(|name| name == policy)
    }

    pub(crate) fn keys(&self) -> u64 {
        self.usual(self.keys, 50_000, 1_000_000)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.usual(self.requests, 50_000, 500_000)
    }

    pub(crate) fn trace(&self) -> u64 {
        self.usual(self.trace, 200_000, 3_000_000)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.usual(self.rounds, 1, 3)
    }
}
