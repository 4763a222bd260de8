//! Bytes that wait for slow nodes, and `cluster-link-sendbuf-limit`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_cluster::state::LinkId;

/// Unsent bytes of the bus. Loop 0 writes them; any thread reads them.
#[derive(Debug, Default)]
pub(crate) struct SendQueues {
    /// Connections with unsent bytes.
    unsent: Mutex<BTreeMap<LinkId, usize>>,
    closed: AtomicU64,
}

impl SendQueues {
    /// Sets the unsent bytes of a connection.
    pub(crate) fn set(&self, link: LinkId, bytes: usize) {
        let mut unsent = self.unsent.lock();
        match bytes {
            0 => unsent.remove(&link),
            bytes => unsent.insert(link, bytes),
        };
    }

    /// Returns the unsent bytes of a connection.
    pub(crate) fn unsent(&self, link: LinkId) -> usize {
        self.unsent.lock().get(&link).copied().unwrap_or(0)
    }

    /// Counts a connection that was closed because of the limit.
    pub(crate) fn count_closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of connections that were closed because of the limit.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}
