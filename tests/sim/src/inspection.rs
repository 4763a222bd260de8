//! DEBUG CHECK: asks servers whether their indexes and counters agree with their data, after bursts
//! of faults and at the end.

use std::collections::BTreeMap;

use punctual_resp::{Decoder, Value};

use crate::clients::PORT;
use crate::kernel::NodeId;
use crate::kernel::streams::EndId;
use crate::run::Driver;
use crate::{verdict, world};

const QUESTION: [&str; 2] = ["DEBUG", "CHECK"];

/// Connections on which a question waits for its reply.
#[derive(Default)]
pub struct Inspections(BTreeMap<EndId, (NodeId, Vec<u8>, Decoder)>);

/// Fails the run if a server has found a disagreement.
fn judge(node: NodeId, reply: &Value) {
    let name = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    match reply {
        // A script that runs for long excludes the command.
        Value::Error(text) if !text.starts_with(b"ERR") => {}
        Value::Error(text) => verdict::stop(&format!("DEBUG CHECK at node {node}: {}", name(text))),
        _ => {}
    }
}

impl Inspections {
    /// Asks a node, on a connection of its own.
    pub fn begin(&mut self, node: NodeId) {
        let mut line = Vec::new();
        punctual_resp::encode_command(&mut line, &QUESTION);
        let end = world::connect(node, PORT);
        self.0.insert(end, (node, line, Decoder::new()));
    }

    /// Handles a change of a connection. Returns false if it is not a connection of this kind.
    pub fn changed(&mut self, end: EndId) -> bool {
        let Some((node, line, decoder)) = self.0.get_mut(&end) else {
            return false;
        };
        let found = world::read(end);
        if found.connected && !line.is_empty() {
            let sent = world::send(end, line);
            line.drain(..sent);
        }
        decoder.feed(&found.bytes);
        let reply = decoder.next_value().ok().flatten();
        if let Some(reply) = &reply {
            judge(*node, reply);
        }
        if found.ended || reply.is_some() {
            world::close(end);
            self.0.remove(&end);
        }
        true
    }
}

impl Driver {
    /// Asks all nodes that run.
    pub fn inspect(&mut self) {
        for node in 1..=self.plan.nodes {
            if !self.dead.contains(&node) {
                self.inspections.begin(node);
            }
        }
    }

    /// Asks a node, and waits for its reply.
    pub fn inspect_now(&mut self, node: NodeId) {
        match self.ask(node, &QUESTION) {
            Some(reply) => judge(node, &reply),
            None => verdict::stop(&format!("node {node} does not answer DEBUG CHECK")),
        }
    }
}
