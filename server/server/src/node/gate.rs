//! The gate of admission: the reasons for which the server may refuse commands. A command reads all
//! reasons as one atomic. Each reason has an owner, the module that detects it. The owner sets the
//! reason's bit when the reason begins, and clears the bit when it ends.

use std::sync::atomic::{AtomicU32, Ordering};

/// A reason for which the server may refuse commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A stop was requested. This reason never ends.
    Stopping = 1,
    /// A script has run for too long.
    Busy = 1 << 1,
    /// The server loads data.
    Loading = 1 << 2,
    /// The server is a replica.
    Replica = 1 << 3,
    /// The last background save has failed, and the configuration refuses writes in this case.
    FailedSave = 1 << 4,
    /// The append-only file cannot be written.
    FailedFile = 1 << 5,
    /// Fewer than `min-replicas-to-write` replicas are connected and acknowledge in time.
    FewReplicas = 1 << 6,
}

/// The current reasons, as bits.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Returns true if there is any reason. Costs one atomic load.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Sets or clears a reason. Only the reason's owner calls this.
    pub(crate) fn set(&self, reason: Reason, holds: bool) {
        match holds {
            true => self.0.fetch_or(reason as u32, Ordering::SeqCst),
            false => self.0.fetch_and(!(reason as u32), Ordering::SeqCst),
        };
    }
}
