//! The options of `bench jobs`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Output, Target, parse_seconds};

/// A part of `bench jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobsTest {
    /// Lateness of delayed jobs at a worker that waits.
    Late,
    /// Memory of delayed jobs.
    Memory,
    /// CPU time of a job from its addition to its acknowledgement.
    Cost,
    /// Time until all delayed jobs, due in the same millisecond, are done, and GETs of another client meanwhile.
    Storm,
}

#[derive(Debug, Args)]
pub(crate) struct JobsOptions {
    /// Parts to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<JobsTest>,
    /// Delayed jobs [default: 1000000; quick: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    delayed: Option<u64>,
    /// Jobs that are due in some hours, in the same queue as those of `late`
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    pub(crate) pending: u64,
    /// Duration in which the delayed jobs fall due [default: 45; quick: 4]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    spread: Option<Duration>,
    /// Jobs that are added, taken and acknowledged [default: 1000000; quick: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    passing: Option<u64>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl JobsOptions {
    fn usual<T>(&self, given: Option<T>, quick: T, full: T) -> T {
        given.unwrap_or(if self.output.quick { quick } else { full })
    }

    /// Returns whether a part was asked for.
    pub(crate) fn has(&self, test: JobsTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    pub(crate) fn delayed(&self) -> u64 {
        self.usual(self.delayed, 50_000, 1_000_000)
    }

    pub(crate) fn spread(&self) -> Duration {
        let seconds = Duration::from_secs;
        self.usual(self.spread, seconds(4), seconds(45))
    }

    pub(crate) fn passing(&self) -> u64 {
        self.usual(self.passing, 100_000, 1_000_000)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }
}
