//! The primary that this server follows: its address, and the state of the link to it.
//!
//! Who writes what:
//! - The **address** and the **generation** change in a turn that holds every shard
//!   ([`Upstream::follow`], [`Upstream::unfollow`]). A command of the stream runs under the same
//!   locks and only in its own generation, so a server that has left its primary applies nothing
//!   more of it.
//! - The **phase** is moved by loop 0, which connects, and serves the link as a connection from the
//!   end of the handshake or the load on. [`Upstream::next_attempt`] says when it connects again.
//!
//! The mutex is the last in the order of locks: nothing else is locked while it is held.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
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
    /// There is no link, and the next attempt has not begun.
    #[default]
    Connect,
    /// The connection is being established.
    Connecting,
    /// The servers introduce themselves.
    Handshake,
    /// The primary's data is received and loaded.
    Transfer,
    /// The stream is applied.
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
pub(crate) struct Transfer {
    /// Size of the snapshot in bytes; 0 if the primary has not told it.
    pub(crate) total: u64,
    pub(crate) read: u64,
}

#[derive(Debug, Default)]
struct Inner {
    primary: Option<Address>,
    phase: Phase,
    /// Whether the server's data is a part of the history that its id names, so that it may ask to
    /// continue.
    continues: bool,
    /// Start of the last attempt.
    tried: Option<Moment>,
    /// When the link was lost; `None` if there was none yet.
    down_since: Option<Moment>,
    transfer: Transfer,
}

/// The primary of this server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) world: World,
    /// Number of changes of the primary.
    generation: AtomicU64,
    /// The stream is applied.
    connected: AtomicBool,
    inner: Mutex<Inner>,
    /// Base of `heard_ms`.
    epoch: Moment,
    /// Last input from the primary, in ms since `epoch`.
    heard_ms: AtomicU64,
    /// Database that the stream has selected at the server's offset.
    db: AtomicUsize,
    /// Bytes read from primaries.
    pub(crate) input_bytes: AtomicU64,
    /// The server is a replica, with `replica-read-only`.
    pub(crate) read_only: AtomicBool,
    /// `replica-serve-stale-data`.
    pub(crate) serves_stale: AtomicBool,
    /// The thread that loads a snapshot, or the last one that did.
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
            heard_ms: AtomicU64::new(0),
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
    /// Whether to ask for a continuation.
    pub(crate) continues: bool,
    /// Database that the stream has selected where it is continued.
    pub(crate) db: usize,
}

/// What to do about the link.
#[derive(Debug)]
pub(crate) enum Next {
    /// Begin this attempt.
    Now(Attempt),
    /// Ask again at this time.
    At(Moment),
    /// The link is there, is being established, or is not wanted.
    Nothing,
}

/// What INFO and ROLE show.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) primary: Address,
    pub(crate) phase: Phase,
    pub(crate) transfer: Transfer,
    /// Seconds since the last input; `None` without a link.
    pub(crate) heard_s: Option<u64>,
    /// Seconds since the link was lost; `None` if there was none.
    pub(crate) down_s: Option<u64>,
}

impl Upstream {
    /// Returns the number of changes of the primary.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Returns whether the stream is applied.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Returns whether a full synchronization is received and loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.inner.lock().phase == Phase::Transfer
    }

    /// Returns the primary's address.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.inner.lock().primary.clone()
    }

    /// Returns whether the server's data is a part of the history that its id names.
    pub(crate) fn continues(&self) -> bool {
        self.inner.lock().continues
    }

    /// Notes that the data comes from a snapshot that names its place in the history.
    pub(crate) fn resume(&self, db: usize) {
        self.set_db(db);
        self.inner.lock().continues = true;
    }

    /// Returns the database that the stream has selected at the server's offset.
    pub(crate) fn db(&self) -> usize {
        self.db.load(Ordering::Acquire)
    }

    /// Sets the database that the stream has selected. The turn holds every shard.
    pub(crate) fn set_db(&self, db: usize) {
        self.db.store(db, Ordering::Release);
    }

    /// Follows another primary, which the server may ask to continue its own history if `continues`
    /// is set. The caller holds every shard.
    pub(crate) fn follow(&self, primary: Address, continues: bool) {
        let mut inner = self.inner.lock();
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.connected.store(false, Ordering::Release);
        inner.continues |= continues;
        inner.primary = Some(primary);
        inner.tried = None;
        self.set_phase(&mut inner, Phase::Connect);
        if inner.down_since.is_none() {
            inner.down_since = Some(self.world.stopwatch());
        }
    }

    /// Follows nobody any more. The caller holds every shard.
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

    /// Moves the link to `phase`, if `generation` is the current one. Returns whether it is.
    pub(crate) fn advance(&self, generation: u64, phase: Phase) -> bool {
        let mut inner = self.inner.lock();
        let current = self.is_current(generation);
        if current {
            self.set_phase(&mut inner, phase);
        }
        current
    }

    /// Returns whether an attempt of this generation still has a purpose.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation() == generation && !self.stopping.load(Ordering::Acquire)
    }

    /// Notes that the stream of this generation is applied from here on, and that the server may
    /// ask to continue it.
    pub(crate) fn attached(&self, generation: u64) {
        self.note_input(0);
        let mut inner = self.inner.lock();
        if self.is_current(generation) {
            inner.continues = true;
            inner.down_since = None;
            self.set_phase(&mut inner, Phase::Connected);
        }
    }

    /// Notes that the link of this generation is lost, or was ended because a command is `refused`.
    /// Returns whether it was the current one.
    pub(crate) fn lost(&self, generation: u64, refused: bool) -> bool {
        let mut inner = self.inner.lock();
        let current = self.is_current(generation);
        if current {
            inner.down_since = Some(self.world.stopwatch());
            // The first attempt follows at once, or the primary's backlog might move on.
            inner.tried = refused.then(|| self.world.stopwatch());
            self.set_phase(&mut inner, Phase::Connect);
        }
        current
    }

    /// Notes that an attempt has failed.
    pub(crate) fn failed(&self, generation: u64) {
        let mut inner = self.inner.lock();
        if self.is_current(generation) {
            self.set_phase(&mut inner, Phase::Connect);
        }
    }

    /// Returns the next step to a link. A returned attempt has begun.
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

    /// Notes input from the primary.
    pub(crate) fn note_input(&self, bytes: usize) {
        self.input_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let ms = u64::try_from(self.world.since(self.epoch).as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(ms, Ordering::Relaxed);
    }

    /// Returns the time since the last input from the primary.
    pub(crate) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        self.world.since(self.epoch).saturating_sub(heard)
    }

    /// Sets the progress of a full synchronization.
    pub(crate) fn transferred(&self, transfer: Transfer) {
        self.inner.lock().transfer = transfer;
    }

    /// Returns what INFO and ROLE show, or `None` for a primary.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let inner = self.inner.lock();
        let linked = matches!(inner.phase, Phase::Connected | Phase::Transfer);
        Some(Shown {
            primary: inner.primary.clone()?,
            phase: inner.phase,
            transfer: inner.transfer,
            heard_s: linked.then(|| self.silence().as_secs()),
            down_s: inner.down_since.map(|at| self.world.since(at).as_secs()),
        })
    }

    /// Ends all attempts: none is wanted any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Blocks until the thread that loads a snapshot has ended, after the end of loop 0.
    pub(crate) fn join(&self) {
        let thread = self.loader.lock().take();
        if let Some(thread) = thread {
            // The panic hook has printed the message of a panic.
            let _ = thread.join();
        }
    }
}
