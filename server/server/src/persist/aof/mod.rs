//! The append-only file: every change of the keyspace, on disk.
//!
//! The files are Redis 7's: a folder with a manifest, a base file (a snapshot, or commands) and
//! incremental files of commands. `manifest` and `commands` know no file; `files` is what there is
//! on disk, `load` reads it, `writer` appends on the threads of `syncers`, `rewrite` makes a new
//! base, `switch` begins and ends it all, and `state` is what they share.
//!
//! Ground rules: the loops append to the [log](crate::changelog) in memory and touch no file. The
//! writer, which is behind a lock, writes the incremental file. The manifest is changed under the
//! lock of `Aof::files`, by the writer's threads and by the thread of a rewrite. Neither holds a
//! shard meanwhile.

mod commands;
pub(crate) mod load;
pub(crate) mod rewrite;
mod slice;
pub(crate) mod switch;
mod syncers;
#[cfg(test)]
mod tests;
mod writer;
