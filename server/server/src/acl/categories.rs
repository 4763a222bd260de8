//! Categories of commands, derived from the flags and groups of the command table's rows.

use crate::acl::user::CommandSet;
use crate::table::{CommandTable, Entry};

/// Redis's categories, in Redis's order.
#[rustfmt::skip]
pub(crate) const NAMES: [&str; 21] = [
    "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
    "hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous",
    "connection", "transaction", "scripting",
];

/// The commands of one category.
pub(crate) struct Category {
    pub(crate) name: &'static str,
    /// The commands that ACL CAT lists.
    pub(crate) members: CommandSet,
    /// The commands that a rule such as `+@read` changes: the members and all their subcommands.
    pub(crate) reach: CommandSet,
}

/// Returns the categories of a table's commands, in the order of [`NAMES`].
pub(crate) fn from_table(table: &CommandTable) -> Vec<Category> {
    let none = CommandSet::new(table.entries());
    let category = |name| Category {
        name,
        members: none.clone(),
        reach: none.clone(),
    };
    let mut all: Vec<Category> = NAMES.into_iter().map(category).collect();
    for entry in table.all() {
        let names = entry.row.all_categories();
        for category in all.iter_mut().filter(|one| names.contains(&one.name)) {
            category.members.set(entry.id, true);
            set_with_subcommands(&mut category.reach, entry, true);
        }
    }
    all
}

/// Adds a command to a set, or removes it, with its subcommands.
pub(crate) fn set_with_subcommands(set: &mut CommandSet, entry: &Entry, on: bool) {
    set.set(entry.id, on);
    for sub in &entry.subcommands {
        set.set(sub.id, on);
    }
}

pub(crate) fn is_member(entry: &Entry, category: &str) -> bool {
    entry.row.all_categories().contains(&category)
}
