//! Sockets, listeners, outgoing connections, and the mailboxes of event loops.

pub(crate) mod cross_protocol;
pub(crate) mod dial;
pub(crate) mod listener;
pub(crate) mod mailbox;
pub(crate) mod open_files;
pub(crate) mod socket;
