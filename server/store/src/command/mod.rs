//! The commands of the keyspace. Each family of commands (lists, streams, ...) has a file with its
//! rows (name, arity, flags, docs and handler) and its handlers, or a folder for the handlers.
//!
//! To add a command, write the handler and add a row to the family's `COMMANDS`. To add a family,
//! add a file and a line in [`FAMILIES`].

pub mod bitmap;
pub mod blocking;
pub mod database;
pub mod digest;
pub mod due;
pub mod dump;
mod element_scan;
pub mod expire;
pub mod geo;
pub mod hashes;
pub mod hyperloglog;
pub mod jobs;
pub mod keys;
pub mod lists;
pub mod members;
pub mod notify;
pub mod object;
mod parts;
mod replies;
pub mod scan;
pub mod sets;
pub mod sort;
pub mod streams;
pub mod strings;
pub mod structure;
#[cfg(test)]
pub(crate) mod testing;
pub mod timers;
pub mod zsets;

use std::collections::HashMap;
use std::sync::LazyLock;

use ahash::RandomState;
pub use replies::help;

use crate::turn::Command;

/// Rows of all keyspace commands, by family.
pub static FAMILIES: &[&[Command]] = &[
    bitmap::COMMANDS,
    blocking::COMMANDS,
    database::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hyperloglog::COMMANDS,
    jobs::COMMANDS,
    keys::COMMANDS,
    lists::COMMANDS,
    members::SETS,
    members::SORTED_SETS,
    notify::COMMANDS,
    object::COMMANDS,
    scan::COMMANDS,
    sets::COMMANDS,
    sort::COMMANDS,
    streams::COMMANDS,
    strings::COMMANDS,
    timers::COMMANDS,
    zsets::COMMANDS,
];

/// The rows by their names. Clients cannot choose the names, so the seeds of the hash need not be
/// secret.
static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, RandomState>> =
    LazyLock::new(|| {
        let mut rows = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
        let families = FAMILIES.iter().flat_map(|family| family.iter());
        rows.extend(families.map(|row| (row.name.as_bytes(), row)));
        rows
    });

/// Returns the row of the command with this lower-case name. O(1).
pub fn find(name: &[u8]) -> Option<&'static Command> {
    BY_NAME.get(name).copied()
}
