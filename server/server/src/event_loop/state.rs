//! The parts of an event loop's state.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::queue::TimerKey;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchedKey;

use crate::client::registry::ClientInfo;
use crate::event_loop::gather::Gathered;
use crate::event_loop::lookahead::Lookahead;
use crate::event_loop::output::Held;
use crate::migrate::moving::Migration;
use crate::net::mailbox::Mail;
use crate::node::Shared;
use crate::node::order::Order;

/// A timer of the loop, or of the connection in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoopTimer {
    /// Check whether the client has been idle for too long.
    Idle(usize),
    /// End the wait of the client's command.
    Wait(usize),
    /// Check whether the output has been above the soft limit for too long.
    SoftLimit(usize),
    /// Begin a round of returning freed memory to the system.
    Round,
    /// Accept again after a failure. The poll reports readiness only once, so no event follows.
    RetryAccept,
}

/// The shared state, with a reference count that only this loop uses. A count that all loops use
/// would move its cache line from core to core.
pub(crate) struct SharedOfLoop(pub(super) Arc<Shared>);

impl std::ops::Deref for SharedOfLoop {
    type Target = Arc<Shared>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Output of the loop's connections.
#[derive(Default)]
pub(super) struct Writing {
    /// Slots with output to write.
    pub(super) dirty: Vec<usize>,
    /// Slots with replies of this turn that reveal changes. At the end of the turn, these replies
    /// get the position that they wait for, and the flush adds their slots to `held`.
    pub(super) holding: Vec<usize>,
    /// Replies of earlier turns that wait until the append-only file is written.
    pub(super) held: Held,
    /// Position of the log that was released when the turn began; `None` if replies do not wait for
    /// the append-only file.
    pub(super) released: Option<u64>,
}

/// Input of the loop's connections.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) buffer: Box<[u8]>,
    /// Input of several connections whose commands have not run yet.
    pub(super) gathered: Gathered,
    /// Empty output buffers that are kept for the next replies.
    pub(super) spare_outputs: Vec<Vec<u8>>,
    pub(super) lookahead: Lookahead,
    /// Slots that may have more input.
    pub(super) readable: Vec<usize>,
    /// Number of reads in this turn from connections whose command waits.
    pub(super) held_reads: usize,
}

/// Clients and migrations that continue after a wait, a pause or a transfer.
#[derive(Default)]
pub(super) struct Resuming {
    /// Slots that wait for the end of a pause.
    pub(super) paused: Vec<usize>,
    /// Result of `Pauses::forget_ended` when the loop last resumed paused clients. A different
    /// result now means that a pause has ended meanwhile.
    pub(super) pauses_ended: u64,
    /// Slots whose wait has ended, so that their next commands may run.
    pub(super) unblocked: Vec<usize>,
    /// Migrations whose transfer has ended.
    pub(super) migrations: Vec<Migration>,
}

/// Freed memory that a round returns to the system.
#[derive(Default)]
pub(super) struct Freed {
    /// Timer of the next round of returning memory.
    pub(super) round_timer: Option<TimerKey>,
    /// Bytes that other threads have reported as freed, in total.
    pub(super) reported_bytes: u64,
    /// Freed bytes that earlier rounds have returned, in total. They include the reported bytes.
    pub(super) collected_bytes: u64,
    /// Bytes in use by this thread's counter after the last round.
    pub(super) in_use_bytes: i64,
}

/// Watches and waiters of ended clients that are still in the keyspace.
#[derive(Default)]
pub(super) struct Ended {
    /// Keys watched by clients that have disconnected.
    pub(super) watches: Vec<(BTreeSet<WatchedKey>, Arc<ClientInfo>)>,
    /// Waiters that have ended and may still be in the queues of their keys.
    pub(super) waiters: Vec<Arc<Waiter>>,
}

/// Mail from other threads.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) mail: Mail<Order>,
    /// Orders that were taken from the mailbox during the turn. They run at its end.
    pub(super) orders: Vec<Order>,
    /// Functions that wait for the end of the next turn ([`Order::Settle`]).
    pub(super) settling: Vec<Box<dyn FnOnce() + Send>>,
}
