//! The server as a replica: the link to its primary, and the stream that it applies.
//!
//! The server dials its primary from loop 0. [`link`] is the handshake, which sees bytes and no
//! socket. [`sync`] loads the snapshot of a full synchronization into a second keyspace on a
//! thread; one turn swaps the new keyspace with the old one. Then the socket becomes a connection
//! of loop 0 ([`apply`]). Its commands run as if no key were due: keys expire when the primary's
//! stream deletes them. Clients see due keys as missing. [`promotion`] changes the role.

pub(crate) mod apply;
pub(crate) mod link;
mod promotion;
pub(crate) mod sync;
