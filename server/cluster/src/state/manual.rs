//! Manual failover: a replica replaces its working primary, on the operator's command.

use super::{Machine, OperatorError, Output};
use crate::NodeId;
use crate::packet::{Beat, Body};

/// Time after which a manual failover is given up.
const LIMIT_MS: u64 = 5_000;
/// Time for which the primary pauses writes.
const PAUSE_MS: u64 = 10_000;
/// Interval of the pings with which the paused primary tells its offset.
const PING_MS: u64 = 100;

/// A form of CLUSTER FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The primary pauses, and the replica waits for its offset.
    Agreed,
    /// The primary is not asked; the other primaries vote.
    Force,
    /// The replica takes the slots in a new epoch, without any vote.
    Takeover,
}

/// Progress of a manual failover, on either side.
#[derive(Debug, Default)]
pub(super) struct Manual {
    /// Time at which it is given up; `None` without a failover.
    end_ms: Option<u64>,
    /// On the primary: the replica that has asked.
    replica: Option<NodeId>,
    /// On the primary: no write of a client runs any more.
    paused: bool,
    /// On the replica: the offset of the paused primary.
    offset: Option<u64>,
    ready: bool,
}

impl Manual {
    /// Returns whether this primary has paused its clients, so that its offset is final.
    pub(super) fn is_pausing(&self) -> bool {
        self.replica.is_some() && self.paused
    }

    /// Returns whether the replica may ask for votes.
    pub(super) fn may_start(&self) -> bool {
        self.ready
    }

    /// Notes the offset of the paused primary.
    pub(super) fn primary_paused(&mut self, offset: u64) {
        if self.end_ms.is_some() && self.replica.is_none() && self.offset.is_none() {
            self.offset = Some(offset);
        }
    }
}

impl Machine {
    /// Starts CLUSTER FAILOVER on this replica. A failover that has asked for votes goes on.
    ///
    /// # Errors
    /// This node is not a replica, or its primary is unknown or, without `Force`, not connected.
    pub fn fail_over(&mut self, how: Takeover, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        let own = self.nodes.own();
        let primary = own.primary.ok_or(OperatorError::NoReplica)?;
        let primary = self
            .nodes
            .get(primary)
            .ok_or(OperatorError::UnknownNode)?
            .id;
        let goes_on = self.manual.end_ms.is_some_and(|end_ms| now_ms < end_ms)
            && self.manual.may_start()
            && self.has_asked_for_votes();
        if how != Takeover::Takeover && goes_on {
            // Votes are on their way. Primaries that have voted refuse a second vote for a while.
            return Ok(());
        }
        self.stop_manual();
        if how == Takeover::Takeover {
            self.current_epoch = self.greatest_epoch() + 1;
            let epoch = self.current_epoch;
            self.promote(epoch);
        } else {
            let link = self.links.open(primary);
            if how == Takeover::Agreed && link.is_none() {
                return Err(OperatorError::NotConnected);
            }
            self.manual.end_ms = Some(now_ms + LIMIT_MS);
            self.manual.ready = how == Takeover::Force;
            if let Some(link) = link.filter(|_| how == Takeover::Agreed) {
                let packet = self.packet(Body::ManualStart);
                self.send(link, &packet);
            }
            self.election = Default::default();
            self.run_election();
        }
        self.finish();
        Ok(())
    }

    /// Pauses clients, because a replica of this primary has asked for it. A replica that another
    /// one takes for its primary does not: it has no slots to give, and would take the progress for
    /// that of its own failover.
    pub(super) fn pause_for(&mut self, sender: Option<NodeId>) {
        let own = self.nodes.own();
        let replica = sender.and_then(|id| self.nodes.get(id));
        let Some(id) = replica
            .filter(|node| own.is_primary() && node.primary == Some(own.id))
            .map(|node| node.id)
        else {
            return;
        };
        self.stop_manual();
        self.manual.end_ms = Some(self.now_ms + LIMIT_MS);
        self.manual.replica = Some(id);
        self.outputs
            .push_back(Output::Pause(self.now_ms + PAUSE_MS));
    }

    /// Notes that an [`Output::Pause`] is in force: no write of a client runs, or will run, so the
    /// replication's offset is the one that the replica must reach.
    pub fn paused(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let Some(id) = self.manual.replica else {
            return;
        };
        self.manual.paused = true;
        if let Some(link) = self.links.open(id) {
            self.send_beat(link, Some(id), Beat::Ping);
        }
        self.finish();
    }

    /// Ends a manual failover.
    pub(super) fn stop_manual(&mut self) {
        if std::mem::take(&mut self.manual).replica.is_some() {
            self.outputs.push_back(Output::Resume);
        }
    }

    /// Takes the next step of a manual failover.
    pub(super) fn run_manual(&mut self) {
        if self.manual.end_ms.is_some_and(|end| self.now_ms >= end) {
            self.stop_manual();
        }
        if let Some(id) = self.manual.replica
            && let Some(link) = self.links.open(id)
            && self
                .nodes
                .get(id)
                .is_some_and(|node| self.since(node.ping_sent_ms) >= PING_MS)
        {
            self.send_beat(link, Some(id), Beat::Ping);
        }
        if self.manual.offset == Some(self.replication.offset) {
            self.manual.ready = true;
        }
    }

    /// Returns the time of the next step.
    pub(super) fn manual_deadline(&self) -> Option<u64> {
        let end_ms = self.manual.end_ms?;
        Some(end_ms.min(self.now_ms + PING_MS))
    }
}
