//! Bytes that a replica gets before the stream: newlines while it waits, `+FULLRESYNC`, and the
//! snapshot.
//!
//! Ground rules: the upkeep of replicas adds the newlines, the turn that begins a full
//! synchronization adds `+FULLRESYNC`, and the thread that encodes the snapshot adds its blocks.
//! Only the replica's event loop writes them to the socket. The replicas of a synchronization share
//! its blocks. While the mutex is held, no other lock is taken and no socket is used. The thread
//! blocks while a replica has too many unsent bytes, until the loop sends some or closes the
//! transfer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// Number of unsent bytes of a replica above which the thread of a full synchronization waits.
const AHEAD_BYTES: usize = 32 << 20;

/// The next step of the replica's loop.
pub(crate) enum Next {
    /// Send this block, starting at this byte.
    Send(Arc<[u8]>, usize),
    /// Wait for the next block.
    Wait,
    /// End the transfer: the whole snapshot is sent.
    End,
    /// Close the connection.
    Close,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// The snapshot has not begun.
    #[default]
    Waiting,
    /// More blocks of the snapshot follow.
    Sending,
    /// The last block has been added.
    Complete { at_once: bool },
    /// Nothing more is sent to the replica.
    Closed,
}

#[derive(Debug, Default)]
struct Queue {
    state: State,
    blocks: VecDeque<Arc<[u8]>>,
    /// Number of bytes of the first block that are sent.
    sent: usize,
    /// Total number of bytes in all blocks.
    bytes: usize,
}

impl Queue {
    fn add(&mut self, block: Arc<[u8]>) {
        self.bytes += block.len();
        self.blocks.push_back(block);
    }
}

/// The transfer of a snapshot to one replica.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    queue: Mutex<Queue>,
    /// Signals that the queue has become shorter.
    moved: Condvar,
    /// Last time, in milliseconds of the stopwatch, at which the socket accepted a byte or no byte
    /// was waiting.
    progress_ms: AtomicU64,
}

impl Transfer {
    /// Adds bytes that precede the snapshot.
    pub(crate) fn announce(&self, head: &str) {
        self.queue.lock().add(head.as_bytes().into());
    }

    /// Adds a newline if the snapshot has not begun and no bytes are unsent.
    pub(crate) fn keep_alive(&self) {
        let mut queue = self.queue.lock();
        if queue.state == State::Waiting && queue.blocks.is_empty() {
            queue.add(b"\n".as_slice().into());
        }
    }

    /// Adds a block of the snapshot. Blocks while too many bytes are unsent. Returns true if the
    /// queue was empty, so that the loop must be notified.
    pub(crate) fn push(&self, block: &Arc<[u8]>) -> bool {
        let mut queue = self.queue.lock();
        while queue.bytes > AHEAD_BYTES {
            self.moved.wait(&mut queue);
        }
        if queue.state == State::Closed {
            return false;
        }
        queue.state = State::Sending;
        queue.add(Arc::clone(block));
        queue.blocks.len() == 1
    }

    /// Records that no more blocks follow. The stream follows at once if `at_once` is true,
    /// otherwise after the replica's first acknowledgement.
    pub(crate) fn complete(&self, at_once: bool) {
        let mut queue = self.queue.lock();
        if queue.state != State::Closed {
            queue.state = State::Complete { at_once };
        }
    }

    /// Drops the unsent bytes, so that the thread continues without this replica.
    pub(crate) fn close(&self) {
        *self.queue.lock() = Queue {
            state: State::Closed,
            ..Queue::default()
        };
        self.moved.notify_all();
    }

    /// Returns true if nothing more is sent to the replica.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().state == State::Closed
    }

    /// Returns true if the stream follows the snapshot at once.
    pub(crate) fn is_at_once(&self) -> bool {
        self.queue.lock().state == State::Complete { at_once: true }
    }

    /// Returns the next step of the replica's loop.
    pub(crate) fn next(&self) -> Next {
        let queue = self.queue.lock();
        match (queue.blocks.front(), &queue.state) {
            (Some(block), _) => Next::Send(Arc::clone(block), queue.sent),
            (None, State::Waiting | State::Sending) => Next::Wait,
            (None, State::Complete { .. }) => Next::End,
            (None, State::Closed) => Next::Close,
        }
    }

    /// Removes `count` bytes of the first block, because they were sent.
    pub(crate) fn sent(&self, count: usize) {
        let mut queue = self.queue.lock();
        queue.sent += count;
        // Another thread may have closed the transfer and dropped the block meanwhile.
        if let Some(len) = queue.blocks.front().map(|block| block.len())
            && queue.sent >= len
        {
            queue.blocks.pop_front();
            queue.sent = 0;
            queue.bytes -= len;
            self.moved.notify_all();
        }
    }

    /// Records that the socket has accepted a byte, or that no byte was waiting.
    pub(crate) fn note_progress(&self, now_ms: u64) {
        self.progress_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns the time in milliseconds for which the socket has accepted no byte.
    pub(crate) fn stuck_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.progress_ms.load(Ordering::Relaxed))
    }
}
