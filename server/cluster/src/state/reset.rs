//! Commands of the operator that undo the own configuration: CLUSTER FLUSHSLOTS and RESET, and
//! those for a new node: SET-CONFIG-EPOCH and SAVECONFIG.

use super::{Machine, OperatorError};
use crate::NodeId;

impl Machine {
    /// CLUSTER FLUSHSLOTS: removes all slots of this node.
    pub fn flush_slots(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let own = self.nodes.own().slots.clone();
        self.nodes.unassign(&own);
        self.unclaimed.subtract(&own);
        self.changed();
        self.finish();
    }

    /// CLUSTER SET-CONFIG-EPOCH: sets the epoch of a node that is alone.
    ///
    /// # Errors
    /// This node knows other nodes, or it has an epoch.
    pub fn set_config_epoch(&mut self, epoch: u64, now_ms: u64) -> Result<(), OperatorError> {
        self.now_ms = now_ms;
        if self.nodes.len() > 1 {
            return Err(OperatorError::NotAlone);
        }
        if self.nodes.own().config_epoch != 0 {
            return Err(OperatorError::HasEpoch);
        }
        self.nodes.own_mut().config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.changed();
        self.finish();
        Ok(())
    }

    /// CLUSTER SAVECONFIG: orders a save.
    pub fn save(&mut self) {
        self.save_now();
    }

    /// CLUSTER RESET: forgets all other nodes and all slots, and becomes a primary. A hard reset
    /// also gives the node a new ID and the epoch 0. The caller removes the data of a replica.
    pub fn reset(&mut self, hard: bool, now_ms: u64) {
        self.now_ms = now_ms;
        self.stop_manual();
        self.election = Default::default();
        self.close_all();
        let others: Vec<NodeId> = self.nodes.others().map(|node| node.id).collect();
        for id in others {
            self.nodes.remove(id);
        }
        self.forgotten.clear();
        self.migrating.clear();
        self.importing.clear();
        self.unclaimed = Default::default();
        let was_primary = self.nodes.own().is_primary();
        let own = self.nodes.own_mut();
        own.become_primary();
        own.slots = Default::default();
        if hard || !was_primary {
            own.shard = Some(NodeId::random(&mut self.random));
        }
        if hard {
            own.config_epoch = 0;
            (self.current_epoch, self.last_vote_epoch) = (0, 0);
            self.nodes.rename_own(NodeId::random(&mut self.random));
        }
        self.changed();
        self.save_now();
        self.finish();
    }
}
