//! Commands of an operator, whose replies nobody waits for.

use std::collections::BTreeMap;

use crate::clients::PORT;
use crate::kernel::NodeId;
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::world;

const COMMANDS: [&[&str]; 6] = [
    &["BGREWRITEAOF"],
    &["BGSAVE", "SCHEDULE"],
    &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
    &["CONFIG", "SET", "repl-backlog-size", "16384"],
    &["CONFIG", "SET", "repl-backlog-size", "1048576"],
    &["CLIENT", "KILL", "TYPE", "replica"],
];

/// Connections of the operator, with the commands that are not sent yet.
#[derive(Default)]
pub struct Chores(BTreeMap<EndId, Vec<u8>>);

impl Chores {
    /// Begins a drawn command on a connection of its own.
    pub fn begin(&mut self, node: NodeId, draws: &mut Draws) {
        self.send(node, draws.one_of(&COMMANDS));
    }

    /// Lets a primary and one of its replicas change places. A replica refuses this.
    pub fn fail_over(&mut self, node: NodeId) {
        self.send(node, &["FAILOVER", "TIMEOUT", "2000"]);
    }

    fn send(&mut self, node: NodeId, command: &[&str]) {
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

    /// Closes all connections.
    pub fn end(&mut self) {
        for end in std::mem::take(&mut self.0).into_keys() {
            world::close(end);
        }
    }
}
