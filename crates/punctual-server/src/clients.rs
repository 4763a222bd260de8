//! All clients of the server, as every loop may see them (CLIENT LIST, CLIENT KILL, INFO).
//!
//! A client's own loop writes; others read. Numbers may be a turn old.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchFlag;

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
    /// Bytes of an incomplete command.
    pub query_bytes: AtomicU64,
    /// Bytes of output that it has not read.
    pub output_bytes: AtomicU64,
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
    /// Bytes that they take.
    pub multi_bytes: AtomicU64,
    /// Keys of WATCH.
    pub watched: AtomicU64,
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
