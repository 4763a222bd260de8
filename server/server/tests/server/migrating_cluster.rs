//! Runs the commands of docs/migrating.md for each primary of a cluster of redis-servers, while a
//! client writes.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use punctual_harness::{Launch, PATIENCE, Peer, Process, free_port};

use crate::migrating::{Part, commands};
use crate::wire::{Wire, eventually};

fn start(program: Launch) -> Option<Process> {
    let bus = free_port();
    let options = format!(
        "--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout 5000 \
         --repl-diskless-sync-delay 0"
    );
    let program = program.options(options.split(' '));
    program.start_if_installed()
}

fn script(text: &str) {
    let output = Command::new("timeout")
        .args(["60", "bash", "-xc", text])
        .output()
        .unwrap();
    let (out, errors) = (&output.stdout, &output.stderr);
    let shown = [out, errors].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}{}", shown[0], shown[1]);
}

/// A client of the cluster that follows redirections.
struct Client {
    /// Port of each node that it knows, and a connection.
    nodes: Vec<(u16, Wire)>,
    last: usize,
}

impl Client {
    fn of(port: u16) -> Self {
        Self {
            nodes: vec![(port, Wire::to(port))],
            last: 0,
        }
    }

    /// Returns the reply of the node that serves the command's key.
    fn ask(&mut self, line: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.nodes[self.last].1.text(line);
            let Some(moved) = reply.strip_prefix("MOVED ") else {
                if reply.starts_with("CLUSTERDOWN") && Instant::now() < end {
                    continue;
                }
                return reply;
            };
            let (_, port) = moved.rsplit_once(':').unwrap();
            let port = port.parse().unwrap();
            let known = self.nodes.iter().position(|node| node.0 == port);
            self.last = known.unwrap_or(self.nodes.len());
            if known.is_none() {
                self.nodes.push((port, Wire::to(port)));
            }
        }
    }
}

/// Number of keys, which are in all slots.
const KEYS: u64 = 300;

/// Writes increasing numbers to the keys until `ended`, and returns how many were acknowledged.
fn write(mut client: Client, ended: &AtomicBool, written: &AtomicU64) -> u64 {
    while !ended.load(Ordering::Relaxed) {
        let number = written.load(Ordering::Relaxed);
        let key = number % KEYS;
        assert_eq!(client.ask(&format!("SET key:{key} {number}")), "OK");
        written.fetch_add(1, Ordering::Relaxed);
    }
    written.load(Ordering::Relaxed)
}

#[test]
fn the_page_moves_each_node_of_a_cluster() {
    the_page_moves_a_cluster_of(Peer::Redis7);
}

#[test]
fn the_page_moves_each_node_of_a_cluster_of_redis_8() {
    the_page_moves_a_cluster_of(Peer::Redis8);
}

#[test]
fn the_page_moves_each_node_of_a_cluster_of_valkey() {
    the_page_moves_a_cluster_of(Peer::Valkey9);
}

fn the_page_moves_a_cluster_of(peer: Peer) {
    let real: Option<Vec<_>> = (0..3).map(|_| start(peer.launch())).collect();
    let Some(real) = real else {
        return;
    };
    let addresses: Vec<_> = real
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port))
        .collect();
    let nodes = addresses.join(" ");
    script(&format!("redis-cli --cluster create {nodes} --cluster-yes"));
    let mut first = real[0].wire();
    eventually(|| first.text("CLUSTER INFO").contains("cluster_state:ok"));
    let program = env!("CARGO_BIN_EXE_punctual");
    let ours: Vec<_> = (0..3)
        .map(|_| start(Launch::of(program).options(["--threads", "2"])).expect("built"))
        .collect();
    let (ended, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = std::thread::scope(|scope| {
        let client = Client::of(real[0].port);
        let writer = scope.spawn(|| write(client, &ended, &written));
        let moved = std::panic::catch_unwind(|| {
            for (old, new) in real.iter().zip(&ours) {
                let before = written.load(Ordering::Relaxed);
                eventually(|| written.load(Ordering::Relaxed) > before + 100);
                script(&commands(Part::Cluster, old.port, new.port));
            }
            let before = written.load(Ordering::Relaxed);
            eventually(|| written.load(Ordering::Relaxed) > before + 100);
        });
        ended.store(true, Ordering::Relaxed);
        for node in real.iter().chain(&ours).filter(|_| moved.is_err()) {
            eprintln!("{}: {}", node.port, node.last_lines());
        }
        moved.unwrap();
        writer.join().unwrap()
    });
    let mut client = Client::of(ours[0].port);
    assert!(count > KEYS);
    for number in count - KEYS..count {
        let key = number % KEYS;
        assert_eq!(client.ask(&format!("GET key:{key}")), number.to_string());
    }
    for node in &ours {
        let nodes = node.wire().text("CLUSTER NODES");
        assert_eq!(nodes.lines().count(), 3, "{nodes}");
        assert!(!nodes.contains("fail"), "{nodes}");
    }
}
