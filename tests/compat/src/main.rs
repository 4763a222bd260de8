//! `punctual-compat`: compares Punctual and servers of other projects with the same random
//! commands.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use punctual_compat::report::Difference;
use punctual_compat::{Addresses, Duel, DuelError, Family, Options, Oracle, Protocol};
use punctual_harness::Peer;

/// Sends streams of random commands to two servers and compares every reply.
///
/// Each reference server gets the families of commands that its version has. SERVERS GIVEN BY --a
/// AND --b ARE EMPTIED. A difference ends its stream, and the exit code is then 1.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The server under test; without this option, the `punctual` beside this program is started
    #[arg(long, value_name = "ADDRESS")]
    a: Option<SocketAddr>,
    /// A running reference server
    #[arg(long, value_name = "ADDRESS", conflicts_with = "beside")]
    b: Option<SocketAddr>,
    /// Reference servers to start, separated by commas: redis7, redis8, valkey9; without this
    /// option and --b, all that are installed
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    beside: Vec<Peer>,
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

/// The servers of a comparison. Private servers end with this value.
struct Servers {
    addresses: Addresses,
    _private: [Option<Oracle>; 2],
}

impl Servers {
    /// Starts the private servers. Returns `None` if the peer is not installed.
    fn start(
        arguments: &Arguments,
        peer: Option<Peer>,
    ) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        let ours = match arguments.a {
            Some(_) => None,
            None => Some(Oracle::start_program(&beside_this_program()?, &[])?),
        };
        let theirs = match peer {
            Some(peer) => match Oracle::start_peer(peer, &[]) {
                None => return Ok(None),
                started => started,
            },
            None => None,
        };
        let address = |given: Option<SocketAddr>, private: &Option<Oracle>| {
            let address = given.or(private.as_ref().map(Oracle::address));
            address.ok_or("no server to compare with")
        };
        Ok(Some(Self {
            addresses: Addresses {
                a: address(arguments.a, &ours)?,
                b: address(arguments.b, &theirs)?,
                peer,
            },
            _private: [ours, theirs],
        }))
    }
}

/// Returns the path of the `punctual` in the folder of this program.
fn beside_this_program() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("punctual"))
}

/// Runs every stream beside every reference server. Returns the number of streams with a
/// difference.
fn run(arguments: &Arguments) -> Result<u64, Box<dyn std::error::Error>> {
    let first_seed = arguments.seed.unwrap_or_else(rand::random);
    let peers = match (&arguments.b, &arguments.beside[..]) {
        (Some(_), _) => vec![None],
        (None, []) => Peer::ALL.map(Some).into(),
        (None, peers) => peers.iter().copied().map(Some).collect(),
    };
    let mut differences = 0;
    for peer in peers {
        differences += beside(arguments, peer, first_seed)?;
    }
    Ok(differences)
}

/// Runs every stream beside one reference server, or beside `--b`.
fn beside(
    arguments: &Arguments,
    peer: Option<Peer>,
    first_seed: u64,
) -> Result<u64, Box<dyn std::error::Error>> {
    let Some(servers) = Servers::start(arguments, peer)? else {
        return Ok(0);
    };
    let name = peer.map_or("the server of --b", Peer::name);
    let protocols: &[Protocol] = match arguments.resp {
        Resp::Two => &[Protocol::Resp2],
        Resp::Three => &[Protocol::Resp3],
        Resp::Both => &[Protocol::Resp2, Protocol::Resp3],
    };
    let mut differences = 0;
    let mut reported = BTreeSet::new();
    for number in 0..arguments.streams {
        let seed = first_seed.wrapping_add(number);
        println!("beside {name}, seed {seed}");
        for &protocol in protocols {
            let Some(difference) = stream(arguments, &servers, seed, protocol)? else {
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
                eprintln!("beside {name}: {difference}");
            }
        }
    }
    if arguments.streams > 1 {
        println!("beside {name}: {differences} streams ended in a difference; first: {reported:?}");
    }
    Ok(differences)
}

/// Runs one stream in one protocol and prints its result.
fn stream(
    arguments: &Arguments,
    servers: &Servers,
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
    if let Some(peer) = servers.addresses.peer {
        options.families.retain(|family| family.is_in(peer));
        if options.families.is_empty() {
            return Ok(None);
        }
    }
    let style = ProgressStyle::with_template(
        "{prefix} {bar:40} {human_pos}/{human_len} commands, {per_sec}, {eta} left",
    )?;
    // The bar is shown only if standard error is a terminal.
    let bar = ProgressBar::new(arguments.commands)
        .with_style(style)
        .with_prefix(protocol.to_string());
    let started = Instant::now();
    let outcome = Duel::run(servers.addresses, &options, |done| bar.set_position(done));
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
