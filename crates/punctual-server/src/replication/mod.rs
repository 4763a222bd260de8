//! Replication: one stream of effects, which replicas apply in the order of the primary's log.

pub(crate) mod backlog;
pub(crate) mod state;
