//! The server as a primary: the stream to its replicas, snapshots for them, and FAILOVER.

pub(crate) mod failover;
mod full_sync;
mod stream;
pub(crate) mod upkeep;
mod waits;
