//! The options of `bench attacks`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Output, Target, parse_seconds};

/// An attack of `bench attacks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttackTest {
    Keys,
    Lcs,
    Sort,
    Bitop,
    Setrange,
    SlowLoris,
    Unread,
    SlowSubscriber,
    Connections,
}

#[derive(Debug, Args)]
pub(crate) struct AttackOptions {
    /// Attacks to run, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    tests: Vec<AttackTest>,
    /// Duration of each attack [default: 3; quick: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    duration: Option<Duration>,
    /// Number of rounds, in which the servers alternate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl AttackOptions {
    /// Returns whether an attack was asked for.
    pub(crate) fn has(&self, test: AttackTest) -> bool {
        self.tests.is_empty() || self.tests.contains(&test)
    }

    pub(crate) fn duration(&self) -> Duration {
        let usual = if self.output.quick { 1 } else { 3 };
        self.duration.unwrap_or(Duration::from_secs(usual))
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }
}
