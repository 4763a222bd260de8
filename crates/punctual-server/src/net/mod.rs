//! Sockets, and what threads leave for one another's event loops.

pub(crate) mod mailbox;
pub(crate) mod order;
pub(crate) mod socket;
