//! CPU time and traffic in CLUSTER SLOT-STATS, beside redis-server 8.2.

use std::io::Write as _;

use punctual_harness::{Peer, Wire};

use super::{Node, Program};

/// Slot of the key `k`.
const SLOT: u16 = 7629;

/// Starts a node with all slots.
fn node(program: Program) -> Option<Node> {
    let mut node = Node::start_with(program, &["--cluster-slot-stats-enabled", "yes"])?;
    node.wire.run("CLUSTER ADDSLOTSRANGE 0 16383");
    node.wait_for("cluster_state:ok");
    Some(node)
}

/// Returns the numbers of a slot, without their names.
fn numbers(wire: &mut Wire) -> Vec<i64> {
    let reply = wire.run(&format!("CLUSTER SLOT-STATS SLOTSRANGE {SLOT} {SLOT}"));
    let slots = reply.as_slice().expect("an array");
    let figures = slots[0].as_slice().expect("a pair")[1].as_slice();
    let figures = figures.expect("a map");
    figures
        .iter()
        .filter_map(|figure| figure.as_int())
        .collect()
}

/// Returns the bytes received and sent for the slot by these commands.
fn traffic(node: &mut Node, lines: &[&str]) -> (i64, i64) {
    node.wire.run("CONFIG RESETSTAT");
    for line in lines {
        // Redis counts an inline command without what RESP adds, so the words go as RESP.
        let words: Vec<&str> = line.split('|').collect();
        node.wire.ask(&words);
    }
    let numbers = numbers(&mut node.wire);
    (numbers[2], numbers[3])
}

#[test]
fn traffic_counts_as_in_redis_8() {
    let Some(mut real) = node(Program::Real(Peer::Redis8)) else {
        return;
    };
    let mut ours = node(Program::Ours).expect("it is built");
    for lines in [
        &["SET|k|value"][..],
        &["GET|k"],
        &["MSET|k|1|{k}2|0123456789012345"],
        &["DEL|k|{k}2", "GET|k", "EXISTS|k|{k}2"],
        &["LPUSH|k|x", "SET|k|1", "LPUSH|k|x"],
        &["GET|k|x", "PING", "INFO", "nosuch|k", "GET|other"],
        &["OBJECT|ENCODING|k"],
        &["MULTI", "SET|k|v", "DISCARD"],
        &["EVAL|return 1|1|k"],
        &["SPUBLISH|k|hello"],
    ] {
        let wanted = traffic(&mut real, lines);
        assert_eq!(traffic(&mut ours, lines), wanted, "{lines:?}");
    }
    // Redis counts a reply within EXEC up to three times.
    let transaction = ["MULTI", "SET|k|v", "GET|k", "EXEC"];
    let (wanted, _) = traffic(&mut real, &transaction);
    let reply = "*2\r\n+OK\r\n$1\r\nv\r\n".len() as i64;
    assert_eq!(traffic(&mut ours, &transaction), (wanted, reply));
    // Redis counts only the inner replies of a script without a shebang.
    let call = "EVAL|return redis.call('GET',KEYS[1])|1|k";
    assert_eq!(traffic(&mut real, &[call]), (0, 7));
    assert_eq!(traffic(&mut ours, &[call]), (67, 7));
}

#[test]
fn figures_are_ordered_and_reset() {
    let mut node = node(Program::Ours).expect("it is built");
    for n in 0..50 {
        node.wire.run(&format!("SET k {n}"));
    }
    node.wire.run("SET foo 1");
    let first = |node: &mut Node, metric: &str| {
        let line = format!("CLUSTER SLOT-STATS ORDERBY {metric} LIMIT 1");
        let reply = node.wire.run(&line);
        let slots = reply.as_slice().expect("an array");
        slots[0].as_slice().expect("a pair")[0].as_int()
    };
    for metric in ["network-bytes-in", "NETWORK-BYTES-OUT", "cpu-usec"] {
        assert_eq!(first(&mut node, metric), Some(SLOT.into()), "{metric}");
    }
    // A slot that leaves and comes back begins with 0, others go on.
    node.wire.run(&format!("CLUSTER DELSLOTS {SLOT}"));
    node.wire.run(&format!("CLUSTER ADDSLOTS {SLOT}"));
    assert_eq!(numbers(&mut node.wire), [1, 0, 0, 0]);
    assert_eq!(first(&mut node, "network-bytes-in"), Some(12182));
    // Without the directive there are only keys. The figures stop, and stay.
    node.wait_for("cluster_state:ok");
    node.wire.run("GET k");
    node.wire.run("CONFIG SET cluster-slot-stats-enabled no");
    node.wire.run("GET k");
    assert_eq!(numbers(&mut node.wire), [1]);
    let error = "Unrecognized sort metric for ORDERBY.";
    node.wire
        .expect_error("CLUSTER SLOT-STATS ORDERBY cpu-usec", error);
    node.wire.run("CONFIG SET cluster-slot-stats-enabled yes");
    let numbers = numbers(&mut node.wire);
    assert_eq!(numbers[2..], [20, 8], "one GET");
}

#[test]
fn a_waiting_client_counts_its_command() {
    let mut node = node(Program::Ours).expect("it is built");
    let bytes = "*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n";
    let mut waiter = node.process.wire();
    waiter
        .stream
        .write_all(bytes.as_bytes())
        .expect("it is open");
    node.wait("INFO clients", |info| info.contains("blocked_clients:1"));
    assert_eq!(numbers(&mut node.wire)[2], bytes.len() as i64);
}
