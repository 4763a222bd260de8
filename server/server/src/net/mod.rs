//! Sockets, listeners, outgoing connections, and the mailboxes of event loops.
//!
//! - A [`socket::Socket`] is a TCP, unix or TLS connection, or the server's end of a pipe. Only its
//!   event loop uses it.
//! - [`listener`] opens the configured ports and accepts connections.
//! - A [`dial::Dial`] is a connection to another server: of replication, of MIGRATE, or of the
//!   cluster's bus ([`bus_link`]).
//! - A [`local::Pipe`] connects a client in the same process to its event loop.
//! - A [`mailbox::Mailbox`] takes messages and orders for an event loop from all threads.

pub(crate) mod bus_link;
pub(crate) mod cross_protocol;
pub(crate) mod dial;
pub(crate) mod listener;
pub(crate) mod local;
pub(crate) mod mailbox;
pub(crate) mod open_files;
pub(crate) mod socket;
