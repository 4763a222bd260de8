//! The keyspace: shards, each with its part of every database, and what belongs to a shard under
//! its lock.
//!
//! Ground rules: nothing in here locks, reads a clock or knows commands. [`Turn`](crate::Turn)
//! takes the locks and makes the changes.

pub(crate) mod candidates;
pub mod db;
pub(crate) mod field_timers;
pub mod key;
pub(crate) mod notify;
pub mod records;
pub(crate) mod shard;
pub mod tracked;
pub mod waiters;
pub(crate) mod walk;
pub mod watch;
