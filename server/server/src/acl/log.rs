//! ACL LOG: the latest denials, newest first. One mutex guards the entries; only denials and ACL
//! LOG lock it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::acl::check::Denied;

/// Kind of object that was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Auth,
    Command,
    Key,
    Channel,
    Database,
}

impl Reason {
    pub(crate) const ALL: [Self; 5] = [
        Self::Auth,
        Self::Command,
        Self::Key,
        Self::Channel,
        Self::Database,
    ];

    /// Returns the name that ACL LOG shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Database => "database",
        }
    }

    /// Returns the name of the INFO field that counts these denials.
    pub(crate) fn info_field(self) -> &'static str {
        match self {
            Self::Auth => "acl_access_denied_auth",
            Self::Command => "acl_access_denied_cmd",
            Self::Key => "acl_access_denied_key",
            Self::Channel => "acl_access_denied_channel",
            Self::Database => "acl_access_denied_db",
        }
    }
}

impl From<Denied> for Reason {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Command => Self::Command,
            Denied::Key(_) => Self::Key,
            Denied::Channel(_) => Self::Channel,
            Denied::Database(_) => Self::Database,
        }
    }
}

/// Context in which the command was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    Multi,
    Lua,
    Timer,
}

impl Context {
    /// Returns the name that ACL LOG shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
            Self::Timer => "timer",
        }
    }
}

/// A denied command or a failed authentication.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    /// Name of the denied command, key, channel or database; for [`Reason::Auth`] the command that
    /// failed to authenticate.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Arc<[u8]>,
    /// The client's line of CLIENT LIST at that time.
    pub(crate) client: Vec<u8>,
}

/// An entry: equal denials with at most a minute between them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) count: u64,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    pub(crate) denial: Denial,
}

/// The entries, and the numbers of denials since the start or CONFIG RESETSTAT.
#[derive(Default)]
pub(crate) struct Log {
    entries: Mutex<(u64, VecDeque<Entry>)>,
    denied: [AtomicU64; Reason::ALL.len()],
}

impl Log {
    /// Adds a denial. If one of the latest entries is equal and its last denial is at most a minute
    /// ago, that entry counts the denial. `max` is the maximum number of entries.
    pub(crate) fn add(&self, denial: Denial, now_ms: u64, max: usize) {
        /// Number of the latest entries that are compared with a new denial.
        const COMPARED: usize = 10;
        /// Maximum time between consecutive denials of one entry.
        const GROUPED_MS: u64 = 60_000;
        self.denied[denial.reason as usize].fetch_add(1, Ordering::Relaxed);
        let (next_id, entries) = &mut *self.entries.lock();
        let equal = entries.iter().take(COMPARED).position(|known| {
            let (a, b) = (&known.denial, &denial);
            a.reason == b.reason
                && a.context == b.context
                && a.object == b.object
                && a.user == b.user
                && now_ms.abs_diff(known.updated_ms) <= GROUPED_MS
        });
        let entry = match equal.and_then(|at| entries.remove(at)) {
            Some(mut known) => {
                known.count += 1;
                known.updated_ms = now_ms;
                known.denial.client = denial.client;
                known
            }
            None => {
                *next_id += 1;
                Entry {
                    id: *next_id - 1,
                    count: 1,
                    created_ms: now_ms,
                    updated_ms: now_ms,
                    denial,
                }
            }
        };
        entries.push_front(entry);
        entries.truncate(max);
    }

    pub(crate) fn latest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().1.clear();
    }

    /// Returns the number of denials with this reason since the start or CONFIG RESETSTAT.
    pub(crate) fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Ordering::Relaxed)
    }

    /// Sets the numbers of denials to zero.
    pub(crate) fn reset_counts(&self) {
        for count in &self.denied {
            count.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(object: &str) -> Denial {
        Denial {
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            user: b"u"[..].into(),
            client: Vec::new(),
        }
    }

    #[test]
    fn equal_denials_within_a_minute_are_one_entry() {
        let log = Log::default();
        let shown = |log: &Log| -> Vec<(u64, u64, Vec<u8>)> {
            let entries = log.latest(10);
            entries
                .into_iter()
                .map(|e| (e.id, e.count, e.denial.object))
                .collect()
        };
        for (object, at_ms) in [
            ("a", 0),
            ("b", 1),
            ("a", 60_000),
            ("b", 60_002),
            ("c", 60_002),
        ] {
            log.add(denial(object), at_ms, 3);
        }
        let expected = [(3, 1, "c"), (2, 1, "b"), (0, 2, "a")];
        let expected: Vec<_> = expected.map(|(id, count, o)| (id, count, o.into())).into();
        assert_eq!(shown(&log), expected);
        assert_eq!(log.denied(Reason::Key), 5);
        log.clear();
        assert!(shown(&log).is_empty());
    }
}
