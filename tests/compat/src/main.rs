//! `punctual-compat --a 127.0.0.1:6379 --b 127.0.0.1:6380`: compares two servers with the same
//! random commands.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use punctual_compat::report::Difference;
use punctual_compat::{Addresses, Duel, DuelError, Family, Options, Oracle, Protocol};

/// Sends streams of random commands to two servers and compares every reply.
///
/// BOTH SERVERS ARE EMPTIED. A difference ends its stream, and the exit code is then 1.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The server under test
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    a: SocketAddr,
    /// The reference server; without this option, a private redis-server is started
    #[arg(long, value_name = "ADDRESS")]
    b: Option<SocketAddr>,
    /// Number of commands to send in each protocol
    #[arg(long, default_value_t = 100_000)]
    commands: u64,
    /// Seed of the first stream; without this option, a random seed is chosen and printed
    #[arg(long)]
    seed: Option<u64>,
    /// Protocol of the connections
    #[arg(long, value_enum, default_value = "both")]
    resp: Resp,
    /// Families of commands to draw from, separated by commas; a wrong name prints a list of all
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    family: Vec<Family>,
    /// Commands to omit, separated by commas, as in strlen or client|info
    #[arg(long, value_name = "COMMAND", value_delimiter = ',')]
    without: Vec<String>,
    /// Number of streams in each protocol, with consecutive seeds; of each command, only the first
    /// difference is reported
    #[arg(long, value_name = "STREAMS", default_value_t = 1)]
    streams: u64,
    /// Do not compare keyspace events (the family pubsub still has pub/sub sessions)
    #[arg(long)]
    no_events: bool,
    /// Report a difference without minimising it
    #[arg(long)]
    no_shrink: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Resp {
    #[value(name = "2")]
    Two,
    #[value(name = "3")]
    Three,
    Both,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every stream. Returns the number of streams with a difference.
fn run(arguments: &Arguments) -> Result<u64, Box<dyn std::error::Error>> {
    let oracle = if arguments.b.is_none() {
        Some(Oracle::start()?)
    } else {
        None
    };
    let b = arguments
        .b
        .or(oracle.as_ref().map(Oracle::address))
        .ok_or("no server to agree with")?;
    let addresses = Addresses { a: arguments.a, b };
    let first_seed = arguments.seed.unwrap_or_else(rand::random);
    let protocols: &[Protocol] = match arguments.resp {
        Resp::Two => &[Protocol::Resp2],
        Resp::Three => &[Protocol::Resp3],
        Resp::Both => &[Protocol::Resp2, Protocol::Resp3],
    };
    let mut differences = 0;
    let mut reported = BTreeSet::new();
    for number in 0..arguments.streams {
        let seed = first_seed.wrapping_add(number);
        println!("seed {seed}");
        for &protocol in protocols {
            let Some(difference) = stream(arguments, addresses, seed, protocol)? else {
                continue;
            };
            differences += 1;
            let command = difference
                .repro
                .last()
                .or(difference.finding.command.as_ref());
            let subject = command.map_or_else(
                || difference.finding.headline.clone(),
                |command| match command.name().as_str() {
                    name @ ("CLIENT" | "COMMAND" | "CONFIG" | "OBJECT" | "PUBSUB") => {
                        format!("{name} {}", command.word(1))
                    }
                    name => name.to_owned(),
                },
            );
            if reported.insert(subject) {
                eprintln!("{difference}");
            }
        }
    }
    if arguments.streams > 1 {
        println!("{differences} streams ended in a difference; first: {reported:?}");
    }
    Ok(differences)
}

/// Runs one stream in one protocol and prints its result.
fn stream(
    arguments: &Arguments,
    addresses: Addresses,
    seed: u64,
    protocol: Protocol,
) -> Result<Option<Difference>, Box<dyn std::error::Error>> {
    let mut options = Options::new(seed, arguments.commands, protocol);
    options.shrink = !arguments.no_shrink;
    options.events = !arguments.no_events;
    options.without = arguments.without.iter().cloned().collect();
    if !arguments.family.is_empty() {
        options.families = arguments.family.iter().copied().collect();
    }
    let style = ProgressStyle::with_template(
        "{prefix} {bar:40} {human_pos}/{human_len} commands, {per_sec}, {eta} left",
    )?;
    // The bar is shown only if standard error is a terminal.
    let bar = ProgressBar::new(arguments.commands)
        .with_style(style)
        .with_prefix(protocol.to_string());
    let started = Instant::now();
    let outcome = Duel::run(addresses, &options, |done| bar.set_position(done));
    bar.finish_and_clear();
    let summary = match outcome {
        Ok(summary) => summary,
        Err(DuelError::Differ(difference)) => return Ok(Some(*difference)),
        Err(other) => return Err(other.into()),
    };
    let families: Vec<String> = summary
        .families
        .iter()
        .map(|(family, sent)| format!("{family} {sent}"))
        .collect();
    println!("{protocol}: {}", families.join(", "));
    println!(
        "{protocol}: {} commands, {} audits of every key, {} phases of expiry ({} void), no difference; {:.1} s; \
         deadlines within {} ms, aligned after {} stalls",
        summary.commands,
        summary.audits,
        summary.expiry_phases,
        summary.void_expiry_phases,
        started.elapsed().as_secs_f64(),
        summary.tolerance_ms,
        summary.stalls
    );
    Ok(None)
}
