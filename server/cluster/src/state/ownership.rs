//! Owners of slots. The claim with the larger configuration epoch wins.

use super::{LinkId, Machine, Output};
use crate::NodeId;
use crate::nodes::{Flags, Node};
use crate::packet::{Body, Header};
use crate::slot::SlotSet;

impl Machine {
    /// Compares the slots in a header with the table. Takes newer claims; answers older ones with
    /// the slots of the present owner.
    pub(super) fn claims(&mut self, link: LinkId, sender: NodeId, header: &Header) {
        let owner = header.primary.unwrap_or(sender);
        let is_known = match self.nodes.get(owner) {
            Some(node) => node.slots == header.slots,
            None => header.slots.is_empty(),
        };
        if is_known {
            return;
        }
        if header.primary.is_none() {
            self.take(sender, header.config_epoch, &header.slots);
            self.note_unclaimed(sender, &header.slots);
        }
        let disputed = |node: &&Node| {
            node.id != owner
                && node.config_epoch > header.config_epoch
                && !self.sure_slots(node).common(&header.slots).is_empty()
        };
        let newer = self.nodes.iter().find(disputed);
        let newer = newer.map(|node| self.update_of(node));
        if let Some(body) = newer {
            let packet = self.packet(body);
            self.send(link, &packet);
        }
    }

    /// Returns the slots of a node without those that it may have lost: the ones that it no longer
    /// claims, and the ones that arrive here, whose owner in the table claims do not change.
    fn sure_slots(&self, node: &Node) -> SlotSet {
        let mut slots = node.slots.without(&self.unclaimed);
        self.importing.keys().for_each(|slot| slots.remove(*slot));
        slots
    }

    /// Returns the body that tells the slots and the epoch of a node.
    pub(super) fn update_of(&self, node: &Node) -> Body {
        Body::Update {
            config_epoch: node.config_epoch,
            owner: node.id,
            slots: self.sure_slots(node),
        }
    }

    /// Notes slots of the sender that it no longer claims: any other primary may claim them.
    fn note_unclaimed(&mut self, sender: NodeId, claimed: &SlotSet) {
        if let Some(node) = self.nodes.get(sender) {
            self.unclaimed.add(&node.slots.without(claimed));
            self.unclaimed.subtract(&node.slots.common(claimed));
        }
    }

    /// Makes a node the owner of the slots that it claims with a newer epoch.
    pub(super) fn take(&mut self, claimant: NodeId, epoch: u64, claimed: &SlotSet) {
        let own = self.nodes.own();
        if claimant == own.id {
            return;
        }
        let served = if own.is_primary() {
            Some(own.id)
        } else {
            own.primary
        };
        let Some(node) = self.nodes.get(claimant) else {
            return;
        };
        let mut news = claimed.without(&node.slots);
        // An arriving slot keeps its owner until the operator names the new one, or until a
        // failover leaves it without an owner.
        let arriving = self.importing.keys();
        let owned = arriving.filter(|slot| self.nodes.owner(**slot).is_some());
        owned.for_each(|slot| news.remove(*slot));
        for node in self.nodes.iter() {
            if node.config_epoch >= epoch {
                let kept = node.slots.without(&self.unclaimed);
                news.subtract(&kept);
            }
        }
        if news.is_empty() {
            return;
        }
        let had = served
            .and_then(|id| self.nodes.get(id))
            .map(|node| node.slots.clone());
        let lost = had.unwrap_or_default().common(&news);
        self.nodes.assign(&news, claimant);
        self.unclaimed.subtract(&news);
        let still_served = served.and_then(|id| self.nodes.get(id));
        let has_none = still_served.is_none_or(|node| node.slots.is_empty());
        self.changed();
        if lost.is_empty() {
            return;
        }
        self.migrating.retain(|slot, _| !lost.contains(*slot));
        if has_none && (self.settings.allow_replica_migration || lost == *claimed) {
            self.follow(claimant);
        } else {
            self.outputs.push_back(Output::Lost(lost));
        }
    }

    /// Handles a packet about the slots of a third node.
    pub(super) fn update(&mut self, epoch: u64, owner: NodeId, slots: &SlotSet) {
        let own = self.own_id();
        let Some(node) = self.nodes.get_mut(owner) else {
            return;
        };
        if owner == own || node.config_epoch >= epoch {
            return;
        }
        if !node.is_primary() {
            node.become_primary();
            node.flags.set(Flags::MIGRATE_TO, true);
        }
        node.config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.changed();
        self.take(owner, epoch, slots);
    }

    /// Gives this node a new epoch if another primary has the same one. Of two such nodes, the one
    /// with the smaller ID changes.
    pub(super) fn resolve_epochs(&mut self, sender: NodeId) {
        let own = self.nodes.own();
        let collides = |node: &Node| {
            node.is_primary() && node.config_epoch == own.config_epoch && node.id > own.id
        };
        if own.is_primary() && self.nodes.get(sender).is_some_and(collides) {
            self.current_epoch += 1;
            self.nodes.own_mut().config_epoch = self.current_epoch;
            self.changed();
            self.save_now();
        }
    }

    /// If the sender is this node's primary and says that it has become a replica, makes this node
    /// a replica of the same primary. The claim of that primary may take no slot from the sender
    /// any more: the sender's own packet has come first, or the sender had lost its last slot.
    pub(super) fn leave_replica(&mut self, sender: NodeId) {
        let own = self.nodes.own();
        let follows = own.primary == Some(sender);
        let next = self.nodes.get(sender).and_then(|node| node.primary);
        // After CLUSTER FAILOVER TAKEOVER, two nodes may follow each other.
        let next = next.filter(|id| follows && *id != own.id);
        let next = next.and_then(|id| self.nodes.get(id));
        if let Some(id) = next.filter(|node| node.is_primary()).map(|node| node.id) {
            self.follow(id);
        }
    }

    /// Makes this node a replica.
    pub(super) fn follow(&mut self, primary: NodeId) {
        let shard = self.nodes.get(primary).and_then(|node| node.shard);
        self.nodes.make_replica(self.own_id(), primary);
        let own = self.nodes.own_mut();
        if shard.is_some() {
            own.shard = shard;
        }
        self.migrating.clear();
        self.importing.clear();
        self.stop_manual();
        self.election = Default::default();
        self.changed();
        self.outputs.push_back(Output::Follow(primary));
    }
}
