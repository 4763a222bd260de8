//! Access of a command to its keys, in the words of its row.

use punctual_resp::Args;
use punctual_store::spec::{Facts, Keys};

/// Access words of shard channels, which have hash slots but are not keys.
pub(crate) const NOT_KEYS: &[&str] = &["not_key"];

/// Permission that a command needs for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Need {
    /// Returns the permission for an access. As in Redis, only what happens to the value counts: an access without these
    /// words needs a permission of any kind.
    fn of(words: &str) -> Self {
        Self {
            read: words.contains("access"),
            write: ["insert", "delete", "update"]
                .iter()
                .any(|word| words.contains(word)),
        }
    }
}

/// Permissions that a command needs for its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// It has no keys.
    None,
    /// The same for all keys.
    Same(Need),
    /// They depend on the key or on the arguments.
    Vary,
}

impl Needs {
    pub(crate) fn of(row: &Facts) -> Self {
        let varies = row.name == "bitfield"
            || row
                .access
                .iter()
                .any(|words| words.ends_with("variable_flags"));
        match (row.keys, row.access) {
            (Keys::None, _) => Self::None,
            (_, access) if access == NOT_KEYS => Self::None,
            (_, [words]) if !varies => Self::Same(Need::of(words)),
            _ => Self::Vary,
        }
    }
}

/// Returns the permission that a command needs for its key number `i`.
pub(crate) fn need_of(row: &Facts, args: Args<'_>, i: usize) -> Need {
    Need::of(access_of(row, args, i))
}

/// Returns the access words of a command's key number `i`.
pub(crate) fn access_of(row: &Facts, args: Args<'_>, i: usize) -> &'static str {
    let access = row.access;
    let words = match row.keys {
        // The key of an option has the last kind of access, after the keys of patterns.
        Keys::Options(_) if i > 0 => access.last(),
        _ => access.get(i).or(access.last()),
    };
    let words = words.copied().unwrap_or_default();
    if row.name == "bitfield" {
        return if bitfield_reads(args.skip(2)) {
            "RO access"
        } else {
            "RW access update"
        };
    }
    if words.ends_with("variable_flags") {
        // SET, which reads only if it returns the old value.
        let gets = args.iter().skip(3).any(|a| a.eq_ignore_ascii_case(b"get"));
        return if gets {
            "RW access update"
        } else {
            "OW update"
        };
    }
    words
}

/// Returns whether the valid operations of a BITFIELD only read.
fn bitfield_reads(mut operations: Args<'_>) -> bool {
    while let Some(word) = operations.get(0) {
        let more = operations.len() - 1;
        operations = if word.eq_ignore_ascii_case(b"get") && more >= 2 {
            operations.skip(3)
        } else if word.eq_ignore_ascii_case(b"overflow") && more >= 1 {
            operations.skip(2)
        } else {
            return false;
        };
    }
    true
}
