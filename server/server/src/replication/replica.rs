//! One attached replica: its announcements about itself, its phase, and its acknowledgements.
//!
//! The replica's connection belongs to an event loop, and only this loop writes to the socket:
//! first the blocks of the [`Transfer`], then the stream from the backlog. The start of a
//! synchronization sets the first offset to send; the loop advances it. The loop ends the phases
//! [`Phase::Receiving`] and [`Phase::Loading`]. Any thread may read a replica's figures. Fields
//! that end in `_ms` are readings of [`World::stopwatch_ms`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use punctual_rdb::Dialect;

use crate::client::registry::ClientInfo;
use crate::replication::transfer::Transfer;
use crate::world::World;

/// Announcements that a client makes by REPLCONF before it requests the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Port on which the replica listens; 0 if unknown.
    pub(crate) port: u32,
    /// Address that the replica wants to be listed under.
    pub(crate) ip: Option<String>,
    /// The replica can find the end of a snapshot whose length is not known in advance.
    pub(crate) eof: bool,
    /// The replica accepts an id after `+CONTINUE`.
    pub(crate) psync2: bool,
    /// The client requests a snapshot without the stream.
    pub(crate) rdb_only: bool,
    /// Parts of the snapshot that the client requests; `None` for all.
    pub(crate) filter: Option<Filter>,
    /// The dialect of the snapshot: Valkey 9 reads deadlines of hash fields only in its own.
    pub(crate) dialect: Dialect,
}

/// Parts of a filtered snapshot (REPLCONF rdb-filter-only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The snapshot contains the libraries of functions.
    pub(crate) functions: bool,
}

/// Progress of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The replica waits for a snapshot to begin.
    Waiting,
    /// A thread encodes the snapshot, and the replica's loop sends it.
    Receiving,
    /// The whole snapshot is sent. The stream begins after the replica's first acknowledgement.
    Loading,
    /// The replica's loop sends the stream.
    Online,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Waiting, Self::Receiving, Self::Loading, Self::Online];
}

/// State of one attached replica, shared by its loop and other threads.
#[derive(Debug)]
pub(crate) struct Replica {
    world: World,
    pub(crate) client: Arc<ClientInfo>,
    pub(crate) peer: Peer,
    /// The client has sent SYNC: it gets no `+FULLRESYNC` and does not have to acknowledge.
    pub(crate) old_protocol: bool,
    /// Time of the replica's SYNC or PSYNC, in milliseconds of the stopwatch.
    pub(crate) asked_ms: u64,
    phase: AtomicU8,
    /// Offset of the next byte to send; `u64::MAX` before the stream's start is known.
    next: AtomicU64,
    acked: AtomicU64,
    acked_file: AtomicU64,
    /// Time of the last acknowledgement or other contact, in milliseconds of the stopwatch.
    acked_ms: AtomicU64,
    /// Bytes that the replica gets before the stream.
    pub(crate) transfer: Transfer,
    /// The replica has acknowledged something, so the stream may begin.
    ready: AtomicBool,
    /// The connection has ended.
    gone: AtomicBool,
}

impl Replica {
    /// Returns Redis's name of the replica's state.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.phase() {
            Phase::Waiting | Phase::Receiving => "wait_bgsave",
            Phase::Loading | Phase::Online => "online",
        }
    }

    pub(crate) fn new(
        world: World,
        client: Arc<ClientInfo>,
        peer: Peer,
        phase: Phase,
        next: u64,
    ) -> Self {
        let now_ms = world.stopwatch_ms();
        Self {
            world,
            client,
            peer,
            old_protocol: false,
            asked_ms: now_ms,
            phase: AtomicU8::new(phase as u8),
            next: next.into(),
            acked: AtomicU64::new(0),
            acked_file: AtomicU64::new(0),
            acked_ms: now_ms.into(),
            transfer: Transfer::default(),
            ready: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Acquire))]
    }

    /// Sets the phase. A thread that reads the phase also sees everything that the caller wrote
    /// before.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns true if the whole snapshot is sent. The stream follows or has begun.
    pub(crate) fn is_online(&self) -> bool {
        matches!(self.phase(), Phase::Loading | Phase::Online)
    }

    /// Returns true if the replica has acknowledged any offset.
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Returns the offset of the next byte to send; `u64::MAX` before the stream's start is known.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Sets the offset of the next byte to send. The backlog may drop earlier bytes.
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

    /// Returns the milliseconds since the last acknowledgement or other contact.
    pub(crate) fn silence_ms(&self) -> u64 {
        self.world
            .stopwatch_ms()
            .saturating_sub(self.acked_ms.load(Ordering::Acquire))
    }

    /// Returns the first second of the stopwatch in which the replica no longer counts for
    /// `min-replicas-to-write`, unless it acknowledges again. As in Redis, the lag is a difference
    /// of whole seconds.
    pub(crate) fn good_until_s(&self, max_lag_s: u64) -> u64 {
        let acked_s = self.acked_ms.load(Ordering::Acquire) / 1_000;
        acked_s.saturating_add(max_lag_s).saturating_add(1)
    }

    /// Returns the lag that INFO shows: seconds since the last acknowledgement.
    pub(crate) fn lag_s(&self) -> u64 {
        (self.world.stopwatch_ms() / 1_000 + 1).saturating_sub(self.good_until_s(0))
    }

    /// Records that the replica is alive.
    pub(crate) fn record_contact(&self) {
        self.acked_ms
            .store(self.world.stopwatch_ms(), Ordering::Release);
    }

    /// Records an acknowledgement. The stream may begin afterwards.
    pub(crate) fn acknowledge(&self, offset: u64, file: Option<u64>) {
        self.acked.fetch_max(offset, Ordering::AcqRel);
        if let Some(file) = file {
            self.acked_file.fetch_max(file, Ordering::AcqRel);
        }
        self.record_contact();
        self.ready.store(true, Ordering::Relaxed);
        if self.phase() == Phase::Loading {
            self.set_phase(Phase::Online);
        }
    }

    /// Ends the transfer of the snapshot. The stream begins now if `at_once` is true, otherwise
    /// after the first acknowledgement.
    pub(crate) fn end_transfer(&self, at_once: bool) {
        self.record_contact();
        self.set_phase(match at_once || self.ready.load(Ordering::Relaxed) {
            true => Phase::Online,
            false => Phase::Loading,
        });
    }

    /// Records that the connection has ended or will end. Nothing more is sent to the replica.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
        self.transfer.close();
    }

    /// Returns true if the connection has ended or will end.
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
    /// Writes the replica's address and port, as log lines show it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.ip())?;
        match self.peer.port {
            0 => f.write_str(":<unknown-replica-port>"),
            port => write!(f, ":{port}"),
        }
    }
}
