//! Sending one payload to several sockets, each at its own pace.
//!
//! The thread of a full synchronization owns this. It writes to a replica's socket itself, encrypted or not
//! ([`Duplicate`]): while a replica receives a snapshot its event loop only reads from it. Blocks are shared, and kept until the slowest replica has sent them, up to a
//! limit: then the thread waits for that replica. A replica that takes no byte for the time limit is disconnected, so it delays
//! the others no longer than that.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::log;
use crate::net::socket::Duplicate;
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::replica::Replica;
use crate::world::Moment;

/// Number of bytes by which the quickest replica may be ahead of the slowest.
const AHEAD_BYTES: usize = 32 << 20;
/// Longest time between two looks at whether a replica has gone.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// No replica is left.
pub(crate) struct NoneLeft;

/// One replica on its way through the payload.
struct Sender {
    replica: Arc<Replica>,
    /// Bytes for this replica only, before the first block.
    head: Vec<u8>,
    /// Number of the block that it sends, counted from the first of the payload.
    block: usize,
    /// Bytes of the head or the block that are sent.
    sent: usize,
    /// Bytes that the connection has accepted wait for the system.
    unsent: bool,
    /// Time of the last sent byte.
    progress: Moment,
}

/// How far a sender has come.
enum Sent {
    /// It has sent all blocks that there are.
    All,
    /// The socket takes no more bytes now.
    Blocked,
    /// The connection is broken.
    Broken,
}

/// The replicas of one synchronization.
pub(crate) struct Senders<'s> {
    shared: &'s Shared,
    timeout: Duration,
    senders: Vec<Sender>,
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of blocks that all have sent.
    passed: usize,
}

impl<'s> Senders<'s> {
    pub(crate) fn new(shared: &'s Shared, timeout: Duration) -> Self {
        Self {
            shared,
            timeout,
            senders: Vec::new(),
            blocks: VecDeque::new(),
            bytes: 0,
            passed: 0,
        }
    }

    /// Adds a replica, to which `head` is sent first.
    pub(crate) fn add(&mut self, replica: &Arc<Replica>, head: Vec<u8>) {
        self.senders.push(Sender {
            replica: Arc::clone(replica),
            head,
            block: 0,
            sent: 0,
            unsent: false,
            progress: self.shared.world.stopwatch(),
        });
    }

    /// Adds a block, and sends. Blocks as long as the slowest replica is too far behind.
    pub(crate) fn push(&mut self, block: Vec<u8>) -> Result<(), NoneLeft> {
        self.bytes += block.len();
        self.blocks.push_back(block);
        self.send();
        while self.bytes > AHEAD_BYTES {
            self.wait();
            self.send();
        }
        match self.senders.is_empty() {
            true => Err(NoneLeft),
            false => Ok(()),
        }
    }

    /// Sends the rest. Calls `done` for each replica that has everything. The stream follows `at_once`, or when the replica
    /// acknowledges.
    pub(crate) fn finish(
        &mut self,
        at_once: bool,
        done: impl Fn(&Replica),
    ) -> Result<(), NoneLeft> {
        let mut any = false;
        loop {
            self.send();
            let end = self.passed + self.blocks.len();
            let shared = self.shared;
            self.senders.retain(|sender| {
                let complete = sender.block == end && !sender.unsent;
                if complete {
                    any = true;
                    done(&sender.replica);
                    complete_one(shared, &sender.replica, at_once);
                }
                !complete
            });
            if self.senders.is_empty() {
                return if any { Ok(()) } else { Err(NoneLeft) };
            }
            self.wait();
        }
    }

    /// Disconnects all replicas that have not everything.
    pub(crate) fn close_all(&mut self) {
        for sender in self.senders.drain(..) {
            self.shared.close_replica(&sender.replica);
        }
    }

    /// Sends to each replica what its socket takes, and frees the blocks that all have sent.
    fn send(&mut self) {
        let (shared, timeout) = (self.shared, self.timeout);
        let (blocks, passed) = (&self.blocks, self.passed);
        let aborted = shared.replication.replicas.full_sync.is_aborted();
        self.senders.retain_mut(|sender| {
            if sender.replica.is_gone() || aborted {
                return false;
            }
            match sender.send(shared, blocks, passed) {
                Sent::All => true,
                Sent::Blocked if shared.world.since(sender.progress) < timeout => true,
                Sent::Blocked => {
                    log::warning!(
                        shared.logger,
                        "Disconnecting timedout replica (full sync): {}",
                        sender.replica
                    );
                    shared.close_replica(&sender.replica);
                    false
                }
                Sent::Broken => {
                    shared.close_replica(&sender.replica);
                    false
                }
            }
        });
        let end = self.passed + self.blocks.len();
        let slowest = self.senders.iter().map(|sender| sender.block).min();
        while self.passed < slowest.unwrap_or(end) {
            let Some(block) = self.blocks.pop_front() else {
                break;
            };
            self.bytes -= block.len();
            self.passed += 1;
        }
    }

    /// Waits until a socket may take more bytes, or for a short time.
    fn wait(&self) {
        let end = self.passed + self.blocks.len();
        let sockets: Vec<&Duplicate> = self
            .senders
            .iter()
            .filter(|sender| sender.block < end || sender.unsent)
            .filter_map(|sender| sender.replica.socket.get())
            .collect();
        let mut polled: Vec<PollFd<'_>> = sockets
            .iter()
            .map(|socket| PollFd::new(socket, PollFlags::OUT))
            .collect();
        // A failure shows again when the bytes are sent.
        let _ = poll(&mut polled, Some(&LOOK));
    }
}

impl Sender {
    fn send(&mut self, shared: &Shared, blocks: &VecDeque<Vec<u8>>, passed: usize) -> Sent {
        let replica = Arc::clone(&self.replica);
        let Some(socket) = replica.socket.get() else {
            return Sent::Broken;
        };
        loop {
            let bytes = match self.head.is_empty() {
                false => &self.head,
                true => match blocks.get(self.block - passed) {
                    Some(block) => block,
                    None => return self.flush(socket),
                },
            };
            if self.sent == bytes.len() {
                self.sent = 0;
                match self.head.is_empty() {
                    false => self.head = Vec::new(),
                    true => self.block += 1,
                }
                continue;
            }
            match socket.write(&bytes[self.sent..]) {
                Ok(0) => return Sent::Broken,
                Ok(count) => {
                    self.sent += count;
                    self.progress = shared.world.stopwatch();
                    let counts = &shared.replication.replicas.counts;
                    counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Sent::Blocked,
                    _ => return Sent::Broken,
                },
            }
        }
    }

    /// Sends what the connection has accepted.
    fn flush(&mut self, socket: &Duplicate) -> Sent {
        let flushed = socket.flush();
        self.unsent = flushed.is_err();
        match flushed {
            Ok(()) => Sent::All,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Blocked,
            Err(_) => Sent::Broken,
        }
    }
}

/// Hands a replica that has the whole payload to its loop.
fn complete_one(shared: &Shared, replica: &Arc<Replica>, at_once: bool) {
    if replica.peer.rdb_only {
        log::notice!(
            shared.logger,
            "RDB transfer completed, rdb only replica ({replica}) should be disconnected asap"
        );
        return shared.close_replica(replica);
    }
    replica.end_transfer(at_once);
    shared.count_good_replicas();
    log::notice!(
        shared.logger,
        "Synchronization with replica {replica} succeeded"
    );
    let client = &replica.client;
    shared.mailboxes[client.loop_number].order(Order::FeedReplicas);
}
