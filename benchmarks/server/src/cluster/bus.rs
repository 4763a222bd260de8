//! `bench cluster --tests bus`: what an idle node spends on the bus of a large cluster.

use std::time::Duration;

use super::peers::{Peers, RealNode};
use super::{SETTLE, SLOTS, text_of, wait_until};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::launch::{Program, allow_clients};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};

/// Number of scripted peers.
const PEERS: usize = 99;
/// Node timeouts in ms: one that tests and impatient operators have, and Redis's default.
const TIMEOUTS_MS: [u64; 2] = [2_000, 15_000];
/// Time until the node has learned all peers, and the pings have their usual rhythm.
const CALM: Duration = Duration::from_secs(10);

/// Measures the CPU time of an idle node.
pub(super) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    allow_clients(1_000)?;
    let window = common.seconds(5, 20);
    let bars = [("CPU, %", Bar::RatioAtMost(0.5))];
    let mut sheet = Sheet::new("cluster", sheet::columns(programs));
    for timeout_ms in TIMEOUTS_MS {
        let case = format!("idle among {PEERS} peers, node timeout {timeout_ms} ms");
        sheet.measure(report, &case, &bars, common.rounds(1, 3), |at, _| {
            once(&programs[at], timeout_ms, window)
        })?;
    }
    sheet.show(report)
}

fn once(program: &Program, timeout_ms: u64, window: Duration) -> Result<Figures> {
    let bus_port = punctual_harness::free_port();
    let server = program.start(&[
        ("cluster-enabled", "yes"),
        ("cluster-port", &bus_port.to_string()),
        ("cluster-node-timeout", &timeout_ms.to_string()),
    ])?;
    let mut client = server.client()?;
    let slots = (SLOTS as usize * PEERS / (PEERS + 1)) as u16;
    let (first, last) = (slots.to_string(), (SLOTS - 1).to_string());
    client.expect(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
    let epoch = (PEERS + 1).to_string();
    client.expect(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
    let node = RealNode {
        port: server.addr.port(),
        bus_port,
    };
    let peers = Peers::start(PEERS, slots, timeout_ms, node)?;
    wait_until("cluster of all peers", || {
        let info = text_of(&client.command(&["CLUSTER", "INFO"])?);
        let known = format!("cluster_known_nodes:{}\r", PEERS + 1);
        let nodes = text_of(&client.command(&["CLUSTER", "NODES"])?);
        let joined = !nodes.contains("disconnected") && !nodes.contains("handshake");
        Ok(info.starts_with("cluster_state:ok") && info.contains(&known) && joined)
    })?;
    std::thread::sleep(CALM);
    let before = packets(&mut client)?;
    let ((), seconds) = server.cpu_of(SETTLE, || {
        std::thread::sleep(window);
        Ok(())
    })?;
    let packets = packets(&mut client)? - before;
    let info = text_of(&client.command(&["CLUSTER", "INFO"])?);
    peers.stop()?;
    if !info.starts_with("cluster_state:ok") {
        return Err(Error::Invalid("the cluster has failed meanwhile".into()));
    }
    let each = window.as_secs_f64();
    Ok(Figures::from([
        ("CPU, %", 100.0 * seconds / each),
        ("packets a second", packets / each),
        ("CPU a packet, µs", 1e6 * seconds / packets),
    ]))
}

/// Returns the number of packets that a node has sent and received.
fn packets(client: &mut Client) -> Result<f64> {
    let info = text_of(&client.command(&["CLUSTER", "INFO"])?);
    let count = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| text.trim().parse().ok())
            .unwrap_or(0.0)
    };
    Ok(count("cluster_stats_messages_sent:") + count("cluster_stats_messages_received:"))
}
