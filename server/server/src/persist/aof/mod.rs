//! The append-only file: every change of the keyspace, on disk.
//!
//! The files are Redis 7's: a folder with a manifest, a base file (a snapshot, or commands), and
//! incremental files of commands. [`commands`] parses commands, [`load`] loads the files,
//! [`writer`] appends on the threads of [`syncers`], [`rewrite`] makes a new base, and [`switch`]
//! turns the append-only file on and off. [`crate::durability`] has the manifest, the names of the
//! files, and the state that the threads share.
//!
//! Ground rules: event loops append to the [log](crate::changelog) in memory and touch no file. A
//! thread writes to the incremental file while it holds the writer's lock. After the start of the
//! server, only the writer's threads and the thread of a rewrite write the manifest, under the lock
//! of `Aof::files`. They hold no shard's lock meanwhile.

mod commands;
mod failure;
pub(crate) mod load;
pub(crate) mod rewrite;
mod slice;
pub(crate) mod switch;
mod syncers;
#[cfg(test)]
mod tests;
mod writer;
