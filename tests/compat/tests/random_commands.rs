//! Compares Punctual with a real redis-server: the same random commands, in RESP2 and in RESP3,
//! with one event loop and with four.
//!
//! `PUNCTUAL_SEED=17` runs only the streams of this seed. `PUNCTUAL_COMMANDS=500000` sets the
//! number of commands in the test of all families, and `PUNCTUAL_SCRIPTS=500000` the number of
//! commands in the test of the family `scripts`.

use std::collections::BTreeMap;
use std::env;

use punctual_compat::{Addresses, Duel, Family, Options, Oracle, Protocol};
use punctual_harness::number;
use punctual_server::Server;

/// Seeds of every run. Outside CI, a run also uses a random seed; CI must not fail by chance.
const SEEDS: [u64; 2] = [1, 2];

/// Total number of commands in the test of all families.
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
/// Returns the number of commands of each family.
fn run(options: &Options, threads: usize) -> BTreeMap<Family, u64> {
    let ours = punctual(threads);
    let redis = Oracle::start().unwrap_or_else(|error| panic!("{error}"));
    let mut options = options.clone();
    if redis.version() < (7, 4) {
        options.families.remove(&Family::Fields);
    }
    let addresses = Addresses {
        a: ours.addr().expect("it listens on TCP"),
        b: redis.address(),
        peer: None,
    };
    let summary = match Duel::run(addresses, &options, |_| {}) {
        Ok(summary) => summary,
        Err(error) => panic!(
            "A is Punctual with --threads {threads}, B is redis-server; replay with PUNCTUAL_SEED={}\n{error}",
            options.seed
        ),
    };
    println!(
        "seed {}, {}, threads {threads}: {summary:?}",
        options.seed, options.protocol
    );
    ours.shutdown();
    summary.families
}

/// Runs streams with all seeds, in both protocols, with one event loop and with four. The streams
/// have `commands` commands in total, of these families.
fn streams(commands: u64, families: Option<&[Family]>) {
    let seeds = match number("PUNCTUAL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let fresh = env::var_os("CI").is_none().then(rand::random);
            SEEDS.into_iter().chain(fresh).collect()
        }
    };
    println!("seeds {seeds:?}");
    let commands = commands.div_ceil(4 * seeds.len() as u64);
    let mut sent: BTreeMap<Family, u64> = BTreeMap::new();
    for seed in seeds {
        for threads in [1, 4] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let mut options = Options::new(seed, commands, protocol);
                if let Some(families) = families {
                    options.families = families.iter().copied().collect();
                }
                for (family, count) in run(&options, threads) {
                    *sent.entry(family).or_default() += count;
                }
            }
        }
    }
    let table: Vec<String> = sent
        .iter()
        .map(|(family, count)| format!("{family} {count}"))
        .collect();
    println!("commands of each family: {}", table.join(", "));
}

#[test]
fn replies_events_and_state_are_those_of_redis() {
    streams(number("PUNCTUAL_COMMANDS").unwrap_or(COMMANDS), None);
}

#[test]
fn scripts_and_functions_are_those_of_redis() {
    let commands = number("PUNCTUAL_SCRIPTS").unwrap_or(SCRIPTS);
    streams(commands, Some(&[Family::Scripts]));
}
