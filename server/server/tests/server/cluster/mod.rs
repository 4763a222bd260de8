//! Cluster mode: our nodes beside nodes of other projects, and redis-cli's cluster manager.

mod balance;
mod kills;
mod managed;
mod manager;
mod moving;
mod notify;
mod owners;
mod pairs;
mod ports;
mod repairs;
mod restarts;
mod session;
mod usage;

use std::time::Instant;

use punctual_harness::{PATIENCE, Peer, Process, Wire, free_port};

use crate::process::Start as _;

/// Node timeout: time after which a silent node counts as failed.
const TIMEOUT_MS: &str = "2000";

/// A program that a node can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Ours,
    Real(Peer),
}

/// A node of a cluster, and a client of it.
struct Node {
    process: Process,
    wire: Wire,
    bus_port: u16,
    id: String,
}

impl Node {
    /// Starts a node. Returns `None` if its program is not installed.
    #[track_caller]
    fn start(program: Program) -> Option<Self> {
        Self::start_with(program, &[])
    }

    /// Same as [`Node::start`], with more options.
    #[track_caller]
    fn start_with(program: Program, more: &[&str]) -> Option<Self> {
        let bus_port = free_port();
        let port = bus_port.to_string();
        let mut options = vec![
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &port,
            "--cluster-node-timeout",
            TIMEOUT_MS,
            "--repl-diskless-sync-delay",
            "0",
        ];
        options.extend(more);
        let process: Process = match program {
            Program::Ours => Process::start(&options),
            Program::Real(peer) => peer.start(&options)?,
        };
        let mut wire = process.wire();
        let id = wire.text("CLUSTER MYID");
        Some(Self {
            process,
            wire,
            bus_port,
            id,
        })
    }

    #[track_caller]
    fn ours() -> Self {
        Self::start(Program::Ours).expect("it is built")
    }

    fn port(&self) -> u16 {
        self.process.port
    }

    /// Introduces another node, and waits until each of both knows the other one by its ID.
    #[track_caller]
    fn meet(&mut self, other: &mut Self) {
        let (port, bus_port) = (other.port(), other.bus_port);
        let line = format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}");
        self.wire.run(&line);
        let [own, others] = [self.id.clone(), other.id.clone()];
        self.wait("CLUSTER NODES", |nodes| nodes.contains(&others));
        other.wait("CLUSTER NODES", |nodes| nodes.contains(&own));
    }

    /// Waits until CLUSTER INFO contains a text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.wait("CLUSTER INFO", |info| info.contains(text));
    }

    /// Waits until a command's reply satisfies a condition.
    #[track_caller]
    fn wait(&mut self, line: &str, holds: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.wire.text(line);
            if holds(&reply) {
                return;
            }
            assert!(Instant::now() < end, "{line} still replies {reply}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
