//! One scripted session of three nodes: our nodes beside real ones reply as real nodes among
//! themselves.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use punctual_harness::{PATIENCE, Peer};
use punctual_resp::Value;

use super::session::shown;
use super::{Node, Program};

const SESSION: &str = include_str!("pairs.txt");

/// Lines that Valkey answers with another text: its errors of scripts.
const DIFFERENCES: &[&str] = &[
    "a EVAL \"return redis.call('GET','foo')\" 0",
    "b EVAL \"return redis.call('GET','bar')\" 0",
    "b EVAL \"return redis.call('SET','bar',1)\" 0",
];

/// Runs the session. Returns the lines with the replies, and with the node's program.
fn run(programs: [Program; 3]) -> Option<Vec<(&'static str, Program, String)>> {
    let mut nodes = Vec::new();
    for program in programs {
        nodes.push(Node::start(program)?);
    }
    let mut replies = Vec::new();
    for line in SESSION.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (waits, rest) = match line.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (name, rest) = rest.split_once(' ').expect("a node and a command");
        let at = usize::from(name.as_bytes()[0] - b'a');
        if waits {
            let (command, text) = rest.split_once(" ~ ").expect("a text to wait for");
            let (command, text) = (named(command, &nodes), named(text, &nodes));
            wait(&mut nodes[at], &command, &text);
            continue;
        }
        let command = named(rest, &nodes);
        nodes[at].wire.send(&[command]);
        let reply = normal(line, nodes[at].wire.value(), &nodes);
        replies.push((line, programs[at], reply));
    }
    Some(replies)
}

#[track_caller]
fn wait(node: &mut Node, command: &str, text: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        node.wire.send(&[command]);
        let reply = shown(&node.wire.value());
        if reply.contains(text) {
            return;
        }
        assert!(Instant::now() < end, "{command}: no {text} in {reply}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Replaces the names of nodes by their IDs and ports.
fn named(text: &str, nodes: &[Node]) -> String {
    let mut text = text.to_owned();
    for (name, node) in ["a", "b", "c"].iter().zip(nodes) {
        text = text
            .replace(&format!("<{name}>"), &node.id)
            .replace(&format!("<{name}:port>"), &node.port().to_string())
            .replace(&format!("<{name}:bus>"), &node.bus_port.to_string());
    }
    text
}

/// Returns a reply without what differs between runs: IDs, ports, times, orders of nodes.
fn normal(line: &str, mut reply: Value, nodes: &[Node]) -> String {
    if line.contains("GETKEYSINSLOT")
        && let Value::Array(keys) = &mut reply
    {
        keys.sort_by_key(shown);
    }
    let mut text = shown(&reply).trim_matches('"').to_owned();
    if line.contains("LINKS") {
        text = without_numbers(&text);
    }
    for (name, node) in ["a", "b", "c"].iter().zip(nodes) {
        text = text
            .replace(&node.id, &format!("<{name}>"))
            .replace(&node.port().to_string(), &format!("<{name}:port>"))
            .replace(&node.bus_port.to_string(), &format!("<{name}:bus>"));
    }
    let rows = if line.contains("LINKS") {
        text.trim_matches(['[', ']']).replace("] [", "\\n")
    } else {
        text
    };
    let mut rows: Vec<String> = rows
        .split("\\n")
        .filter(|row| !IN_INFO.iter().any(|field| row.starts_with(field)))
        .map(|row| without_times(line, row))
        .collect();
    if line.contains("CLUSTER NODES") || line.contains("LINKS") {
        rows.sort();
    }
    rows.join("\n")
}

/// Fields of CLUSTER INFO that count packets, or that only Valkey has.
const IN_INFO: [&str; 4] = [
    "cluster_stats_",
    "total_cluster_links_",
    "cluster_nodes_",
    "cluster_voting_nodes_",
];

/// Replaces times and sizes of buffers.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &str| word.starts_with(':') && word[1..].parse::<u64>().is_ok();
    let words = text
        .split(' ')
        .map(|word| match word.trim_end_matches(']') {
            number if is_number(number) => word.replace(number, ":number"),
            _ => word.to_owned(),
        });
    words.collect::<Vec<_>>().join(" ")
}

fn without_times(line: &str, row: &str) -> String {
    let shows_nodes = ["CLUSTER NODES", "CLUSTER REPLICAS", "CLUSTER SLAVES"];
    let mut words: Vec<&str> = row.split(' ').collect();
    if shows_nodes.iter().any(|command| line.contains(command)) && words.len() > 7 {
        (words[4], words[5]) = ("ping", "pong");
    }
    words.join(" ")
}

#[track_caller]
fn compare(peer: Peer) {
    let real = Program::Real(peer);
    let Some(wanted) = run([real; 3]) else {
        return;
    };
    let (mut unknown, mut seen) = (String::new(), BTreeSet::new());
    let known = match peer {
        Peer::Valkey9 => DIFFERENCES,
        _ => &[],
    };
    for programs in [
        [Program::Ours, real, Program::Ours],
        [real, Program::Ours, real],
        [Program::Ours, Program::Ours, real],
    ] {
        let replies = run(programs).expect("all are installed");
        for ((line, program, reply), (.., wanted)) in replies.iter().zip(&wanted) {
            if *program != Program::Ours || reply == wanted {
                continue;
            }
            if known.contains(line) {
                seen.insert(*line);
            } else {
                unknown +=
                    &format!("{programs:?}\n{line}\n  ours:   {reply}\n  theirs: {wanted}\n");
            }
        }
    }
    assert!(unknown.is_empty(), "{peer}:\n{unknown}");
    assert_eq!(seen.len(), known.len(), "only these differ: {seen:?}");
}

#[test]
fn our_nodes_reply_as_the_nodes_of_redis_7_beside_them() {
    compare(Peer::Redis7);
}

#[test]
fn our_nodes_reply_as_the_nodes_of_redis_8_beside_them() {
    compare(Peer::Redis8);
}

#[test]
fn our_nodes_reply_as_the_nodes_of_valkey_9_beside_them() {
    compare(Peer::Valkey9);
}
