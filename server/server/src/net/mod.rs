//! Sockets and event loops. A loop owns its connections; other threads send it messages and orders through its mailbox.

pub(crate) mod alarm;
pub(crate) mod connection;
pub(crate) mod cross_protocol;
pub(crate) mod event_loop;
pub(crate) mod listener;
pub(crate) mod lookahead;
pub(crate) mod mailbox;
pub(crate) mod order;
pub(crate) mod sink;
pub(crate) mod socket;
