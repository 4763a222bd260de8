//! Commands of the operator: CLUSTER MEET, FORGET, ADDSLOTS, SETSLOT, REPLICATE, BUMPEPOCH.

use super::{Machine, OperatorError, Output};
use crate::NodeId;
use crate::nodes::{Address, Flags};
use crate::packet::is_host;
use crate::slot::SlotSet;

/// Time for which a forgotten node is not added again.
const BAN_MS: u64 = 60_000;

impl Machine {
    /// CLUSTER MEET: starts a handshake.
    ///
    /// # Errors
    /// [`OperatorError::Address`].
    pub fn meet(
        &mut self,
        host: &str,
        port: u16,
        bus_port: u16,
        now_ms: u64,
    ) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        if host.is_empty() || !is_host(host.as_bytes()) || port == 0 || bus_port == 0 {
            return Err(OperatorError::Address);
        }
        let address = Address {
            host: host.into(),
            port,
            bus_port,
            ..Address::default()
        };
        self.shake(address, Flags::HANDSHAKE.and(Flags::MEET));
        Ok(())
    }

    /// CLUSTER FORGET: removes a node, and does not add it again for a minute.
    ///
    /// # Errors
    /// The node is unknown, this node, or its primary.
    pub fn forget(&mut self, id: NodeId, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        if self.nodes.get(id).is_none() {
            return Err(OperatorError::UnknownNode);
        }
        if id == self.own_id() || self.nodes.own().primary == Some(id) {
            return Err(OperatorError::Own);
        }
        self.ban(id, BAN_MS);
        self.finish();
        Ok(())
    }

    pub(super) fn ban(&mut self, id: NodeId, time_ms: u64) {
        self.forgotten.insert(id, self.now_ms + time_ms);
        if let Some((link, _)) = self.links.to(id) {
            self.close(link);
        }
        self.nodes.remove(id);
        self.migrating.retain(|_, node| *node != id);
        self.importing.retain(|_, node| *node != id);
        self.changed();
    }

    /// Returns whether a node was forgotten, and the ban still holds.
    pub fn is_forgotten(&self, id: NodeId, now_ms: u64) -> bool {
        self.forgotten.get(&id).is_some_and(|until| *until > now_ms)
    }

    /// CLUSTER ADDSLOTS: makes this node the owner of free slots.
    ///
    /// # Errors
    /// A slot has an owner.
    pub fn add_slots(&mut self, slots: &SlotSet, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        if !self.nodes.owned().common(slots).is_empty() {
            return Err(OperatorError::Busy);
        }
        let own = self.own_id();
        self.nodes.assign(slots, own);
        self.unclaimed.subtract(slots);
        self.importing.retain(|slot, _| !slots.contains(*slot));
        self.changed();
        self.finish();
        Ok(())
    }

    /// CLUSTER DELSLOTS: removes the owners of slots in this node's table.
    ///
    /// # Errors
    /// A slot has no owner.
    pub fn remove_slots(&mut self, slots: &SlotSet, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        if !slots.without(&self.nodes.owned()).is_empty() {
            return Err(OperatorError::Unassigned);
        }
        self.nodes.unassign(slots);
        self.unclaimed.subtract(slots);
        self.importing.retain(|slot, _| !slots.contains(*slot));
        self.changed();
        self.finish();
        Ok(())
    }

    /// CLUSTER SETSLOT MIGRATING.
    ///
    /// # Errors
    /// This node is not the owner, or the node is unknown.
    pub fn migrate_slot(&mut self, slot: u16, to: NodeId) -> Result<(), OperatorError> {
        if !self.nodes.own().slots.contains(slot) {
            return Err(OperatorError::Unassigned);
        }
        self.nodes.get(to).ok_or(OperatorError::UnknownNode)?;
        self.migrating.insert(slot, to);
        self.changed();
        self.finish();
        Ok(())
    }

    /// CLUSTER SETSLOT IMPORTING.
    ///
    /// # Errors
    /// This node is the owner, or the node is unknown.
    pub fn import_slot(&mut self, slot: u16, from: NodeId) -> Result<(), OperatorError> {
        if self.nodes.own().slots.contains(slot) {
            return Err(OperatorError::Busy);
        }
        self.nodes.get(from).ok_or(OperatorError::UnknownNode)?;
        self.importing.insert(slot, from);
        self.changed();
        self.finish();
        Ok(())
    }

    /// CLUSTER SETSLOT STABLE: the slot neither leaves nor arrives.
    pub fn keep_slot(&mut self, slot: u16) {
        self.migrating.remove(&slot);
        self.importing.remove(&slot);
        self.changed();
        self.finish();
    }

    /// CLUSTER SETSLOT NODE: names a slot's owner. `empty` tells whether this node has no keys of
    /// the slot. At the end of an import, this node takes a new epoch, so that its claim wins. A
    /// primary that gives its last slot away becomes a replica of the owner.
    ///
    /// # Errors
    /// The node is unknown or a replica.
    pub fn set_slot(
        &mut self,
        slot: u16,
        owner: NodeId,
        empty: bool,
        now_ms: u64,
    ) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        let node = self.nodes.get(owner).ok_or(OperatorError::UnknownNode)?;
        if !node.is_primary() {
            return Err(OperatorError::NoPrimary);
        }
        let slots = SlotSet::from_iter([slot]);
        let was_moving = empty && self.migrating.remove(&slot).is_some();
        let was_own = self.nodes.own().slots.contains(slot);
        let settled = self
            .nodes
            .get(owner)
            .is_some_and(|node| node.slots.contains(slot))
            && !self.importing.contains_key(&slot)
            && !self.migrating.contains_key(&slot)
            && !self.unclaimed.contains(slot);
        if settled && !was_moving {
            // The owner's claim came first over the bus. There is nothing to save.
            return Ok(());
        }
        self.nodes.assign(&slots, owner);
        self.unclaimed.remove(slot);
        self.changed();
        let follows = was_own && !self.nodes.own().is_voter();
        if follows && self.settings.allow_replica_migration {
            self.follow(owner);
            self.announce();
        }
        if owner == self.own_id() && self.importing.remove(&slot).is_some() {
            self.bump_epoch(now_ms);
            // The old owner forgets the slot after the reply, so the claim must survive a power
            // cut.
            self.save_now();
            self.announce();
        }
        self.finish();
        Ok(())
    }

    pub(super) fn greatest_epoch(&self) -> u64 {
        let greatest = self.nodes.iter().map(|node| node.config_epoch).max();
        greatest.unwrap_or(0).max(self.current_epoch)
    }

    /// CLUSTER BUMPEPOCH: takes a new epoch, unless this node has the greatest one. Returns the
    /// epoch, and whether it is new.
    pub fn bump_epoch(&mut self, now_ms: u64) -> (u64, bool) {
        self.now_ms = now_ms;
        let (own, greatest) = (self.nodes.own().config_epoch, self.greatest_epoch());
        if own != 0 && own == greatest {
            return (own, false);
        }
        self.current_epoch = greatest + 1;
        self.nodes.own_mut().config_epoch = self.current_epoch;
        self.changed();
        self.save_now();
        self.finish();
        (self.current_epoch, true)
    }

    /// CLUSTER REPLICATE: makes this node a replica. The caller checks that it has no keys.
    ///
    /// # Errors
    /// The node is unknown, this node, or a replica; or this node has slots.
    pub fn replicate(&mut self, primary: NodeId, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        let node = self.nodes.get(primary).ok_or(OperatorError::UnknownNode)?;
        if primary == self.own_id() {
            return Err(OperatorError::Own);
        }
        if !node.is_primary() {
            return Err(OperatorError::NoPrimary);
        }
        if self.nodes.own().is_voter() {
            return Err(OperatorError::HasSlots);
        }
        self.follow(primary);
        self.announce();
        self.finish();
        Ok(())
    }

    /// Changes the directives.
    pub fn set_settings(&mut self, settings: super::Settings) {
        self.settings = settings;
        self.next_due = None;
        self.nodes
            .own_mut()
            .flags
            .set(Flags::NOFAILOVER, settings.no_failover);
        self.health.stale = true;
        self.outputs.push_back(Output::View);
    }
}
