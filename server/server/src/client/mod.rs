//! Clients: sessions, transactions and waits. One event loop owns each session; other threads read the registry.

pub(crate) mod pause;
pub mod registry;
pub(crate) mod session;
pub(crate) mod trackers;
pub(crate) mod tracking;
pub(crate) mod transaction;
pub(crate) mod waiting;
