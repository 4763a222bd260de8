//! The operator that takes a replica out of the cluster and brings it back: CLUSTER RESET at the
//! replica, in some runs FORGET at all other nodes, MEET, and REPLICATE.
//!
//! An elected replica must not be reset: an empty one would drop its slots. So the operator first
//! forbids the replica to be elected, waits until no failover can be under way, and sends all this
//! on one connection: if the replica has started again meanwhile, the operator begins anew.

use punctual_resp::Value;

use super::errand::{Errand, Heard};
use super::heal::FAILOVER;
use super::operator::{meeting, text_of};
use super::view::View;
use super::{Cluster, Task};
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::{verdict, world};

/// Time before a step is tried again.
const AGAIN: Nanos = 200 * MILLI;
/// Time after which nodes are introduced to each other again.
const MEETING: Nanos = 5 * SECOND;
/// Time for which no node adds a forgotten one, with a reserve for clocks that drift. Until then,
/// nodes also tell each other to forget it.
const BAN: Nanos = 62 * SECOND;
/// Time in which the node is a replica again after the faults.
const RETURN: Nanos = BAN + 60 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    ForbidElection,
    AskRole,
    Reset,
    AskName,
    /// At this node.
    Forget(NodeId),
    /// This node follows the one that leaves, so it gets another primary first.
    Rehome(NodeId),
    AwaitBans,
    Meet,
    AskNodes,
    Replicate,
    AllowElection,
}

/// A replica on its way out and back.
pub struct Rejoin {
    node: NodeId,
    /// The node gets a new ID.
    hard: bool,
    /// The operator sends FORGET to the other nodes. It must do so after a hard reset.
    forgets: bool,
    /// ID of the node before.
    old: String,
    step: Step,
    /// The node has replied that it was reset.
    was_reset: bool,
    errand: Errand,
    /// Time of the next try, and of the last MEET.
    at: Nanos,
    met_at: Nanos,
}

impl Rejoin {
    pub fn owns(&self, end: EndId) -> bool {
        self.errand.owns(end)
    }

    /// Goes on after the connection was lost, or a command was given up.
    fn lost(&mut self) {
        self.errand.lose();
        self.step = match self.step {
            Step::AskRole => Step::ForbidElection,
            Step::Reset => Step::AskName,
            step => step,
        };
        self.at = world::now() + AGAIN;
    }

    /// Goes on with a step after a pause.
    fn go(&mut self, step: Step, pause: Nanos) {
        self.step = step;
        self.at = world::now() + pause;
    }

    /// Returns the step after `Forget` at a node, or the first one.
    fn forget_after(&self, node: NodeId, nodes: usize) -> Step {
        match (node + 1..=nodes).find(|other| *other != self.node) {
            Some(other) if self.forgets => Step::Forget(other),
            _ if self.forgets && !self.hard => Step::AwaitBans,
            _ => Step::Meet,
        }
    }
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

impl Cluster {
    /// Returns whether a node is out of the cluster, or on its way.
    pub fn is_away(&self, node: NodeId) -> bool {
        self.rejoin
            .as_ref()
            .is_some_and(|rejoin| rejoin.node == node)
    }

    fn begin_rejoin(&mut self) -> Option<Rejoin> {
        let replicas = self.watch.replicas();
        let node = *replicas.get(self.draws.index(replicas.len().max(1)))?;
        let hard = self.draws.chance(400_000);
        Some(Rejoin {
            node,
            hard,
            forgets: hard || self.draws.chance(500_000),
            old: self.names[node].clone(),
            step: Step::ForbidElection,
            was_reset: false,
            errand: Errand::default(),
            at: 0,
            met_at: 0,
        })
    }

    /// Begins to take a replica out, or does the next thing.
    pub fn act_rejoin(&mut self) {
        if self.rejoin.is_none() && self.heals_at.is_none() {
            self.rejoin = self.begin_rejoin();
        }
        let Some(mut rejoin) = self.rejoin.take() else {
            if self.heals_at.is_none() {
                self.wake(world::now() + SECOND, Task::Rejoin);
            }
            return;
        };
        let at = self.next_of(&mut rejoin);
        self.rejoin = Some(rejoin);
        self.wake(at, Task::Rejoin);
    }

    /// Does the next thing, and returns the time of the one after it.
    fn next_of(&mut self, rejoin: &mut Rejoin) -> Nanos {
        let now = world::now();
        if let Some(until) = rejoin.errand.waits() {
            if now < until {
                return until;
            }
            rejoin.lost();
        }
        if now < rejoin.at {
            return rejoin.at;
        }
        if rejoin.step == Step::AskRole && self.chores.are_open_to(rejoin.node) {
            return now + SECOND;
        }
        let mut node = rejoin.node;
        let line = match rejoin.step {
            Step::ForbidElection => words(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]),
            Step::AskRole => words(&["ROLE"]),
            Step::Reset => {
                self.watch.resets(node, rejoin.hard);
                words(&[
                    "CLUSTER",
                    "RESET",
                    if rejoin.hard { "HARD" } else { "SOFT" },
                ])
            }
            Step::Forget(other) => {
                node = other;
                words(&["CLUSTER", "FORGET", &rejoin.old])
            }
            Step::Meet => {
                let other = self.some_other(node);
                let mut met = other;
                if self.draws.chance(500_000) {
                    (node, met) = (other, node);
                }
                meeting(met).to_vec()
            }
            Step::AskName | Step::AskNodes => words(&["CLUSTER", "NODES"]),
            Step::Replicate | Step::Rehome(_) => {
                if let Step::Rehome(other) = rejoin.step {
                    node = other;
                    self.watch.killed(node);
                }
                let owners: Vec<NodeId> = self.watch.owners().into_iter().collect();
                let primary = owners[self.draws.index(owners.len())];
                words(&["CLUSTER", "REPLICATE", &self.names[primary]])
            }
            Step::AllowElection => words(&["CONFIG", "SET", "cluster-replica-no-failover", "no"]),
            // With faults, a packet with the ban may arrive much later.
            Step::AwaitBans => {
                let Some(healed) = self.heals_at else {
                    return now + SECOND;
                };
                let over = healed.max(rejoin.at) + BAN;
                if now >= over {
                    rejoin.step = Step::Meet;
                }
                return over.max(now);
            }
        };
        rejoin.errand.send(node, &line)
    }

    fn some_other(&mut self, node: NodeId) -> NodeId {
        let others: Vec<NodeId> = (1..=self.plan.nodes)
            .filter(|other| *other != node)
            .collect();
        self.draws.one_of(&others)
    }

    /// Handles a change of the connection.
    pub fn changed_rejoin(&mut self) {
        let Some(mut rejoin) = self.rejoin.take() else {
            return;
        };
        let at = match rejoin.errand.hear() {
            Heard::Connected => world::now(),
            Heard::Nothing => rejoin.errand.until,
            Heard::Lost => {
                rejoin.lost();
                rejoin.at
            }
            Heard::Reply(reply) => {
                let tell = || format!("rejoin {} {:?}: {reply:.300?}", rejoin.node, rejoin.step);
                world::with(|kernel| kernel.trace.tell(tell));
                if self.replied_rejoin(&mut rejoin, &reply) {
                    rejoin.errand.lose();
                    self.watch.named(rejoin.node, &self.names[rejoin.node]);
                    if self.heals_at.is_none() {
                        let pause = self.draws.between(MILLI, 10 * SECOND);
                        self.wake(world::now() + pause, Task::Rejoin);
                    }
                    return;
                }
                rejoin.at
            }
        };
        self.rejoin = Some(rejoin);
        self.wake(at, Task::Rejoin);
    }

    /// Goes on after a reply. Returns true at the end.
    fn replied_rejoin(&mut self, rejoin: &mut Rejoin, reply: &Value) -> bool {
        let text = text_of(reply);
        if matches!(reply, Value::Error(_)) {
            let gone = text.starts_with("ERR Unknown node");
            if let Step::Forget(node) = rejoin.step
                && gone
            {
                rejoin.go(rejoin.forget_after(node, self.plan.nodes), 0);
                return false;
            }
            if let Step::Forget(node) = rejoin.step
                && text.starts_with("ERR Can't forget my master")
            {
                rejoin.go(Step::Rehome(node), AGAIN);
                return false;
            }
            if let Step::Rehome(node) = rejoin.step {
                rejoin.step = Step::Forget(node);
            }
            let known = [
                "LOADING ",
                "ERR I can only replicate a master",
                "ERR To set a master the node must be empty",
                "MISCONF ",
            ];
            if !gone && !known.iter().any(|known| text.starts_with(known)) {
                let (node, step) = (rejoin.node, rejoin.step);
                verdict::stop(&format!("{step:?} of node {node} that leaves: {text}"));
            }
            rejoin.go(rejoin.step, AGAIN);
            return false;
        }
        match rejoin.step {
            // Within this time, a failover that was ordered before has ended.
            Step::ForbidElection => rejoin.go(Step::AskRole, FAILOVER),
            Step::AskRole => match reply {
                Value::Array(role) if role.first().map(text_of).as_deref() == Some("slave") => {
                    rejoin.go(Step::Reset, 0);
                }
                _ => return true,
            },
            Step::Reset => {
                rejoin.was_reset = true;
                rejoin.go(Step::AskName, 0);
            }
            Step::AskName => {
                let view = View::read(&text).unwrap_or_default();
                let own = view.own_line();
                let is_empty = own.is_some_and(|own| own.primary.is_none() && own.slots.is_empty());
                let is_renamed = view.own != rejoin.old;
                if is_renamed && !rejoin.hard {
                    verdict::stop(&format!("node {} has a new ID: {text}", rejoin.node));
                }
                // Another node may have met this one already, by an older command.
                if is_empty && is_renamed == rejoin.hard {
                    self.rejoined += 1;
                    self.names[rejoin.node].clone_from(&view.own);
                    self.watch.named(rejoin.node, &view.own);
                    rejoin.go(rejoin.forget_after(0, self.plan.nodes), 0);
                } else if rejoin.was_reset {
                    verdict::stop(&format!("node {} has lost its reset: {text}", rejoin.node));
                } else {
                    rejoin.go(Step::ForbidElection, 0);
                }
            }
            Step::Rehome(node) => rejoin.go(Step::Forget(node), AGAIN),
            Step::Forget(node) => rejoin.go(rejoin.forget_after(node, self.plan.nodes), 0),
            Step::Meet => {
                rejoin.met_at = world::now();
                rejoin.go(Step::AskNodes, AGAIN);
            }
            Step::AskNodes => {
                let view = View::read(&text).unwrap_or_default();
                let knows = |view: &View| {
                    let mut lines = view.lines.values();
                    view.lines.len() == self.plan.nodes
                        && lines.all(|line| !line.flags.contains("handshake"))
                };
                match knows(&view) {
                    true => rejoin.go(Step::Replicate, 0),
                    false if world::now() > rejoin.met_at + MEETING => rejoin.go(Step::Meet, 0),
                    false => rejoin.go(Step::AskNodes, AGAIN),
                }
            }
            Step::Replicate => rejoin.go(Step::AllowElection, 0),
            Step::AwaitBans | Step::AllowElection => return true,
        }
        false
    }

    /// Waits until a replica that was out of the cluster is a replica again. Then lets all nodes
    /// forget old IDs: a node may have lost a ban when its power was cut. Nodes that do not know
    /// each other meet again: a node that returns may know all others while nobody knows it, if
    /// the one that it met has ended before the handshake was over.
    pub fn until_rejoined(&mut self) {
        let until = world::now() + RETURN;
        while let Some(rejoin) = &self.rejoin {
            if world::now() > until {
                let (node, step) = (rejoin.node, rejoin.step);
                verdict::stop(&format!("node {node} does not come back: {step:?}"));
            }
            self.pause(100 * MILLI);
        }
        for node in 1..=self.plan.nodes {
            let view = self.view(node).unwrap_or_default();
            let strange = view
                .lines
                .keys()
                .filter(|name| self.node_named(name).is_none());
            for name in strange.cloned().collect::<Vec<_>>() {
                self.ask(node, &["CLUSTER", "FORGET", &name]);
            }
            let missing =
                (1..=self.plan.nodes).filter(|met| !view.lines.contains_key(&self.names[*met]));
            for met in missing.collect::<Vec<_>>() {
                self.ask(node, &meeting(met));
            }
        }
    }
}
