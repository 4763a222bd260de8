//! Compares Punctual with redis-server 7.0 and 8.2 and valkey-server 9.1: the same random commands,
//! in RESP2 and in RESP3, with one event loop and with four.
//!
//! `PUNCTUAL_SEED=17` runs only the streams of this seed. `PUNCTUAL_COMMANDS=500000` sets the
//! number of commands in the test of all families, and `PUNCTUAL_SCRIPTS=500000` the number of
//! commands in the test of the family `scripts`.

use std::collections::BTreeMap;
use std::env;

use punctual_compat::{Addresses, Duel, Family, Options, Oracle, Protocol};
use punctual_harness::{Peer, number};
use punctual_server::Server;

/// Seeds of every run. Outside CI, a run also uses a random seed; CI must not fail by chance.
const SEEDS: [u64; 2] = [1, 2];

/// Total number of commands in the test of all families beside redis-server 7.0. Beside each later
/// server, the test sends half as many.
const COMMANDS: u64 = 200_000;

/// Total number of commands in the test of the family `scripts`.
const SCRIPTS: u64 = 80_000;

/// Starts a Punctual server on a free port, with settings for the streams.
fn punctual(threads: usize) -> Server {
    Server::builder()
        .port(0)
        .threads(threads)
        .option("enable-debug-command", "yes")
        .spawn()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Runs one stream against a new pair of servers, so that a difference depends only on the seed.
///
/// Returns the number of commands of each family, or `None` if the peer is not installed.
fn run(peer: Peer, options: &Options, threads: usize) -> Option<BTreeMap<Family, u64>> {
    let theirs = Oracle::start_peer(peer, &[])?;
    let ours = punctual(threads);
    let mut options = options.clone();
    options.families.retain(|family| family.is_in(peer));
    let addresses = Addresses {
        a: ours.addr().expect("it listens on TCP"),
        b: theirs.address(),
        peer: Some(peer),
    };
    let summary = match Duel::run(addresses, &options, |_| {}) {
        Ok(summary) => summary,
        Err(error) => panic!(
            "A is Punctual with --threads {threads}, B is {peer}; replay with PUNCTUAL_SEED={}\n{error}",
            options.seed
        ),
    };
    println!(
        "{peer}, seed {}, {}, threads {threads}: {summary:?}",
        options.seed, options.protocol
    );
    ours.shutdown();
    Some(summary.families)
}

/// Runs streams beside a peer with all seeds, in both protocols, with one event loop and with four.
/// The streams have `commands` commands in total, of these families.
fn streams(peer: Peer, commands: u64, families: &[Family]) {
    let seeds = match number("PUNCTUAL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let fresh = env::var_os("CI").is_none().then(rand::random);
            SEEDS.into_iter().chain(fresh).collect()
        }
    };
    println!("{peer}, seeds {seeds:?}");
    let commands = commands.div_ceil(4 * seeds.len() as u64);
    let mut sent: BTreeMap<Family, u64> = BTreeMap::new();
    for seed in seeds {
        for threads in [1, 4] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let mut options = Options::new(seed, commands, protocol);
                options.families = families.iter().copied().collect();
                let Some(counts) = run(peer, &options, threads) else {
                    return;
                };
                for (family, count) in counts {
                    *sent.entry(family).or_default() += count;
                }
            }
        }
    }
    let table: Vec<String> = sent
        .iter()
        .map(|(family, count)| format!("{family} {count}"))
        .collect();
    println!("{peer}, commands of each family: {}", table.join(", "));
}

#[test]
fn replies_events_and_state_are_those_of_redis() {
    let commands = number("PUNCTUAL_COMMANDS").unwrap_or(COMMANDS);
    streams(Peer::Redis7, commands, &Family::ALL);
}

#[test]
fn replies_events_and_state_are_those_of_later_servers() {
    let commands = number("PUNCTUAL_COMMANDS").unwrap_or(COMMANDS / 2);
    for peer in [Peer::Redis8, Peer::Valkey9] {
        streams(peer, commands, &Family::ALL);
    }
}

#[test]
fn scripts_and_functions_are_those_of_redis() {
    let commands = number("PUNCTUAL_SCRIPTS").unwrap_or(SCRIPTS);
    streams(Peer::Redis7, commands, &[Family::Scripts]);
}
