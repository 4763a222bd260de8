//! State of one client.

pub(crate) mod trackers;
pub(crate) mod tracking;
pub(crate) mod transaction;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::Protocol;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchedKey;
use punctual_store::spec::Flags;

use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::pubsub::{Kind, PubSub, Subscriber};
use crate::replication::applied::Applied;
use crate::replication::replica::{Peer, Replica};
use crate::script::functions::registry::Found;
use crate::session::tracking::Tracking;
use crate::session::transaction::Transaction;
use crate::table::Entry;

/// Reply mode of a client (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// All replies are sent.
    On,
    /// No replies are sent.
    Off,
    /// The reply of the running CLIENT REPLY SKIP is dropped; [`ReplyMode::SkipNext`] follows.
    Skip,
    /// The reply of the next command is dropped.
    SkipNext,
}

/// A script or a function.
pub(crate) enum Runnable {
    /// The compiled script with this index.
    Script(usize),
    /// A function whose library the loop has loaded.
    Function(Found),
}

/// A script to run, prepared by the handler of EVAL, EVALSHA or FCALL.
pub(crate) struct ScriptRequest {
    pub(crate) script: Runnable,
    /// Number of keys, which follow their number in the arguments.
    pub(crate) keys: usize,
    /// Whether the command refuses writes.
    pub(crate) read_only: bool,
}

/// What the dispatcher runs after a handler has returned.
pub(crate) enum Executing {
    /// The queued commands of EXEC.
    Transaction(Box<Transaction>),
    /// A script.
    Script(ScriptRequest),
    /// The client waits; [`Turn::wait`](punctual_store::Turn::wait) may have a deadline. The
    /// function receives the waiter; whoever claims it answers the client.
    Wait(BeginWait),
}

/// Function that begins the work for which a client waits.
pub(crate) type BeginWait = Box<dyn FnOnce(Arc<Waiter>) + Send>;

/// A client's state. Owned by its event loop.
pub struct Session {
    /// Client id, never reused.
    pub id: u64,
    /// Information that other loops can read.
    pub info: Arc<ClientInfo>,
    /// Selected database.
    pub db: usize,
    /// Protocol of replies and messages.
    pub protocol: Protocol,
    /// True after authentication, or if there is no password.
    pub authenticated: bool,
    /// The client's user.
    pub(crate) user: Arc<User>,
    /// The user may not do everything.
    pub(crate) restricted: bool,
    /// Version of the users that the snapshot is from.
    pub(crate) users_version: u64,
    /// Mode set by CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// True if the running command's reply is a message, which is sent in every reply mode.
    pub ignore_reply_mode: bool,
    /// True while the mailbox separates messages to this client; see [`crate::net::mailbox`].
    pub separated: bool,
    /// Client-side caching, if the client has ever sent CLIENT TRACKING ON.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// The number under which the next command's reads are remembered.
    pub(crate) reader: Option<u32>,
    /// CLIENT CACHING is in force.
    pub(crate) caching: bool,
    /// Set by CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Set by CLIENT NO-EVICT.
    pub no_evict: bool,
    /// Set by MONITOR.
    pub monitor: bool,
    /// True if the connection closes once the output buffer is written.
    pub closing: bool,
    /// Subscribed channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Subscribed patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Subscribed shard channels.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// The command that waits.
    pub waiter: Option<Arc<Waiter>>,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Transaction>>,
    /// What EXEC, EVAL or FCALL hands to the dispatcher, or a command that waits for something else
    /// than keys.
    pub(crate) executing: Option<Executing>,
    /// The watches have ended, but could not be removed.
    pub stale_watches: bool,
    /// Keys watched by WATCH.
    pub watched: BTreeSet<WatchedKey>,
    /// What the client has said about itself by REPLCONF.
    pub(crate) peer: Peer,
    /// Set by SYNC and PSYNC: the connection gets the replication stream.
    pub(crate) replica: Option<Arc<Replica>>,
    /// Offset of the replication stream after the client's last write that is in the stream.
    pub(crate) last_write: u64,
    /// Position of the append-only file behind the client's last write.
    pub(crate) last_write_in_file: u64,
    /// The client may have written since.
    pub(crate) has_written: bool,
    /// Count of changes of the turn before the client's commands.
    pub(crate) dirty_before: u64,
    /// Last command, if the lookup may reuse it.
    pub last: Option<&'static Entry>,
    /// What is applied of the stream, if the client is this server's primary.
    pub(crate) upstream: Option<Box<Applied>>,
}

impl Session {
    /// Creates the session of a new client, which is authenticated if the user needs no password.
    pub(crate) fn new(info: Arc<ClientInfo>, user: Arc<User>) -> Self {
        *info.user.lock() = user.identity.clone();
        Self {
            authenticated: user.is_open(),
            restricted: !user.is_unrestricted(),
            user,
            users_version: 0,
            id: info.id,
            info,
            db: 0,
            protocol: Protocol::Resp2,
            reply_mode: ReplyMode::On,
            ignore_reply_mode: false,
            separated: false,
            tracking: None,
            reader: None,
            caching: false,
            no_touch: false,
            no_evict: false,
            monitor: false,
            closing: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            waiter: None,
            multi: None,
            executing: None,
            stale_watches: false,
            watched: BTreeSet::new(),
            peer: Peer::default(),
            replica: None,
            last_write: 0,
            last_write_in_file: 0,
            has_written: false,
            dirty_before: 0,
            last: None,
            upstream: None,
        }
    }

    /// Returns whether the client is this server's primary, whose commands are its stream.
    #[inline]
    pub(crate) fn is_primary(&self) -> bool {
        self.upstream.is_some()
    }

    /// Returns the number of subscriptions of all kinds.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// Returns whether only subscription commands are allowed, because RESP2 does not distinguish
    /// messages and replies.
    pub fn in_subscribed_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions() > 0
    }

    /// Returns whether other clients' commands may send messages to this client.
    pub fn receives_messages(&self) -> bool {
        self.subscriptions() > 0 || self.monitor
    }

    /// Returns whether the client is in tracking mode.
    pub(crate) fn is_tracking(&self) -> bool {
        self.tracking.as_ref().is_some_and(|t| t.on)
    }

    /// Makes CLIENT CACHING hold for the next command, or ends that.
    pub(crate) fn set_caching(&mut self, on: bool) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = on;
            self.reader = tracking.reader();
        }
        self.caching = on;
    }

    /// Ends CLIENT CACHING after a command, unless it is in a transaction or is one of CLIENT's
    /// own.
    #[cold]
    pub(crate) fn end_caching(&mut self, command: Option<&Entry>) {
        let keeps = command.is_some_and(|entry| entry.row.flags.has(Flags::KEEPS_CACHING));
        if !keeps && self.multi.is_none() {
            self.set_caching(false);
        }
    }

    /// Returns whether messages are inserted between the client's replies, in the order of events.
    pub(crate) fn separates_messages(&self) -> bool {
        self.receives_messages() || self.is_tracking()
    }

    /// Returns the subscriptions of a kind.
    pub fn topics(&mut self, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard_channels,
        }
    }

    /// Returns the count in the reply of a (un)subscription of this kind. Shard channels are
    /// counted separately.
    pub fn reported_subscriptions(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels.len() + self.patterns.len(),
            Kind::Shard => self.shard_channels.len(),
        }
    }

    /// Returns the client's identity in the pub/sub registry.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber {
            resp3: self.protocol == Protocol::Resp3,
            loop_number: self.info.loop_number,
            client: self.id,
            slot: self.info.slot,
        }
    }

    /// Adds a subscription, unless it exists.
    pub fn subscribe(&mut self, pubsub: &PubSub, kind: Kind, topic: &[u8]) {
        if !self.topics(kind).contains(topic) {
            self.topics(kind).insert(topic.into());
            pubsub.subscribe(kind, topic, self.subscriber());
            self.update_subscription_info();
        }
    }

    /// Removes a subscription, if it exists.
    pub fn unsubscribe(&mut self, pubsub: &PubSub, kind: Kind, topic: &[u8]) {
        if self.topics(kind).remove(topic) {
            pubsub.unsubscribe(kind, topic, self.subscriber());
            self.update_subscription_info();
        }
    }

    /// Removes all subscriptions. O(n log n) for n subscriptions.
    pub fn unsubscribe_all(&mut self, pubsub: &PubSub) {
        for kind in Kind::ALL {
            for topic in std::mem::take(self.topics(kind)) {
                pubsub.unsubscribe(kind, &topic, self.subscriber());
            }
        }
        self.update_subscription_info();
    }

    /// Sets the protocol of replies and messages.
    pub fn set_protocol(&mut self, pubsub: &PubSub, protocol: Protocol) {
        let before = self.subscriber();
        self.protocol = protocol;
        let after = self.subscriber();
        if before != after {
            for kind in Kind::ALL {
                pubsub.replace(kind, self.topics(kind).iter(), before, after);
            }
        }
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.info.resp.store(number, Ordering::Relaxed);
    }

    /// Sets the client's user, or a new snapshot of it.
    pub(crate) fn set_user(&mut self, user: Arc<User>) {
        if self.user.identity.id != user.identity.id {
            *self.info.user.lock() = user.identity.clone();
        }
        self.restricted = !user.is_unrestricted();
        self.user = user;
    }

    /// Swaps the users of two sessions: a script's commands run as its caller.
    pub(crate) fn swap_users(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.user, &mut other.user);
        std::mem::swap(&mut self.restricted, &mut other.restricted);
    }

    /// Selects a database.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.db.store(db as u32, Ordering::Relaxed);
    }

    /// Sets whether accesses leave the usage of keys unchanged (CLIENT NO-TOUCH).
    pub fn set_no_touch(&mut self, on: bool) {
        self.no_touch = on;
        self.info.no_touch.store(on, Ordering::Relaxed);
    }

    /// Sets whether the client is exempt from client eviction (CLIENT NO-EVICT).
    pub fn set_no_evict(&mut self, on: bool) {
        self.no_evict = on;
        self.info.no_evict.store(on, Ordering::Relaxed);
    }

    /// Copies the numbers of subscriptions to the shared information.
    fn update_subscription_info(&self) {
        let info = &self.info;
        for (shown, topics) in [
            (&info.channels, &self.channels),
            (&info.patterns, &self.patterns),
            (&info.shard_channels, &self.shard_channels),
        ] {
            shown.store(topics.len() as u32, Ordering::Relaxed);
        }
    }
}
