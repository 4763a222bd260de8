//! The operator: questions to nodes, and the creation of the cluster.

use punctual_resp::Value;

use super::view::View;
use super::{BUS, Cluster};
use crate::clients::PORT;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::link::Link;
use crate::{verdict, world};

/// Commands on a connection of their own, and the replies so far.
pub struct Question {
    link: Link,
    replies: Vec<Value>,
    lost: bool,
}

impl Question {
    pub fn owns(&self, end: EndId) -> bool {
        self.link.owns(end)
    }

    pub fn changed(&mut self) {
        let arrived = self.link.read();
        self.replies.extend(arrived.replies);
        self.lost |= arrived.lost;
    }
}

/// Time within which a cluster without faults must be created.
const CREATION: Nanos = 60 * SECOND;
/// Number of all slots.
const SLOTS: usize = punctual_cluster::slot::SLOTS as usize;

/// Returns the command that introduces a node to the one that gets it.
pub fn meeting(node: NodeId) -> [String; 5] {
    let [cluster, meet] = ["CLUSTER", "MEET"].map(str::to_owned);
    let host = format!("10.0.0.{node}");
    [cluster, meet, host, PORT.to_string(), BUS.to_string()]
}

pub fn text_of(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        other => format!("{other:?}"),
    }
}

impl Cluster {
    /// Sends commands on one connection, and waits for their replies.
    pub fn ask_all<W: AsRef<[u8]>>(
        &mut self,
        node: NodeId,
        commands: &[&[W]],
    ) -> Option<Vec<Value>> {
        let mut link = Link::new(1);
        link.node = node;
        link.prepare();
        commands.iter().for_each(|command| link.push(command));
        self.question = Some(Question {
            link,
            replies: Vec::new(),
            lost: false,
        });
        let until = world::now() + 5 * SECOND;
        while world::now() < until {
            self.step(until.min(world::now() + SECOND));
            let Some(question) = &self.question else {
                break;
            };
            if question.replies.len() == commands.len() || question.lost {
                break;
            }
        }
        let mut question = self.question.take()?;
        question.link.lose();
        (question.replies.len() == commands.len()).then_some(question.replies)
    }

    /// Sends a command, and waits for its reply.
    pub fn ask<W: AsRef<[u8]>>(&mut self, node: NodeId, command: &[W]) -> Option<Value> {
        self.ask_all(node, &[command])?.pop()
    }

    /// Sends a command that must succeed.
    fn order<W: AsRef<[u8]> + std::fmt::Debug>(&mut self, node: NodeId, command: &[W]) {
        let reply = self.ask(node, command);
        if !matches!(&reply, Some(Value::Simple(ok)) if ok == b"OK") {
            let reply = reply.as_ref().map(text_of);
            verdict::stop(&format!("{command:?} at node {node}: {reply:?}"));
        }
    }

    /// Returns a node's view of the cluster.
    pub fn view(&mut self, node: NodeId) -> Option<View> {
        match self.ask(node, &["CLUSTER", "NODES"])? {
            Value::Bulk(text) => View::read(&String::from_utf8_lossy(&text)),
            _ => None,
        }
    }

    /// Returns whether a node says that the cluster can serve.
    pub fn is_ok(&mut self, node: NodeId) -> bool {
        let info = self.ask(node, &["CLUSTER", "INFO"]);
        info.is_some_and(|info| text_of(&info).contains("cluster_state:ok"))
    }

    /// Returns the node with an ID.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.names.iter().position(|known| known == name)
    }

    /// Lets a time pass.
    pub fn pause(&mut self, time: Nanos) {
        let until = world::now() + time;
        while world::now() < until {
            self.step(until);
        }
    }

    /// Starts the nodes, and makes them a cluster, as `redis-cli --cluster create` does.
    pub fn create(&mut self) {
        let (nodes, primaries) = (self.plan.nodes, self.shape.primaries);
        for node in 1..=nodes {
            self.start(node);
        }
        self.pause(100 * MILLI);
        self.until_loaded();
        self.names.push(String::new());
        for node in 1..=nodes {
            let id = self.ask(node, &["CLUSTER", "MYID"]);
            self.names
                .push(id.as_ref().map_or_else(String::new, text_of));
        }
        for at in 0..primaries {
            let (first, last) = (SLOTS * at / primaries, SLOTS * (at + 1) / primaries - 1);
            let (first, last) = (first.to_string(), last.to_string());
            self.order(at + 1, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            let epoch = (at + 1).to_string();
            self.order(at + 1, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        for node in 2..=nodes {
            self.order(1, &meeting(node));
        }
        self.until_created("all nodes know each other", |cluster, node| {
            let view = cluster.view(node);
            view.is_some_and(|view| view.lines.len() == nodes && view.is_calm())
        });
        for node in primaries + 1..=nodes {
            let primary = self.draws.between(1, primaries as u64) as NodeId;
            let name = self.names[primary].clone();
            self.order(node, &["CLUSTER", "REPLICATE", &name]);
        }
        self.until_created("all nodes serve", |cluster, node| cluster.is_ok(node));
        self.until_created("all replicas have data", |cluster, node| {
            let role = cluster.ask(node, &["ROLE"]);
            let Some(Value::Array(role)) = role else {
                return false;
            };
            node <= primaries
                || role
                    .get(3)
                    .is_some_and(|state| text_of(state) == "connected")
        });
        for node in 1..=nodes {
            self.order(node, &["CLUSTER", "SAVECONFIG"]);
        }
    }

    fn until_created(&mut self, what: &str, is_so: impl Fn(&mut Self, NodeId) -> bool) {
        for node in 1..=self.plan.nodes {
            while !is_so(self, node) {
                if world::now() > CREATION {
                    verdict::stop(&format!("the cluster is not created: not {what}"));
                }
                self.pause(100 * MILLI);
            }
        }
    }
}
