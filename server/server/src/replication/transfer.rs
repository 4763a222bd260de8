//! Bytes for a replica before its stream: newlines while it waits, `+FULLRESYNC`, and the snapshot.
//!
//! Ground rules: upkeep and the thread of a full synchronization add blocks; only the replica's event loop removes them, and writes
//! them to the socket. The replicas of a synchronization share its blocks. The mutex is a leaf, and no call of the system happens
//! under it. The thread blocks while a replica has too many unsent bytes, until the loop sends some or closes the transfer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// Number of unsent bytes beyond which the thread of a full synchronization waits for a replica.
const AHEAD_BYTES: usize = 32 << 20;

/// What the replica's loop does next.
pub(crate) enum Next {
    /// Send this block, from this byte on.
    Send(Arc<[u8]>, usize),
    /// Wait for the next block.
    Wait,
    /// End the transfer: the snapshot is sent.
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
    /// The queue has the last block.
    Complete { at_once: bool },
    /// The replica gets nothing more.
    Closed,
}

#[derive(Debug, Default)]
struct Queue {
    state: State,
    blocks: VecDeque<Arc<[u8]>>,
    /// Number of sent bytes of the first block.
    sent: usize,
    /// Number of bytes in all blocks.
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
    /// The queue has become shorter.
    moved: Condvar,
    /// Last time at which no byte waited for the socket or the socket took one, by the stopwatch.
    progress_ms: AtomicU64,
}

impl Transfer {
    /// Adds what the replica gets before the snapshot.
    pub(crate) fn announce(&self, head: &str) {
        self.queue.lock().add(head.as_bytes().into());
    }

    /// Adds a newline if the snapshot has not begun and nothing is unsent.
    pub(crate) fn keep_alive(&self) {
        let mut queue = self.queue.lock();
        if queue.state == State::Waiting && queue.blocks.is_empty() {
            queue.add(b"\n".as_slice().into());
        }
    }

    /// Adds a block of the snapshot; blocks as long as too many bytes are unsent. Returns true if the loop waits for a block.
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

    /// Notes that no block follows. The stream follows `at_once`, or when the replica acknowledges.
    pub(crate) fn complete(&self, at_once: bool) {
        let mut queue = self.queue.lock();
        if queue.state != State::Closed {
            queue.state = State::Complete { at_once };
        }
    }

    /// Drops the unsent bytes, and lets the thread go on without the replica.
    pub(crate) fn close(&self) {
        *self.queue.lock() = Queue {
            state: State::Closed,
            ..Queue::default()
        };
        self.moved.notify_all();
    }

    /// Returns whether the replica gets nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().state == State::Closed
    }

    /// Returns whether the stream follows the snapshot at once.
    pub(crate) fn is_at_once(&self) -> bool {
        self.queue.lock().state == State::Complete { at_once: true }
    }

    /// Returns the next step of the loop.
    pub(crate) fn next(&self) -> Next {
        let queue = self.queue.lock();
        match (queue.blocks.front(), &queue.state) {
            (Some(block), _) => Next::Send(Arc::clone(block), queue.sent),
            (None, State::Waiting | State::Sending) => Next::Wait,
            (None, State::Complete { .. }) => Next::End,
            (None, State::Closed) => Next::Close,
        }
    }

    /// Removes `count` bytes of the first block, which are sent.
    pub(crate) fn sent(&self, count: usize) {
        let mut queue = self.queue.lock();
        queue.sent += count;
        // Without a block, another thread has closed the transfer meanwhile.
        if let Some(len) = queue.blocks.front().map(|block| block.len())
            && queue.sent >= len
        {
            queue.blocks.pop_front();
            queue.sent = 0;
            queue.bytes -= len;
            self.moved.notify_all();
        }
    }

    /// Notes that no byte waits for the socket, or that the socket has taken one.
    pub(crate) fn note_progress(&self, now_ms: u64) {
        self.progress_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns the time for which the socket has taken no byte.
    pub(crate) fn stuck_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.progress_ms.load(Ordering::Relaxed))
    }
}
