//! Replication: one stream of effects, which replicas apply in the order of the primary's log.

pub(crate) mod acks;
pub(crate) mod applied;
pub(crate) mod apply;
pub(crate) mod attachment;
mod backlog;
pub(crate) mod failover;
mod feed;
mod full_sync;
pub(crate) mod info;
pub(crate) mod link;
mod promotion;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod restart;
mod senders;
pub(crate) mod shown;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod upkeep;
pub(crate) mod upstream;
mod waits;
mod wire;
