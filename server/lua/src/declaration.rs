//! The functions that a library registers, and the flags of functions and scripts.

use std::ops::BitOr;

use crate::raw::state::Kept;

/// Flags that a script or a function declares about itself, such as `no-writes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

/// Names of the flags; the index is the flag's bit.
const NAMES: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

impl ScriptFlags {
    /// The script changes no keys.
    pub const NO_WRITES: Self = Self(1);
    /// The script may run when the server is out of memory.
    pub const ALLOW_OOM: Self = Self(1 << 1);
    /// The script may run on a replica that has lost its master.
    pub const ALLOW_STALE: Self = Self(1 << 2);
    /// The script may not run in a cluster.
    pub const NO_CLUSTER: Self = Self(1 << 3);
    /// The script may use keys of several slots of a cluster.
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self(1 << 4);

    /// Returns the flag with this name; upper and lower case are equal.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let known = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        NAMES.iter().position(known).map(|bit| Self(1 << bit))
    }

    /// Returns the names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        (0..)
            .zip(NAMES)
            .filter(move |(bit, _)| self.0 >> bit & 1 != 0)
            .map(|(_, name)| name)
    }

    /// Returns whether all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for ScriptFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Name, description and flags of a library's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The name: ASCII letters, digits and underscores.
    pub name: String,
    /// The description, if the library gives one.
    pub description: Option<Vec<u8>>,
    /// The flags that the library gives.
    pub flags: ScriptFlags,
}

/// A function of a library. It belongs to the interpreter that has loaded it.
#[derive(Debug)]
pub struct Function {
    /// Name, description and flags.
    pub declaration: Declaration,
    /// The Lua function.
    pub(crate) body: Kept,
}

/// Functions that the library being loaded has registered; `None` if no library is being loaded.
pub(crate) type Registered = Option<Vec<Function>>;
