//! One scripted session, reply by reply, on a node of ours and on a node of each other project.

use punctual_harness::Peer;
use punctual_resp::Value;

use super::{Node, Program};

const SESSION: &str = include_str!("session.txt");
const NONE: &str = "ffffffffffffffffffffffffffffffffffffffff";

const R7: &[Peer] = &[Peer::Redis7];
const R8: &[Peer] = &[Peer::Redis8];
const V9: &[Peer] = &[Peer::Valkey9];
const R7_V9: &[Peer] = &[Peer::Redis7, Peer::Valkey9];
const ALL: &[Peer] = &Peer::ALL;

/// Lines whose replies differ, with the programs and the reason. A `*` at the end stands for any
/// text.
const DIFFERENCES: &[(&str, &[Peer], &str)] = &[
    ("CLUSTER MYSHARDID", R7, "since Redis 7.2"),
    ("CLUSTER SLOT-STATS*", R7, "since Redis 8.2"),
    (
        "CLUSTER HELP",
        ALL,
        "the list of Redis 8.2, with the last line of Redis 7",
    ),
    ("CLUSTER MEET 127.0.0.1 x", R7, "text of Redis 8"),
    ("CLUSTER MEET 127.0.0.1 1 x", R7, "text of Redis 8"),
    ("CLUSTER MEET 127.0.0.1 0", V9, "texts of Redis"),
    ("CLUSTER MEET 127.0.0.1 65535", V9, "texts of Redis"),
    ("CLUSTER MEET 127.0.0.1 70000 1", V9, "texts of Redis"),
    ("CLUSTER MEET 127.0.0.1 7000 70000", V9, "texts of Redis"),
    ("CLUSTER REPLICATE NO ONE", V9, "only Valkey knows it"),
    ("CLUSTER FAILOVER FORCE x", V9, "text of Redis"),
    (
        "CLUSTER SETSLOT 1 STABLE x",
        V9,
        "Valkey has a timeout here",
    ),
    (
        "CLUSTER SETSLOT 15495 MIGRATING <me>",
        V9,
        "Valkey refuses it",
    ),
    (
        "CLUSTER SETSLOT 15495 IMPORTING <me>",
        V9,
        "Valkey refuses it",
    ),
    ("CLUSTER NODES", V9, "the slot that Valkey did not move"),
    ("MGET a {a}none", V9, "the slot that Valkey did not move"),
    ("EXISTS a {a}none", V9, "the slot that Valkey did not move"),
    (
        "MGET a b",
        V9,
        "the order of Redis: slots without an owner first",
    ),
    ("SELECT 1", V9, "Valkey has numbered databases in clusters"),
    ("MOVE a 1", V9, "Valkey has numbered databases in clusters"),
    ("COPY c {c}y DB 1", R7, "text of Redis 8"),
    ("SORT *", R7, "allowed since Redis 7.4"),
    (
        "EVAL \"return redis.call('MGET','a','c')\" 0",
        R7_V9,
        "text of Redis 8",
    ),
    (
        "EVAL \"#!lua*",
        V9,
        "text of Redis; Valkey ignores the flag",
    ),
    ("COMMAND INFO asking*", R8, "flag loading since Redis 8"),
    (
        "COMMAND INFO *",
        V9,
        "flag loading; no subcommands is an array",
    ),
];

/// Runs the session with RESP2 or RESP3. Returns the lines with their replies.
fn run(program: Program, protocol: &str) -> Option<Vec<(&'static str, String)>> {
    let mut node = Node::start(program)?;
    node.wire.ask(&["HELLO", protocol]);
    let me = node.id.clone();
    let mut replies = Vec::new();
    for line in SESSION.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(text) = line.strip_prefix("@ ") {
            node.wait_for(text);
            continue;
        }
        node.wire
            .send(&[line.replace("<me>", &me).replace("<none>", NONE)]);
        let mut reply = normal(&shown(&node.wire.value()), &node);
        if program == Program::Real(Peer::Valkey9) {
            reply = without_extras(&reply);
        }
        replies.push((line, reply));
    }
    Some(replies)
}

/// Replaces what differs between any two nodes: IDs and ports.
fn normal(reply: &str, node: &Node) -> String {
    let (port, bus) = (node.port().to_string(), node.bus_port.to_string());
    let text = reply
        .replace(&node.id, "<me>")
        .replace(NONE, "<none>")
        .replace(&port, "<port>")
        .replace(&bus, "<bus>");
    let mut normal = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit());
        let digits = digits.unwrap_or(rest.len());
        let (word, after) = rest.split_at(digits.max(1));
        normal.push_str(if digits == 40 { "<id>" } else { word });
        rest = after;
    }
    normal
}

/// Removes fields that only Valkey has.
fn without_extras(reply: &str) -> String {
    const FIELDS: [&str; 5] = [
        "cluster_nodes_",
        "cluster_voting_nodes_",
        "cluster_stats_bytes_",
        "cluster_stats_pubsub_bytes_",
        "cluster_stats_module_bytes_",
    ];
    let is_common = |line: &&str| !FIELDS.iter().any(|field| line.starts_with(field));
    let lines: Vec<&str> = reply.split("\\r\\n").filter(is_common).collect();
    // The ID of a shard.
    let common = lines.join("\\r\\n").replace(" \"id\"=\"<id>\"", "");
    common.replace(" \"id\" \"<id>\"", "")
}

/// Returns a reply with its types, without lengths.
pub(super) fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let all = |values: &[Value]| values.iter().map(shown).collect::<Vec<_>>().join(" ");
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Int(number) => format!(":{number}"),
        Value::Bulk(bytes) => format!("\"{}\"", text(bytes)),
        Value::Verbatim {
            format,
            text: bytes,
        } => format!("{}:{}", text(format), text(bytes)),
        Value::Array(values) => format!("[{}]", all(values)),
        Value::Set(values) => format!("~[{}]", all(values)),
        Value::Push(values) => format!(">[{}]", all(values)),
        Value::Map(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}={}", shown(name), shown(value)))
                .collect();
            format!("{{{}}}", pairs.join(" "))
        }
        other => format!("{other:?}"),
    }
}

#[track_caller]
fn compare(peer: Peer) {
    for protocol in ["2", "3"] {
        let Some(theirs) = run(Program::Real(peer), protocol) else {
            return;
        };
        let ours = run(Program::Ours, protocol).expect("it is built");
        assert_eq!(ours.len(), theirs.len());
        let known: Vec<&str> = DIFFERENCES
            .iter()
            .filter(|(_, peers, _)| peers.contains(&peer))
            .map(|(line, ..)| *line)
            .collect();
        let mut unknown = String::new();
        let mut used = vec![false; known.len()];
        for ((line, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            if ours == theirs {
                continue;
            }
            let listed = known
                .iter()
                .position(|known| match known.strip_suffix('*') {
                    Some(beginning) => line.starts_with(beginning),
                    None => line == known,
                });
            match listed {
                Some(at) => used[at] = true,
                None => unknown += &format!("{line}\n  ours:   {ours}\n  theirs: {theirs}\n"),
            }
        }
        assert!(unknown.is_empty(), "RESP{protocol}, {peer}:\n{unknown}");
        let unused = known.iter().zip(used).filter(|(_, used)| !used);
        let unused: Vec<_> = unused.map(|(line, _)| line).collect();
        assert!(unused.is_empty(), "no longer different: {unused:?}");
    }
}

#[test]
fn replies_are_those_of_redis_7() {
    compare(Peer::Redis7);
}

#[test]
fn replies_are_those_of_redis_8() {
    compare(Peer::Redis8);
}

#[test]
fn replies_are_those_of_valkey_9() {
    compare(Peer::Valkey9);
}
