//! State of replication: ids and offsets, the backlog, the replicas, and the primary. The folders
//! `feed` (as a primary) and `follow` (as a replica) do the work.
//!
//! - The [`backlog::Backlog`] keeps the last part of the stream once for all replicas. Each
//!   [`replica::Replica`] has the offset of its next byte. After an append to the stream, an order
//!   makes the loops with replicas send the new bytes.
//! - A full synchronization begins in a turn that holds every shard, so that the snapshot, the
//!   offset in `+FULLRESYNC` and a SELECT in the stream belong to one instant. A thread encodes the
//!   snapshot, and a [`transfer::Transfer`] passes it to the loop of each replica.
//! - As a replica, the server connects to its primary from loop 0 ([`upstream::Upstream`]). A
//!   thread loads the primary's snapshot from [`incoming::Incoming`] beside the old data, and one
//!   turn swaps both. The stream is then applied as the commands of one connection
//!   ([`applied::Applied`]), and its bytes go unchanged to the server's own replicas.
//! - Time limits of links use the machine's stopwatch, also with a virtual clock.

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
