//! Rules of NOTIFY in slots that move, and on nodes that fail.

use std::collections::BTreeMap;

use punctual_cluster::slot;
use punctual_harness::{Wire, eventually};
use punctual_resp::Value;
use rustix::process::Signal;

use super::Node;
use super::moving::{TAG, begin_move, end_move, move_keys, slot_of_keys, start, words};
use crate::killed;

/// Returns the key of the rule's stream for the slot of the keys.
fn stream() -> String {
    format!("events{{{}}}", slot::tag(slot_of_keys()))
}

/// Returns the keys and values of the entries that XRANGE or one stream of XREADGROUP replies.
fn events(entries: &Value) -> Vec<(String, String)> {
    let entry = |entry: &Value| {
        let fields = words(&entry.as_slice().unwrap()[1]);
        assert_eq!(
            [&*fields[0], &fields[1], &fields[2]],
            ["event", "set", "key"]
        );
        (fields[3].clone(), fields[5].clone())
    };
    entries.as_slice().unwrap().iter().map(entry).collect()
}

fn read_all(c: &mut Wire) -> Vec<(String, String)> {
    events(&c.run(&format!("XRANGE {} - +", stream())))
}

/// Returns the entries that a group of the stream has not got yet.
fn read_group(c: &mut Wire) -> Vec<(String, String)> {
    let reply = c.run(&format!("XREADGROUP GROUP g worker STREAMS {} >", stream()));
    match reply.as_slice() {
        Some(streams) => events(&streams[0].as_slice().unwrap()[1]),
        None => Vec::new(),
    }
}

/// Checks that the entries have each change of each key once, in the order of the changes.
#[track_caller]
fn check(entries: &[(String, String)], changes: &BTreeMap<String, u32>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (key, value) in entries {
        let last = seen.entry(key.clone()).or_default();
        *last += 1;
        assert_eq!(*value, last.to_string(), "{key}");
    }
    assert_eq!(seen, *changes);
}

/// The keys of a slot with two nodes, and how often each key was set.
struct Keys {
    changes: BTreeMap<String, u32>,
}

impl Keys {
    /// Sets each key once more, at the node that has it.
    fn set(&mut self, from: &mut Node, to: &mut Node) {
        for (key, count) in &mut self.changes {
            *count += 1;
            let line = format!("SET {key} {count}");
            let reply = from.wire.text(&line);
            if reply.starts_with("ASK ") {
                to.wire.expect(&["ASKING", &line], "+OK|+OK|");
            } else {
                assert_eq!(reply, "OK");
            }
        }
    }
}

#[test]
fn events_move_with_their_slot() {
    for threads in ["1", "3"] {
        let mut nodes = start(2, 2, &["--threads", threads]);
        let mut to = nodes.swap_remove(0);
        let mut from = nodes.swap_remove(0);
        for node in [&mut from, &mut to] {
            let line = "NOTIFY SET all STREAM events EVENTS g$ MATCH {foo}* VALUE string";
            assert_eq!(node.wire.text(line), "OK");
        }
        let names = (0..20).map(|n| (format!("{{{TAG}}}{n}"), 0));
        let mut keys = Keys {
            changes: names.collect(),
        };
        keys.set(&mut from, &mut to);
        let line = format!("XGROUP CREATE {} g 0", stream());
        assert_eq!(from.wire.text(&line), "OK");
        let mut read = read_group(&mut from.wire);
        keys.set(&mut from, &mut to);

        begin_move(&mut from, &mut to);
        while move_keys(&mut from, &to, 3) {
            keys.set(&mut from, &mut to);
            // The group moves with the last keys.
            from.wire.send(&[format!("EXISTS {}", stream())]);
            if from.wire.value() == Value::Int(1) {
                read.extend(read_group(&mut from.wire));
            }
        }
        assert_eq!(from.wire.int("DBSIZE"), 0);
        end_move(&mut from, &mut to);
        to.wait("CLUSTER NODES", |text| !text.contains("->-"));
        check(&read_all(&mut to.wire), &keys.changes);
        read.extend(read_group(&mut to.wire));
        check(&read, &keys.changes);
        assert_eq!(words(&to.wire.run("NOTIFY STREAMS all")), [stream()]);
        assert_eq!(words(&from.wire.run("NOTIFY STREAMS all")), [""; 0]);
        let moved = format!("MOVED {} 127.0.0.1:{}", slot_of_keys(), to.port());
        assert_eq!(from.wire.text(&format!("XLEN {}", stream())), moved);
    }
}

#[test]
fn redis_cli_moves_the_streams_of_rules() {
    let mut nodes = start(3, 3, &[]);
    for node in &mut nodes {
        let line = "NOTIFY SET all STREAM events EVENTS $ VALUE string";
        assert_eq!(node.wire.text(line), "OK");
    }
    // Slot 0 is the first one that the manager moves.
    let tag = slot::tag(0);
    for n in 0..30 {
        nodes[0].wire.run(&format!("SET {{{tag}}}{n} 1"));
    }
    let (from, to) = (nodes[0].id.clone(), nodes[1].id.clone());
    super::manager::manage(&[
        "reshard",
        &format!("127.0.0.1:{}", nodes[2].port()),
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "1",
        "--cluster-yes",
    ]);
    assert_eq!(nodes[0].wire.int("DBSIZE"), 0);
    let length = format!("XLEN events{{{tag}}}");
    assert_eq!(nodes[1].wire.int(&length), 30);
    nodes[1].wire.run(&format!("SET {{{tag}}}1 2"));
    assert_eq!(nodes[1].wire.int(&length), 31);
}

/// A replica has the rules and the streams of its primary. Its own events begin when it is elected.
#[test]
fn events_survive_a_failover_with_their_changes() {
    let mut nodes = start(4, 3, &[]);
    let mut replica = nodes.pop().unwrap();
    let mut primary = nodes.pop().unwrap();
    let line = format!("CLUSTER REPLICATE {}", primary.id);
    replica.wait(&line, |reply| reply == "OK");
    replica.wait("INFO replication", |info| {
        info.contains("master_link_status:up")
    });
    let line = "NOTIFY SET all STREAM events EVENTS $ VALUE string MAXAGE 10000000";
    assert_eq!(primary.wire.text(line), "OK");
    let mut changes: BTreeMap<String, u32> = BTreeMap::new();
    let mut set = |c: &mut Wire, n: u32| {
        let key = format!("{{{TAG}}}{}", n % 7);
        let count = changes.entry(key.clone()).or_default();
        *count += 1;
        assert_eq!(c.text(&format!("SET {key} {count}")), "OK");
    };
    (0..100).for_each(|n| set(&mut primary.wire, n));
    assert_eq!(primary.wire.int("WAIT 1 10000"), 1);
    // The replica has the same entries, and has appended none.
    replica.wire.expect(&["READONLY"], "+OK|");
    let entries = |c: &mut Wire| c.run(&format!("XRANGE {} - +", stream()));
    assert_eq!(entries(&mut replica.wire), entries(&mut primary.wire));
    primary.process.kill();
    replica.wait("INFO replication", |info| info.contains("role:master"));
    replica.wait_for("cluster_state:ok");
    (0..100).for_each(|n| set(&mut replica.wire, n));
    let key = format!("{{{TAG}}}x");
    replica.wire.run(&format!("SET {key} 1"));
    changes.insert(key, 1);
    check(&read_all(&mut replica.wire), &changes);
    let age = replica.wire.run(&format!("XRETAIN {} GET", stream()));
    assert_eq!(age.as_slice().unwrap()[1], Value::Int(10_000_000));
}

/// After each kill, the stream has an entry for each change, and none without its change.
#[test]
fn a_kill_separates_no_change_from_its_slot_stream() {
    let folder = tempfile::tempdir().unwrap();
    let port = punctual_harness::free_port();
    let bus_port = punctual_harness::free_port().to_string();
    let options = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus_port,
        "--appendonly",
        "yes",
        "--threads",
        "2",
    ];
    let mut changes = 0;
    for round in 0..3 {
        let mut process = killed::start(folder.path(), port, &options);
        let mut c = Wire::to(port);
        if round == 0 {
            c.run("CLUSTER ADDSLOTSRANGE 0 16383");
            assert_eq!(
                c.text("NOTIFY SET all STREAM events EVENTS $ VALUE string"),
                "OK"
            );
        }
        eventually(|| c.text("CLUSTER INFO").contains("cluster_state:ok"));
        let key = format!("{{{TAG}}}counter");
        let found = c.ask(&["GET", &key]);
        let found = found.as_bytes().map_or(0, |text| {
            String::from_utf8_lossy(text).parse().expect("a number")
        });
        assert!(found >= changes, "{found}, but {changes} were acknowledged");
        changes = found;
        let expected: BTreeMap<String, u32> = [(key.clone(), changes)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect();
        if round > 0 {
            check(&read_all(&mut c), &expected);
        }
        for _ in 0..50 {
            changes += 1;
            assert_eq!(c.text(&format!("SET {key} {changes}")), "OK");
        }
        // The last changes may be lost, but only together with their entries.
        let more: Vec<String> = (1..50)
            .map(|n| format!("SET {key} {}", changes + n))
            .collect();
        c.send(&more);
        process.signal(Signal::KILL);
        process.wait_for_exit();
    }
}
