//! Elections: a replica of a failed primary asks all primaries for votes in a new epoch.

use super::{LinkId, Machine, Output};
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::{Body, FORCE_ACK, Header};
use crate::planted::Bug;

/// Time before an election in which the failure spreads; as long again at random, so that two
/// replicas seldom ask at once.
const SPREAD_MS: u64 = 500;
/// Additional time for each replica with a greater offset.
const RANK_MS: u64 = 1_000;
/// Shortest time for the votes to arrive.
const VOTES_MS: u64 = 2_000;

/// State of this replica's election.
#[derive(Debug, Default)]
pub(super) struct Election {
    /// Time at which the votes are asked for; `None` while no election is planned.
    at_ms: Option<u64>,
    asked: bool,
    votes: Vec<NodeId>,
    rank: u64,
    epoch: u64,
}

impl Machine {
    /// Time after which votes no longer count.
    fn votes_ms(&self) -> u64 {
        (self.settings.node_timeout_ms * 2).max(VOTES_MS)
    }

    /// Returns the failed primary, or the one of a manual failover, if this replica may replace it.
    fn replaceable(&self) -> Option<NodeId> {
        let own = self.nodes.own();
        let primary = self.nodes.get(own.primary?)?;
        let manual = self.manual.may_start();
        let wanted = primary.flags.has(Flags::FAIL) && !own.flags.has(Flags::NOFAILOVER) || manual;
        if !wanted || primary.slots.is_empty() || !self.replication.has_data {
            return None;
        }
        let (factor, timeout_ms) = (self.settings.validity_factor, self.settings.node_timeout_ms);
        let age_ms = self
            .since(self.replication.last_input_ms)
            .saturating_sub(timeout_ms);
        let oldest_ms = self.settings.replication_ping_ms + timeout_ms * factor;
        (manual || factor == 0 || age_ms <= oldest_ms).then_some(primary.id)
    }

    /// Number of replicas of the same primary that have more data.
    fn rank(&self, primary: NodeId) -> u64 {
        let ahead = |node: &&Node| {
            node.id != self.own_id()
                && !node.flags.has(Flags::NOFAILOVER)
                && node.offset > self.replication.offset
        };
        self.nodes.replicas(primary).filter(ahead).count() as u64
    }

    /// Plans, starts or wins the election.
    pub(super) fn run_election(&mut self) {
        let Some(primary) = self.replaceable() else {
            self.election = Election::default();
            return;
        };
        let (now_ms, manual) = (self.now_ms, self.manual.may_start());
        let expired = |at_ms: u64| now_ms.saturating_sub(at_ms) > self.votes_ms() * 2;
        if self.election.at_ms.is_none_or(expired) {
            self.plan_election(primary, manual);
            if !manual {
                return;
            }
        }
        let Some(at_ms) = self.election.at_ms else {
            return;
        };
        if !self.election.asked && !manual {
            let rank = self.rank(primary);
            if rank > self.election.rank {
                let later_ms = (rank - self.election.rank) * RANK_MS;
                self.election.rank = rank;
                self.election.at_ms = Some(at_ms + later_ms);
                return;
            }
        }
        if now_ms < at_ms || now_ms - at_ms > self.votes_ms() {
            return;
        }
        if !self.election.asked {
            self.ask_for_votes(manual);
        }
        if self.election.votes.len() >= self.nodes.quorum() {
            let epoch = self.election.epoch;
            self.promote(epoch);
        }
    }

    fn plan_election(&mut self, primary: NodeId, manual: bool) {
        let rank = self.rank(primary);
        let wait_ms = SPREAD_MS + self.random_below(SPREAD_MS) + rank * RANK_MS;
        self.election = Election {
            at_ms: Some(self.now_ms + if manual { 0 } else { wait_ms }),
            rank: if manual { 0 } else { rank },
            ..Election::default()
        };
        // The other replicas need this replica's offset for their ranks.
        self.announce();
    }

    fn ask_for_votes(&mut self, manual: bool) {
        self.current_epoch += 1;
        self.election.epoch = self.current_epoch;
        self.election.asked = true;
        self.save_now();
        let mut header = self.header();
        if manual {
            header.message_flags |= FORCE_ACK;
        }
        self.broadcast(&crate::packet::Packet {
            header: Some(Box::new(header)),
            body: Body::AuthRequest,
        });
    }

    /// Returns whether votes may still arrive.
    pub(super) fn has_asked_for_votes(&self) -> bool {
        let at_ms = self.election.at_ms.filter(|_| self.election.asked);
        at_ms.is_some_and(|at_ms| self.since(at_ms) <= self.votes_ms())
    }

    /// Counts a vote. The ruling epoch of the voter must have reached the election's one.
    pub(super) fn count_vote(&mut self, sender: Option<NodeId>, header: &Header) {
        let voter = sender.and_then(|id| self.nodes.get(id));
        let Some(voter) = voter.filter(|node| node.is_voter()).map(|node| node.id) else {
            return;
        };
        let in_time = self.election.asked && header.current_epoch >= self.election.epoch;
        if in_time && !self.election.votes.contains(&voter) {
            self.election.votes.push(voter);
            self.run_election();
        }
    }

    /// Votes for a replica, at most once in an epoch.
    pub(super) fn vote(&mut self, link: LinkId, sender: Option<NodeId>, header: &Header) {
        let (now_ms, forced) = (self.now_ms, header.message_flags & FORCE_ACK != 0);
        let Some(sender) = sender.and_then(|id| self.nodes.get(id)) else {
            return;
        };
        let primary = sender.primary.and_then(|id| self.nodes.get(id));
        let Some(primary) = primary.filter(|_| self.nodes.own().is_voter()) else {
            return;
        };
        let refuses = header.current_epoch < self.current_epoch
            || self.last_vote_epoch == self.current_epoch && !Bug::VotesTwice.is_active()
            || !primary.flags.has(Flags::FAIL) && !forced
            || now_ms.saturating_sub(primary.voted_ms) < self.settings.node_timeout_ms * 2;
        let newer = |node: &Node| {
            node.config_epoch > header.config_epoch && !node.slots.common(&header.slots).is_empty()
        };
        if refuses {
            return;
        }
        let owner = self.nodes.iter().find(|node| newer(node));
        if let Some(owner) = owner.map(|node| self.update_of(node)) {
            // Its primary took a new epoch shortly before it failed. The next election can succeed.
            let packet = self.packet(owner);
            self.send(link, &packet);
            return;
        }
        let primary = primary.id;
        if let Some(primary) = self.nodes.get_mut(primary) {
            primary.voted_ms = now_ms;
        }
        self.last_vote_epoch = self.current_epoch;
        if !Bug::VoteNotSaved.is_active() {
            self.save_now();
        }
        let packet = self.packet(Body::AuthAck);
        self.send(link, &packet);
    }

    /// Makes this replica the owner of its primary's slots, in an epoch that no other node has.
    pub(super) fn promote(&mut self, epoch: u64) {
        let own = self.own_id();
        let old = self.nodes.own().primary.and_then(|id| self.nodes.get(id));
        let Some((slots, old_epoch)) = old.map(|node| (node.slots.clone(), node.config_epoch))
        else {
            return;
        };
        let epoch = match Bug::EpochKept.is_active() {
            true => old_epoch,
            false => epoch,
        };
        self.nodes.own_mut().become_primary();
        self.nodes.assign(&slots, own);
        self.unclaimed.subtract(&slots);
        self.nodes.own_mut().config_epoch = epoch;
        self.election = Election::default();
        self.stop_manual();
        self.changed();
        self.save_now();
        self.outputs.push_back(Output::Promoted);
        self.announce();
    }

    /// Returns the time of the election's next step.
    pub(super) fn election_deadline(&self) -> Option<u64> {
        self.replaceable()?;
        Some(match self.election.at_ms {
            None => self.now_ms,
            Some(at_ms) if !self.election.asked && self.now_ms <= at_ms + self.votes_ms() => at_ms,
            Some(at_ms) => at_ms + self.votes_ms() * 2 + 1,
        })
    }
}
