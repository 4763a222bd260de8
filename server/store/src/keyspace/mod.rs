//! The keyspace. It is split by the hash of the key names into *shards*: a shard is one lock with a
//! part of every database and with everything else that its lock guards, such as watched keys and
//! waiting clients.
//!
//! Ground rules: the code in this folder reads no clock and does not depend on commands. In this
//! folder, only `shard.rs` locks shards. A [`Turn`](crate::Turn) (the work of one thread at one
//! instant, with the locks that it needs) makes the changes.

pub(crate) mod candidates;
pub mod db;
pub mod key;
pub(crate) mod moving;
pub(crate) mod name_hash;
pub(crate) mod notify;
pub mod records;
pub(crate) mod shard;
pub mod sizes;
pub mod tracked;
pub(crate) mod value_timers;
pub mod waiters;
pub(crate) mod walk;
pub mod watch;
