//! What goes wrong in a cluster.

use super::crew::Crew;
use super::{Cluster, Task, tag};
use crate::faults::jump_clock;
use crate::kernel::{MILLI, NodeId, SECOND};
use crate::world;

impl Cluster {
    pub fn add_fault(&mut self) {
        let most = match self.draws.chance(self.plan.bursts) {
            true => 50 * MILLI,
            false => 2 * self.plan.fault_every,
        };
        let pause = self.draws.between(1, most);
        self.add(world::now() + pause, Task::Fault);
    }

    /// Lets a drawn fault happen.
    pub fn fault(&mut self) {
        self.add_fault();
        let node = self.some_node();
        if self.dead.contains(&node) {
            return;
        }
        if self.shape.strict {
            // A failover that meets a move may lose keys.
            if self.mover.now.is_none() && self.draws.chance(500_000) {
                self.fail_over(node, &[]);
            }
            return;
        }
        if self.plan.weather.failed_writes > 0 && self.draws.chance(100_000) {
            let time = self.draws.between(MILLI, 3 * SECOND);
            return world::with(|kernel| kernel.nodes[node].full_until = kernel.now + time);
        }
        match self.draws.below(13) {
            0..3 => self.kill(node),
            3 | 4 => {
                let time = self.draws.between(MILLI, 3 * self.shape.timeout);
                world::with(|kernel| kernel.freeze(node, time));
            }
            5 if self.plan.clock_jumps => jump_clock(node, 500_000, &mut self.draws),
            6 | 7 if self.plan.partitions => self.partition(node),
            8 => self.fail_over(node, &[]),
            9 => {
                // Two candidates at once often ask in the same epoch.
                self.fail_over(node, &["FORCE"]);
                let other = self.some_node();
                self.fail_over(other, &["FORCE"]);
                if self.plan.cuts_power && self.draws.chance(500_000) {
                    let voter = self.some_node();
                    let pause = self.draws.between(MILLI, 200 * MILLI);
                    self.add(world::now() + pause, Task::Kill(voter));
                }
            }
            10 => self.fail_over(node, &["TAKEOVER"]),
            _ => self.cut(),
        }
    }

    /// Orders a failover, except at a replica that leaves the cluster.
    fn fail_over(&mut self, node: NodeId, how: &[&str]) {
        if self.is_away(node) {
            return;
        }
        if how == ["TAKEOVER"] {
            self.watch.tell(node);
        }
        let line = [&["CLUSTER", "FAILOVER"], how].concat();
        self.chores.send(node, &line);
    }

    pub fn some_node(&mut self) -> NodeId {
        self.draws.between(1, self.plan.nodes as u64) as NodeId
    }

    /// Breaks a connection between nodes, or of a client.
    fn cut(&mut self) {
        let between = world::with(|kernel| kernel.open_between_nodes());
        let connection = match self.draws.chance(700_000) && !between.is_empty() {
            true => Some(between[self.draws.index(between.len())]),
            false => {
                let client = self.draws.index(self.clients.len());
                self.clients[client].connection(&mut self.draws)
            }
        };
        if let Some(connection) = connection {
            world::with(|kernel| kernel.cut(connection));
        }
    }

    /// Takes down links: of one node to another one, of one node to all others, or between two
    /// halves; in both directions or in one.
    fn partition(&mut self, node: NodeId) {
        let nodes = 1..=self.plan.nodes;
        let (left, right): (Vec<NodeId>, Vec<NodeId>) = match self.draws.below(4) {
            // Node 0 has the clients.
            0 => (vec![node], vec![self.draws.index(self.plan.nodes + 1)]),
            1 | 2 => (vec![node], nodes.filter(|other| *other != node).collect()),
            _ => nodes.partition(|_| self.draws.chance(500_000)),
        };
        let (both, time) = (
            self.draws.chance(700_000),
            self.draws.between(MILLI, 5 * self.shape.timeout),
        );
        for from in &left {
            for to in right.iter().filter(|to| *to != from) {
                self.take_down(*from, *to, time);
                if both {
                    self.take_down(*to, *from, time);
                }
            }
        }
    }

    fn take_down(&mut self, from: NodeId, to: NodeId, time: u64) {
        world::with(|kernel| kernel.set_link(from, to, false));
        self.add(world::now() + time, Task::EndPartition(from, to));
    }

    /// Kills a node, and with some probability cuts its power.
    pub fn kill(&mut self, node: NodeId) {
        if self.dead.contains(&node) {
            return;
        }
        self.kills += 1;
        let power = self.plan.cuts_power && self.draws.chance(500_000);
        self.end(node, power);
    }

    /// Notes servers that have ended by themselves: a node that cannot save its `nodes.conf` ends.
    pub fn look_for_ends(&mut self) {
        for node in world::with(|kernel| std::mem::take(&mut kernel.ended_servers)) {
            self.ends += 1;
            self.end(node, false);
        }
    }

    /// Returns whether a node's append-only file has no base: after a full synchronization, a node
    /// appends to a new file, which the manifest gets together with the new base. As in Redis,
    /// replies do not wait for that. Usually it takes milliseconds, but the rewrite may fail.
    pub fn lacks_base(node: NodeId) -> bool {
        let folder = format!("/sim/{node}/appendonlydir/");
        world::with(|kernel| {
            let manifest = kernel
                .disks
                .contents(&format!("{folder}appendonly.aof.manifest"));
            let manifest = String::from_utf8_lossy(&manifest.unwrap_or_default()).into_owned();
            let mut names = kernel
                .disks
                .paths(node)
                .filter_map(|path| path.strip_prefix(&folder));
            names.any(|name| name.ends_with(".incr.aof") && !manifest.contains(name))
        })
    }

    /// Ends all of a node, and plans its next start.
    fn end(&mut self, node: NodeId, power: bool) {
        let fails = self.plan.weather.fails_files();
        // After a failed sync, the file is cut back to the last successful one, and written again.
        // With `everysec`, replies have not waited for the sync.
        let is_cut = world::with(|kernel| kernel.disks.take_cut(node));
        let is_cut = is_cut && self.plan.append_sync == "everysec";
        let is_lost = fails && (is_cut || Self::lacks_base(node));
        world::with(|kernel| kernel.kill(node, power));
        self.watch_bus();
        self.watch.killed(node);
        self.dead.push(node);
        if let Some(moving) = &self.mover.now
            && (power || fails)
            && [moving.from, moving.to].contains(&node)
        {
            // SETSLOT MIGRATING and IMPORTING are not synced. While the old owner's file cannot be
            // written, a crash brings back the keys that MIGRATE has deleted, and the new owner
            // may have changed them.
            self.doubt(moving.slot);
        }
        if fails {
            let owns = |slot: &u16| self.watch.owner(*slot) == Some(node);
            let own: Vec<u16> = self.slots().into_iter().filter(owns).collect();
            for slot in own {
                self.each_tag(slot, tag::Tag::restarts);
                self.each_crew(slot, Crew::restarts);
                if is_lost {
                    self.each_tag(slot, tag::Tag::forget);
                    self.each_crew(slot, |crew| crew.is_doubtful = true);
                }
            }
        }
        let most = if self.heals_at.is_some() {
            MILLI
        } else {
            self.shape.death
        };
        let pause = self.draws.between(MILLI, most);
        self.add(world::now() + pause, Task::Restart(node));
    }

    pub fn restart(&mut self, node: NodeId) {
        if !self.dead.contains(&node) {
            return;
        }
        self.dead.retain(|dead| *dead != node);
        world::with(|kernel| kernel.give_power(node));
        self.watch.check_file(node);
        self.start(node);
    }
}
