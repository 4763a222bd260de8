//! `redis-cli --cluster` on our nodes.

use std::process::Command;

use punctual_cluster::slot;

use super::Node;

/// The slot of all keys.
const SLOT: u16 = 7;

/// Runs the cluster manager. Returns its output, and asserts that it succeeds.
#[track_caller]
pub(super) fn manage(words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .arg("--cluster")
        .args(words)
        .output()
        .expect("redis-cli is installed with redis-server");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}\n{errors}");
    text
}

/// Asserts that the manager finds no flaw, and returns the output.
#[track_caller]
fn check(node: &Node) -> String {
    let report = manage(&["check", &address(node)]);
    assert!(
        report.contains("[OK] All nodes agree about slots"),
        "{report}"
    );
    assert!(report.contains("[OK] All 16384 slots covered"), "{report}");
    report
}

fn address(node: &Node) -> String {
    format!("127.0.0.1:{}", node.port())
}

#[test]
fn the_manager_creates_grows_and_shrinks_a_cluster() {
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::ours()).collect();
    let addresses: Vec<String> = nodes.iter().map(address).collect();
    let mut words = vec!["create"];
    words.extend(addresses.iter().map(String::as_str));
    words.push("--cluster-yes");
    let report = manage(&words);
    assert!(report.contains("[OK] All 16384 slots covered"), "{report}");
    for node in &mut nodes {
        node.wait_for("cluster_state:ok");
        node.wait_for("cluster_known_nodes:3");
    }

    // The slots 0 to 5460 are at the first node.
    let tag = slot::tag(SLOT);
    for n in 0..40 {
        nodes[0].wire.run(&format!("SET {{{tag}}}:{n} {n}"));
    }
    let info = manage(&["info", &addresses[1]]);
    assert!(info.contains("40 keys in 3 masters"), "{info}");
    check(&nodes[2]);

    // A replica of the first node, and an empty primary.
    let replica = Node::ours();
    let first = nodes[0].id.clone();
    manage(&[
        "add-node",
        &address(&replica),
        &addresses[0],
        "--cluster-slave",
        "--cluster-master-id",
        &first,
    ]);
    nodes[1].wait("CLUSTER NODES", |text| {
        text.contains(&format!("slave {first}"))
    });
    let mut fourth = Node::ours();
    manage(&["add-node", &address(&fourth), &addresses[0]]);
    for node in &mut nodes {
        node.wait_for("cluster_known_nodes:5");
        let id = fourth.id.clone();
        node.wait("CLUSTER NODES", |text| text.contains(&id));
    }
    fourth.wait_for("cluster_state:ok");

    // The manager moves the first slots of a node. The one with the keys is among them.
    let to = fourth.id.clone();
    let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
    manage(&[
        "reshard",
        &addresses[0],
        "--cluster-from",
        &first,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "20",
        "--cluster-yes",
    ]);
    assert_eq!(fourth.wire.int(&count), 40);
    assert_eq!(nodes[0].wire.int("DBSIZE"), 0);
    fourth.wire.expect(&[&format!("GET {{{tag}}}:7")], "$1|7|");
    for node in &mut nodes {
        let id = to.clone();
        let owns = move |line: &str| line.starts_with(&id) && line.ends_with(" 0-19");
        node.wait("CLUSTER NODES", |text| text.lines().any(&owns));
    }
    check(&nodes[1]);

    // Back again, and the empty node leaves.
    manage(&[
        "reshard",
        &addresses[0],
        "--cluster-from",
        &to,
        "--cluster-to",
        &first,
        "--cluster-slots",
        "20",
        "--cluster-yes",
    ]);
    assert_eq!(nodes[0].wire.int(&count), 40);
    manage(&["del-node", &addresses[0], &to]);
    for node in &mut nodes {
        node.wait_for("cluster_known_nodes:4");
    }
    check(&nodes[0]);
    let own = fourth.wire.text("CLUSTER NODES");
    assert_eq!(own.lines().count(), 1, "{own}");
}
