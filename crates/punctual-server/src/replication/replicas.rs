//! The attached replicas, and the stream that they get.
//!
//! Ground rules:
//! - The mutex of the [`Stream`] guards backlog and list. It is taken while shards are locked, for a copy of some bytes, and may be
//!   held while mailboxes are locked.
//! - A replica's connection belongs to its event loop, which sends it the stream from the backlog: it stores the next offset to
//!   send, and from there on the backlog keeps its bytes. While a full synchronization sends the snapshot, its thread
//!   alone writes to the socket; the phase says whose turn it is.
//! - Any thread may read a replica's figures.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use punctual_store::Turn;
use punctual_store::lock_order::{OrderedMutex, Rank};

use super::acks::Acks;
use super::backlog::Backlog;
use super::full_sync::FullSync;
use crate::client::registry::ClientInfo;
use crate::net::order::Order;
use crate::shared::Shared;

/// What a client has said about itself by REPLCONF before it asks for the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Port on which the replica listens; 0 if unknown.
    pub(crate) port: u32,
    /// Address under which the replica wants to be known.
    pub(crate) ip: Option<String>,
    /// The replica finds the end of a snapshot of unknown length.
    pub(crate) eof: bool,
    /// The replica understands an id after `+CONTINUE`.
    pub(crate) psync2: bool,
    /// The client wants a snapshot and no stream.
    pub(crate) rdb_only: bool,
    /// Parts of the snapshot that the client wants; `None` for all.
    pub(crate) filter: Option<Filter>,
}

/// Parts of a filtered snapshot (REPLCONF rdb-filter-only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The snapshot has the libraries of functions.
    pub(crate) functions: bool,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for a snapshot to begin. Only upkeep writes to its socket.
    Waiting,
    /// A thread sends it the snapshot.
    Receiving,
    /// It has the snapshot. The stream begins at its first acknowledgement.
    Loading,
    /// Its loop sends it the stream.
    Online,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Waiting, Self::Receiving, Self::Loading, Self::Online];
}

/// One attached replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) client: Arc<ClientInfo>,
    pub(crate) peer: Peer,
    /// The client has sent SYNC: it gets no `+FULLRESYNC` and need not acknowledge.
    pub(crate) old_protocol: bool,
    /// Time at which it asked, unix ms.
    pub(crate) asked_ms: u64,
    phase: AtomicU8,
    /// Offset of the next byte to send; `u64::MAX` as long as there is none.
    next: AtomicU64,
    acked: AtomicU64,
    acked_file: AtomicU64,
    acked_ms: AtomicU64,
    /// A copy of the connection's socket, for the thread of a full synchronization.
    pub(crate) socket: OnceLock<OwnedFd>,
    /// It has acknowledged something, so the stream may begin.
    ready: AtomicBool,
    /// The connection has ended.
    gone: AtomicBool,
}

impl Replica {
    pub(crate) fn new(
        client: Arc<ClientInfo>,
        peer: Peer,
        phase: Phase,
        next: u64,
        now_ms: u64,
    ) -> Self {
        Self {
            client,
            peer,
            old_protocol: false,
            asked_ms: now_ms,
            phase: AtomicU8::new(phase as u8),
            next: next.into(),
            acked: AtomicU64::new(0),
            acked_file: AtomicU64::new(0),
            acked_ms: now_ms.into(),
            socket: OnceLock::new(),
            ready: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Acquire))]
    }

    /// Sets the phase. What the caller has written before is seen by whoever sees the phase.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns whether the snapshot is sent; the stream follows or has begun.
    pub(crate) fn is_online(&self) -> bool {
        matches!(self.phase(), Phase::Loading | Phase::Online)
    }

    /// Returns the offset of the next byte to send; `u64::MAX` as long as there is none.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Sets the offset of the next byte to send; earlier bytes need not be kept.
    pub(crate) fn set_next(&self, offset: u64) {
        self.next.store(offset, Ordering::Release);
    }

    /// Returns the last acknowledged offset.
    pub(crate) fn acked(&self) -> u64 {
        self.acked.load(Ordering::Acquire)
    }

    /// Returns the offset up to which the replica's append-only file is synced.
    pub(crate) fn acked_file(&self) -> u64 {
        self.acked_file.load(Ordering::Acquire)
    }

    /// Returns the time of the last acknowledgement, unix ms.
    pub(crate) fn acked_ms(&self) -> u64 {
        self.acked_ms.load(Ordering::Acquire)
    }

    /// Notes a sign of life.
    pub(crate) fn set_acked_ms(&self, now_ms: u64) {
        self.acked_ms.store(now_ms, Ordering::Release);
    }

    /// Records an acknowledgement, with which the stream may begin.
    pub(crate) fn acknowledge(&self, offset: u64, file: Option<u64>, now_ms: u64) {
        self.acked.fetch_max(offset, Ordering::AcqRel);
        if let Some(file) = file {
            self.acked_file.fetch_max(file, Ordering::AcqRel);
        }
        self.set_acked_ms(now_ms);
        self.ready.store(true, Ordering::SeqCst);
        self.begin_if_ready();
    }

    /// Begins the stream if the snapshot is sent and acknowledged. Both threads that know one of the two call this after they
    /// have stored it, so that one of them sees both.
    fn begin_if_ready(&self) {
        if self.ready.load(Ordering::SeqCst) {
            let (from, to) = (Phase::Loading as u8, Phase::Online as u8);
            let phase = &self.phase;
            // Fails in every other phase.
            let _ = phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Ends the transfer of the snapshot. Unless the stream begins at once, the first acknowledgement begins it.
    pub(crate) fn end_transfer(&self, at_once: bool, now_ms: u64) {
        self.set_acked_ms(now_ms);
        let phase = if at_once {
            Phase::Online
        } else {
            Phase::Loading
        };
        self.phase.store(phase as u8, Ordering::SeqCst);
        self.begin_if_ready();
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Returns the replica's address for INFO and ROLE.
    pub(crate) fn ip(&self) -> &str {
        self.peer
            .ip
            .as_deref()
            .or_else(|| {
                Some(
                    self.client
                        .addr
                        .rsplit_once(':')?
                        .0
                        .trim_matches(['[', ']']),
                )
            })
            .unwrap_or("?")
    }
}

impl std::fmt::Display for Replica {
    /// Writes the name of the replica in the log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.ip())?;
        match self.peer.port {
            0 => f.write_str(":<unknown-replica-port>"),
            port => write!(f, ":{port}"),
        }
    }
}

/// Backlog and list of replicas.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// None before the first replica, and after a long time without any.
    pub(crate) backlog: Option<Backlog>,
    /// In the order in which they asked.
    pub(crate) replicas: Vec<Arc<Replica>>,
    /// Time at which the last replica left, unix ms.
    pub(crate) alone_since_ms: u64,
}

impl Stream {
    /// Returns the first offset that a replica still needs.
    fn needed(&self) -> u64 {
        let next = self.replicas.iter().map(|replica| replica.next());
        next.min().unwrap_or(u64::MAX)
    }
}

/// An event loop with replicas.
#[derive(Debug, Default)]
struct LoopWithReplicas {
    replicas: AtomicU32,
    /// The loop has an order to look at the stream.
    told: AtomicBool,
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

/// The replicas of this server.
#[derive(Debug)]
pub(crate) struct Replicas {
    stream: OrderedMutex<Stream>,
    loops: Vec<LoopWithReplicas>,
    /// Number of replicas that have acknowledged within `min-replicas-max-lag`.
    pub(crate) good: AtomicUsize,
    pub(crate) counts: SyncCounts,
    /// Clients in WAIT and WAITAOF.
    pub(crate) acks: Acks,
    pub(crate) full_sync: FullSync,
    /// Time of the next upkeep, unix ms; `u64::MAX` for never.
    pub(crate) upkeep_ms: AtomicU64,
    /// Time of the last PING in the stream, unix ms.
    pub(crate) pinged_ms: AtomicU64,
}

impl Replicas {
    /// Creates the list for this number of event loops.
    pub(crate) fn new(loops: usize) -> Self {
        Self {
            stream: OrderedMutex::new(Rank::Stream, Stream::default()),
            loops: (0..loops).map(|_| LoopWithReplicas::default()).collect(),
            good: AtomicUsize::new(0),
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

impl Shared {
    /// Appends bytes to the replication stream, if there is a backlog, and tells the loops with replicas. The mutex of the log
    /// is held, or nothing that changes the keyspace can run.
    pub(crate) fn append_to_stream(&self, bytes: &[u8]) {
        let mut stream = self.replicas.stream.lock();
        let Some(backlog) = &mut stream.backlog else {
            return;
        };
        let filled = backlog.append(bytes);
        self.replication.advance(bytes.len());
        if filled {
            let needed = stream.needed();
            if let Some(backlog) = &mut stream.backlog {
                backlog.trim(needed);
            }
        }
        drop(stream);
        self.tell_loops_with_replicas();
    }

    /// Begins a history and its stream, unless there is one: nothing that the server has done so far is in it.
    pub(crate) fn begin_stream(&self, turn: &mut Turn<'_>) {
        turn.release();
        turn.lock_all();
        let mut stream = self.replicas.stream.lock();
        if stream.backlog.is_some() {
            return;
        }
        self.replication.begin_history();
        let size = self.settings().repl_backlog_size;
        stream.backlog = Some(Backlog::new(self.replication.offset() + 1, size));
        drop(stream);
        self.changelog
            .set_replicas(turn, !self.replication.is_replica());
        turn.release();
        let ids = self.replication.ids();
        crate::log::notice!(
            self.logger,
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            ids.current,
            ids.second
        );
    }

    /// Orders the loops with replicas to send what the stream has for them.
    fn tell_loops_with_replicas(&self) {
        for (number, on) in self.replicas.loops.iter().enumerate() {
            if on.replicas.load(Ordering::Acquire) > 0 && !on.told.swap(true, Ordering::SeqCst) {
                self.mailboxes[number].order(Order::FeedReplicas);
            }
        }
    }

    /// Adds a replica to the list that `stream` guards.
    pub(crate) fn attach(&self, stream: &mut Stream, replica: &Arc<Replica>) {
        stream.replicas.push(Arc::clone(replica));
        replica.client.replica.store(true, Ordering::Release);
        let on = &self.replicas.loops[replica.client.loop_number];
        on.replicas.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a replica whose connection has ended.
    pub(crate) fn detach(&self, replica: &Arc<Replica>) {
        replica.gone.store(true, Ordering::Release);
        let mut stream = self.replicas.stream.lock();
        let before = stream.replicas.len();
        stream.replicas.retain(|other| !Arc::ptr_eq(other, replica));
        if stream.replicas.len() == before {
            return;
        }
        if stream.replicas.is_empty() {
            stream.alone_since_ms = self.clock.now().read_ms();
        }
        let needed = stream.needed();
        if let Some(backlog) = &mut stream.backlog {
            backlog.trim(needed);
        }
        drop(stream);
        let on = &self.replicas.loops[replica.client.loop_number];
        on.replicas.fetch_sub(1, Ordering::AcqRel);
        crate::log::warning!(self.logger, "Connection with replica {replica} lost.");
        self.count_good_replicas();
        self.call_upkeep();
    }

    /// Closes the connections of all replicas: they ask again, and learn what has changed.
    pub(crate) fn disconnect_replicas(&self) {
        let all = {
            let stream = self.replicas.stream();
            // None of them gets a byte of another history.
            for replica in &stream.replicas {
                replica.gone.store(true, Ordering::Release);
            }
            stream.replicas.clone()
        };
        for replica in all {
            self.close_replica(&replica);
        }
    }

    /// Begins the stream of a replica anew, behind the current offset. The turn holds every shard.
    pub(crate) fn restart_stream(&self) {
        self.disconnect_replicas();
        let size = self.settings().repl_backlog_size;
        let next = self.replication.offset() + 1;
        self.replicas.stream().backlog = Some(Backlog::new(next, size));
    }

    /// Closes the connection of a replica.
    pub(crate) fn close_replica(&self, replica: &Replica) {
        let client = &replica.client;
        self.mailboxes[client.loop_number].order(Order::Kill {
            client: client.id,
            slot: client.slot,
        });
    }

    /// Makes the first loop look after the replicas in its next turn.
    pub(crate) fn call_upkeep(&self) {
        self.replicas.upkeep_ms.store(0, Ordering::SeqCst);
        self.mailboxes[0].order(Order::Resume);
    }

    /// Returns whether writes must be refused because too few replicas have acknowledged recently.
    pub(crate) fn lacks_replicas(&self) -> bool {
        let settings = self.settings();
        settings.min_replicas_to_write > 0
            && settings.min_replicas_max_lag_s > 0
            && !self.replication.is_replica()
            && self.replicas.good.load(Ordering::Acquire) < settings.min_replicas_to_write
    }

    /// Counts the replicas that have acknowledged recently, and admits or refuses writes accordingly.
    pub(crate) fn count_good_replicas(&self) {
        let settings = self.settings();
        if settings.min_replicas_to_write == 0 {
            return self.update_gate();
        }
        let now_ms = self.clock.now().read_ms();
        let max_ms = settings.min_replicas_max_lag_s.saturating_mul(1000);
        // As in Redis, lags are whole seconds.
        let is_good = |replica: &&Arc<Replica>| {
            let lag_ms = (now_ms / 1000 * 1000).saturating_sub(replica.acked_ms() / 1000 * 1000);
            replica.is_online() && lag_ms <= max_ms
        };
        let good = self
            .replicas
            .stream()
            .replicas
            .iter()
            .filter(is_good)
            .count();
        self.replicas.good.store(good, Ordering::Release);
        self.update_gate();
    }
}
