//! The options of `bench tracking`.

use std::time::Duration;

use clap::Args;

use super::{Output, Target, parse_seconds};

#[derive(Debug, Args)]
pub(crate) struct TrackingOptions {
    /// Number of clients in tracking mode [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Option<u32>,
    /// Number of keys that each of them has read
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    keys: u32,
    /// Writes a second
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Duration of the writes [default: 5; quick: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl TrackingOptions {
    pub(crate) fn clients(&self) -> u32 {
        let usual = if self.output.quick { 100 } else { 1_000 };
        self.clients.unwrap_or(usual)
    }

    pub(crate) fn keys(&self) -> u32 {
        self.keys
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    pub(crate) fn seconds(&self) -> Duration {
        let usual = Duration::from_secs(if self.output.quick { 1 } else { 5 });
        self.seconds.unwrap_or(usual)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }
}
