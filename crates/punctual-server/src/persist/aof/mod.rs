//! The append-only file: every change of the keyspace, on disk.
//!
//! The files are Redis 7's: a folder with a manifest, a base file (a snapshot, or commands) and incremental files of commands.

mod commands;
pub(crate) mod load;
mod manifest;
mod replay;

pub use load::AofError;
pub use manifest::ManifestError;
