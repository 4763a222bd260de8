//! State of replication: ids and offset, the backlog, the replicas, the primary. The folders `feed` and `follow` do the work.

pub(crate) mod acks;
pub(crate) mod applied;
pub(crate) mod attachment;
pub(crate) mod backlog;
pub(crate) mod failover;
pub(crate) mod incoming;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod state;
pub(crate) mod transfer;
pub(crate) mod upstream;
