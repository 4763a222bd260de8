//! State of snapshots and of the append-only file, which loops, INFO and the threads of persistence
//! share. The folder `persist` writes and loads the files.

pub(crate) mod aof;
pub(crate) mod backup;
pub(crate) mod files;
pub(crate) mod manifest;
pub(crate) mod snapshots;
