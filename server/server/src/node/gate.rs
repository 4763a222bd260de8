//! The gate of admission: whether the server's state may refuse a command. Commands look at one
//! atomic; the owner of each reason sets its bit when the reason begins or ends.

use std::sync::atomic::{AtomicU32, Ordering};

/// A reason to look closer at a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A stop was requested. It never ends.
    Stopping = 1,
    /// A script runs for too long.
    Busy = 1 << 1,
    /// The server loads.
    Loading = 1 << 2,
    /// The server is a replica.
    Replica = 1 << 3,
    /// The last background save has failed, and writes are refused for that.
    FailedSave = 1 << 4,
    /// The append-only file cannot be written.
    FailedFile = 1 << 5,
    /// There are too few good replicas.
    FewReplicas = 1 << 6,
}

/// The reasons of the present.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Returns whether there is a reason. One load.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Notes that a reason has begun or ended. Only its owner calls this.
    pub(crate) fn set(&self, reason: Reason, holds: bool) {
        match holds {
            true => self.0.fetch_or(reason as u32, Ordering::SeqCst),
            false => self.0.fetch_and(!(reason as u32), Ordering::SeqCst),
        };
    }
}
