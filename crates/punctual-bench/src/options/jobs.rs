//! The options of `bench jobs`.

use std::path::PathBuf;
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
    /// BullMQ, Celery and Sidekiq on redis-server, and our clients.
    Peers,
}

impl JobsTest {
    /// The parts without other people's queues.
    pub(crate) const ALONE: [Self; 4] = [Self::Late, Self::Memory, Self::Cost, Self::Storm];
}

/// A queue and its client in the part `peers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobPeer {
    /// JOB over a connection without a client library.
    Raw,
    /// JOB with the Rust client.
    Rust,
    /// JOB with the Python client.
    Python,
    /// BullMQ on redis-server.
    Bullmq,
    /// Celery on redis-server.
    Celery,
    /// Sidekiq on redis-server.
    Sidekiq,
}

impl JobPeer {
    /// Returns true for a client of Punctual's jobs.
    pub(crate) fn ours(self) -> bool {
        matches!(self, Self::Raw | Self::Rust | Self::Python)
    }
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
    /// Queues of the part `peers`, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    peers: Vec<JobPeer>,
    /// Delayed jobs of the part `peers`, and as many that pass [default: 10000; quick: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    peer_jobs: Option<u64>,
    /// Duration in which these fall due [default: 60; quick: 6]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    peer_spread: Option<Duration>,
    /// Folder of the packages of the part `peers`, which scripts/setup job-peers makes
    #[arg(long, value_name = "DIR", default_value = "target/job-peers")]
    pub(crate) packages: PathBuf,
    /// Number of rounds, except of the part `peers`
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

    /// Returns whether a part was asked for. A server that already runs has no peers.
    pub(crate) fn has(&self, test: JobsTest) -> bool {
        let usual = self.target.addresses.is_empty() || test != JobsTest::Peers;
        self.tests.is_empty() && usual || self.tests.contains(&test)
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

    /// Returns the queues of the part `peers`.
    pub(crate) fn peers(&self) -> Vec<JobPeer> {
        match self.peers.as_slice() {
            [] => JobPeer::value_variants().to_vec(),
            given => given.to_vec(),
        }
    }

    pub(crate) fn peer_jobs(&self) -> u64 {
        self.usual(self.peer_jobs, 1_000, 10_000)
    }

    pub(crate) fn peer_spread(&self) -> Duration {
        let seconds = Duration::from_secs;
        self.usual(self.peer_spread, seconds(6), seconds(60))
    }
}
