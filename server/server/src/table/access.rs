//! The access of a command to its keys, derived from the access words of the command's row.
//!
//! A row names the access as COMMAND INFO shows it, such as `RW access update`.

use punctual_resp::Args;
use punctual_store::spec::{Facts, Group, Keys};

/// Access words of shard channels: COMMAND reports them like keys, but ACL rules for keys do not
/// apply to them.
pub(crate) const NOT_KEYS: &[&str] = &["not_key"];

/// Last word of the access words of SET, DELEX and BITFIELD, whose access depends on their
/// arguments.
const VARIABLE: &str = "variable_flags";

/// Permission that a command needs for a key. With neither field set, any permission for the key is
/// enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Need {
    /// Returns the permission that access words need. As in Redis, only an access to the value
    /// counts: the access `RO` without further words (SCARD) needs any permission for the key.
    fn from_words(words: &str) -> Self {
        Self {
            read: words.contains("access"),
            write: ["insert", "delete", "update"]
                .iter()
                .any(|word| words.contains(word)),
        }
    }
}

/// Permissions that a command needs for its keys.
#[derive(Clone, Debug)]
pub(crate) enum Needs {
    /// The command has no keys, or its keys are shard channels.
    None,
    /// All keys need the same permission.
    Same(Need),
    /// Permissions by position of the key. The last one applies to all further keys.
    Each(Box<[Need]>),
    /// SET and DELEX: write, and also read if the command reveals something about the old value.
    Set,
    /// BITFIELD: read, and also write if it has an operation that writes.
    BitField,
}

impl Needs {
    pub(crate) fn from_row(row: &Facts) -> Self {
        let varies = |words: &&str| words.ends_with(VARIABLE);
        match (row.keys, row.access) {
            (Keys::None, _) => Self::None,
            (_, access) if access == NOT_KEYS => Self::None,
            (_, access) if access.iter().any(varies) => match row.group {
                Group::Bitmap => Self::BitField,
                _ => Self::Set,
            },
            // A test checks that no row with keys lacks its access words. A command with such a row
            // would need all permissions.
            (_, []) => Self::Same(Need {
                read: true,
                write: true,
            }),
            (_, [words]) => Self::Same(Need::from_words(words)),
            (_, all) => Self::Each(all.iter().map(|words| Need::from_words(words)).collect()),
        }
    }

    /// Returns the permission for the key at position `i`.
    #[inline]
    pub(crate) fn of_key(&self, row: &Facts, args: Args, i: usize) -> Need {
        match self {
            Self::None => Need::default(),
            Self::Same(need) => *need,
            Self::Each(all) => {
                // The key of an option (STORE) needs the last permission at any position.
                let at = match row.keys {
                    Keys::Options(_) if i > 0 => all.len() - 1,
                    _ => i.min(all.len() - 1),
                };
                all.get(at).copied().unwrap_or_default()
            }
            Self::Set => Need {
                read: reads_old(row, args),
                write: true,
            },
            Self::BitField => Need {
                read: true,
                write: !bitfield_reads(args.skip(2)),
            },
        }
    }
}

/// Returns the access words for the key at position `i` of a command.
pub(crate) fn access_of(row: &Facts, args: Args<'_>, i: usize) -> &'static str {
    let access = row.access;
    let words = match row.keys {
        // The key of an option (STORE) has the last access words at any position.
        Keys::Options(_) if i > 0 => access.last(),
        _ => access.get(i).or(access.last()),
    };
    let words = words.copied().unwrap_or_default();
    if !words.ends_with(VARIABLE) {
        return words;
    }
    match row.group {
        Group::Bitmap if bitfield_reads(args.skip(2)) => "RO access",
        Group::Bitmap => "RW access update",
        _ => match (words.contains("delete"), reads_old(row, args)) {
            (true, true) => "RW access delete",
            (true, false) => "RM delete",
            (false, true) => "RW access update",
            (false, false) => "OW update",
        },
    }
}

/// Returns true if SET or DELEX reveals something about the old value: by GET, or by a condition on
/// the value. NX and XX reveal only whether the key exists.
#[inline]
fn reads_old(row: &Facts, args: Args) -> bool {
    const REVEALING: [&str; 5] = ["get", "ifeq", "ifne", "ifdeq", "ifdne"];
    if args.len() <= 3 {
        return false;
    }
    // Options follow the required arguments.
    let from = row.arity.unsigned_abs() as usize;
    let reveals = |arg: &[u8]| {
        let is = |word: &&str| arg.eq_ignore_ascii_case(word.as_bytes());
        REVEALING.iter().any(is)
    };
    args.iter().skip(from).any(reveals)
}

/// Returns true if all operations of a BITFIELD only read. Returns false for invalid operations.
fn bitfield_reads(mut operations: Args) -> bool {
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

#[cfg(test)]
mod tests {
    use punctual_resp::OwnedArgs;

    use super::*;
    use crate::command::table;

    #[test]
    fn every_command_with_keys_has_access_words() {
        for entry in table().all() {
            let keyless = matches!(entry.row.keys, Keys::None);
            assert_eq!(keyless, entry.row.access.is_empty(), "{}", entry.name);
            for words in entry.row.access {
                let kind = words.split(' ').next().unwrap_or_default();
                let known = ["RO", "RW", "OW", "RM", "not_key"].contains(&kind);
                assert!(known, "{}: {words}", entry.name);
            }
        }
    }

    #[test]
    fn conditions_and_get_read_the_old_value() {
        for (line, read) in [
            ("set k v", false),
            ("set k v ex 10", false),
            ("set k get ex 10", false),
            ("set k v nx get", true),
            ("set k v ifeq x", true),
            ("set k v IFDNE x", true),
            ("delex k", false),
            ("delex k ifeq x", true),
            ("bitfield k set u8 0 1", true),
        ] {
            let args: OwnedArgs = line.split(' ').collect();
            let args = args.as_args();
            let entry = table().get(args.at(0)).unwrap();
            let need = entry.needs.of_key(entry.row, args, 0);
            assert_eq!((need.read, need.write), (read, true), "{line}");
            assert_eq!(
                need,
                Need::from_words(access_of(entry.row, args, 0)),
                "{line}"
            );
        }
    }
}
