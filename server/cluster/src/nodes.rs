//! The table of nodes, as one node sees the cluster.
//!
//! Each primary has the set of its slots. Invariant: a slot is in at most one set, so a slot has at
//! most one owner in one table; [`Nodes::assign`] keeps it.

use std::collections::BTreeMap;

use crate::NodeId;
use crate::slot::SlotSet;

/// Flags of a node, as on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The node is a primary.
    pub const PRIMARY: Self = Self(1);
    /// The node is a replica.
    pub const REPLICA: Self = Self(2);
    /// The node does not answer this node.
    pub const PFAIL: Self = Self(4);
    /// A majority of primaries gets no answers from the node.
    pub const FAIL: Self = Self(8);
    /// The node does not answer this node, or a majority of primaries.
    pub const FAILING: Self = Self::PFAIL.and(Self::FAIL);
    /// The node is the table's own node.
    pub const MYSELF: Self = Self(16);
    /// The ID is not known yet.
    pub const HANDSHAKE: Self = Self(32);
    /// The address is not known.
    pub const NOADDR: Self = Self(64);
    /// The first packet to the node is a meet.
    pub const MEET: Self = Self(128);
    /// The primary had replicas, so another primary's replica may become its replica.
    pub const MIGRATE_TO: Self = Self(256);
    /// The replica never starts an election.
    pub const NOFAILOVER: Self = Self(512);
    /// The node knows extensions of heartbeats.
    pub const EXTENSIONS: Self = Self(1024);
    /// The node knows light headers of published messages (Valkey).
    pub const LIGHT: Self = Self(2048);

    /// Returns whether any of these flags is set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets or removes flags.
    pub const fn set(&mut self, flags: Self, on: bool) {
        if on {
            self.0 |= flags.0;
        } else {
            self.0 &= !flags.0;
        }
    }

    /// Returns both sets of flags.
    #[must_use]
    pub const fn and(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

/// The addresses and names that a node announces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// IP address, or a host that the operator announces; empty if unknown.
    pub host: String,
    /// Port for clients.
    pub port: u16,
    /// The second port for clients, without TLS if `port` is with TLS, or the reverse; 0 without
    /// one.
    pub other_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// `cluster-announce-hostname`; empty without one.
    pub hostname: String,
    /// `cluster-announce-human-nodename`; empty without one.
    pub name: String,
}

/// A node. All times are Unix times in ms.
#[derive(Clone, Debug)]
pub struct Node {
    /// ID of the node; random during a handshake.
    pub id: NodeId,
    /// Addresses and names.
    pub address: Address,
    /// ID of the shard, if the node has announced one.
    pub shard: Option<NodeId>,
    /// Role and state.
    pub flags: Flags,
    /// The primary of a replica, if known.
    pub primary: Option<NodeId>,
    /// Epoch of the slots.
    pub config_epoch: u64,
    /// Replication offset in the last packet.
    pub offset: u64,
    /// Slots of a primary.
    pub slots: SlotSet,
    /// Time at which this node was added to the table.
    pub created_ms: u64,
    /// Time of the first ping without a pong; 0 without one.
    pub ping_sent_ms: u64,
    /// Time of the last pong; 0 before the first one.
    pub pong_received_ms: u64,
    /// Time of the last packet.
    pub data_received_ms: u64,
    /// Time since which the primary has no working replica, although it had one; 0 otherwise.
    pub orphaned_ms: u64,
    /// Time at which the node was marked as failed.
    pub failed_ms: u64,
    /// Time of the last vote for a replica of this node; 0 without one.
    pub voted_ms: u64,
    /// Primaries that see this node as failing, each with the time of its last report.
    pub reports: BTreeMap<NodeId, u64>,
}

impl Node {
    /// Creates a node without slots.
    pub fn new(id: NodeId, flags: Flags, now_ms: u64) -> Self {
        Self {
            id,
            address: Address::default(),
            shard: None,
            flags,
            primary: None,
            config_epoch: 0,
            offset: 0,
            slots: SlotSet::default(),
            created_ms: now_ms,
            ping_sent_ms: 0,
            pong_received_ms: 0,
            data_received_ms: now_ms,
            orphaned_ms: 0,
            failed_ms: 0,
            voted_ms: 0,
            reports: BTreeMap::new(),
        }
    }

    /// Returns whether the node is a primary.
    pub fn is_primary(&self) -> bool {
        self.flags.has(Flags::PRIMARY)
    }

    /// Returns whether the node is a primary with slots, which has a vote.
    pub fn is_voter(&self) -> bool {
        self.is_primary() && !self.slots.is_empty()
    }

    /// Makes the node a primary without slots.
    pub fn become_primary(&mut self) {
        self.flags.set(Flags::REPLICA, false);
        self.flags.set(Flags::PRIMARY, true);
        self.primary = None;
    }

    /// Makes the node a replica. It loses its slots.
    pub fn become_replica(&mut self, primary: NodeId) {
        self.flags.set(Flags::PRIMARY.and(Flags::MIGRATE_TO), false);
        self.flags.set(Flags::REPLICA, true);
        self.primary = Some(primary);
        self.slots = SlotSet::default();
    }
}

/// All nodes that one node knows, including itself.
#[derive(Clone, Debug)]
pub struct Nodes {
    own: NodeId,
    by_id: BTreeMap<NodeId, Node>,
}

impl Nodes {
    /// Creates a table with one node, the own one.
    pub fn new(mut own: Node) -> Self {
        own.flags.set(Flags::MYSELF, true);
        Self {
            own: own.id,
            by_id: BTreeMap::from([(own.id, own)]),
        }
    }

    /// Returns the own node.
    pub fn own(&self) -> &Node {
        &self.by_id[&self.own]
    }

    /// Returns the own node.
    pub fn own_mut(&mut self) -> &mut Node {
        self.by_id
            .get_mut(&self.own)
            .expect("the own node is never removed")
    }

    /// Gives the own node another ID.
    pub fn rename_own(&mut self, id: NodeId) {
        if let Some(mut own) = self.by_id.remove(&self.own) {
            own.id = id;
            self.own = id;
            self.by_id.insert(id, own);
        }
    }

    /// Returns the own node's primary if it is known, else the own node.
    pub fn own_primary(&self) -> &Node {
        let own = self.own();
        own.primary.and_then(|id| self.get(id)).unwrap_or(own)
    }

    /// Returns a node. O(log nodes).
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.by_id.get(&id)
    }

    /// Returns a node. O(log nodes).
    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.by_id.get_mut(&id)
    }

    /// Adds a node, or replaces the node with the same ID. O(log nodes).
    pub fn insert(&mut self, node: Node) {
        self.by_id.insert(node.id, node);
    }

    /// Removes a node, unless it is the own one. Failure reports of the node are removed as well.
    /// O(nodes).
    pub fn remove(&mut self, id: NodeId) -> Option<Node> {
        if id == self.own {
            return None;
        }
        let removed = self.by_id.remove(&id);
        self.by_id.values_mut().for_each(|node| {
            node.reports.remove(&id);
        });
        removed
    }

    /// Returns all nodes in the order of their IDs.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.by_id.values()
    }

    /// Same as [`Nodes::iter`], to change the nodes, but not their IDs.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.by_id.values_mut()
    }

    /// Returns all nodes but the own one.
    pub fn others(&self) -> impl Iterator<Item = &Node> {
        self.by_id.values().filter(|node| node.id != self.own)
    }

    /// Returns the number of nodes, including the own one.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Always false: the table has the own node.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the number of primaries with slots.
    pub fn voters(&self) -> usize {
        self.iter().filter(|node| node.is_voter()).count()
    }

    /// Returns the number of votes that make a majority.
    pub fn quorum(&self) -> usize {
        self.voters() / 2 + 1
    }

    /// Returns the owner of a slot. O(nodes).
    pub fn owner(&self, slot: u16) -> Option<&Node> {
        self.iter().find(|node| node.slots.contains(slot))
    }

    /// Returns all slots that have an owner.
    pub fn owned(&self) -> SlotSet {
        let mut owned = SlotSet::default();
        self.iter().for_each(|node| owned.add(&node.slots));
        owned
    }

    /// Makes a node the owner of slots, which leave their owners. O(nodes).
    pub fn assign(&mut self, slots: &SlotSet, owner: NodeId) {
        self.unassign(slots);
        if let Some(node) = self.by_id.get_mut(&owner) {
            node.slots.add(slots);
        }
    }

    /// Removes the owners of slots. O(nodes).
    pub fn unassign(&mut self, slots: &SlotSet) {
        self.by_id
            .values_mut()
            .for_each(|node| node.slots.subtract(slots));
    }

    /// Makes a node the replica of another one. Replicas of other primaries may migrate to a
    /// primary that has had replicas. O(nodes).
    pub fn make_replica(&mut self, id: NodeId, primary: NodeId) {
        let Some(node) = self.by_id.get_mut(&id) else {
            return;
        };
        let old = node.primary;
        node.become_replica(primary);
        if let Some(old) = old.filter(|old| self.replicas(*old).next().is_none())
            && let Some(old) = self.by_id.get_mut(&old)
        {
            old.flags.set(Flags::MIGRATE_TO, false);
        }
        if let Some(primary) = self.by_id.get_mut(&primary) {
            primary.flags.set(Flags::MIGRATE_TO, true);
        }
    }

    /// Returns the replicas of a node that work, as far as this node knows. O(nodes).
    pub fn working_replicas(&self, primary: NodeId) -> impl Iterator<Item = &Node> {
        self.replicas(primary)
            .filter(|node| !node.flags.has(Flags::FAILING))
    }

    /// Returns the replicas of a node.
    pub fn replicas(&self, primary: NodeId) -> impl Iterator<Item = &Node> {
        self.iter()
            .filter(move |node| node.primary == Some(primary))
    }
}
