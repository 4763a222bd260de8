//! Commands of an operator, whose replies nobody waits for.

use std::collections::BTreeMap;

use crate::clients::PORT;
use crate::kernel::NodeId;
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::world;

const COMMANDS: [&[&str]; 9] = [
    &["BGREWRITEAOF"],
    &["BGSAVE", "SCHEDULE"],
    &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
    &["CONFIG", "SET", "repl-backlog-size", "16384"],
    &["CONFIG", "SET", "repl-backlog-size", "1048576"],
    &["CLIENT", "KILL", "TYPE", "replica"],
    &["CLIENT", "KILL", "TYPE", "normal"],
    &[
        "NOTIFY", "SET", "all", "STREAM", "notes", "EVENTS", "g$hx", "MAXAGE", "5000",
    ],
    &["NOTIFY", "DEL", "all"],
];

/// Connections of the operator, with the commands that are not sent yet.
#[derive(Default)]
pub struct Chores(BTreeMap<EndId, Vec<u8>>);

impl Chores {
    /// Begins a drawn command on a connection of its own.
    pub fn begin(&mut self, node: NodeId, writable: bool, draws: &mut Draws) {
        let command = draws.one_of(&COMMANDS);
        // A rule on a writable replica is the replica's own.
        if !(writable && command[0] == "NOTIFY") {
            self.send(node, command);
        }
    }

    /// Lets a primary and one of its replicas change places. A replica refuses this.
    pub fn fail_over(&mut self, node: NodeId) {
        self.send(node, &["FAILOVER", "TIMEOUT", "2000"]);
    }

    /// Makes a node a replica of another one.
    pub fn follow(&mut self, node: NodeId, primary: NodeId) {
        let (host, port) = (format!("10.0.0.{primary}"), PORT.to_string());
        self.send(node, &["REPLICAOF", &host, &port]);
    }

    /// Begins a command on a connection of its own.
    pub fn send(&mut self, node: NodeId, command: &[&str]) {
        let mut line = Vec::new();
        punctual_resp::encode_command(&mut line, command);
        self.0.insert(world::connect(node, PORT), line);
    }

    /// Handles a change of a connection.
    pub fn changed(&mut self, end: EndId) {
        let Some(line) = self.0.get_mut(&end) else {
            return;
        };
        let found = world::read(end);
        if found.connected && !line.is_empty() {
            let sent = world::send(end, line);
            line.drain(..sent);
        }
        if found.ended || !found.bytes.is_empty() {
            world::close(end);
            self.0.remove(&end);
        }
    }

    /// Returns whether a command to a node may not be carried out yet.
    pub fn are_open_to(&self, node: NodeId) -> bool {
        let to = |end: &EndId| world::with(|kernel| kernel.end_ref(end.peer()).address.node);
        self.0.keys().any(|end| to(end) == node)
    }

    /// Closes all connections.
    pub fn end(&mut self) {
        for end in std::mem::take(&mut self.0).into_keys() {
            world::close(end);
        }
    }
}
