//! Replication: one stream of effects, which replicas apply in the order of the primary's log.

pub(crate) mod acks;
mod backlog;
mod full_sync;
pub(crate) mod info;
pub(crate) mod replicas;
mod senders;
pub(crate) mod state;
pub(crate) mod upkeep;
