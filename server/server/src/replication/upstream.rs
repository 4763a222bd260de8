//! The primary that this server follows: its address, and the state of the link to it.
//!
//! Ground rules:
//! - The **address** and the **generation** (number of changes of the primary) change before the
//!   event loops start, or in a turn that holds every shard ([`Upstream::follow`],
//!   [`Upstream::unfollow`]). A command of the stream also holds every shard, and runs only in its
//!   own generation. So a server that has left its primary applies nothing more from it.
//! - Loop 0 advances the **phase**. It connects, and after the handshake or the load it serves the
//!   link as a connection. [`Upstream::next_attempt`] says when it connects again.
//! - The mutex is the last in the order of locks: nothing else is locked while it is held.

use crate::world::JoinHandle;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::world::{Moment, World};

/// Time between two attempts to connect, and between two acknowledgements to the primary.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Address of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// State of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no link, and no attempt is running.
    #[default]
    Connect,
    /// The connection is being established.
    Connecting,
    /// The servers exchange the handshake.
    Handshake,
    /// The server receives and loads the primary's data.
    Transfer,
    /// The server applies the stream.
    Connected,
}

impl Phase {
    /// Returns Redis's name of the phase (ROLE).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Transfer => "sync",
            Self::Connected => "connected",
        }
    }
}

/// Progress of a full synchronization.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SyncProgress {
    /// Size of the snapshot in bytes; 0 if the primary has not announced it.
    pub(crate) total: u64,
    pub(crate) read: u64,
}

#[derive(Debug, Default)]
struct Inner {
    primary: Option<Address>,
    phase: Phase,
    /// True if the server's data belongs to the history of its id, so that the server may ask the
    /// primary to continue.
    continues: bool,
    /// True if the server has applied the stream of this primary, so that its data is the
    /// primary's.
    synced: bool,
    /// Start of the last attempt to connect.
    tried: Option<Moment>,
    /// Time since which the link is down; `None` while it is up, and without a primary.
    down_since: Option<Moment>,
    transfer: SyncProgress,
}

/// The primary of this server, and the state of the link to it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) world: World,
    /// Number of changes of the primary.
    generation: AtomicU64,
    /// The server applies the stream.
    connected: AtomicBool,
    inner: Mutex<Inner>,
    /// Start of the time that `last_input_ms` counts.
    epoch: Moment,
    /// Time of the last input from the primary, in ms since `epoch`.
    last_input_ms: AtomicU64,
    /// Database that the stream has selected at the server's offset.
    db: AtomicUsize,
    /// Number of bytes read from primaries.
    pub(crate) input_bytes: AtomicU64,
    /// The server is a replica with `replica-read-only`.
    pub(crate) read_only: AtomicBool,
    /// Value of `replica-serve-stale-data`.
    pub(crate) serves_stale: AtomicBool,
    /// Thread that loads a snapshot; may have ended.
    pub(crate) loader: Mutex<Option<JoinHandle<()>>>,
    stopping: AtomicBool,
}

impl Upstream {
    /// Returns the state of a server without a primary.
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            generation: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            inner: Mutex::default(),
            epoch: world.stopwatch(),
            last_input_ms: AtomicU64::new(0),
            input_bytes: AtomicU64::new(0),
            db: AtomicUsize::new(0),
            read_only: AtomicBool::new(false),
            serves_stale: AtomicBool::new(true),
            loader: Mutex::new(None),
            stopping: AtomicBool::new(false),
        }
    }
}

/// An attempt to establish the link.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) generation: u64,
    pub(crate) primary: Address,
    /// Whether to ask the primary to continue the stream.
    pub(crate) continues: bool,
    /// Database that the stream has selected at the point where it continues.
    pub(crate) db: usize,
}

/// Next step for the link.
#[derive(Debug)]
pub(crate) enum Next {
    /// Begin this attempt now.
    Now(Attempt),
    /// Call [`Upstream::next_attempt`] again at this time.
    At(Moment),
    /// Nothing to do: the link exists, is being established, or is not needed.
    Nothing,
}

/// State of the link that INFO and ROLE show.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) primary: Address,
    pub(crate) phase: Phase,
    pub(crate) transfer: SyncProgress,
    /// Seconds since the last input from the primary; `None` without a link.
    pub(crate) last_input_s: Option<u64>,
    /// Seconds for which the link has been down; `None` while it is up.
    pub(crate) down_s: Option<u64>,
}

impl Upstream {
    /// Returns the number of changes of the primary.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Returns true if the server applies the stream.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Returns true if the server receives or loads the primary's data.
    pub(crate) fn is_loading(&self) -> bool {
        self.inner.lock().phase == Phase::Transfer
    }

    /// Returns the primary's address.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.inner.lock().primary.clone()
    }

    /// Returns true if the server's data belongs to the history of its id.
    pub(crate) fn continues(&self) -> bool {
        self.inner.lock().continues
    }

    /// Returns true if the server's data is its present primary's, up to a lag.
    pub(crate) fn is_synced(&self) -> bool {
        self.inner.lock().synced
    }

    /// Records that the data comes from a snapshot that names its position in the history.
    pub(crate) fn resume(&self, db: usize) {
        self.set_db(db);
        self.inner.lock().continues = true;
    }

    /// Returns the database that the stream has selected at the server's offset.
    pub(crate) fn db(&self) -> usize {
        self.db.load(Ordering::Acquire)
    }

    /// Sets the database that the stream has selected. The calling turn holds every shard.
    pub(crate) fn set_db(&self, db: usize) {
        self.db.store(db, Ordering::Release);
    }

    /// Follows another primary. If `continues` is set, the server may ask it to continue the
    /// server's own history. The caller holds every shard, or the event loops have not started.
    pub(crate) fn follow(&self, primary: Address, continues: bool) {
        let mut inner = self.inner.lock();
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.connected.store(false, Ordering::Release);
        inner.continues |= continues;
        inner.primary = Some(primary);
        inner.synced = false;
        inner.tried = None;
        self.set_phase(&mut inner, Phase::Connect);
        if inner.down_since.is_none() {
            inner.down_since = Some(self.world.stopwatch());
        }
    }

    /// Follows no primary any more. The caller holds every shard.
    pub(crate) fn unfollow(&self) {
        let mut inner = self.inner.lock();
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.connected.store(false, Ordering::Release);
        inner.primary = None;
        inner.down_since = None;
        inner.continues = true;
        self.set_phase(&mut inner, Phase::Connect);
    }

    fn set_phase(&self, inner: &mut MutexGuard<'_, Inner>, phase: Phase) {
        inner.phase = phase;
        self.connected
            .store(phase == Phase::Connected, Ordering::Release);
    }

    /// Sets the phase if `generation` is the current one. Returns true if it is.
    pub(crate) fn advance(&self, generation: u64, phase: Phase) -> bool {
        let mut inner = self.inner.lock();
        let current = self.is_current(generation);
        if current {
            self.set_phase(&mut inner, phase);
        }
        current
    }

    /// Returns true if an attempt of this generation is still needed.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation() == generation && !self.stopping.load(Ordering::Acquire)
    }

    /// Records that the server applies the stream of this generation from now on, and may ask to
    /// continue it.
    pub(crate) fn attached(&self, generation: u64) {
        self.note_input(0);
        let mut inner = self.inner.lock();
        if self.is_current(generation) {
            inner.continues = true;
            inner.synced = true;
            inner.down_since = None;
            self.set_phase(&mut inner, Phase::Connected);
        }
    }

    /// Records that the link of this generation was lost, or was closed because a command was
    /// `refused`. Returns true if the generation is the current one.
    pub(crate) fn lost(&self, generation: u64, refused: bool) -> bool {
        let mut inner = self.inner.lock();
        let current = self.is_current(generation);
        if current {
            inner.down_since = Some(self.world.stopwatch());
            // The next attempt has no delay, because the primary's backlog drops old bytes. After a
            // refused command, an attempt would fail again, so the next one waits.
            inner.tried = refused.then(|| self.world.stopwatch());
            self.set_phase(&mut inner, Phase::Connect);
        }
        current
    }

    /// Records that an attempt to connect has failed.
    pub(crate) fn failed(&self, generation: u64) {
        let mut inner = self.inner.lock();
        if self.is_current(generation) {
            self.set_phase(&mut inner, Phase::Connect);
        }
    }

    /// Returns the next step for the link. A returned attempt counts as begun.
    pub(crate) fn next_attempt(&self) -> Next {
        let mut inner = self.inner.lock();
        let Some(primary) = &inner.primary else {
            return Next::Nothing;
        };
        if inner.phase != Phase::Connect || self.stopping.load(Ordering::Acquire) {
            return Next::Nothing;
        }
        let now = self.world.stopwatch();
        if let Some(due) = inner.tried.map(|at| at + INTERVAL)
            && due > now
        {
            return Next::At(due);
        }
        let attempt = Attempt {
            generation: self.generation(),
            primary: primary.clone(),
            continues: inner.continues,
            db: self.db(),
        };
        inner.tried = Some(now);
        self.set_phase(&mut inner, Phase::Connecting);
        Next::Now(attempt)
    }

    /// Records input from the primary.
    pub(crate) fn note_input(&self, bytes: usize) {
        self.input_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let ms = u64::try_from(self.world.since(self.epoch).as_millis()).unwrap_or(u64::MAX);
        self.last_input_ms.store(ms, Ordering::Relaxed);
    }

    /// Returns the time since the last input from the primary.
    pub(crate) fn silence(&self) -> Duration {
        let last_input = Duration::from_millis(self.last_input_ms.load(Ordering::Relaxed));
        self.world.since(self.epoch).saturating_sub(last_input)
    }

    /// Sets the progress of a full synchronization.
    pub(crate) fn transferred(&self, transfer: SyncProgress) {
        self.inner.lock().transfer = transfer;
    }

    /// Returns the state that INFO and ROLE show, or `None` if the server is a primary.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let inner = self.inner.lock();
        let linked = matches!(inner.phase, Phase::Connected | Phase::Transfer);
        Some(Shown {
            primary: inner.primary.clone()?,
            phase: inner.phase,
            transfer: inner.transfer,
            last_input_s: linked.then(|| self.silence().as_secs()),
            down_s: inner.down_since.map(|at| self.world.since(at).as_secs()),
        })
    }

    /// Ends all attempts, because the server stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Blocks until the thread that loads a snapshot has ended. Called after the end of loop 0.
    pub(crate) fn join(&self) {
        let thread = self.loader.lock().take();
        if let Some(thread) = thread {
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }
}
