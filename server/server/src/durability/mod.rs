//! State of snapshots and of the append-only file. The folder `persist` does the work.

pub(crate) mod aof;
pub(crate) mod files;
pub(crate) mod manifest;
pub(crate) mod snapshots;
