//! A soak test: 10^9 mixed operations on one queue, each checked, and its memory too.
//!
//! ```sh
//! cargo run --release -p punctual --example soak -- --ops 1e9 --queue wheel
//! ```
//!
//! The number of timers varies between none and `--live`; every phase has its own mix of
//! operations and its own range of timeouts, from a few ticks to 2^62. These properties are checked, in
//! O(1) per operation:
//!
//! - a handle returns its own value, and is refused after its timer has left;
//! - a timer fires at its last deadline, neither early nor late, that is, not after a poll in
//!   which it was due and all due timers were taken;
//! - timers taken in one poll are in the order of deadlines, equal ones in arming order;
//! - the next deadline is that of the timer that then fires first;
//! - memory is at most twice that for the maximum number of timers since the queue was empty, plus a
//!   constant ([`BOUND`]);
//! - at the end, every armed timer was fired or cancelled.
//!
//! Every timer is checked periodically. Prints a summary, and exits with 1 after a violation.

mod crowd;

use clap::{Parser, ValueEnum};
use crowd::{Bound, Checked, Soak};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use punctual::{DeadlineQueue, Heap, Wheel};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(about = "A soak test: mixed operations on one queue, each checked, and its memory too")]
struct Options {
    /// Number of operations; firing a timer is one
    #[arg(long, default_value = "1e9", value_parser = number)]
    ops: u64,
    /// Maximum number of live timers
    #[arg(long, default_value = "1e6", value_parser = number)]
    live: u64,
    /// Seed; equal seeds run equal operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, default_value = "wheel")]
    queue: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Wheel,
    Heap,
}

/// The memory that a queue may take. A wheel may have a chunk in each of its 704 slots.
const BOUND: Bound = Bound {
    times: 2.0,
    spare: (192 << 10) as f64,
};

/// Parses 1000000, 1_000_000 or 1e6.
fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let whole = |number: f64| {
        ((0.0..1e18).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    plain
        .parse()
        .ok()
        .or_else(|| plain.parse().ok().and_then(whole))
        .ok_or_else(|| format!("{text} is no whole number: 1000000 and 1e6 are"))
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match options.queue {
        Which::Wheel => soak::<Wheel<u64>>(&options),
        Which::Heap => soak::<Heap<u64>>(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(violation) => {
            eprintln!("soak: violation: {violation}");
            eprintln!(
                "soak: --seed {} and the same --queue, --ops and --live repeat it",
                options.seed
            );
            ExitCode::FAILURE
        }
    }
}

fn soak<Q: DeadlineQueue<u64> + Default>(options: &Options) -> Checked {
    let most = options.live.clamp(1, 1 << 31);
    let bar = ProgressBar::new(options.ops);
    let style = ProgressStyle::with_template(
        "{msg} {bar:30} {human_pos} of {human_len}, {per_sec}, {eta} left",
    );
    bar.set_style(style.map_err(|error| error.to_string())?);
    let begun = Instant::now();

    let mut soak = Soak::<Q>::new(options.seed, BOUND);
    let mut phase = soak.phase(most);
    let mut steps = 0u64;
    while soak.counts.all() < options.ops {
        soak.step(&phase)?;
        steps += 1;
        if steps.is_multiple_of(64) {
            soak.check_memory()?;
        }
        if steps.is_multiple_of(1 << 18) {
            bar.set_message(format!("{:>7} timers", soak.live.len()));
            bar.set_position(soak.counts.all());
        }
        if steps.is_multiple_of(1 << 23) {
            soak.check_all()?;
        }
        if soak.now > 1 << 63 {
            soak.start_over()?;
        }
        if soak.counts.all() >= phase.ends {
            phase = soak.phase(most);
        }
    }
    soak.check_all()?;
    soak.start_over()?;
    soak.check_memory()?;
    bar.finish_and_clear();

    let (counts, took) = (&soak.counts, begun.elapsed());
    let row = |what: &str, count: u64| println!("{what:<24} {:>15}", HumanCount(count).to_string());
    println!(
        "soak of {:?}, seed {}, at most {most} timers: no violation",
        options.queue, options.seed
    );
    row("operations", counts.all());
    row("  armed", counts.armed);
    row("  cancelled", counts.cancelled);
    row("  fired", counts.fired);
    row("  re-armed later", counts.later);
    row("  re-armed earlier", counts.earlier);
    row("  looks for due ones", counts.looks);
    row("  next deadline asked", counts.asked);
    row("most timers at a time", soak.most_live as u64);
    row("times it was empty", soak.emptied);
    println!(
        "{:<24} {:>15}",
        "most memory",
        HumanBytes(soak.most_bytes as u64).to_string()
    );
    println!(
        "{:<24} {:>13.0} %  of {} x {:.1} bytes a timer and {}",
        "memory, at worst",
        100.0 * soak.worst,
        BOUND.times,
        soak.bytes_per_timer,
        HumanBytes(BOUND.spare as u64)
    );
    println!("{:<24} {:>13.0} s", "time", took.as_secs_f64());
    Ok(())
}
