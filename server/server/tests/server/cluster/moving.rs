//! Slots that move between two nodes of ours, key by key.

use punctual_cluster::slot;
use punctual_harness::eventually;
use punctual_resp::Value;
use rustix::process::Signal;

use super::{Node, Program};

/// Tag of all keys, in slot 12,182.
pub(super) const TAG: &str = "foo";

pub(super) fn slot_of_keys() -> u16 {
    slot::of_key(TAG.as_bytes())
}

/// Starts nodes that know each other. The slots are divided between the first `primaries`.
pub(super) fn start(count: usize, primaries: usize, options: &[&str]) -> Vec<Node> {
    let mut nodes: Vec<Node> = (0..count)
        .map(|_| Node::start_with(Program::Ours, options).expect("it is built"))
        .collect();
    let (port, bus_port) = (nodes[0].port(), nodes[0].bus_port);
    for (at, node) in nodes.iter_mut().enumerate() {
        if at < primaries {
            let first = |at: usize| 16_384 * at / primaries;
            let (first, end) = (first(at), first(at + 1));
            node.wire
                .run(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            node.wire
                .run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        }
        node.wire
            .run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
    }
    let known = format!("cluster_known_nodes:{count}\r");
    for node in &mut nodes {
        node.wait_for(&known);
        node.wait_for("cluster_state:ok");
    }
    nodes
}

/// Begins to move the slot of the keys.
pub(super) fn begin_move(from: &mut Node, to: &mut Node) {
    let slot = slot_of_keys();
    to.wire.expect(
        &[&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id)],
        "+OK|",
    );
    from.wire.expect(
        &[&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id)],
        "+OK|",
    );
}

/// Moves up to `most` keys, in the order in which the source lists them. Returns whether there were
/// any.
pub(super) fn move_keys(from: &mut Node, to: &Node, most: usize) -> bool {
    let listed = from
        .wire
        .run(&format!("CLUSTER GETKEYSINSLOT {} {most}", slot_of_keys()));
    let keys: Vec<String> = words(&listed);
    if !keys.is_empty() {
        let port = to.port();
        let line = format!(
            "MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {}",
            keys.join(" ")
        );
        assert_eq!(from.wire.text(&line), "OK");
    }
    !keys.is_empty()
}

pub(super) fn end_move(from: &mut Node, to: &mut Node) {
    let line = format!("CLUSTER SETSLOT {} NODE {}", slot_of_keys(), to.id);
    for node in [to, from] {
        node.wire.expect(&[&line], "+OK|");
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("text")).into_owned()
}

pub(super) fn words(value: &Value) -> Vec<String> {
    value
        .as_slice()
        .expect("an array")
        .iter()
        .map(text)
        .collect()
}

/// The command of a timer may need a key that is at the other node.
#[test]
fn timers_wait_while_their_slot_moves() {
    for threads in ["1", "3"] {
        let mut nodes = start(2, 2, &["--threads", threads]);
        let mut to = nodes.swap_remove(0);
        let mut from = nodes.swap_remove(0);
        let waiting = |node: &mut Node, count: u32| {
            let line = format!("timers_waiting_for_slots:{count}\r");
            node.wait("INFO timers", |info| info.contains(&line));
        };
        from.wire.expect(&[&format!("SET {{{TAG}}}n 1")], "+OK|");
        begin_move(&mut from, &mut to);
        for (key, ms) in [("b", 2), ("a", 1)] {
            let line = format!("TIMER SET {{{TAG}}}{key} AT {ms} DO APPEND {{{TAG}}}n {key}");
            // The timer does not exist here, so a client would get ASK.
            to.wire.expect(&["ASKING", &line], "+OK|+OK|");
        }
        waiting(&mut to, 2);
        assert_eq!(to.wire.int("DBSIZE"), 2);
        while move_keys(&mut from, &to, 10) {}
        waiting(&mut to, 2);
        end_move(&mut from, &mut to);
        to.wait(&format!("GET {{{TAG}}}n"), |text| text == "1ab");
        waiting(&mut to, 0);

        // A timer of a slot that leaves fires if the slot stays.
        let timer = format!("{{{TAG}}}t");
        let line = format!("TIMER SET {timer} IN 100000 DO APPEND {{{TAG}}}x c");
        to.wire.expect(&[&line], "+OK|");
        begin_move(&mut to, &mut from);
        to.wire
            .expect(&[&line.replace("IN 100000", "IN 1")], "+OK|");
        let slot = slot_of_keys();
        waiting(&mut to, 1);
        let keep = format!("CLUSTER SETSLOT {slot} STABLE");
        to.wire.expect(&[&keep], "+OK|");
        from.wire.expect(&[&keep], "+OK|");
        to.wait(&format!("GETRANGE {{{TAG}}}x 0 -1"), |text| text == "c");
        waiting(&mut to, 0);
    }
}

/// MIGRATE has sent the key when a client deletes it, so the target must delete its copy.
#[test]
fn a_key_that_is_deleted_during_its_move_is_gone() {
    let mut nodes = start(2, 2, &[]);
    let mut to = nodes.swap_remove(0);
    let mut from = nodes.swap_remove(0);
    from.wire
        .expect(&[&format!("MSET {{{TAG}}}1 a {{{TAG}}}2 b")], "+OK|");
    begin_move(&mut from, &mut to);
    to.process.freeze();
    let mut mover = from.process.wire();
    let port = to.port();
    mover.send(&[format!(
        "MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS {{{TAG}}}1 {{{TAG}}}2"
    )]);
    from.wait("INFO clients", |info| info.contains("blocked_clients:1\r"));
    from.wire.expect(&[&format!("DEL {{{TAG}}}1")], ":1|");
    to.process.signal(Signal::CONT);
    mover.receive("+OK|");
    end_move(&mut from, &mut to);
    assert_eq!(from.wire.int("DBSIZE"), 0);
    assert_eq!(to.wire.int("DBSIZE"), 1);
}

/// A replica whose link to its primary is broken still has the keys of a slot that has left. If it
/// is elected, the slot may come back later, with other keys.
#[test]
fn an_elected_replica_keeps_no_key_of_a_slot_that_has_left() {
    let nodes = start(3, 2, &["--repl-diskless-sync-delay", "0"]);
    let Ok([mut to, mut from, mut replica]) = <[Node; 3]>::try_from(nodes) else {
        panic!("three nodes were started");
    };
    let line = format!("CLUSTER REPLICATE {}", from.id);
    replica.wire.expect(&[&line], "+OK|");
    let sets = [format!("SET {{{TAG}}}1 a"), "SET stays b".to_owned()];
    from.wire.expect(&[&sets[0], &sets[1]], "+OK|+OK|");
    eventually(|| replica.wire.int("DBSIZE") == 2);
    replica
        .wire
        .expect(&["CONFIG SET masterauth wrong"], "+OK|");
    from.wire.expect(&["CLIENT KILL TYPE replica"], ":1|");

    begin_move(&mut from, &mut to);
    while move_keys(&mut from, &to, 10) {}
    end_move(&mut from, &mut to);
    let moved = format!("MOVED {} 127.0.0.1:{}", slot_of_keys(), to.port());
    replica.wait(&format!("GET {{{TAG}}}1"), |reply| reply == moved);
    assert_eq!(
        replica.wire.int("DBSIZE"),
        2,
        "the deletion has not arrived"
    );
    replica.wire.expect(&["CLUSTER FAILOVER TAKEOVER"], "+OK|");
    eventually(|| replica.wire.int("DBSIZE") == 1);
    replica.wait("GET stays", |value| value == "b");
    assert_eq!(to.wire.int("DBSIZE"), 1);
}
