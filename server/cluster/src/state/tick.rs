//! Time: pings, dials, and what is overdue.

use super::{LinkId, Machine};
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::Beat;

/// Interval of the pings to a random node.
const PING_MS: u64 = 1_000;
/// Number of random nodes of which the one with the oldest pong gets a ping.
const SAMPLE: usize = 5;
/// Shortest time for a handshake.
const HANDSHAKE_MS: u64 = 1_000;
/// Shortest time between two ticks.
const TICK_MS: u64 = 10;

/// What is due for one node.
enum Due {
    Forget,
    Dial,
    Close(LinkId),
    Ping(LinkId),
    Suspect,
    Revive,
}

impl Machine {
    /// Handles everything that is due. Call it at [`Machine::deadline`]; earlier or later calls do
    /// no harm. O(nodes).
    pub fn tick(&mut self, now_ms: u64) {
        (self.now_ms, self.ticked_ms) = (now_ms, now_ms);
        self.forgotten.retain(|_, until_ms| *until_ms > now_ms);
        let ids: Vec<NodeId> = self.nodes.others().map(|node| node.id).collect();
        if now_ms >= self.next_ping_ms {
            self.ping_one(&ids);
            self.adopt_orphan();
            self.next_ping_ms = now_ms + PING_MS;
        }
        for id in ids {
            while let Some((due, at)) = self.nodes.get(id).and_then(|node| self.due(node))
                && at <= now_ms
            {
                self.run(id, due);
            }
        }
        self.next_due = None;
        self.run_manual();
        self.run_election();
        self.finish();
    }

    /// Returns the time of the next [`Machine::tick`]. O(1) after a call that has changed only the
    /// times of one node, else O(nodes).
    pub fn deadline(&self) -> u64 {
        let next_due = self.next_due.unwrap_or_else(|| self.earliest_due());
        let parts = [
            Some(next_due),
            self.election_deadline(),
            self.manual_deadline(),
            self.health.check_ms,
        ];
        let earliest = parts.into_iter().flatten().min();
        earliest
            .unwrap_or(next_due)
            .min(self.next_ping_ms)
            .max(self.ticked_ms + TICK_MS)
    }

    fn earliest_due(&self) -> u64 {
        let others = self.nodes.others();
        let dues = others.filter_map(|node| self.due(node)).map(|(_, at)| at);
        dues.min().unwrap_or(u64::MAX)
    }

    /// Computes [`Machine::next_due`] again if it is unknown.
    pub(super) fn plan(&mut self) {
        if self.next_due.is_none() {
            self.next_due = Some(self.earliest_due());
        }
    }

    /// Notes that the times of a node have changed.
    pub(super) fn plan_for(&mut self, id: NodeId) {
        let due = self.nodes.get(id).and_then(|node| self.due(node));
        if let (Some(next), Some((_, at))) = (self.next_due, due) {
            self.next_due = Some(next.min(at));
        }
    }

    fn ping_one(&mut self, ids: &[NodeId]) {
        if ids.is_empty() {
            return;
        }
        let mut oldest: Option<(u64, NodeId, LinkId)> = None;
        for _ in 0..SAMPLE {
            let id = ids[self.random_below(ids.len() as u64) as usize];
            let node = self.nodes.get(id);
            let idle = |node: &&Node| node.ping_sent_ms == 0 && !node.flags.has(Flags::HANDSHAKE);
            if let (Some(node), Some(link)) = (node.filter(idle), self.links.open(id)) {
                let sample = (node.pong_received_ms, id, link);
                oldest = Some(oldest.map_or(sample, |oldest| oldest.min(sample)));
            }
        }
        if let Some((_, id, link)) = oldest {
            self.send_beat(link, Some(id), Beat::Ping);
        }
    }

    /// Returns the next thing to do for a node, and when.
    fn due(&self, node: &Node) -> Option<(Due, u64)> {
        let timeout_ms = self.settings.node_timeout_ms;
        let half_ms = timeout_ms / 2;
        let mut next: Option<(Due, u64)> = None;
        let mut offer = |due: Due, at: u64| {
            if next.as_ref().is_none_or(|(_, earliest)| at < *earliest) {
                next = Some((due, at));
            }
        };
        if node.flags.has(Flags::HANDSHAKE) {
            offer(Due::Forget, node.created_ms + timeout_ms.max(HANDSHAKE_MS));
        }
        match self.links.to(node.id) {
            None if node.flags.has(Flags::NOADDR) => {}
            None => offer(Due::Dial, self.links.redial_ms(node.id)),
            Some((link, state)) if !state.connected => {
                offer(Due::Close(link), state.created_ms + half_ms.max(1));
            }
            Some((link, _)) if node.ping_sent_ms == 0 => {
                offer(Due::Ping(link), node.pong_received_ms + half_ms + 1);
            }
            Some((link, state)) => {
                let silent_ms = node.ping_sent_ms.max(node.data_received_ms) + half_ms;
                offer(
                    Due::Close(link),
                    silent_ms.max(state.created_ms + timeout_ms) + 1,
                );
            }
        }
        let failing = Flags::FAILING.and(Flags::HANDSHAKE);
        if node.ping_sent_ms > 0 && !node.flags.has(failing) {
            let last_ms = node.ping_sent_ms.max(node.data_received_ms);
            offer(Due::Suspect, last_ms + timeout_ms + 1);
        }
        let answers = node.ping_sent_ms == 0 && node.pong_received_ms > node.failed_ms;
        if node.flags.has(Flags::FAIL) && answers {
            offer(Due::Revive, self.revival_ms(node));
        }
        next
    }

    fn run(&mut self, id: NodeId, due: Due) {
        match due {
            Due::Forget => {
                if let Some((link, _)) = self.links.to(id) {
                    self.close(link);
                }
                self.nodes.remove(id);
            }
            Due::Dial => self.dial(id),
            Due::Close(link) => {
                self.close(link);
                let now_ms = self.now_ms;
                if let Some(node) = self.nodes.get_mut(id)
                    && node.ping_sent_ms == 0
                {
                    node.ping_sent_ms = now_ms;
                }
            }
            Due::Ping(link) => self.send_beat(link, Some(id), Beat::Ping),
            Due::Suspect => self.suspect(id),
            Due::Revive => self.revive(id),
        }
    }
}
