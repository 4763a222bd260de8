//! Machines in clusters of real redis-servers and valkey-servers, over their bus.

mod node;

use node::{Node, TIMEOUT_MS, now_ms, until};
use punctual_cluster::NodeId;
use punctual_cluster::nodes::Flags;
use punctual_cluster::slot::{SLOTS, SlotSet, of_key};
use punctual_harness::{Peer, Process, Wire, free_port};

/// A node of another project, and a client of it.
struct Real {
    process: Process,
    wire: Wire,
    bus_port: u16,
    id: NodeId,
}

impl Real {
    fn start(peer: Peer) -> Option<Self> {
        let bus_port = free_port();
        let (port, timeout) = (bus_port.to_string(), TIMEOUT_MS.to_string());
        let process = peer.start(&[
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &port,
            "--cluster-node-timeout",
            &timeout,
        ])?;
        let mut wire = process.wire();
        let id = wire.text("CLUSTER MYID").parse().unwrap();
        Some(Self {
            process,
            wire,
            bus_port,
            id,
        })
    }

    fn ask(&mut self, line: &str) -> String {
        self.wire.text(line)
    }

    /// Returns the words of a node's line in CLUSTER NODES.
    fn line_of(&mut self, id: NodeId) -> Option<Vec<String>> {
        let nodes = self.ask("CLUSTER NODES");
        let line = nodes
            .lines()
            .find(|line| line.starts_with(&id.to_string()))?;
        Some(line.split(' ').map(str::to_owned).collect())
    }

    fn sees(&mut self, id: NodeId, flags: &str, slots: &str) -> bool {
        self.line_of(id).is_some_and(|words| {
            words[2] == flags && words[7] == "connected" && words[8..].join(" ") == slots
        })
    }

    fn is_ok(&mut self) -> bool {
        self.ask("CLUSTER INFO").contains("cluster_state:ok")
    }
}

/// Joins all nodes. The first two real ones and the first one of ours share the slots.
fn join(nodes: &mut [Node], reals: &mut [Real]) {
    let mut addresses: Vec<(u16, u16)> = Vec::new();
    addresses.extend(reals.iter().map(|real| (real.process.port, real.bus_port)));
    addresses.extend(nodes[1..].iter().map(|node| (1, node.bus_port)));
    for (port, bus_port) in addresses {
        let machine = &mut nodes[0].machine;
        machine.meet("127.0.0.1", port, bus_port, now_ms()).unwrap();
    }
    let all = nodes.len() + reals.len();
    until(nodes, "all nodes know each other", |nodes| {
        let knows_all = |node: &Node| {
            let mut known = node.machine.nodes().iter();
            node.machine.nodes().len() == all && known.all(|n| !n.flags.has(Flags::HANDSHAKE))
        };
        nodes.iter().all(knows_all)
            && reals.iter_mut().all(|real| {
                let lines = real.ask("CLUSTER NODES");
                lines.lines().count() == all && !lines.contains("handshake")
            })
    });
    reals[0].ask("CLUSTER ADDSLOTSRANGE 0 5461");
    reals[1].ask("CLUSTER ADDSLOTSRANGE 5462 10923");
    let slots = SlotSet::from_iter(10_924..SLOTS);
    nodes[0].machine.add_slots(&slots, now_ms()).unwrap();
    until(nodes, "the cluster is ok", |nodes| all_ok(nodes, reals));
}

fn all_ok(nodes: &[Node], reals: &mut [Real]) -> bool {
    nodes.iter().all(|node| node.machine.is_ok()) && reals.iter_mut().all(Real::is_ok)
}

fn joins(peer: Peer) {
    let Some(first) = Real::start(peer) else {
        return;
    };
    let mut reals = [first, Real::start(peer).unwrap()];
    let mut nodes = [Node::start()];
    join(&mut nodes, &mut reals);
    let id = nodes[0].id;
    // Like Redis since 7.2, ours sends its hostname only to nodes that announce extensions. Redis
    // 7.0 announces them only if it has a hostname itself.
    until(
        &mut nodes,
        "the real nodes see ours, its slots and hostname",
        |_| {
            reals.iter_mut().all(|real| {
                let has_name = |words: Vec<String>| {
                    peer == Peer::Redis7 || words[1].ends_with(",ours.example")
                };
                real.sees(id, "master", "10924-16383") && real.line_of(id).is_some_and(has_name)
            })
        },
    );
    for real in &reals {
        let known = nodes[0].machine.nodes().get(real.id).unwrap();
        assert_eq!(known.address.port, real.process.port);
        assert!(known.slots.len() == 5_462);
    }
    // A key of ours is redirected to the port that our header announces.
    let slot = of_key(b"foo");
    assert_eq!(reals[0].ask("GET foo"), format!("MOVED {slot} 127.0.0.1:1"));

    // Messages, in both directions.
    reals[0].wire.int("PUBLISH news hello");
    until(&mut nodes, "the message arrives", |nodes| {
        nodes[0]
            .published
            .contains(&(b"news".to_vec(), b"hello".to_vec()))
    });
    let mut subscriber = reals[1].process.wire();
    subscriber.run("SUBSCRIBE news");
    nodes[0].machine.publish(b"news", b"good day", false);
    nodes[0].step();
    subscriber.receive("*3|$7|message|$4|news|$8|good day|");
    if peer == Peer::Valkey9 {
        light_messages(&mut nodes, &mut reals, &mut subscriber);
    } else {
        assert_eq!(nodes[0].light, (0, 0), "only Valkey reads light headers");
    }
}

/// Messages between ours and Valkey have light headers once each connection has carried a ping.
fn light_messages(nodes: &mut [Node], reals: &mut [Real], subscriber: &mut Wire) {
    let mut count = 0;
    until(nodes, "both sides send light headers", |nodes| {
        count += 1;
        reals[0].wire.int(&format!("PUBLISH news r{count}"));
        nodes[0].machine.publish(b"news", b"ours", false);
        nodes[0].light.0 >= 2 && nodes[0].light.1 >= 1
    });
    let last = (b"news".to_vec(), format!("r{count}").into_bytes());
    until(nodes, "all arrive", |nodes| {
        nodes[0].published.contains(&last)
    });
    for _ in 0..count {
        // Two publishers, so the messages come in any order.
        for _ in 0..2 {
            let value = subscriber.value();
            let kind = value.as_slice().and_then(|parts| parts[0].as_bytes());
            assert_eq!(kind, Some(&b"message"[..]), "{value:?}");
        }
    }
}

#[test]
fn ours_joins_redis_7() {
    joins(Peer::Redis7);
}

#[test]
fn ours_joins_redis_8() {
    joins(Peer::Redis8);
}

#[test]
fn ours_joins_valkey_9() {
    joins(Peer::Valkey9);
}

/// A replica among real nodes needs the vote of ours to replace its killed primary.
fn votes(peer: Peer) {
    let Some(first) = Real::start(peer) else {
        return;
    };
    let mut reals = vec![
        first,
        Real::start(peer).unwrap(),
        Real::start(peer).unwrap(),
    ];
    let mut nodes = [Node::start()];
    join(&mut nodes, &mut reals);
    let (primary, replica) = (reals[0].id, reals[2].id);
    reals[2].ask(&format!("CLUSTER REPLICATE {primary}"));
    until(&mut nodes, "the replica follows", |nodes| {
        let known = nodes[0].machine.nodes().get(replica).unwrap();
        known.primary == Some(primary)
            && reals[1].sees(replica, "slave", "")
            && reals[2]
                .ask("INFO replication")
                .contains("master_link_status:up")
    });
    let killed = reals.remove(0);
    let (dead, heir) = (killed.id, reals[1].id);
    drop(killed);
    until(&mut nodes, "the replica is elected", |_| {
        reals.iter_mut().all(|real| {
            real.line_of(heir)
                .is_some_and(|words| words[2].contains("master"))
        })
    });
    until(&mut nodes, "ours sees the new owner", |nodes| {
        let table = nodes[0].machine.nodes();
        table.owner(0).is_some_and(|node| node.id == heir)
            && table.get(dead).unwrap().flags.has(Flags::FAIL)
            && all_ok(nodes, &mut reals)
    });
    assert!(nodes[0].machine.last_vote_epoch() > 0, "ours has voted");
}

#[test]
fn ours_votes_for_a_replica_of_redis_7() {
    votes(Peer::Redis7);
}

#[test]
fn ours_votes_for_a_replica_of_redis_8() {
    votes(Peer::Redis8);
}

#[test]
fn ours_votes_for_a_replica_of_valkey_9() {
    votes(Peer::Valkey9);
}

/// A replica of ours is elected with the votes of a real primary and of ours. The three real
/// nodes may be of different programs.
fn is_elected(peers: [Peer; 2]) {
    let Some(first) = Real::start(peers[0]) else {
        return;
    };
    let Some(second) = Real::start(peers[1]) else {
        return;
    };
    let mut reals = vec![first, second];
    let mut nodes = [Node::start(), Node::start()];
    join(&mut nodes, &mut reals);
    let (primary, heir) = (reals[0].id, nodes[1].id);
    nodes[1].machine.replicate(primary, now_ms()).unwrap();
    until(&mut nodes, "all see the replica", |nodes| {
        let known = nodes[0].machine.nodes().get(heir).unwrap();
        known.primary == Some(primary) && reals.iter_mut().all(|real| real.sees(heir, "slave", ""))
    });
    drop(reals.remove(0));
    until(&mut nodes, "ours is elected", |nodes| nodes[1].promoted);
    until(&mut nodes, "the real node sees it", |nodes| {
        reals[0].sees(heir, "master", "0-5461") && all_ok(nodes, &mut reals)
    });
}

#[test]
fn ours_is_elected_by_redis_7() {
    is_elected([Peer::Redis7, Peer::Redis7]);
}

#[test]
fn ours_is_elected_by_redis_8_for_valkey_9() {
    is_elected([Peer::Valkey9, Peer::Redis8]);
}

#[test]
fn ours_is_elected_by_valkey_9_for_redis_7() {
    is_elected([Peer::Redis7, Peer::Valkey9]);
}
