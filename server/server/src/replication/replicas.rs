//! The replicas of this server, and the stream that is sent to them.
//!
//! The mutex of the [`Stream`] guards the backlog and the list of replicas. Turns that hold shards
//! lock it, so no thread holds it longer than a copy of some bytes takes. The backlog keeps all
//! bytes from the smallest offset that a replica needs next. Fields that end in `_ms` are readings
//! of the stopwatch.

use crate::world::JoinHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use punctual_store::check::Check;
use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::planted::Bug;

use crate::replication::acks::Acks;
use crate::replication::backlog::Backlog;
use crate::replication::replica::Replica;

/// A thread that encodes a snapshot, and the replicas that receive the snapshot.
type Running = (JoinHandle<()>, Vec<Arc<Replica>>);

/// The running full synchronizations. At most one of them walks through the keyspace; earlier ones
/// may still be sending their snapshots.
#[derive(Debug, Default)]
pub(crate) struct FullSync {
    running: Mutex<Vec<Running>>,
}

impl FullSync {
    /// Ends the running synchronizations, and blocks until their threads have ended. The caller
    /// holds no shard. A thread whose transfers are closed does not wait for event loops, so an
    /// event loop may call this.
    pub(crate) fn abort(&self) {
        for (thread, replicas) in std::mem::take(&mut *self.running.lock()) {
            replicas.iter().for_each(|replica| replica.transfer.close());
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }

    /// Adds a thread and its replicas. Does not wait for earlier threads, because they may wait for
    /// event loops.
    pub(crate) fn add(&self, thread: JoinHandle<()>, replicas: Vec<Arc<Replica>>) {
        let mut running = self.running.lock();
        running.retain(|(thread, _)| !thread.is_finished());
        running.push((thread, replicas));
    }
}

/// The backlog and the list of replicas.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// `None` before the first replica (unless a loaded snapshot names its position in a history),
    /// and after `repl-backlog-ttl` without replicas.
    pub(crate) backlog: Option<Backlog>,
    /// Attached replicas, in the order of their requests.
    pub(crate) replicas: Vec<Arc<Replica>>,
    /// Time since which there are no replicas, in milliseconds of the stopwatch.
    pub(crate) alone_since_ms: u64,
}

impl Stream {
    /// Returns the smallest offset that a replica needs next; `u64::MAX` without replicas.
    fn needed(&self) -> u64 {
        let next = self.replicas.iter().map(|replica| replica.next());
        next.min().unwrap_or(u64::MAX)
    }

    /// Removes blocks of the backlog that are no longer needed.
    pub(crate) fn trim(&mut self) {
        let needed = self.needed();
        if let Some(backlog) = &mut self.backlog {
            backlog.trim(needed);
        }
    }
}

/// Replicas of one event loop.
#[derive(Debug, Default)]
pub(crate) struct LoopWithReplicas {
    /// Number of attached replicas.
    pub(crate) replicas: AtomicU32,
    /// The loop's mailbox has an order to feed its replicas, which the loop has not handled.
    pub(crate) feed_ordered: AtomicBool,
}

/// Counts of synchronizations, for INFO.
#[derive(Debug, Default)]
pub(crate) struct SyncCounts {
    pub(crate) full: AtomicU64,
    pub(crate) partial_ok: AtomicU64,
    pub(crate) partial_err: AtomicU64,
    /// Bytes of snapshots and of the stream sent to replicas.
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

/// State of all replicas of this server.
#[derive(Debug)]
pub(crate) struct Replicas {
    stream: OrderedMutex<Stream>,
    pub(crate) loops: Vec<LoopWithReplicas>,
    /// Bytes by which the backlog exceeds `repl-backlog-size` because replicas need them. Loop 0
    /// updates it while there is a limit of memory.
    pub(crate) beyond_backlog: AtomicU64,
    /// Number of replicas whose last acknowledgement was at most `min-replicas-max-lag` old when
    /// they were last counted.
    pub(crate) good: AtomicUsize,
    /// Time from which on `good` may be too high, in milliseconds of the stopwatch; `u64::MAX` if
    /// `good` is not needed.
    pub(crate) good_until_ms: AtomicU64,
    pub(crate) counts: SyncCounts,
    /// Clients in WAIT and WAITAOF.
    pub(crate) acks: Acks,
    pub(crate) full_sync: FullSync,
    /// Time of the next upkeep of replicas (PINGs, time limits, full synchronizations), in
    /// milliseconds of the stopwatch; `u64::MAX` for never.
    pub(crate) upkeep_ms: AtomicU64,
    /// Start of the present period of PINGs, in milliseconds of the stopwatch: the last PING, or
    /// the arrival of the first replica.
    pub(crate) pinged_ms: AtomicU64,
}

impl Replicas {
    /// Creates the state for this number of event loops.
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

    /// Locks the backlog and the list of replicas.
    pub(crate) fn stream(&self) -> impl std::ops::DerefMut<Target = Stream> + '_ {
        self.stream.lock()
    }

    /// Updates `beyond_backlog`.
    pub(crate) fn note_beyond_backlog(&self) {
        let stream = self.stream.lock();
        let beyond = stream
            .backlog
            .as_ref()
            .map_or(0, |backlog| backlog.beyond());
        drop(stream);
        self.beyond_backlog.store(beyond, Ordering::Relaxed);
    }

    /// Checks the stream's end against the offset, and the replicas' positions in the stream. The
    /// caller holds every shard.
    pub(crate) fn check(&self, to: &mut Check, offset: impl Fn() -> u64) {
        let stream = self.stream.lock();
        let Some(backlog) = &stream.backlog else {
            return;
        };
        let offset = offset();
        to.equal("end of the replication stream", backlog.end(), offset + 1);
        for replica in stream.replicas.iter().filter(|replica| !replica.is_gone()) {
            to.within(
                || format!("replica {replica}"),
                |to| {
                    let next = replica.next();
                    let kept = next == u64::MAX || backlog.reaches(next);
                    to.holds("the stream has the next byte to send", kept);
                    to.holds("it acknowledges what exists", replica.acked() <= offset);
                },
            );
        }
        for (number, on) in self.loops.iter().enumerate() {
            let own = stream.replicas.iter();
            let own = own.filter(|replica| replica.client.loop_number == number);
            // A loop counts a replica that has gone a moment longer.
            let counted = on.replicas.load(Ordering::Acquire) as usize;
            to.holds(
                "each loop knows that it has replicas",
                counted >= own.count(),
            );
        }
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

    /// Returns the number of replicas that have acknowledged `offset`, and the number of replicas
    /// that have synced it to their append-only file.
    pub(crate) fn count_acked(&self, offset: u64) -> (usize, usize) {
        let stream = self.stream.lock();
        // A replica that has the whole snapshot may not have loaded it before it acknowledges.
        let online = || {
            let replicas = stream.replicas.iter();
            replicas.filter(|r| r.is_online() && r.has_acknowledged())
        };
        (
            online()
                .filter(|r| r.acked() >= offset || Bug::WaitCountsAll.is_active())
                .count(),
            online().filter(|r| r.acked_file() >= offset).count(),
        )
    }

    /// Records that loop `number` handles its order, so that the next append to the stream sends
    /// another order.
    pub(crate) fn handle_feed_order(&self, number: usize) {
        self.loops[number]
            .feed_ordered
            .store(false, Ordering::SeqCst);
    }
}
