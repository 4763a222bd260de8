//! The figures of clients that all threads can read, and pauses of clients.
//!
//! A client's session belongs to its event loop (`session`); other threads read the [`registry`].

pub(crate) mod line;
pub(crate) mod pause;
pub mod registry;
