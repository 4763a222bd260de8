//! The end of a run: faults have ended. All slots are served again in time, all nodes see the same
//! cluster, all promises are kept, and each key is at the owner of its slot and its replicas.

use std::collections::{BTreeMap, BTreeSet};

use punctual_cluster::slot::{SLOTS, SlotSet, of_key};
use punctual_resp::Value;

use super::client::LAST;
use super::crew::Crew;
use super::operator::text_of;
use super::view::{View, ranges};
use super::{Cluster, Task};
use crate::clients::PORT;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::{verdict, world};

/// Time in which started nodes load their data.
const LOADING: Nanos = 60 * SECOND;
/// Time after which all slots are served, besides the node timeout.
const SERVED: Nanos = 3 * SECOND;
/// Time after which a manual failover has been carried out or given up.
pub const FAILOVER: Nanos = 6 * SECOND;
/// Time in which workers finish.
const WORKS: Nanos = 60 * SECOND;
/// Time after which the last leases have ended.
const REST: Nanos = 5 * SECOND;
/// Time in which views become equal and replicas get their data.
const CONVERGED: Nanos = 60 * SECOND;

/// Returns the keys whose digests differ.
fn difference(ours: &Digests, theirs: &Digests) -> BTreeSet<String> {
    let keys = ours.keys().chain(theirs.keys());
    let differ = keys.filter(|key| ours.get(*key) != theirs.get(*key));
    differ.cloned().collect()
}

/// The digests of a node's keys.
type Digests = BTreeMap<String, String>;

impl Cluster {
    pub fn heal(&mut self) {
        self.heals_at = Some(world::now());
        self.chores.end();
        let ended = |task: &Task| {
            matches!(
                task,
                Task::Fault | Task::Kill(_) | Task::Restart(_) | Task::EndPartition(..)
            )
        };
        self.tasks.retain(|task| !ended(&task.0.2));
        world::with(|kernel| kernel.calm_down());
        for node in 1..=self.plan.nodes {
            world::with(|kernel| kernel.thaw(node));
        }
        // MIGRATE sends the time that is left by its own clock, as in Redis. So each move may have
        // put off timers by the difference of two clocks.
        let moves = self.mover.done + self.mover.open.len() as u64 + 1;
        world::with(|kernel| {
            kernel.catch_up();
            kernel.skip(moves);
        });
        for node in self.dead.clone() {
            self.restart(node);
        }
        self.until_loaded();
        self.until_served();
        self.pause(FAILOVER);
        self.until_moved();
        self.until_rejoined();
        self.until_views_agree(false);
        self.repair();
        self.until_views_agree(true);
        self.until_routes_agree();
        self.last_operations();
        self.last_works();
        let digests = self.compare_data();
        self.check_places();
        if self.shape.restarts {
            self.restart_all(&digests);
        }
    }

    /// Waits until all nodes have loaded their data.
    pub fn until_loaded(&mut self) {
        let until = world::now() + LOADING;
        for node in 1..=self.plan.nodes {
            loop {
                let reply = self.ask(node, &["PING"]);
                if matches!(reply, Some(Value::Simple(_))) {
                    break;
                }
                if world::now() > until {
                    verdict::stop(&format!("node {node} does not serve: {reply:?}"));
                }
                self.pause(20 * MILLI);
            }
        }
    }

    /// Waits until each slot is served by a node that sees itself as its owner.
    fn until_served(&mut self) {
        let until = world::now() + self.shape.timeout + SERVED;
        loop {
            let mut served = SlotSet::default();
            let mut shown = Vec::new();
            for node in 1..=self.plan.nodes {
                let (view, ok) = (self.view(node), self.is_ok(node));
                let Some(line) = view.as_ref().and_then(View::own_line) else {
                    continue;
                };
                if ok && line.primary.is_none() {
                    served.add(&line.slots);
                }
                let failing = view.iter().flat_map(View::failing);
                let failing: Vec<_> = failing.map(|name| self.node_named(name)).collect();
                let moving = view.as_ref().map(|view| &view.moving);
                let known: usize = view.iter().flat_map(View::all).map(SlotSet::len).sum();
                shown.push(format!(
                    "{node}: ok {ok}, failing {failing:?}, {known} slots known, {moving:?} move, \
                     primary {:?}, epoch {}, {:?}",
                    line.primary.as_ref().and_then(|name| self.node_named(name)),
                    line.epoch,
                    line.slots.ranges()
                ));
            }
            if served.len() == usize::from(SLOTS) {
                return;
            }
            if world::now() > until {
                verdict::stop(&format!(
                    "{} slots are not served in time: {shown:?}",
                    usize::from(SLOTS) - served.len()
                ));
            }
            self.pause(50 * MILLI);
        }
    }

    /// Lets a move that no failure has met end.
    fn until_moved(&mut self) {
        while self.mover.now.is_some() {
            self.pause(100 * MILLI);
        }
    }

    /// Waits until all nodes show the same cluster, in which nothing fails. A node keeps its view
    /// of a slot that arrives until the operator names the owner, so open slots count only
    /// `with_open`.
    fn until_views_agree(&mut self, with_open: bool) {
        let until = world::now() + CONVERGED;
        loop {
            let views = (1..=self.plan.nodes).map(|node| self.view(node));
            let mut views: Vec<View> = views.flatten().collect();
            if !with_open {
                let open: SlotSet = views.iter().flat_map(|view| view.moving.clone()).collect();
                views.iter_mut().for_each(|view| view.leave_out(&open));
            }
            let first = &views[0];
            let agree = views
                .iter()
                .all(|view| view.lines == first.lines && view.is_calm());
            let whole = views.len() == self.plan.nodes && first.lines.len() == self.plan.nodes;
            if agree && whole {
                return;
            }
            if world::now() > until {
                let other = views.iter().find(|view| view.lines != first.lines);
                let other = other.map(|view| view.difference(first));
                verdict::stop(&format!(
                    "the views do not agree: {other:?}, {:?}",
                    first.lines
                ));
            }
            self.pause(200 * MILLI);
        }
    }

    /// Waits until all nodes give clients the same owners and replicas.
    fn until_routes_agree(&mut self) {
        let until = world::now() + CONVERGED;
        loop {
            let replies = (1..=self.plan.nodes).map(|node| self.ask(node, &["CLUSTER", "SLOTS"]));
            let replies: Vec<_> = replies.flatten().map(|reply| ranges(&reply)).collect();
            let agree = replies.iter().all(|reply| *reply == replies[0]);
            if agree && replies.len() == self.plan.nodes {
                return;
            }
            if world::now() > until {
                verdict::stop(&format!("CLUSTER SLOTS differs: {replies:?}"));
            }
            self.pause(200 * MILLI);
        }
    }

    /// Returns the primaries, each with its slots.
    fn primaries(&mut self) -> Vec<(NodeId, SlotSet)> {
        let view = self.view(1).unwrap_or_default();
        let primaries = view.lines.iter().filter(|(_, line)| line.primary.is_none());
        let primaries = primaries.filter_map(|(name, line)| {
            let node = self.node_named(name)?;
            Some((node, line.slots.clone()))
        });
        primaries.collect()
    }

    /// Returns the names of a node's keys.
    fn keys(&mut self, node: NodeId) -> Vec<String> {
        match self.ask(node, &["KEYS", "*"]) {
            Some(Value::Array(keys)) => keys.iter().map(text_of).collect(),
            other => verdict::stop(&format!("KEYS at node {node}: {other:?}")),
        }
    }

    /// Moves keys that a failed move has left behind to the owners of their slots, as
    /// `redis-cli --cluster fix` does.
    fn repair(&mut self) {
        let primaries = self.primaries();
        for (node, _) in &primaries {
            let keys = self.keys(*node);
            let is_stray = |key: &&String| self.watch.owner(of_key(key.as_bytes())) != Some(*node);
            let strays: Vec<String> = keys.iter().filter(is_stray).cloned().collect();
            for key in strays {
                let slot = of_key(key.as_bytes());
                let Some(owner) = self.watch.owner(slot) else {
                    verdict::stop(&format!("slot {slot} has no owner"));
                };
                self.bring_home(*node, owner, &key, slot);
            }
        }
        for node in 1..=self.plan.nodes {
            let moving = self.view(node).unwrap_or_default().moving;
            for slot in moving {
                self.ask(node, &["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
            }
        }
    }

    /// Moves a key to the owner of its slot. The owner's own key wins.
    fn bring_home(&mut self, node: NodeId, owner: NodeId, key: &str, slot: u16) {
        let tags = self.clients.iter().flat_map(|client| &client.tags);
        let tags = tags.map(|tag| (tag.slot, tag.is_doubtful));
        let crews = self.crews.iter().map(|crew| (crew.slot, crew.is_doubtful));
        let doubtful = tags.chain(crews).all(|(own, doubt)| own != slot || doubt);
        let marked = self.view(node).unwrap_or_default().moving.contains(&slot);
        let (digits, name) = (slot.to_string(), self.names[owner].clone());
        let mark = ["CLUSTER", "SETSLOT", &digits, "IMPORTING", &name];
        let foreign = self.watch.has_foreign_keys(node);
        if !doubtful && (marked || foreign) {
            // After a start with an old file, or after a takeover by a node with other data: a node
            // keeps keys of a slot of another node.
            self.ask(node, &mark);
            self.ask_all(node, &[&["ASKING"], &["DEL", key]]);
            return;
        }
        if !doubtful {
            verdict::stop(&format!(
                "node {node} has the key {key}, whose slot {slot} belongs to node {owner}"
            ));
        }
        self.ask(owner, &["CLUSTER", "SETSLOT", &digits, "STABLE"]);
        self.ask(node, &mark);
        let (host, port) = (format!("10.0.0.{owner}"), PORT.to_string());
        let moved = self.ask(node, &["MIGRATE", &host, &port, key, "0", "5000"]);
        let text = moved.as_ref().map_or_else(String::new, text_of);
        if text.contains("BUSYKEY") {
            self.ask_all(node, &[&["ASKING"], &["DEL", key]]);
        } else if text != "OK" && text != "NOKEY" {
            verdict::stop(&format!("the key {key} cannot be repaired: {text}"));
        }
    }

    /// Lets each client read, write and read all its keys.
    fn last_operations(&mut self) {
        let until = world::now() + LAST;
        while self.clients.iter_mut().any(|client| !client.stop()) {
            if world::now() > until {
                verdict::stop("a client's last operation of the storm does not end");
            }
            self.pause(20 * MILLI);
        }
        for at in 0..self.clients.len() {
            self.clients[at].begin_last();
            self.wake(world::now(), Task::Client(at));
        }
        let until = world::now() + LAST;
        while let Some(missing) = self.clients.iter().find_map(|client| client.missing()) {
            if world::now() > until {
                verdict::stop(&format!("after the faults, there is no reply to {missing}"));
            }
            self.pause(20 * MILLI);
        }
    }

    /// Lets workers finish what was promised.
    fn last_works(&mut self) {
        for crew in &mut self.crews {
            crew.ledger.drains = true;
        }
        let until = world::now() + WORKS;
        while let Some(missing) = self.crews.iter().find_map(Crew::missing) {
            if world::now() > until {
                verdict::stop(&format!("after the faults, works are missing: {missing}"));
            }
            self.pause(100 * MILLI);
        }
        self.crews.iter_mut().for_each(|crew| crew.has_ended = true);
        // What is left has no promise: all leases end, and all timers fire.
        self.pause(if self.crews.is_empty() { 0 } else { REST });
        // A primary notes the end of a job's lease without logging it: a replica does the same when
        // it is elected. So a queue in which leases have ended would differ.
        let leased = self.crews.iter().filter(|crew| crew.may_lease());
        let queues: Vec<_> = leased.map(|crew| (crew.slot, crew.queue())).collect();
        for (slot, queue) in queues {
            let owner = self.watch.owner(slot);
            let reply = owner.and_then(|owner| self.ask(owner, &["DEL", &queue]));
            if !matches!(reply, Some(Value::Int(_))) {
                verdict::stop(&format!("DEL {queue} at node {owner:?}: {reply:?}"));
            }
        }
    }

    /// Returns the digest of each key of a node.
    fn values(&mut self, node: NodeId) -> Digests {
        let keys = self.keys(node);
        if keys.is_empty() {
            return BTreeMap::new();
        }
        let words: Vec<&str> = keys.iter().map(String::as_str).collect();
        let line = [&["DEBUG", "DIGEST-VALUE"], &words[..]].concat();
        let digests = match self.ask(node, &line) {
            Some(Value::Array(digests)) => digests,
            other => verdict::stop(&format!("DEBUG DIGEST-VALUE at node {node}: {other:.300?}")),
        };
        let digests = digests.iter().map(text_of);
        keys.iter().cloned().zip(digests).collect()
    }

    /// Waits until each replica has its primary's data. Returns the digest of each node.
    fn compare_data(&mut self) -> Vec<Option<String>> {
        let until = world::now() + CONVERGED;
        loop {
            let view = self.view(1).unwrap_or_default();
            let mut digests = vec![None];
            for node in 1..=self.plan.nodes {
                let digest = self.ask(node, &["DEBUG", "DIGEST"]);
                digests.push(digest.as_ref().map(text_of));
            }
            let differs = view.lines.iter().find_map(|(name, line)| {
                let primary = self.node_named(line.primary.as_ref()?)?;
                let replica = self.node_named(name)?;
                (digests[primary] != digests[replica]).then_some((primary, replica))
            });
            let Some((primary, replica)) = differs else {
                return digests;
            };
            if world::now() > until {
                let keys = difference(&self.values(primary), &self.values(replica));
                verdict::stop(&format!(
                    "replica {replica} differs from its primary {primary}: {keys:?}"
                ));
            }
            self.pause(200 * MILLI);
        }
    }

    /// Checks that each key is at the owner of its slot only.
    fn check_places(&mut self) {
        for (node, own) in self.primaries() {
            for key in self.keys(node) {
                if !own.contains(of_key(key.as_bytes())) {
                    verdict::stop(&format!(
                        "node {node} has {key}, whose slot it does not own"
                    ));
                }
            }
        }
    }

    /// Kills all nodes, and starts them again with their files: they must form the same cluster
    /// with the same data.
    fn restart_all(&mut self, digests: &[Option<String>]) {
        // After three failed rewrites, a node waits a minute or more for the next one, as in Redis.
        for node in (1..=self.plan.nodes).filter(|node| Self::lacks_base(*node)) {
            self.ask(node, &["BGREWRITEAOF"]);
            self.pause(5 * SECOND);
        }
        let before = self.primaries();
        let values: Vec<_> = (1..=self.plan.nodes)
            .map(|node| self.values(node))
            .collect();
        for node in 1..=self.plan.nodes {
            world::with(|kernel| kernel.kill(node, false));
            self.watch_bus();
            self.watch.check_file(node);
        }
        for node in 1..=self.plan.nodes {
            self.start(node);
        }
        self.until_loaded();
        self.until_served();
        self.until_views_agree(true);
        let after = self.primaries();
        if after != before {
            verdict::stop("after a start of all nodes, the slots have other owners");
        }
        if self.compare_data() != digests {
            for (node, before) in (1..).zip(values) {
                let keys = difference(&before, &self.values(node));
                if !keys.is_empty() {
                    verdict::stop(&format!(
                        "after a start of all nodes, node {node} has other values: {keys:?}"
                    ));
                }
            }
            verdict::stop("after a start of all nodes, the data differ");
        }
    }
}
