//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::workload::Workload;

/// Timers side by side: Punctual's queues and other people's in one run.
///
/// In each round every contender has its turn, with the same random numbers, in an order that
/// rotates; figures are medians of the rounds' CPU time, beside them the middle half of the rounds
/// and the ratio to the best peer that is exact. One tick is one microsecond. On two cores at
/// 2-3 GHz the default run takes about 20 minutes; --quick less than two; 10M timers are measured
/// only if asked for (--sizes 10M), which takes about an hour and 3 GB of memory.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Options {
    #[command(subcommand)]
    pub what: Option<What>,
    #[command(flatten)]
    pub field: Field,
}

/// Instead of comparing the field.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Lists the contenders
    List,
    /// Compares futures: sleep and timeout of punctual, tokio, pingora-timeout, futures-timer
    Timeouts {
        /// Only what has one of these in its name: ready, pending-once, sleep-1m, rate-1m, rate-1k
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Tries who keeps to the time, and times nothing
    Check,
}

/// What to measure, and how.
#[derive(Args, Debug)]
pub struct Field {
    /// Numbers of timers, for example 10,1k,100k,10M [default: 1,10,1k,100k,1M; with --quick
    /// 1,10,1k,100k]
    #[arg(long, value_delimiter = ',', value_parser = size, global = true)]
    pub sizes: Vec<usize>,
    /// What to do with them [default: all]
    #[arg(long = "workload", value_enum, value_delimiter = ',', global = true)]
    pub workloads: Vec<Workload>,
    /// Only contenders whose name contains one of these [default: all]
    #[arg(long = "contender", value_delimiter = ',', global = true)]
    pub contenders: Vec<String>,
    /// Rounds that count, after one that does not [default: 9 for few timers, 3 for 10M]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), global = true)]
    pub rounds: Option<u32>,
    /// Fewer timers, fewer rounds, shorter ones
    #[arg(long, global = true)]
    pub quick: bool,
    /// Where plots and the table of rounds (CSV) go; without it they are not written
    #[arg(long, value_name = "DIR", global = true)]
    pub out: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, global = true)]
    pub seed: u64,
}

/// A number with or without k or M.
fn size(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "write a whole number, as 500, 10k or 2M".to_owned())?;
    match number.checked_mul(factor) {
        Some(size @ 1..=100_000_000) => Ok(size),
        _ => Err("from 1 to 100M timers".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_are_well_formed() {
        Options::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(size("10"), Ok(10));
        assert_eq!(size("100k"), Ok(100_000));
        assert_eq!(size("10M"), Ok(10_000_000));
        assert!(size("0").is_err() && size("x").is_err() && size("1000M").is_err());
        assert!(size("99999999999999999M").is_err());
    }
}
