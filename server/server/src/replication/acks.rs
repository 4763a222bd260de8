//! Clients in WAIT and WAITAOF, which wait for acknowledgements of replicas.
//!
//! A waiting client has a waiter like those of blocking commands, in no queue of a key: whoever
//! claims it answers it. An acknowledgement is recorded before the list is locked, and a client
//! looks at the acknowledgements once more after it has joined the list under that lock, so none is
//! missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use punctual_resp::Reply;
use punctual_store::keyspace::waiters::Waiter;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    /// Offset of the client's last write.
    pub(crate) offset: u64,
    /// Number of replicas that must have it.
    pub(crate) replicas: usize,
    /// The replicas must have it in their append-only files (WAITAOF), and perhaps this server too.
    pub(crate) file: Option<LocalFile>,
}

/// What WAITAOF asks of this server's append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalFile {
    /// The file must have it.
    pub(crate) wanted: bool,
    /// Position of the file behind the client's last write.
    pub(crate) position: u64,
}

/// Who has what a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) replicas: usize,
    /// This server's append-only file has it on the device.
    pub(crate) file: bool,
}

impl Goal {
    /// Returns whether enough have reached it.
    pub(crate) fn is_met(&self, reached: Reached) -> bool {
        reached.replicas >= self.replicas && (reached.file || !self.file.is_some_and(|f| f.wanted))
    }

    /// Writes the reply of the command.
    pub(crate) fn reply(&self, reached: Reached, reply: &mut Reply) {
        if self.file.is_some() {
            reply.array(2);
            reply.int(reached.file.into());
        }
        reply.int(reached.replicas as i64);
    }
}

/// The waiting clients.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    pub(crate) waits: Mutex<Vec<(Arc<Waiter>, Goal)>>,
    /// Replicas should be asked to acknowledge.
    ask: AtomicBool,
}

impl Acks {
    /// Returns whether clients wait.
    pub(crate) fn any(&self) -> bool {
        !self.waits.lock().is_empty()
    }

    /// Removes a waiter that has been claimed, and returns its goal; `None` for one that waits for
    /// a key.
    pub(crate) fn remove(&self, waiter: &Arc<Waiter>) -> Option<Goal> {
        let mut waits = self.waits.lock();
        let at = waits
            .iter()
            .position(|(other, _)| Arc::ptr_eq(other, waiter))?;
        Some(waits.swap_remove(at).1)
    }

    /// Makes a loop ask the replicas for acknowledgements at the end of its turn.
    pub(crate) fn ask(&self) {
        self.ask.store(true, Ordering::Release);
    }

    /// Returns whether replicas should be asked, and takes note that they are.
    #[inline]
    pub(crate) fn take_ask(&self) -> bool {
        self.ask.load(Ordering::Relaxed) && self.ask.swap(false, Ordering::AcqRel)
    }
}
