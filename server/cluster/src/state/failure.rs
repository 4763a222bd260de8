//! Failure detection: PFAIL by this node, FAIL by the majority, and the health of the cluster.

use super::Machine;
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::Body;
use crate::slot::SLOTS;

/// Time after its start for which a primary serves nothing. Meanwhile newer claims arrive.
const START_MS: u64 = 2_000;
/// Bounds of the time for which a primary serves nothing after it was in a minority.
const REJOIN_MS: std::ops::RangeInclusive<u64> = 500..=5_000;
/// A report of a failure is valid for this many node timeouts.
const REPORT_TIMEOUTS: u64 = 2;
/// A failed primary that nobody replaces is accepted again after this many node timeouts.
const UNDO_TIMEOUTS: u64 = 2;

/// Whether the cluster can serve.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) ok: bool,
    /// The table has changed since the last check.
    pub(super) stale: bool,
    started_ms: u64,
    minority_ms: u64,
    /// Time of the next check without a change of the table.
    pub(super) check_ms: Option<u64>,
}

impl Health {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            ok: false,
            stale: true,
            started_ms: now_ms,
            minority_ms: 0,
            check_ms: None,
        }
    }
}

impl Machine {
    /// Marks a node as failing for this node.
    pub(super) fn suspect(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags.set(Flags::PFAIL, true);
            self.changed();
            self.fail_by_majority(id);
        }
    }

    /// Marks a node as failed if a majority of primaries sees it as failing.
    pub(super) fn fail_by_majority(&mut self, id: NodeId) {
        let valid_ms = self.settings.node_timeout_ms * REPORT_TIMEOUTS;
        let (now_ms, quorum) = (self.now_ms, self.nodes.quorum());
        let own_vote = usize::from(self.nodes.own().is_voter());
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        if !node.flags.has(Flags::PFAIL) || node.flags.has(Flags::FAIL) {
            return;
        }
        node.reports
            .retain(|_, heard_ms| now_ms.saturating_sub(*heard_ms) <= valid_ms);
        let reporters: Vec<NodeId> = node.reports.keys().copied().collect();
        let is_voter = |id: &&NodeId| self.nodes.get(**id).is_some_and(Node::is_voter);
        if reporters.iter().filter(is_voter).count() + own_vote >= quorum {
            self.mark_failed(id);
            let packet = self.packet(Body::Fail(id));
            self.broadcast(&packet);
        }
    }

    /// Returns the number of primaries whose report of the node's failure is valid. O(reports).
    pub fn failure_reports(&self, id: NodeId, now_ms: u64) -> usize {
        let valid_ms = self.settings.node_timeout_ms * REPORT_TIMEOUTS;
        let is_valid = |heard_ms: &&u64| now_ms.saturating_sub(**heard_ms) <= valid_ms;
        let reports = self.nodes.get(id).map(|node| node.reports.values());
        reports.map_or(0, |reports| reports.filter(is_valid).count())
    }

    /// Marks a node as failed because another node says that the majority agrees.
    pub(super) fn fail_by_message(&mut self, id: NodeId) {
        let node = self.nodes.get(id);
        let is_news = node.is_some_and(|node| !node.flags.has(Flags::FAIL.and(Flags::MYSELF)));
        if is_news {
            self.mark_failed(id);
        }
    }

    fn mark_failed(&mut self, id: NodeId) {
        let now_ms = self.now_ms;
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags.set(Flags::PFAIL, false);
            node.flags.set(Flags::FAIL, true);
            node.failed_ms = now_ms;
            self.changed();
        }
    }

    /// Returns the time from which on a failed node is accepted again if it answers. A primary with
    /// slots must wait, because a replica may be about to replace it.
    pub(super) fn revival_ms(&self, node: &Node) -> u64 {
        if node.is_voter() {
            node.failed_ms + self.settings.node_timeout_ms * UNDO_TIMEOUTS + 1
        } else {
            0
        }
    }

    /// Accepts a failed node that answers again, if it has waited.
    pub(super) fn revive(&mut self, id: NodeId) {
        let node = self.nodes.get(id);
        let may = node.is_some_and(|node| self.now_ms >= self.revival_ms(node));
        if let Some(node) = self.nodes.get_mut(id).filter(|_| may) {
            node.flags.set(Flags::FAIL, false);
            self.changed();
        }
    }

    /// Recomputes whether the cluster can serve, if something has changed or a wait has ended.
    pub(super) fn update_health(&mut self) {
        let waited = self.health.check_ms.is_some_and(|at| self.now_ms >= at);
        if !self.health.stale && !waited {
            return;
        }
        self.health.stale = false;
        self.health.check_ms = None;
        let is_primary = self.nodes.own().is_primary();
        if is_primary && !self.health.ok && self.since(self.health.started_ms) < START_MS {
            self.health.check_ms = Some(self.health.started_ms + START_MS);
            return;
        }
        let voters = self.nodes.iter().filter(|node| node.is_voter());
        let reachable = voters
            .filter(|node| !node.flags.has(Flags::FAILING))
            .count();
        let has_majority = reachable >= self.nodes.quorum();
        if !has_majority {
            self.health.minority_ms = self.now_ms;
        }
        let ok = has_majority && (!self.settings.require_full_coverage || self.covers_all());
        if ok == self.health.ok {
            return;
        }
        let timeout_ms = self.settings.node_timeout_ms;
        let rejoin_ms = timeout_ms.clamp(*REJOIN_MS.start(), *REJOIN_MS.end());
        if ok && is_primary && self.since(self.health.minority_ms) < rejoin_ms {
            self.health.check_ms = Some(self.health.minority_ms + rejoin_ms);
            return;
        }
        self.health.ok = ok;
        self.viewed = false;
    }

    /// Returns whether each slot has an owner that has not failed.
    fn covers_all(&self) -> bool {
        let working = self
            .nodes
            .iter()
            .filter(|node| !node.flags.has(Flags::FAIL));
        working.map(|node| node.slots.len()).sum::<usize>() == usize::from(SLOTS)
    }
}
