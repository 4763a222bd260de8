//! What goes wrong in a run: kills, freezes, jumps of clocks, partitions, cut connections; and the
//! promotion of a replica whose primary is dead or isolated.

use punctual_resp::Value;

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, NodeId, SECOND};
use crate::limits::Evicts;
use crate::promises::{ISOLATION, Isolation};
use crate::run::{Driver, Task, start};
use crate::world;

/// Returns the replicas in a reply to ROLE, each with the offset that the replica has acknowledged.
pub fn replicas_of(role: &Value) -> Vec<(NodeId, u64)> {
    let Value::Array(role) = role else {
        return Vec::new();
    };
    let Some(Value::Array(replicas)) = role.get(2) else {
        return Vec::new();
    };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let node = |replica: &Value| {
        let Value::Array(fields) = replica else {
            return None;
        };
        let host = text(fields.first()?);
        let node = host.strip_prefix("10.0.0.")?.parse().ok()?;
        Some((node, text(fields.get(2)?).parse().ok()?))
    };
    replicas.iter().filter_map(node).collect()
}

/// Moves a node's wall clock by milliseconds, a second or hours. `back` is the chance in a million
/// that it moves back.
pub fn jump_clock(node: NodeId, back: u64, draws: &mut Draws) {
    let most = draws.one_of(&[5 * MILLI, SECOND, 3 * 3_600 * SECOND]);
    let by = draws.between(1, most) as i64;
    let by = if draws.chance(back) { -by } else { by };
    world::with(|kernel| kernel.jump_clock(node, by));
}

impl Driver {
    pub fn add_fault(&mut self) {
        if self.plan.fault_every > 0 {
            // Faults come in bursts: many defects need a second fault before the first one is over.
            let goes_on = self.draws.chance(self.plan.bursts);
            let most = if goes_on {
                50 * MILLI
            } else {
                2 * self.plan.fault_every
            };
            let pause = self.draws.between(1, most);
            self.add(world::now() + pause, Task::Fault);
            if !goes_on {
                let after = self.draws.between(0, pause);
                self.add(world::now() + after, Task::Inspect);
            }
        }
    }

    /// Lets a drawn fault happen.
    pub fn fault(&mut self) {
        self.add_fault();
        let node = self.draws.between(1, self.plan.nodes as u64) as NodeId;
        if self.dead.contains(&node) {
            return;
        }
        if self.plan.writable && self.draws.chance(500_000) {
            let ms = self.draws.one_of(&["30", "300", "3000"]);
            self.chores.send(node, &["SET", "local", "1", "PX", ms]);
        }
        if self.plan.evicts != Evicts::Unlimited && self.draws.chance(400_000) {
            return self.squeeze(node);
        }
        match self.draws.below(8) {
            0 | 1 if self.plan.failovers => self.chores.fail_over(node),
            0..=2 if self.plan.promotions => self.promote(),
            0 | 1 if self.may_kill(node) => self.kill(node),
            2 => {
                let time = self.draws.between(MILLI, 3 * SECOND);
                world::with(|kernel| kernel.freeze(node, time));
            }
            3 if self.plan.clock_jumps => jump_clock(node, 300_000, &mut self.draws),
            4 | 5 if self.plan.partitions => self.partition(node),
            6 | 7 if self.plan.chores => {
                self.chores.begin(node, self.plan.writable, &mut self.draws);
            }
            _ => {
                let links = self.clients.iter_mut().map(|client| &mut client.link);
                let links = links.chain(self.parties.iter_mut().map(|party| party.link()));
                let links: Vec<_> = links.filter_map(|link| link.connection()).collect();
                if !links.is_empty() {
                    let connection = links[self.draws.index(links.len())];
                    world::with(|kernel| kernel.cut(connection));
                }
            }
        }
    }

    fn partition(&mut self, node: NodeId) {
        // Node 0 has the clients.
        let other = self.draws.index(self.plan.nodes + 1);
        let pause = self.draws.between(MILLI, 20 * SECOND);
        let both = self.draws.chance(700_000);
        for (from, to) in [(node, other), (other, node)]
            .into_iter()
            .take(1 + usize::from(both))
        {
            world::with(|kernel| kernel.set_link(from, to, false));
            self.add(world::now() + pause, Task::EndPartition(from, to));
        }
    }

    /// Takes up a link that a partition took down, unless the link is one of an isolated node.
    pub fn end_partition(&mut self, from: NodeId, to: NodeId) {
        let isolated = self
            .common
            .promises
            .isolated
            .map(|isolation| isolation.node);
        if !(Some(from) == isolated && to != 0 || Some(to) == isolated && from != 0) {
            world::with(|kernel| kernel.set_link(from, to, true));
        }
    }

    /// Returns whether a node's file has all that the node has acknowledged. After a failed sync,
    /// the file is cut back and written again; with `everysec` no reply has waited for that.
    fn may_kill(&self, node: NodeId) -> bool {
        self.plan.append_sync == "always" || !world::with(|kernel| kernel.disks.is_cut(node))
    }

    fn kill(&mut self, node: NodeId) {
        self.kills += 1;
        // Only with `always` does an acknowledged write survive a power cut.
        let may_cut = self.plan.cuts_power && self.plan.append_sync == "always";
        let power = may_cut && self.draws.chance(500_000);
        world::with(|kernel| kernel.kill(node, power));
        self.dead.push(node);
        for client in 0..self.clients.len() {
            if self.clients[client].link.node == node {
                self.clients[client].lose();
                self.add(world::now() + MILLI, Task::Act(client));
            }
        }
        for at in 0..self.parties.len() {
            if self.parties[at].link().node == node {
                self.parties[at].lose();
                self.add(world::now() + MILLI, Task::Work(at));
            }
        }
        let most = self.draws.one_of(&[5 * MILLI, 2 * SECOND]);
        let pause = self.draws.between(MILLI, most);
        self.add(world::now() + pause, Task::Restart(node));
    }

    pub fn restart(&mut self, node: NodeId) {
        // A kill after a failed start adds a second restart.
        if !self.dead.contains(&node) {
            return;
        }
        self.dead.retain(|dead| *dead != node);
        world::with(|kernel| kernel.give_power(node));
        start(node, self.primary, &self.plan);
    }

    /// Promotes a replica: its primary dies, or no other node can reach it. As an operator would,
    /// the driver chooses a replica that has loaded the primary's data, and lets the others follow.
    fn promote(&mut self) {
        let old = self.primary;
        if !self.dead.is_empty() || self.common.promises.isolated.is_some() {
            return;
        }
        let role = self.ask(old, &["ROLE"]).unwrap_or(Value::NullBulk);
        let mut replicas = replicas_of(&role);
        replicas.retain(|(_, offset)| *offset > 0);
        if replicas.is_empty() || !self.dead.is_empty() {
            return;
        }
        let (new, _) = replicas[self.draws.index(replicas.len())];
        self.promotions += 1;
        self.primary = new;
        if self.draws.chance(500_000) && self.may_kill(old) {
            self.kill(old);
        } else {
            self.isolate(old);
        }
        self.chores.send(new, &["REPLICAOF", "NO", "ONE"]);
        for node in (1..=self.plan.nodes).filter(|node| *node != old && *node != new) {
            self.chores.follow(node, new);
        }
    }

    /// Takes down all links between a node and the others, but not the links to its clients.
    fn isolate(&mut self, node: NodeId) {
        for other in (1..=self.plan.nodes).filter(|other| *other != node) {
            world::with(|kernel| kernel.set_link(node, other, false));
            world::with(|kernel| kernel.set_link(other, node, false));
        }
        let time = self.draws.between(ISOLATION.0, ISOLATION.1);
        // A frozen node takes the acknowledgements that have arrived as new when it goes on.
        let since = world::now().max(world::with(|kernel| kernel.nodes[node].thaws_at));
        // Until then, the node has read the acknowledgements that have arrived.
        let from = since + self.draws.between(100 * MILLI, 400 * MILLI);
        let mut frozen = None;
        if self.draws.chance(700_000) {
            let length = self.draws.between(MILLI, time);
            self.add(from, Task::Freeze(node, length));
            frozen = Some((from, from + length));
        }
        self.common.promises.isolated = Some(Isolation {
            node,
            since,
            frozen,
        });
        self.add(since + time, Task::EndIsolation(node));
    }

    /// Lets all nodes reach a node again, which then follows the new primary.
    pub fn end_isolation(&mut self, node: NodeId) {
        self.common.promises.isolated = None;
        for other in (1..=self.plan.nodes).filter(|other| *other != node) {
            world::with(|kernel| kernel.set_link(node, other, true));
            world::with(|kernel| kernel.set_link(other, node, true));
        }
        self.chores.follow(node, self.primary);
    }
}
