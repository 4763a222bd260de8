//! The known differences between the reference servers and the semantics that we follow (7.2).
//!
//! `differences.md` lists those of redis-server 7.0, Debian's, and how the streams avoid each of
//! them. [`LATER`] has those of Redis 8.2 and Valkey 9.1.

mod later;

pub use later::{LATER, Later, accepts, omits};
