//! What a session knows of its client's cache (CLIENT TRACKING); see `trackers`.

use std::collections::BTreeSet;

/// What CLIENT TRACKING ON has chosen.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent options"
)]
pub(crate) struct Mode {
    pub(crate) bcast: bool,
    pub(crate) optin: bool,
    pub(crate) optout: bool,
    pub(crate) noloop: bool,
    /// The client that gets the messages; 0: this one.
    pub(crate) redirect: u64,
}

/// Prefixes of the keys that a client in BCAST mode caches.
pub(crate) type PrefixList = Vec<Box<[u8]>>;

/// A session's part of client-side caching.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) on: bool,
    pub(crate) mode: Mode,
    /// Prefixes in BCAST mode.
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// CLIENT CACHING is in force.
    pub(crate) caching: bool,
    /// The client's number, which it keeps once it has one.
    pub(crate) number: Option<u32>,
}

impl Tracking {
    /// Returns the number under which the next command's reads are remembered.
    pub(crate) fn reader(&self) -> Option<u32> {
        let Mode {
            bcast,
            optin,
            optout,
            ..
        } = self.mode;
        let wanted = if optin {
            self.caching
        } else {
            !(optout && self.caching)
        };
        self.number.filter(|_| self.on && !bcast && wanted)
    }
}
