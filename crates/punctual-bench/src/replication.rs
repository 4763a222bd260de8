//! `bench replication`: pairs of a primary and a replica.
//!
//! The servers of a pair run at the same time; pairs are measured one after the other. Primaries begin a full sync at once
//! (`repl-diskless-sync-delay 0`); everything else is as the programs have it by default.

mod apply;
mod expiry;
mod sync;

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::launch::{self, Candidate, Server};
use crate::options::{Program, ReplicationOptions, ReplicationTest};
use crate::report::{Report, describe};
use crate::stall::{field, info};
use punctual_figures::table::thousands;

/// The settings of every server.
const SETTINGS: [(&str, &str); 1] = [("repl-diskless-sync-delay", "0")];
/// Time limit of a full sync.
const SYNC_LIMIT: Duration = Duration::from_secs(600);
/// Interval of the checks whether a full sync has ended.
const POLL: Duration = Duration::from_millis(5);

/// Runs the benchmark and prints the report.
pub(crate) fn run(options: &ReplicationOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.common.target, "a replica")?;
    notes.push("one pair after the other; `a -> b`: a is the primary of b".into());
    notes.push(format!(
        "settings of every server: {} {}",
        SETTINGS[0].0, SETTINGS[0].1
    ));
    notes.push(format!(
        "{} round(s); medians, with (least..greatest)",
        options.common.rounds()
    ));
    let servers = launch::open_all(&candidates, &SETTINGS)?;
    report.header(
        &format!(
            "Replicas: full sync of {} keys, CPU per SET, lateness of {} expired keys",
            thousands(options.common.keys() as f64),
            thousands(options.expiring() as f64)
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let names: Vec<Name> = servers.iter().map(Name::of).collect();
    drop(servers);
    let programs: Vec<(&Candidate, Name)> = candidates.iter().zip(names).collect();
    if options.has(ReplicationTest::Sync) {
        sync::run(options, &programs, report)?;
    }
    if options.has(ReplicationTest::Apply) {
        apply::run(options, &programs, report)?;
    }
    if options.has(ReplicationTest::Expiry) {
        expiry::run(options, &programs, report)?;
    }
    Ok(())
}

/// The names of a program in tables and files.
#[derive(Debug, Clone)]
struct Name {
    label: String,
    product: String,
    ours: bool,
}

impl Name {
    fn of(server: &Server) -> Self {
        Self {
            label: server.label.clone(),
            product: server.product.clone(),
            ours: server.ours,
        }
    }
}

/// Returns the index of the redis-server, if there is one.
fn redis(programs: &[(&Candidate, Name)]) -> Option<usize> {
    let is_redis =
        |(candidate, _): &(&Candidate, Name)| candidate.program() == Some(Program::Redis);
    programs.iter().rposition(is_redis)
}

/// Makes `replica` a replica of `primary`. Returns at once.
fn attach(replica: &mut Client, primary: &Server) -> Result<()> {
    let (host, port) = (
        primary.addr.ip().to_string(),
        primary.addr.port().to_string(),
    );
    replica.expect(&["REPLICAOF", &host, &port]).map(drop)
}

/// Returns whether the replica has its primary's data and follows it.
fn is_attached(replica: &mut Client) -> Result<bool> {
    let info = info(replica, "replication")?;
    Ok(field(&info, "master_link_status") == Some("up"))
}

/// Blocks until the full sync has ended.
fn wait_until_attached(server: &Server, replica: &mut Client) -> Result<()> {
    let begun = Instant::now();
    while !is_attached(replica)? {
        check_limit(server, begun)?;
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Returns an error if a full sync that began then takes too long.
fn check_limit(server: &Server, begun: Instant) -> Result<()> {
    if begun.elapsed() < SYNC_LIMIT {
        return Ok(());
    }
    Err(Error::Refused {
        addr: server.addr,
        command: "REPLICAOF".into(),
        answer: format!("no full sync within {} s", SYNC_LIMIT.as_secs()),
    })
}

/// Blocks until the replica has acknowledged everything that the primary's client has written.
fn wait_for_replica(primary: &Server, client: &mut Client) -> Result<()> {
    let replicas = client.integer(&["WAIT", "1", "60000"])?;
    if replicas >= 1 {
        return Ok(());
    }
    Err(Error::Refused {
        addr: primary.addr,
        command: "WAIT 1 60000".into(),
        answer: "no replica has acknowledged the writes".into(),
    })
}
