//! The options of `bench tls`.

use clap::Args;

use super::{Output, Target};

#[derive(Debug, Args)]
pub(crate) struct TlsOptions {
    /// GETs of each measurement [default: 1000000; quick: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    requests: Option<u64>,
    /// Seconds of new connections [default: 10; quick: 2]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Connections that send GETs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) clients: u32,
    /// Certificates with an RSA key of 2,048 bits, made by openssl, instead of P-256
    #[arg(long)]
    pub(crate) rsa: bool,
    /// Number of rounds [default: 5; quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl TlsOptions {
    fn usual<T>(&self, given: Option<T>, quick: T, full: T) -> T {
        given.unwrap_or(if self.output.quick { quick } else { full })
    }

    pub(crate) fn requests(&self) -> u64 {
        self.usual(self.requests, 100_000, 1_000_000)
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.usual(self.seconds, 2, 10)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.usual(self.rounds, 2, 5)
    }
}
