//! Registry of all clients, shared by the event loops (CLIENT LIST, CLIENT KILL, INFO).
//!
//! Only a client's own loop updates the client's figures. Figures that another loop reads may be
//! out of date by one turn of the client's loop, in which it reads, runs commands and writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use punctual_resp::OwnedArgs;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchFlag;

use crate::acl::user::Identity;
use crate::pubsub::Subscriber;
use crate::table::Entry;

/// Bytes of output that are reported as Redis's reply buffer (`rbs`, `obl`); further bytes are
/// reported as Redis's list (`omem`).
pub(crate) const REPLY_BUFFER: u64 = 16 << 10;

/// Figures and state of a client that all loops can read.
#[derive(Debug, Default)]
pub struct ClientInfo {
    /// Client id.
    pub id: u64,
    /// Client's address, or the unix socket's path with `:0`.
    pub addr: String,
    /// Server's address of the connection, or the unix socket's path with `:0`.
    pub laddr: String,
    /// File descriptor.
    pub fd: i32,
    /// True for a connection to the unix socket.
    pub unix: bool,
    /// True for a connection from this machine.
    pub local: bool,
    /// True for an encrypted connection.
    pub tls: bool,
    /// Number of the loop that serves the client.
    pub loop_number: usize,
    /// Index of the connection in that loop.
    pub slot: usize,
    /// Bytes of the connection's own structures, without its buffers.
    pub fixed_bytes: u64,
    /// Time of the connection, unix ms.
    pub created_ms: u64,
    /// Time of the last input or output, unix ms.
    pub seen_ms: AtomicU64,
    /// Selected database.
    pub db: AtomicU32,
    /// Bytes of buffered input: commands that run or wait, and the unparsed part of an incomplete
    /// command.
    pub query_bytes: AtomicU64,
    /// Free bytes of the client's own input buffer; 0 while the input is in the loop's buffer.
    pub query_free: AtomicU64,
    /// Bytes of the parsed arguments of an incomplete command.
    pub parsed_bytes: AtomicU64,
    /// Bytes of unsent output.
    pub output_bytes: AtomicU64,
    /// Capacity of the output buffer in bytes; 0 if no buffer is allocated.
    pub output_capacity: AtomicU64,
    /// Recent maximum of the output before a write, in bytes.
    pub output_peak: RecentPeak,
    /// Id of the last command in the command table plus 1; 0 before the first command.
    pub last_command: AtomicU32,
    /// RESP version: 2 or 3.
    pub resp: AtomicU8,
    /// Number of subscribed channels.
    pub channels: AtomicU32,
    /// Number of subscribed patterns.
    pub patterns: AtomicU32,
    /// Number of subscribed shard channels.
    pub shard_channels: AtomicU32,
    /// True for a client that has sent MONITOR.
    pub monitor: AtomicBool,
    /// True for a replica, from its SYNC or PSYNC on.
    pub replica: AtomicBool,
    /// State of client-side caching: the bits [`ClientInfo::TRACKING`],
    /// [`ClientInfo::BROKEN_REDIRECT`] and [`ClientInfo::BCAST`].
    pub tracking: AtomicU8,
    /// Id of the client that receives the invalidations; 0 if it is this client.
    pub redirect: AtomicU64,
    /// Set by CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// Set by CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// True while the client's command waits, including a wait for the end of a pause.
    pub waiting: AtomicBool,
    /// The command that waits for a key, a replica or other work of the server, such as MIGRATE's.
    pub waiter: Mutex<Option<Arc<Waiter>>>,
    /// Number of commands queued since MULTI; -1 outside of a transaction.
    pub multi: AtomicI64,
    /// Bytes of the arguments of all queued commands.
    pub multi_bytes: AtomicU64,
    /// Bytes of the watched keys.
    pub watched_bytes: AtomicU64,
    /// Bytes of the prefixes of CLIENT TRACKING.
    pub prefix_bytes: AtomicU64,
    /// Bytes of the fieldsets of HIMPORT.
    pub fieldset_bytes: AtomicU64,
    /// Flag that a change of a watched key raises; created by the first WATCH.
    pub watch: OnceLock<Arc<WatchFlag>>,
    /// Set by CLIENT KILL, by the eviction of clients, and when the client's user is deleted or
    /// replaced (ACL DELUSER, ACL LOAD). The client then runs no further command.
    pub killed: AtomicBool,
    /// True for the connection to this server's primary.
    pub primary: AtomicBool,
    /// Bytes read from the client.
    pub net_in: AtomicU64,
    /// Bytes written to the client.
    pub net_out: AtomicU64,
    /// Names that the client has set.
    pub names: Mutex<ClientNames>,
    /// The client's user.
    pub user: Mutex<Identity>,
}

/// Client types of CLIENT LIST TYPE and CLIENT KILL TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// A client without subscriptions, including monitors.
    Normal,
    /// A client with subscriptions.
    PubSub,
    /// A replica of this server.
    Replica,
    /// The primary of this server.
    Master,
}

impl ClientType {
    /// Returns the type with this Redis name, ignoring case.
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
    /// The client is in tracking mode.
    pub const TRACKING: u8 = 1;
    /// The client that should receive the invalidations has disconnected.
    pub const BROKEN_REDIRECT: u8 = 2;
    /// The client is in BCAST mode.
    pub const BCAST: u8 = 4;

    /// Sets the client's mode of tracking, for other threads.
    pub(crate) fn show_tracking(&self, bcast: bool, redirect: u64) {
        let bcast = if bcast { Self::BCAST } else { 0 };
        self.redirect.store(redirect, Ordering::Relaxed);
        self.tracking
            .store(Self::TRACKING | bcast, Ordering::Relaxed);
    }

    /// Clears the client's mode of tracking, for other threads.
    pub(crate) fn show_no_tracking(&self) {
        self.tracking.store(0, Ordering::Relaxed);
    }

    /// Records that the client that should receive this client's invalidations has disconnected.
    pub(crate) fn show_broken_redirect(&self) {
        self.tracking
            .fetch_or(Self::BROKEN_REDIRECT, Ordering::Relaxed);
    }

    /// Returns the number of subscriptions.
    fn subscriptions(&self) -> u32 {
        let topics = [&self.channels, &self.patterns, &self.shard_channels];
        topics.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Returns true if other clients can redirect their invalidations to this client. With RESP2, a
    /// client receives messages only if it has subscriptions.
    pub(crate) fn receives_invalidations(&self) -> bool {
        self.resp.load(Ordering::Relaxed) == 3 || self.subscriptions() > 0
    }

    /// Returns the loop and slot to which other loops send this client's messages.
    pub(crate) fn subscriber(&self) -> Subscriber {
        Subscriber {
            resp3: self.resp.load(Ordering::Relaxed) == 3,
            loop_number: self.loop_number,
            client: self.id,
            slot: self.slot,
        }
    }

    /// Returns the client's current type.
    pub fn client_type(&self) -> ClientType {
        if self.replica.load(Ordering::Relaxed) {
            ClientType::Replica
        } else if self.primary.load(Ordering::Relaxed) {
            ClientType::Master
        } else if self.subscriptions() > 0 {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }

    /// Returns the id of the client that receives the invalidations; 0 if it is this client, and -1
    /// without tracking.
    pub(crate) fn redirection(&self) -> i64 {
        if self.tracking.load(Ordering::Relaxed) & Self::TRACKING == 0 {
            return -1;
        }
        self.redirect.load(Ordering::Relaxed).cast_signed()
    }

    /// Returns the bytes of the waiting command's arguments.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let waiter = self.waiter.lock();
        let args = waiter.as_ref().map(|w| w.args().as_args());
        args.map_or(0, |args| args.iter().map(|arg| arg.len() as u64).sum())
    }

    /// Returns the bytes of parsed arguments: of the waiting command and of an incomplete command.
    pub(crate) fn argument_bytes(&self) -> u64 {
        self.parsed_bytes.load(Ordering::Relaxed) + self.waiting_bytes()
    }

    /// Returns the client's memory in bytes: connection, buffers, queued and waiting commands,
    /// watched keys, prefixes of tracking, fieldsets, and subscriptions.
    pub(crate) fn memory(&self) -> u64 {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let queued = self.multi.load(Ordering::Relaxed).max(0) as u64;
        self.fixed_bytes
            + size_of::<Self>() as u64
            + queued * size_of::<(&Entry, OwnedArgs)>() as u64
            + get(&self.query_bytes)
            + get(&self.query_free)
            + get(&self.output_capacity)
            + get(&self.multi_bytes)
            + self.argument_bytes()
            + get(&self.watched_bytes)
            + get(&self.prefix_bytes)
            + get(&self.fieldset_bytes)
            + u64::from(self.subscriptions()) * size_of::<Box<[u8]>>() as u64
    }
}

/// Maximum of recent figures. One thread writes it. A smaller figure replaces a maximum that is
/// outdated.
#[derive(Debug, Default)]
pub struct RecentPeak {
    bytes: AtomicU64,
    at_ms: AtomicU64,
}

impl RecentPeak {
    /// Time for which a figure counts as recent, in milliseconds; Redis uses the same for `rbp`.
    pub(crate) const WINDOW_MS: u64 = 5_000;

    /// Records a figure. Only the owning loop calls this.
    #[inline]
    pub(crate) fn record(&self, bytes: u64, now_ms: u64) {
        self.record_within(bytes, now_ms, Self::WINDOW_MS);
    }

    /// Records a figure that counts as recent for `window_ms`. Only the owning loop calls this.
    #[inline]
    pub(crate) fn record_within(&self, bytes: u64, now_ms: u64, window_ms: u64) {
        if bytes > self.bytes.load(Ordering::Relaxed) || self.is_old(now_ms, window_ms) {
            self.bytes.store(bytes, Ordering::Relaxed);
            self.at_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Returns the maximum, or 0 if it is outdated.
    pub(crate) fn get(&self, now_ms: u64) -> u64 {
        self.get_within(now_ms, Self::WINDOW_MS)
    }

    /// Returns the maximum, or 0 if it is older than `window_ms`.
    pub(crate) fn get_within(&self, now_ms: u64, window_ms: u64) -> u64 {
        if self.is_old(now_ms, window_ms) {
            return 0;
        }
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_old(&self, now_ms: u64, window_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms.load(Ordering::Relaxed)) >= window_ms
    }
}

/// Names that a client has set.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// Name set by CLIENT SETNAME.
    pub name: Vec<u8>,
    /// Library name set by CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// Library version set by CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
}

/// All clients by id.
#[derive(Debug, Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    next_id: AtomicU64,
    /// Number of connected clients, including clients that no loop serves yet.
    connected: AtomicU64,
    /// Number of waiting clients.
    waiting: AtomicU64,
}

impl Clients {
    /// Returns the id of a new client.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a client for which [`Clients::admit`] has returned true.
    pub fn add(&self, info: Arc<ClientInfo>) {
        self.all.lock().insert(info.id, info);
    }

    /// Removes a client from the list at once, and marks it as killed. The client's loop closes the
    /// connection later.
    pub fn kill(&self, client: &ClientInfo) {
        client.killed.store(true, Ordering::Release);
        self.all.lock().remove(&client.id);
    }

    /// Removes a client whose connection has ended.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
        self.leave();
    }

    /// Counts a new client. Returns false if `max` clients are already connected.
    pub fn admit(&self, max: usize) -> bool {
        self.connected
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < max as u64).then_some(n + 1)
            })
            .is_ok()
    }

    /// Counts a client that has disconnected.
    pub fn leave(&self) {
        self.connected.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of connected clients.
    pub fn connected(&self) -> u64 {
        self.connected.load(Ordering::Acquire)
    }

    /// Sets whether the client waits, and counts the waiting clients.
    pub(crate) fn set_waiting(&self, client: &ClientInfo, on: bool) {
        if client.waiting.swap(on, Ordering::Relaxed) != on {
            let more = if on { 1 } else { u64::MAX };
            self.waiting.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Returns the number of clients whose command waits, including waits for the end of a pause.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether the counters have at least the clients of the list. A client that was killed
    /// is counted until its loop closes the connection. Loops count without a common lock, so the
    /// caller repeats the call if the result is false.
    pub(crate) fn agree(&self) -> bool {
        let all = self.all.lock();
        let waiting = all
            .values()
            .filter(|client| client.waiting.load(Ordering::Relaxed));
        self.connected() >= all.len() as u64 && self.waiting() >= waiting.count() as u64
    }

    /// Returns all clients in the order of their ids.
    pub fn list(&self) -> Vec<Arc<ClientInfo>> {
        self.all.lock().values().cloned().collect()
    }

    /// Returns the client with this id.
    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.all.lock().get(&id).cloned()
    }
}
