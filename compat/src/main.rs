//! `punctual-compat --a 127.0.0.1:6379 --b 127.0.0.1:6380`: the same random commands to two servers.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use punctual_compat::{Addresses, Duel, Family, Options, Oracle, Protocol};

/// Sends streams of random commands to two servers and compares every reply.
///
/// BOTH SERVERS ARE EMPTIED. The first difference ends the run with exit code 1.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The server under test
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    a: SocketAddr,
    /// The server to agree with; a private redis-server is started if none is given
    #[arg(long, value_name = "ADDRESS")]
    b: Option<SocketAddr>,
    /// How many commands to send in each protocol
    #[arg(long, default_value_t = 100_000)]
    commands: u64,
    /// Replays the stream of this seed; a fresh one is drawn and printed if none is given
    #[arg(long)]
    seed: Option<u64>,
    /// Which protocol the connections speak
    #[arg(long, value_enum, default_value = "both")]
    resp: Resp,
    /// Families to draw from, separated by commas: strings, keys, expiry, server, connection, pubsub, errors, wire
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    family: Vec<Family>,
    /// Report a difference as it was found, without looking for a small way to see it again
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
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
    let seed = arguments.seed.unwrap_or_else(rand::random);
    let protocols: &[Protocol] = match arguments.resp {
        Resp::Two => &[Protocol::Resp2],
        Resp::Three => &[Protocol::Resp3],
        Resp::Both => &[Protocol::Resp2, Protocol::Resp3],
    };
    println!("seed {seed}");
    for &protocol in protocols {
        let mut options = Options::new(seed, arguments.commands, protocol);
        options.shrink = !arguments.no_shrink;
        if !arguments.family.is_empty() {
            options.families = arguments.family.iter().copied().collect();
        }
        let style = ProgressStyle::with_template(
            "{prefix} {bar:40} {human_pos}/{human_len} commands, {per_sec}, {eta} left",
        )?;
        // Shown only if standard error is a terminal.
        let bar = ProgressBar::new(arguments.commands)
            .with_style(style)
            .with_prefix(protocol.to_string());
        let started = std::time::Instant::now();
        let summary = Duel::run(addresses, &options, |done| bar.set_position(done));
        bar.finish_and_clear();
        let summary = summary?;
        println!(
            "{protocol}: {} commands, {} audits of every key, {} phases of expiry ({} void), no difference; {:.1} s; deadlines within {} ms",
            summary.commands,
            summary.audits,
            summary.lapses,
            summary.lapses_void,
            started.elapsed().as_secs_f64(),
            summary.tolerance_ms
        );
    }
    Ok(())
}
