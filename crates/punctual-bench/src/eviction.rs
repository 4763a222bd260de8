//! `bench eviction`: a store at its limit of memory, and the hit rates of its policies.

mod full;
mod hits;

use crate::client::Client;
use crate::error::Result;
use crate::launch;
use crate::options::{EvictionOptions, EvictionTest};
use crate::report::{Report, describe};
use crate::stall::{field, info};
use crate::table::thousands;

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &EvictionOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "a limit of memory")?;
    notes.push(format!(
        "full store: {} keys of 16 bytes with values of 16 bytes; {} SETs of new keys, 16 in flight on each of {} connections",
        thousands(options.keys() as f64),
        thousands(options.requests() as f64),
        full::WRITERS,
    ));
    notes.push(format!(
        "{} round(s), alternating servers; medians, with (least..greatest); ratios are medians of each round's own ratio",
        options.rounds()
    ));
    notes.push("CPU: user + system time of the server's process per SET".into());
    let servers = launch::open_all(&candidates, &[])?;
    report.header(
        "Eviction: SETs into a full store, and hit rates",
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    if options.has(EvictionTest::Full) {
        full::run(options, &servers, report)?;
    }
    if options.has(EvictionTest::Hits) {
        hits::run(options, &servers, report)?;
    }
    Ok(())
}

/// Returns the bytes that a server counts for its limit.
fn used_memory(client: &mut Client) -> Result<u64> {
    number(client, "memory", "used_memory")
}

/// Returns a number of INFO, or 0 without it.
fn number(client: &mut Client, section: &str, name: &str) -> Result<u64> {
    let text = info(client, section)?;
    Ok(field(&text, name)
        .and_then(|value| value.parse().ok())
        .unwrap_or(0))
}

/// Removes all keys and the limit, and sets the policy.
fn begin(client: &mut Client, policy: &str) -> Result<()> {
    client.expect(&["CONFIG", "SET", "maxmemory", "0"])?;
    client.expect(&["CONFIG", "SET", "maxmemory-policy", policy])?;
    client.expect(&["FLUSHALL"])?;
    while number(client, "memory", "lazyfree_pending_objects")? > 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}

fn limit(client: &mut Client, bytes: u64) -> Result<()> {
    client.expect(&["CONFIG", "SET", "maxmemory", &bytes.to_string()])?;
    Ok(())
}
