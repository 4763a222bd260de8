//! Sends the corpus of scripts to Punctual and to a real redis-server and compares the raw replies,
//! in RESP2 and RESP3, with one event loop and with four.
//!
//! `PUNCTUAL_CORPUS=libraries` runs only the files whose names contain that text.

use std::path::Path;

use punctual_compat::corpus::{self, Entry, Verdict};
use punctual_compat::link::Pair;
use punctual_compat::{Addresses, Oracle, Protocol};
use punctual_server::Server;

/// Returns the name and the entries of every file.
fn files() -> Vec<(String, Vec<Entry>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let wanted = std::env::var("PUNCTUAL_CORPUS").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is beside the tests")
        .map(|file| {
            let path = file.expect("readable").path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let entries = corpus::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name.into_owned(), entries)
        })
        .filter(|(name, _)| name.contains(&wanted))
        .collect();
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}

/// Runs all entries for which `wanted` returns true, and panics with all differences. Calls
/// `servers` at first, and again after a server has ended, to start servers.
fn run(mut servers: impl FnMut() -> Addresses, what: &str, wanted: impl Fn(&Entry) -> bool) {
    let mut addresses = servers();
    let mut differences = Vec::new();
    let mut count = 0;
    for (file, entries) in files() {
        for entry in entries.iter().filter(|entry| wanted(entry)) {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                // Scripts that use up the memory take seconds, and the result does not depend on
                // the protocol.
                if entry.verdict == Verdict::Unsafe && protocol == Protocol::Resp3 {
                    continue;
                }
                count += 1;
                let difference = match corpus::run(entry, addresses, protocol) {
                    Ok(None) => continue,
                    Ok(Some(difference)) => difference,
                    Err(error) => {
                        format!("line {}, {protocol}: {}: {error}", entry.line, entry.name)
                    }
                };
                differences.push(format!("{file}, {difference}"));
                if Pair::connect(addresses).is_err() {
                    differences.push("  and a server has ended".to_owned());
                    addresses = servers();
                }
            }
        }
    }
    println!("{what}: {count} conversations");
    assert!(
        differences.is_empty(),
        "{what}: {} of {count} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn oracle() -> Oracle {
    Oracle::start().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn replies_are_those_of_redis() {
    for threads in [1, 4] {
        let ours = Server::builder()
            .port(0)
            .threads(threads)
            .option("enable-debug-command", "yes")
            .spawn()
            .unwrap_or_else(|error| panic!("{error}"));
        let mut redis = None;
        let servers = || Addresses {
            a: ours.addr().expect("it listens on TCP"),
            b: redis.insert(oracle()).address(),
            peer: None,
        };
        run(servers, &format!("threads {threads}"), |entry| {
            threads == 1 || entry.verdict != Verdict::Unsafe
        });
        ours.shutdown();
    }
}

/// The replies of an entry depend only on its commands.
#[test]
fn redis_agrees_with_itself() {
    let mut pair = None;
    let servers = || {
        let (a, b) = pair.insert((oracle(), oracle()));
        Addresses {
            a: a.address(),
            b: b.address(),
            peer: None,
        }
    };
    run(servers, "redis-server twice", |entry| {
        matches!(entry.verdict, Verdict::Same | Verdict::Stricter)
    });
}
