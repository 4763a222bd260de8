//! The server as a primary: the replication stream, snapshots for replicas, and FAILOVER.
//!
//! The connection of a replica stays in its event loop, but its output is the stream: blocks of
//! bytes that all replicas share ([`crate::replication::backlog`]). Each replica has an offset in
//! the stream. The phase of a replica says which thread provides its output. While the replica
//! waits, that is the upkeep on loop 0; while it receives a snapshot, the thread of the full
//! synchronization; and after that its own loop. Timeouts and lags are measured with the stopwatch
//! (the machine's monotonic clock), also with a virtual clock.

pub(crate) mod failover;
mod full_sync;
mod stream;
pub(crate) mod upkeep;
mod waits;
