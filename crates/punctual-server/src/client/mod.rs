//! Clients: their sessions, transactions and waits. Each session belongs to one event loop; other threads see the registry.

pub mod registry;
pub(crate) mod session;
pub(crate) mod transaction;
pub(crate) mod waiting;
