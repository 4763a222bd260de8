//! Replica migration: a primary that has lost its replicas gets one of a primary that has several.

use std::collections::BTreeMap;

use super::Machine;
use crate::NodeId;
use crate::nodes::{Flags, Node};

/// Time for which a primary must be without replicas before another one migrates to it.
const DELAY_MS: u64 = 5_000;

impl Machine {
    /// Notes which primaries have no working replica, and makes this replica the replica of such a
    /// primary if it is the first one, by ID, of the primaries with the most working replicas.
    /// O(nodes log nodes).
    pub(super) fn adopt_orphan(&mut self) {
        let now_ms = self.now_ms;
        let primaries = self.nodes.iter().filter(|node| node.is_primary());
        let mut primaries: BTreeMap<NodeId, usize> = primaries.map(|node| (node.id, 0)).collect();
        for node in self.nodes.iter() {
            let primary = node.primary.filter(|_| !node.flags.has(Flags::FAILING));
            if let Some(replicas) = primary.and_then(|id| primaries.get_mut(&id)) {
                *replicas += 1;
            }
        }
        for node in self.nodes.iter_mut() {
            // A replica is no orphan, even if it was one as a primary.
            let alone = primaries.get(&node.id) == Some(&0);
            let orphan = alone && node.is_voter() && may_be_adopted(node);
            node.orphaned_ms = match (orphan, node.orphaned_ms) {
                (false, _) => 0,
                (true, 0) => now_ms,
                (true, since) => since,
            };
        }
        let own = self.nodes.own();
        let most = primaries.values().copied().max();
        let is_richest = |id: NodeId| primaries.get(&id).copied() == most;
        let leaves = self.settings.allow_replica_migration
            && !own.flags.has(Flags::NOFAILOVER)
            && self.health.ok
            && most.unwrap_or(0) > self.settings.migration_barrier.max(1)
            && own.primary.is_some_and(is_richest);
        if !leaves {
            return;
        }
        let long = |node: &&Node| {
            node.orphaned_ms > 0 && now_ms.saturating_sub(node.orphaned_ms) > DELAY_MS
        };
        let orphan = self.nodes.iter().find(long).map(|node| node.id);
        let first = primaries
            .keys()
            .filter(|id| is_richest(**id))
            .flat_map(|id| self.nodes.working_replicas(*id))
            .map(|node| node.id)
            .min();
        if let Some(orphan) = orphan
            && first == Some(self.own_id())
        {
            self.follow(orphan);
        }
    }
}

fn may_be_adopted(node: &Node) -> bool {
    node.flags.has(Flags::MIGRATE_TO) && !node.flags.has(Flags::FAILING)
}
