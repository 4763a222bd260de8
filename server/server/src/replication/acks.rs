//! Clients in WAIT and WAITAOF, which wait for acknowledgements of replicas.
//!
//! Such a client has a [`Waiter`], like a client in a blocking command, but the waiter is in no
//! queue of a key. The thread that claims the waiter ([`Waiter::claim`]) sends the reply. No
//! acknowledgement is missed: each is recorded before the list of waits is locked, and after a
//! client has joined the list, the acknowledgements are checked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use punctual_resp::Reply;
use punctual_store::keyspace::waiters::Waiter;

/// Condition for which a client in WAIT or WAITAOF waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    /// Offset of the client's last write.
    pub(crate) offset: u64,
    /// Number of replicas that must have acknowledged the offset.
    pub(crate) replicas: usize,
    /// For WAITAOF: the replicas must have synced the offset to their append-only files, and this
    /// server as well if required.
    pub(crate) file: Option<LocalFile>,
}

/// Condition of WAITAOF on this server's append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalFile {
    /// True if this server's file must be synced up to `position`.
    pub(crate) required: bool,
    /// Position in the log of changes after the client's last write.
    pub(crate) position: u64,
}

/// State of the acknowledgements for a [`Goal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Number of replicas that have acknowledged the goal's offset, or for WAITAOF synced it.
    pub(crate) replicas: usize,
    /// True if this server's append-only file is synced up to the goal's position.
    pub(crate) file: bool,
}

impl Goal {
    /// Returns true if the goal is reached.
    pub(crate) fn is_met(&self, reached: Reached) -> bool {
        reached.replicas >= self.replicas
            && (reached.file || !self.file.is_some_and(|f| f.required))
    }

    /// Writes the reply of WAIT or WAITAOF.
    pub(crate) fn reply(&self, reached: Reached, reply: &mut Reply) {
        if self.file.is_some() {
            reply.array(2);
            reply.int(reached.file.into());
        }
        reply.int(reached.replicas as i64);
    }
}

/// Clients in WAIT and WAITAOF.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    pub(crate) waits: Mutex<Vec<(Arc<Waiter>, Goal)>>,
    /// The replicas should be requested to acknowledge (REPLCONF GETACK).
    requested: AtomicBool,
}

impl Acks {
    /// Returns true if clients wait.
    pub(crate) fn any(&self) -> bool {
        !self.waits.lock().is_empty()
    }

    /// Removes a waiter that was claimed, and returns its goal. Returns `None` if the waiter is not
    /// in the list, for example because it belongs to BLPOP.
    pub(crate) fn remove(&self, waiter: &Arc<Waiter>) -> Option<Goal> {
        let mut waits = self.waits.lock();
        let at = waits
            .iter()
            .position(|(other, _)| Arc::ptr_eq(other, waiter))?;
        Some(waits.swap_remove(at).1)
    }

    /// Makes a loop request acknowledgements from the replicas at the end of its turn.
    pub(crate) fn request(&self) {
        self.requested.store(true, Ordering::Release);
    }

    /// Returns true if acknowledgements should be requested, and clears the request.
    #[inline]
    pub(crate) fn take_request(&self) -> bool {
        self.requested.load(Ordering::Relaxed) && self.requested.swap(false, Ordering::AcqRel)
    }
}
