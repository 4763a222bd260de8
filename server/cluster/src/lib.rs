//! Redis Cluster as a library without input and output.
//!
//! - [`slot`] maps keys to hash slots.
//! - [`packet`] turns packets of the cluster bus into bytes and back.
//! - [`nodes`] is the table of nodes, [`config`] its file `nodes.conf`.
//! - [`state`] is the state machine of one node: handshakes, failure detection, ownership of slots,
//!   elections.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: the caller passes bytes, `now_ms`
//! and random numbers. The protocol is described in Redis's "Redis cluster specification"
//! (Sanfilippo, 2015).
#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod config;
mod crc16;
mod id;
pub mod nodes;
pub mod packet;
pub mod planted;
pub mod slot;
pub mod state;

pub use id::NodeId;
