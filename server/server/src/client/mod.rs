//! Clients: sessions, transactions and waits. One event loop owns each session; other threads read
//! the registry.

pub(crate) mod line;
pub(crate) mod pause;
pub mod registry;
