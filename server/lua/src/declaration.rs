//! What a library declares about its functions.

use std::ops::BitOr;

use crate::raw::state::Kept;

/// What a script or a function declares about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

const NAMES: [&str; 5] = [
    "no-writes",
    "allow-oom",
    "allow-stale",
    "no-cluster",
    "allow-cross-slot-keys",
];

impl ScriptFlags {
    /// It changes nothing.
    pub const NO_WRITES: Self = Self(1);
    /// It may run when the server is out of memory.
    pub const ALLOW_OOM: Self = Self(1 << 1);
    /// It may run on a replica that has lost its master.
    pub const ALLOW_STALE: Self = Self(1 << 2);
    /// It may not run in a cluster.
    pub const NO_CLUSTER: Self = Self(1 << 3);
    /// It may use keys of several slots of a cluster.
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self(1 << 4);

    /// Returns the flag of a name, in letters of either case.
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

/// What a library says about a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Letters, digits and underscores.
    pub name: String,
    /// The description, if there is one.
    pub description: Option<Vec<u8>>,
    /// The flags.
    pub flags: ScriptFlags,
}

/// A function of a library. It belongs to the interpreter that has loaded it.
#[derive(Debug)]
pub struct Function {
    /// What the library says about it.
    pub declaration: Declaration,
    pub(crate) body: Kept,
}

/// What a library has registered while it is loaded; `None` at other times.
pub(crate) type Registered = Option<Vec<Function>>;
