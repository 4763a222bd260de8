//! State of client-side caching in a session (CLIENT TRACKING). The registry of all such clients is
//! in `trackers`.

use std::collections::BTreeSet;

/// Options of CLIENT TRACKING ON.
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
    /// Id of the client that receives the messages; 0 for this client.
    pub(crate) redirect: u64,
}

/// Prefixes of the keys that a client in BCAST mode caches.
pub(crate) type PrefixList = Vec<Box<[u8]>>;

/// State of client-side caching of one client.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) on: bool,
    pub(crate) mode: Mode,
    /// Prefixes of the keys in BCAST mode.
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// CLIENT CACHING applies to the next command.
    pub(crate) caching: bool,
    /// Number of the client in the registry. It stays the same when tracking ends and begins again.
    pub(crate) number: Option<u32>,
}

impl Tracking {
    /// Returns the number under which the next command's reads are recorded, or `None` if they are
    /// not recorded.
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
