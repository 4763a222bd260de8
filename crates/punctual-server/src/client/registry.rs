//! All clients of the server, as every loop may see them (CLIENT LIST, CLIENT KILL, INFO).
//!
//! A client's own loop writes; others read. Numbers may be a turn old.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchFlag;

use crate::client::transaction;
use crate::net::connection::Connection;

/// Bytes of output that count as Redis's reply buffer (`rbs`, `obl`); what is beyond counts as its list (`omem`).
pub(crate) const REPLY_BUFFER: u64 = 16 << 10;

/// What all loops may see of a client.
#[derive(Debug, Default)]
pub struct ClientInfo {
    /// Number of the client.
    pub id: u64,
    /// Its address, or the unix socket's path with `:0`.
    pub addr: String,
    /// The server's end.
    pub laddr: String,
    /// File descriptor.
    pub fd: i32,
    /// Whether it came through the unix socket.
    pub unix: bool,
    /// Whether it is on this machine.
    pub local: bool,
    /// The loop that serves it.
    pub loop_number: usize,
    /// Its place in that loop.
    pub slot: usize,
    /// When it came, unix ms.
    pub created_ms: u64,
    /// When it last sent something, unix ms.
    pub seen_ms: AtomicU64,
    /// Selected database.
    pub db: AtomicU32,
    /// Bytes of its input that the server holds: commands that run, wait or are incomplete.
    pub query_bytes: AtomicU64,
    /// Free bytes of its own input buffer; 0 while its input lies in the loop's buffer.
    pub query_free: AtomicU64,
    /// Bytes of output that it has not read.
    pub output_bytes: AtomicU64,
    /// Capacity of its output buffer; 0 while it has none.
    pub output_capacity: AtomicU64,
    /// Most bytes of output before a write.
    pub output_peak: RecentPeak,
    /// Id of the last command's entry plus 1; 0: none.
    pub last_command: AtomicU32,
    /// 2 or 3.
    pub resp: AtomicU8,
    /// Subscribed channels.
    pub channels: AtomicU32,
    /// Subscribed patterns.
    pub patterns: AtomicU32,
    /// Subscribed shard channels.
    pub shard_channels: AtomicU32,
    /// Receives every command.
    pub monitor: AtomicBool,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// It waits for the end of CLIENT PAUSE, or for a key.
    pub waiting: AtomicBool,
    /// The command that waits for a key.
    pub waiter: Mutex<Option<Arc<Waiter>>>,
    /// Commands queued since MULTI; -1 outside of a transaction.
    pub multi: AtomicI64,
    /// Bytes that their arguments take.
    pub multi_bytes: AtomicU64,
    /// Tells of changes of these keys; there since the first WATCH.
    pub watch: OnceLock<Arc<WatchFlag>>,
    /// CLIENT KILL has met it: it runs nothing more.
    pub killed: AtomicBool,
    /// Bytes read from it.
    pub net_in: AtomicU64,
    /// Bytes written to it.
    pub net_out: AtomicU64,
    /// What it says of itself.
    pub names: Mutex<ClientNames>,
}

/// The kinds of client that CLIENT LIST TYPE and CLIENT KILL TYPE tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// Sends commands; monitors too.
    Normal,
    /// Subscribes.
    PubSub,
    /// A replica of this server.
    Replica,
    /// The server that this one replicates.
    Master,
}

impl ClientType {
    /// By Redis's name of it, in any case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"pubsub" => Some(Self::PubSub),
            b"replica" | b"slave" => Some(Self::Replica),
            b"master" => Some(Self::Master),
            _ => None,
        }
    }
}

impl ClientInfo {
    /// What kind of client it is now.
    pub fn client_type(&self) -> ClientType {
        let subscriptions = [&self.channels, &self.patterns, &self.shard_channels];
        if subscriptions.iter().any(|n| n.load(Ordering::Relaxed) > 0) {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }

    /// Bytes of the arguments of a command that waits for a key.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let waiter = self.waiter.lock();
        let args = waiter.as_ref().map(|w| w.args().as_args());
        args.map_or(0, |args| args.iter().map(|arg| arg.len() as u64).sum())
    }

    /// Bytes that the client takes: its connection, buffers, queued and waiting commands, and subscriptions.
    pub(crate) fn memory(&self) -> u64 {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let topics = [&self.channels, &self.patterns, &self.shard_channels];
        let topics: u32 = topics.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        let queued = self.multi.load(Ordering::Relaxed).max(0) as u64;
        (size_of::<Connection>() + size_of::<Self>()) as u64
            + get(&self.query_bytes)
            + get(&self.query_free)
            + get(&self.output_capacity)
            + get(&self.multi_bytes)
            + queued * transaction::QUEUED_BYTES as u64
            + self.waiting_bytes()
            + u64::from(topics) * size_of::<Box<[u8]>>() as u64
    }
}

/// The largest of recent figures, written by one thread. A smaller figure replaces it when it is too old.
#[derive(Debug, Default)]
pub struct RecentPeak {
    bytes: AtomicU64,
    at_ms: AtomicU64,
}

impl RecentPeak {
    /// How long a figure is recent, as for `rbp` in Redis.
    const WINDOW_MS: u64 = 5_000;

    /// Takes a figure into account. Only the owning loop calls this.
    #[inline]
    pub(crate) fn note(&self, bytes: u64, now_ms: u64) {
        if bytes > self.bytes.load(Ordering::Relaxed) || self.is_old(now_ms) {
            self.bytes.store(bytes, Ordering::Relaxed);
            self.at_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// The figure; 0 if it is too old.
    pub(crate) fn get(&self, now_ms: u64) -> u64 {
        if self.is_old(now_ms) {
            return 0;
        }
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_old(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms.load(Ordering::Relaxed)) >= Self::WINDOW_MS
    }
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
}

/// All clients by number.
#[derive(Debug, Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    next_id: AtomicU64,
    /// How many are connected; also counts those that are still on their way to their loop.
    connected: AtomicU64,
    /// How many wait for something.
    waiting: AtomicU64,
}

impl Clients {
    /// A number for a new client.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a client that [`Clients::admit`] has let in.
    pub fn add(&self, info: Arc<ClientInfo>) {
        self.all.lock().insert(info.id, info);
    }

    /// Takes a client off the list at once; its loop closes it in its own time.
    pub fn kill(&self, client: &ClientInfo) {
        client.killed.store(true, Ordering::Release);
        self.all.lock().remove(&client.id);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
        self.leave();
    }

    /// Lets one more client in, unless `max` are connected.
    pub fn admit(&self, max: usize) -> bool {
        self.connected
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < max as u64).then_some(n + 1)
            })
            .is_ok()
    }

    /// A client that was let in has gone.
    pub fn leave(&self) {
        self.connected.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many are connected.
    pub fn connected(&self) -> u64 {
        self.connected.load(Ordering::Acquire)
    }

    /// A client waits from now on, or no more.
    pub(crate) fn set_waiting(&self, client: &ClientInfo, on: bool) {
        if client.waiting.swap(on, Ordering::Relaxed) != on {
            let more = if on { 1 } else { u64::MAX };
            self.waiting.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// How many wait: for the end of CLIENT PAUSE, or for a key.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// All, by number.
    pub fn list(&self) -> Vec<Arc<ClientInfo>> {
        self.all.lock().values().cloned().collect()
    }

    /// One, by number.
    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.all.lock().get(&id).cloned()
    }
}
