//! The replicas of this server, and the stream that they get.
//!
//! The mutex of the [`Stream`] guards backlog and list. It is taken while shards are locked, for a copy of some bytes. From the offset
//! that a replica needs next, the backlog keeps its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use punctual_store::lock_order::{OrderedMutex, Rank};

use crate::replication::acks::Acks;
use crate::replication::backlog::Backlog;
use crate::replication::replica::Replica;

/// The thread of a synchronization, and its replicas.
type Running = (JoinHandle<()>, Vec<Arc<Replica>>);

/// The running synchronizations: one goes through the keyspace, others may still read their file.
#[derive(Debug, Default)]
pub(crate) struct FullSync {
    running: Mutex<Vec<Running>>,
}

impl FullSync {
    /// Ends the running synchronizations, and blocks until their threads have ended. The caller holds no shard. A thread whose
    /// transfers are closed waits for no event loop, so the caller may be one.
    pub(crate) fn abort(&self) {
        for (thread, replicas) in std::mem::take(&mut *self.running.lock()) {
            replicas.iter().for_each(|replica| replica.transfer.close());
            // The panic hook has printed the message of a panic.
            let _ = thread.join();
        }
    }

    /// Adds a thread and its replicas. Does not wait for earlier threads, because they wait for event loops.
    pub(crate) fn add(&self, thread: JoinHandle<()>, replicas: Vec<Arc<Replica>>) {
        let mut running = self.running.lock();
        running.retain(|(thread, _)| !thread.is_finished());
        running.push((thread, replicas));
    }
}

/// Backlog and list of replicas.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// None before the first replica, and after a long time without any.
    pub(crate) backlog: Option<Backlog>,
    /// In the order in which they asked.
    pub(crate) replicas: Vec<Arc<Replica>>,
    /// Time at which the last replica left, by the stopwatch.
    pub(crate) alone_since_ms: u64,
}

impl Stream {
    /// Returns the first offset that a replica still needs.
    fn needed(&self) -> u64 {
        let next = self.replicas.iter().map(|replica| replica.next());
        next.min().unwrap_or(u64::MAX)
    }

    /// Frees what nobody needs any more.
    pub(crate) fn trim(&mut self) {
        let needed = self.needed();
        if let Some(backlog) = &mut self.backlog {
            backlog.trim(needed);
        }
    }
}

/// An event loop with replicas.
#[derive(Debug, Default)]
pub(crate) struct LoopWithReplicas {
    pub(crate) replicas: AtomicU32,
    /// The loop has an order to look at the stream.
    pub(crate) told: AtomicBool,
}

/// Counts of synchronizations for INFO.
#[derive(Debug, Default)]
pub(crate) struct SyncCounts {
    pub(crate) full: AtomicU64,
    pub(crate) partial_ok: AtomicU64,
    pub(crate) partial_err: AtomicU64,
    /// Bytes of snapshots and stream sent to replicas.
    pub(crate) bytes: AtomicU64,
}

impl SyncCounts {
    /// Sets all counts to 0 (CONFIG RESETSTAT).
    pub(crate) fn reset(&self) {
        for count in [&self.full, &self.partial_ok, &self.partial_err, &self.bytes] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// The replicas of this server.
#[derive(Debug)]
pub(crate) struct Replicas {
    stream: OrderedMutex<Stream>,
    pub(crate) loops: Vec<LoopWithReplicas>,
    /// Bytes of the backlog beyond `repl-backlog-size`, which replicas still need; noted by loop 0 while there is a limit.
    pub(crate) beyond_backlog: AtomicU64,
    /// Number of replicas that have acknowledged within `min-replicas-max-lag`, when they were last counted.
    pub(crate) good: AtomicUsize,
    /// Time from which the count may be lower, by the stopwatch; `u64::MAX` if nothing depends on it.
    pub(crate) good_until_ms: AtomicU64,
    pub(crate) counts: SyncCounts,
    /// Clients in WAIT and WAITAOF.
    pub(crate) acks: Acks,
    pub(crate) full_sync: FullSync,
    /// Time of the next upkeep, by the stopwatch; `u64::MAX` for never.
    pub(crate) upkeep_ms: AtomicU64,
    /// Time from which the period of PINGs counts, by the stopwatch: that of the last one, or of the first replica.
    pub(crate) pinged_ms: AtomicU64,
}

impl Replicas {
    /// Creates the list for this number of event loops.
    pub(crate) fn new(loops: usize) -> Self {
        Self {
            stream: OrderedMutex::new(Rank::Stream, Stream::default()),
            loops: (0..loops).map(|_| LoopWithReplicas::default()).collect(),
            beyond_backlog: AtomicU64::new(0),
            good: AtomicUsize::new(0),
            good_until_ms: AtomicU64::new(u64::MAX),
            counts: SyncCounts::default(),
            acks: Acks::default(),
            full_sync: FullSync::default(),
            upkeep_ms: AtomicU64::new(u64::MAX),
            pinged_ms: AtomicU64::new(0),
        }
    }

    /// Locks backlog and list.
    pub(crate) fn stream(&self) -> impl std::ops::DerefMut<Target = Stream> + '_ {
        self.stream.lock()
    }

    /// Notes by how much the backlog exceeds its size.
    pub(crate) fn note_beyond_backlog(&self) {
        let stream = self.stream.lock();
        let beyond = stream
            .backlog
            .as_ref()
            .map_or(0, |backlog| backlog.beyond());
        drop(stream);
        self.beyond_backlog.store(beyond, Ordering::Relaxed);
    }

    /// Returns the attached replicas.
    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        self.stream.lock().replicas.clone()
    }

    /// Returns the number of attached replicas.
    pub(crate) fn count(&self) -> usize {
        let count = |on: &LoopWithReplicas| on.replicas.load(Ordering::Acquire) as usize;
        self.loops.iter().map(count).sum()
    }

    /// Returns the number of replicas that have acknowledged `offset`, and of those that have synced it to their file.
    pub(crate) fn count_acked(&self, offset: u64) -> (usize, usize) {
        let stream = self.stream.lock();
        let online = || stream.replicas.iter().filter(|r| r.is_online());
        (
            online().filter(|r| r.acked() >= offset).count(),
            online().filter(|r| r.acked_file() >= offset).count(),
        )
    }

    /// Makes loop `number` look at the stream again when more is appended.
    pub(crate) fn heard(&self, number: usize) {
        self.loops[number].told.store(false, Ordering::SeqCst);
    }
}
