//! `bench cluster`: what cluster mode costs, how long a failover takes, and how long a reshard.
//!
//! - *cost*: one node that owns all slots, beside the same program without cluster mode.
//! - *instructions*: the same GETs, counted under Valgrind ([`instructions`]).
//! - *failover*: three primaries and one replica; from SIGKILL of its primary until the replica
//!   accepts a write.
//! - *reshard*: `redis-cli --cluster reshard` moves half of the slots to an empty node, while
//!   another client reads.
//! - *bus*: CPU time of an idle node among 99 peers ([`bus`]).

mod bus;
mod instructions;
mod peers;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, text_of};
use crate::error::{Error, Result};
use crate::keyload::set_keys;
use crate::launch::{Program, Server};
use crate::options::Common;
use crate::report::Report;
use crate::server::Bench;
use crate::sheet::{self, Bar, Column, Figures, Sheet};
use crate::table::thousands;
use crate::workload::{self, key_name};

/// `cluster-node-timeout` in ms.
const NODE_TIMEOUT: &str = "2000";
/// Time limit for a view of the cluster that all nodes share.
const AGREEMENT_LIMIT: Duration = Duration::from_secs(60);
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);
const PIPELINES: [(u32, &str); 3] = [
    (1, "GET, P=1, µs"),
    (16, "GET, P=16, µs"),
    (64, "GET, P=64, µs"),
];
const SLOTS: u32 = 16_384;
/// Time from one GET to the next one during a reshard.
const READ_INTERVAL: Duration = Duration::from_micros(500);

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let parts = common.parts(&["cost", "instructions", "failover", "reshard", "bus"])?;
    let timeout = format!("cluster-node-timeout {NODE_TIMEOUT} ms");
    report.header("Cluster mode", programs, &[&timeout]);
    if parts.contains(&"cost") {
        cost(common, programs, report)?;
    }
    if parts.contains(&"instructions") {
        instructions::run(common, programs, report)?;
    }
    if parts.contains(&"failover") {
        failover(common, programs, report)?;
    }
    if parts.contains(&"reshard") {
        reshard(common, programs, report)?;
    }
    if parts.contains(&"bus") {
        bus::run(common, programs, report)?;
    }
    Ok(())
}

/// Starts a node without slots.
fn start_node(program: &Program) -> Result<Server> {
    start_node_under(&[], program)
}

/// Same as [`start_node`], under another program.
fn start_node_under(tool: &[&str], program: &Program) -> Result<Server> {
    let bus = punctual_harness::free_port().to_string();
    let settings = [
        ("cluster-enabled", "yes"),
        ("cluster-port", &bus),
        ("cluster-node-timeout", NODE_TIMEOUT),
    ];
    program.start_under(tool, &settings)
}

/// Starts primaries that share all slots, and waits until all of them serve.
fn start_cluster(program: &Program, primaries: u32) -> Result<Vec<Server>> {
    let nodes = (0..primaries).map(|_| start_node(program));
    let nodes: Vec<Server> = nodes.collect::<Result<_>>()?;
    for (number, node) in (0..).zip(&nodes) {
        let (first, end) = (SLOTS * number / primaries, SLOTS * (number + 1) / primaries);
        let (first, last) = (first.to_string(), (end - 1).to_string());
        let mut client = node.client()?;
        client.expect(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        client.expect(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        meet(&mut client, &nodes[0])?;
    }
    wait_until_ok(&nodes)?;
    Ok(nodes)
}

fn meet(client: &mut Client, node: &Server) -> Result<()> {
    let port = node.addr.port().to_string();
    let info = node.client()?.command(&["CONFIG", "GET", "cluster-port"])?;
    let bus = info.as_slice().and_then(|pair| pair.get(1)).map(text_of);
    let bus = bus.ok_or_else(|| Error::Invalid("no cluster-port".into()))?;
    let words = ["CLUSTER", "MEET", "127.0.0.1", &port, &bus];
    client.expect(&words).map(drop)
}

/// Blocks until `holds` returns true.
fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > AGREEMENT_LIMIT {
            return Err(Error::Invalid(format!("no {what} within a minute")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(begun.elapsed())
}

fn wait_until_ok(nodes: &[Server]) -> Result<()> {
    for node in nodes {
        let mut client = node.client()?;
        wait_until("cluster that is ok", || {
            let info = client.command(&["CLUSTER", "INFO"])?;
            let known = format!("cluster_known_nodes:{}\r", nodes.len());
            let text = text_of(&info);
            Ok(text.starts_with("cluster_state:ok") && text.contains(&known))
        })?;
    }
    Ok(())
}

/// Returns two columns for each program: without and with cluster mode. The second one has the
/// ratio to the first one.
fn columns_by_mode(programs: &[Program]) -> Vec<Column> {
    let column = |(at, program): (usize, &Program)| {
        [("", Vec::new()), (" cluster", vec![2 * at])].map(|(ending, bases)| Column {
            label: format!("{}{ending}", program.label),
            product: format!("{}{ending}", program.product),
            ours: program.ours,
            bases,
        })
    };
    programs.iter().enumerate().flat_map(column).collect()
}

/// Measures GETs and the memory of keys of one node with all slots, and of the same program without
/// cluster mode.
fn cost(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let (keys, requests) = (
        common.keys(100_000, 1_000_000),
        common.usual(200_000, 1_000_000),
    );
    let mut servers = Vec::new();
    for program in programs {
        for server in [program.start(&[])?, start_cluster(program, 1)?.remove(0)] {
            let empty = server.resident()?;
            set_keys(&mut server.client()?, keys)?;
            let bytes = server.resident()?.saturating_sub(empty) as f64 / keys as f64;
            servers.push((server, bytes));
        }
    }
    let mut bars: Vec<_> = PIPELINES
        .iter()
        .map(|(_, name)| (*name, Bar::RatioAtMost(1.03)))
        .collect();
    bars.push(("bytes a key", Bar::RatioAtMost(1.03)));
    let mut sheet = Sheet::new("cluster", columns_by_mode(programs));
    let get = workload::find(&["get"])?;
    let case = format!("GETs of {} keys", thousands(keys as f64));
    sheet.measure(report, &case, &bars, common.rounds(3, 7), |at, round| {
        let (server, bytes) = &servers[at];
        let mut figures = Figures::default();
        let mut bench = Bench::open(server, 50, 16, keys, SETTLE)?;
        for (pipeline, name) in PIPELINES {
            let measured = bench.measure(get[0], pipeline, requests, u64::from(round))?;
            figures.put(name, measured.get("CPU, µs").unwrap_or(f64::NAN));
        }
        figures.put("bytes a key", *bytes);
        Ok(figures)
    })?;
    sheet.show(report)
}

/// Measures the time from SIGKILL of a primary until its replica accepts a write.
fn failover(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let bars = [("first write after, s", Bar::RatioAtMost(1.0))];
    let mut sheet = Sheet::new("cluster", sheet::columns(programs));
    let rounds = common.rounds(3, 9);
    sheet.measure(report, "a primary is killed", &bars, rounds, |at, _| {
        let mut nodes = start_cluster(&programs[at], 3)?;
        let replica = start_node(&programs[at])?;
        let mut client = replica.client()?;
        meet(&mut client, &nodes[0])?;
        nodes.push(replica);
        wait_until_ok(&nodes)?;
        let primary = nodes[0].client()?.command(&["CLUSTER", "MYID"])?;
        let primary = text_of(&primary);
        client.expect(&["CLUSTER", "REPLICATE", &primary])?;
        nodes[0].client()?.expect(&["SET", "{06S}", "x"])?;
        wait_until("replica", || {
            let info = client.info("replication")?;
            Ok(info.contains("master_link_status:up"))
        })?;
        let replicas = format!("slave {primary}");
        for node in &nodes {
            let mut client = node.client()?;
            wait_until("replica in all tables", || {
                let table = client.command(&["CLUSTER", "NODES"])?;
                Ok(text_of(&table).contains(&replicas))
            })?;
        }
        nodes[0].kill();
        let time = wait_until("failover", || {
            let reply = client.command(&["SET", "{06S}", "y"])?;
            Ok(reply.as_bytes() == Some(b"OK"))
        })?;
        Ok(Figures::from([(
            "first write after, s",
            time.as_secs_f64(),
        )]))
    })?;
    sheet.show(report)
}

/// Measures `redis-cli --cluster reshard`, and GETs meanwhile.
fn reshard(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let keys = common.keys(20_000, 1_000_000);
    let bars = [
        ("reshard, s", Bar::RatioAtMost(0.6)),
        ("longest GET, ms", Bar::AtMost(5.0)),
    ];
    let mut sheet = Sheet::new("cluster", sheet::columns(programs));
    let case = format!("half of the slots of {} keys move", thousands(keys as f64));
    sheet.measure(report, &case, &bars, common.rounds(1, 3), |at, _| {
        let mut nodes = start_cluster(&programs[at], 1)?;
        set_keys(&mut nodes[0].client()?, keys)?;
        let target = start_node(&programs[at])?;
        meet(&mut target.client()?, &nodes[0])?;
        nodes.push(target);
        wait_until_ok(&nodes)?;
        let id = |node: &Server| -> Result<String> {
            let id = node.client()?.command(&["CLUSTER", "MYID"])?;
            Ok(text_of(&id))
        };
        let (from, to) = (id(&nodes[0])?, id(&nodes[1])?);
        let mut reader = nodes[0].client()?;
        let done = AtomicBool::new(false);
        let cpu = || -> Result<Vec<_>> { nodes.iter().map(|node| node.cpu(SETTLE)).collect() };
        let before = cpu()?;
        let (time, longest) = std::thread::scope(|scope| {
            let longest = scope.spawn(|| longest_get(&mut reader, keys, &done));
            let begun = Instant::now();
            let slots = (SLOTS / 2).to_string();
            let status = Command::new("redis-cli")
                .args(["--cluster", "reshard", &nodes[0].addr.to_string()])
                .args(["--cluster-from", &from, "--cluster-to", &to])
                .args(["--cluster-slots", &slots, "--cluster-yes"])
                .stdout(Stdio::null())
                .status()
                .map_err(Error::system("running redis-cli"));
            let time = begun.elapsed();
            done.store(true, Ordering::Relaxed);
            let longest = longest
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            match status?.success() {
                true => Ok((time, longest)),
                false => Err(Error::Invalid("redis-cli --cluster reshard failed".into())),
            }
        })?;
        let after = cpu()?;
        let used = after.iter().zip(&before).map(|(now, then)| now.since(then));
        let cpu = used.sum::<Duration>().as_secs_f64();
        let moved = nodes[1].client()?.integer(&["DBSIZE"])?;
        Ok(Figures::from([
            ("reshard, s", time.as_secs_f64()),
            ("longest GET, ms", longest.as_secs_f64() * 1e3),
            ("CPU of both nodes, s", cpu),
            ("keys moved", moved as f64),
        ]))
    })?;
    sheet.show(report)
}

/// Reads keys in turn at equal intervals until `done`, and returns the longest time since a
/// GET was due. All servers get the same number of GETs in a second: a client that
/// asks again after each reply would take the more time from the reshard, the faster the replies
/// are. Keys that have moved are answered by a redirection.
fn longest_get(client: &mut Client, keys: u64, done: &AtomicBool) -> Result<Duration> {
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    for (index, number) in (0..keys).cycle().zip(1..) {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let at = begun + READ_INTERVAL * number;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        client.command(&[&b"GET"[..], &key_name(index)[..]])?;
        longest = longest.max(at.elapsed());
    }
    Ok(longest)
}
