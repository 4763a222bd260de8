//! State of a shutdown that waits for replicas, or for the end of DEBUG PAUSE-CRON.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::keyspace::waiters::Waiter;

use crate::config::ShutdownOptions;

/// State of a shutdown that waits for replicas, or for the end of DEBUG PAUSE-CRON.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    pending: Mutex<Option<Pending>>,
    /// End of the wait in unix ms; 0 if no shutdown waits.
    deadline_ms: AtomicU64,
    /// A signal has requested the running shutdown.
    by_signal: AtomicBool,
}

/// A shutdown that waits for replicas.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) options: ShutdownOptions,
    /// Clients whose SHUTDOWN waits.
    pub(crate) waiters: Vec<Arc<Waiter>>,
}

impl Shutdown {
    /// Returns the unix time in ms at which the wait for replicas ends, if the server waits.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        Some(self.deadline_ms.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    /// Records a signal. Returns true if an earlier signal has requested a shutdown that is still
    /// running.
    pub(crate) fn note_signal(&self) -> bool {
        self.by_signal.swap(true, Ordering::AcqRel)
    }

    /// Records that the shutdown that a signal requested has ended.
    pub(crate) fn forget_signal(&self) {
        self.by_signal.store(false, Ordering::Release);
    }

    /// Begins to wait for replicas, at most until `deadline_ms`.
    pub(crate) fn wait(&self, options: ShutdownOptions, deadline_ms: u64) {
        let mut pending = self.pending.lock();
        *pending = Some(Pending {
            options,
            waiters: Vec::new(),
        });
        self.deadline_ms.store(deadline_ms, Ordering::Release);
    }

    /// Ends the wait, if there is one, and returns its parameters.
    pub(crate) fn take(&self) -> Option<Pending> {
        let mut pending = self.pending.lock();
        self.deadline_ms.store(0, Ordering::Release);
        pending.take()
    }

    /// Adds a client to the shutdown that waits. Returns the waiter if no shutdown waits.
    pub(crate) fn join(&self, waiter: Arc<Waiter>) -> Option<Arc<Waiter>> {
        match &mut *self.pending.lock() {
            Some(pending) => {
                pending.waiters.push(waiter);
                None
            }
            None => Some(waiter),
        }
    }
}
