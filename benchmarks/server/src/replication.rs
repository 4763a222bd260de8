//! `bench replication`: pairs of a primary and a replica.
//!
//! The servers of a pair run at the same time; pairs are measured one after the other. Primaries
//! begin a full sync at once (`repl-diskless-sync-delay 0`), and all servers publish events.

use std::time::{Duration, Instant};

use crate::background;
use crate::client::Client;
use crate::client::field;
use crate::clock::unix_micros;
use crate::durability::{PIPELINES, requests};
use crate::error::{Error, Result};
use crate::events::{Expected, Receiver};
use crate::expiry::{Entries, load_spread, patience_ms};
use crate::keyload::set_keys;
use crate::launch::{Program, Server};
use crate::load::{Generator, Load};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Column, Figures, Sheet};
use crate::workload::Template;

/// The settings of every server. The class `g` is for `del` events: a replica publishes `del` for
/// an expired key of its primary.
const SETTINGS: [(&str, &str); 2] = [
    ("repl-diskless-sync-delay", "0"),
    ("notify-keyspace-events", "Egx"),
];
/// Time limit of a full sync.
const SYNC_LIMIT: Duration = Duration::from_secs(600);
/// Delay after the last acknowledgement until the replica sleeps, so that the kernel has updated
/// its CPU time.
const SETTLE: Duration = Duration::from_millis(20);

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let parts = common.parts(&["sync", "apply", "expiry"])?;
    report.header(
        "Replicas",
        programs,
        &["one pair after the other; `a -> b`: a is the primary of b"],
    );
    if parts.contains(&"sync") {
        sync(common, programs, report)?;
    }
    if parts.contains(&"apply") {
        apply(common, programs, report)?;
    }
    if parts.contains(&"expiry") {
        expiry(common, programs, report)?;
    }
    Ok(())
}

/// Returns the wanted pairs of programs, and a column for each pair. The ratios are to the
/// pairs without Punctual.
fn pairs(
    programs: &[Program],
    wanted: fn(&Program, &Program) -> bool,
) -> (Vec<[&Program; 2]>, Vec<Column>) {
    let pairs = programs
        .iter()
        .flat_map(|from| programs.iter().map(move |to| [from, to]));
    let pairs: Vec<_> = pairs.filter(|[from, to]| wanted(from, to)).collect();
    let references: Vec<usize> = (0..pairs.len())
        .filter(|at| pairs[*at].iter().all(|program| !program.ours))
        .collect();
    let column = |[from, to]: &[&Program; 2]| Column {
        label: format!("{} -> {}", from.label, to.label),
        product: format!("{} -> {}", from.product, to.product),
        // A pair with another server than Punctual as the primary has no bar.
        ours: from.ours,
        bases: match from.ours || to.ours {
            true => references.clone(),
            false => Vec::new(),
        },
    };
    let columns = pairs.iter().map(column).collect();
    (pairs, columns)
}

/// Makes `replica` a replica of `primary`. Returns at once.
fn attach(replica: &mut Client, primary: &Server) -> Result<()> {
    let port = primary.addr.port().to_string();
    replica.expect(&["REPLICAOF", "127.0.0.1", &port]).map(drop)
}

/// Returns true if the replica's full sync has ended and its link to the primary is up. Returns an
/// error after [`SYNC_LIMIT`].
fn is_attached(replica: &mut Client, begun: Instant) -> Result<bool> {
    if begun.elapsed() > SYNC_LIMIT {
        return Err(Error::Invalid("no full sync within ten minutes".into()));
    }
    let info = replica.info("replication")?;
    Ok(field(&info, "master_link_status") == Some("up"))
}

/// Attaches a replica and blocks until the full sync has ended.
fn attach_and_wait(replica: &mut Client, primary: &Server) -> Result<()> {
    attach(replica, primary)?;
    let begun = Instant::now();
    while !is_attached(replica, begun)? {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Blocks until the replica has applied everything that was written so far.
fn wait_for_replica(client: &mut Client) -> Result<()> {
    // WAIT covers the writes of its own connection.
    client.expect(&["SET", "punctual-bench:last", "x"])?;
    match client.integer(&["WAIT", "1", "60000"])? {
        0 => Err(Error::Invalid(
            "no replica has acknowledged the writes".into(),
        )),
        _ => Ok(()),
    }
}

/// Measures a full sync of many keys: its duration, and the longest GET on the primary meanwhile.
fn sync(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let keys = common.keys(200_000, 5_000_000);
    let (pairs, columns) = pairs(programs, |_, _| true);
    let bars = [
        ("duration, s", Bar::RatioAtMost(0.7)),
        ("longest GET during it, ms", Bar::AtMost(3.0)),
    ];
    let mut sheet = Sheet::new("replication", columns);
    sheet.measure(
        report,
        &format!("full sync of {keys} keys"),
        &bars,
        common.rounds(2, 5),
        |at, _| {
            let [from, to] = pairs[at];
            let (primary, replica) = (from.start(&SETTINGS)?, to.start(&SETTINGS)?);
            set_keys(&mut primary.client()?, keys)?;
            let (mut starter, mut watcher) = (replica.client()?, replica.client()?);
            let begun = Instant::now();
            let start = || attach(&mut starter, &primary);
            let figures = background::stall(&primary, keys, false, start, || {
                is_attached(&mut watcher, begun)
            })?;
            let size = watcher.integer(&["DBSIZE"])?;
            match size.cast_unsigned() == keys {
                true => Ok(figures),
                false => Err(Error::Invalid(format!(
                    "{size} keys after a full sync of {keys}"
                ))),
            }
        },
    )?;
    sheet.show(report)?;
    Ok(())
}

/// Measures the CPU time of a replica per SET that it applies. All replicas have the same primary:
/// the last measured server other than Punctual, if there is one.
fn apply(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let (keys, set) = (100_000, Template::new(&["SET", "key:{n}", "{data}"], 32));
    let source = programs
        .iter()
        .rfind(|program| !program.ours)
        .unwrap_or(&programs[0]);
    let primary = source.start(&SETTINGS)?;
    let mut generator = Generator::connect(primary.addr, 50)?;
    let mut client = primary.client()?;
    let mut sheet = Sheet::new("replication", sheet::columns(programs));
    for pipeline in PIPELINES {
        let case = format!("replica of {}, SET, P={pipeline}", source.label);
        let bars = [("CPU, µs", Bar::RatioAtMost(0.5))];
        sheet.measure(report, &case, &bars, common.rounds(2, 5), |at, round| {
            let replica = programs[at].start(&SETTINGS)?;
            attach_and_wait(&mut replica.client()?, &primary)?;
            let requests = requests(common, pipeline);
            let mut load = Load {
                template: &set,
                pipeline,
                requests: requests / 20,
                keys: 0..keys,
                seed: u64::from(round),
                stop: None,
            };
            // The warm-up.
            generator.run(&load)?;
            load.requests = requests;
            wait_for_replica(&mut client)?;
            let ((), cpu) = replica.cpu_of(SETTLE, || {
                generator.run(&load)?;
                wait_for_replica(&mut client)
            })?;
            Ok(Figures::from([("CPU, µs", cpu * 1e6 / requests as f64)]))
        })?;
    }
    sheet.show(report)?;
    Ok(())
}

/// Measures the lateness of expired keys by the events that the replica publishes. A replica
/// removes an expired key when it receives the primary's DEL.
fn expiry(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let (keys, spread) = (common.keys(50_000, 1_000_000), common.seconds(4, 45));
    // Leaves out pairs of another server as the primary and Punctual as the replica: the primary
    // sends its DELs late, so keys expire late on every replica.
    let (pairs, mut columns) = pairs(programs, |from, to| from.ours || !to.ours);
    for (column, [_, to]) in columns.iter_mut().zip(&pairs) {
        // A pair with another server than Punctual as the replica has no bar.
        column.ours &= to.ours;
    }
    let bars = [
        ("late p99, ms", Bar::AtMost(2.0)),
        ("missing", Bar::Never(0.0)),
        ("early", Bar::Never(0.0)),
    ];
    let mut sheet = Sheet::new("replication", columns);
    sheet.measure(
        report,
        "expired keys, at the replica",
        &bars,
        1,
        |at, round| {
            let [from, to] = pairs[at];
            let (primary, replica) = (from.start(&SETTINGS)?, to.start(&SETTINGS)?);
            attach_and_wait(&mut replica.client()?, &primary)?;
            let expected = Expected {
                // The replica publishes `del`, because it executes the primary's DEL.
                event: "del",
                names: keys,
                each: 1,
                step_ms: 0,
            };
            let mut client = primary.client()?;
            // Loading takes twice as long as without a replica, which uses the same processors.
            let first_ms = load_spread(&mut client, Entries::Keys, keys, 2, spread, round)?;
            wait_for_replica(&mut client)?;
            let receiver = Receiver::subscribe(&replica, expected)?;
            if unix_micros() / 1000 >= first_ms {
                return Err(Error::Invalid(
                    "the replica took longer than expected".into(),
                ));
            }
            let late = receiver.wait(
                keys,
                first_ms + spread.as_millis() as u64 + patience_ms(common),
            )?;
            let mut figures = Figures::default();
            late.put(&mut figures);
            Ok(figures)
        },
    )?;
    sheet.show(report)?;
    Ok(())
}
