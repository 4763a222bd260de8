//! Sessions: the state of one client that only its event loop accesses, with its transaction and
//! its settings of CLIENT TRACKING. `trackers` is the registry of all clients in tracking mode,
//! which the loops share.

pub(crate) mod fieldsets;
pub(crate) mod trackers;
pub(crate) mod tracking;
pub(crate) mod transaction;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::{Protocol, Reply};
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchedKey;
use punctual_store::spec::Flags;

use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::pubsub::{Kind, PubSub, Subscriber};
use crate::replication::applied::Applied;
use crate::replication::replica::{Peer, Replica};
use crate::script::functions::registry::Found;
use crate::session::fieldsets::Fieldsets;
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

/// A script or function that a command runs.
pub(crate) enum Runnable {
    /// The compiled script with this index.
    Script(usize),
    /// A function of a library that the loop has loaded.
    Function(Found),
    /// The handler of a command of the embedding program.
    Handler,
}

/// A script to run, prepared by the handler of a command such as EVAL or FCALL.
pub(crate) struct ScriptRequest {
    pub(crate) script: Runnable,
    /// Number of keys, which follow this number in the arguments. Not used for a handler, whose
    /// row finds the keys.
    pub(crate) keys: usize,
    /// True if writes are refused (EVAL_RO and similar commands).
    pub(crate) read_only: bool,
}

/// Work that the dispatcher does after a handler has returned.
pub(crate) enum Executing {
    /// Run the queued commands of EXEC.
    Transaction(Box<Transaction>),
    /// Run a script, a function, or a handler of the embedding program.
    Script(ScriptRequest),
    /// Make the client wait; [`Turn::wait`](punctual_store::Turn::wait) may have set a deadline.
    /// The function receives the waiter. The thread that claims the waiter sends the reply.
    Wait(BeginWait),
}

/// Function that begins the work whose end the client waits for.
pub(crate) type BeginWait = Box<dyn FnOnce(Arc<Waiter>) + Send>;

/// State of one client. Owned by the client's event loop.
pub struct Session {
    /// Client id, never reused.
    pub id: u64,
    /// Figures of the client that other loops can read.
    pub info: Arc<ClientInfo>,
    /// Selected database.
    pub db: usize,
    /// Protocol of replies and messages.
    pub protocol: Protocol,
    /// True after authentication, or if the default user needs no password.
    pub authenticated: bool,
    /// The client's user.
    pub(crate) user: Arc<User>,
    /// The user has restrictions, so commands must be checked.
    pub(crate) restricted: bool,
    /// Version of the registry of users when `user` was read.
    pub(crate) users_version: u64,
    /// Mode set by CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// The running command's reply is a message, which is sent in every reply mode.
    pub ignore_reply_mode: bool,
    /// The mailbox separates messages to this client; see [`crate::net::mailbox`].
    pub separated: bool,
    /// State of client-side caching, if the client has ever sent CLIENT TRACKING ON.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Number under which the next command's reads are recorded for client-side caching; `None` if
    /// they are not recorded.
    pub(crate) reader: Option<u32>,
    /// CLIENT CACHING applies to the next command.
    pub(crate) caching: bool,
    /// Number of commands for which ASKING still applies, including the running one: 2 after ASKING
    /// itself, 1 for the next command and for an open transaction.
    pub(crate) asking: u8,
    /// Set by READONLY: a replica in a cluster serves the client's reads.
    pub(crate) reads_replica: bool,
    /// Set by CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Set by CLIENT NO-EVICT.
    pub no_evict: bool,
    /// Set by MONITOR.
    pub monitor: bool,
    /// The connection closes once the output buffer is written.
    pub closing: bool,
    /// Subscribed channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Subscribed patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Subscribed shard channels.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// The command that waits, if the client waits.
    pub waiter: Option<Arc<Waiter>>,
    /// The transaction that MULTI has opened.
    pub multi: Option<Box<Transaction>>,
    /// Work for the dispatcher after the handler of EXEC, EVAL, FCALL or of a command that waits.
    pub(crate) executing: Option<Executing>,
    /// The watches have ended but are not removed yet, because their shards could not be locked.
    pub stale_watches: bool,
    /// Keys that the client watches.
    pub watched: BTreeSet<WatchedKey>,
    /// Lists of fields for HIMPORT SET.
    pub(crate) fieldsets: Fieldsets,
    /// Announcements that the client has made by REPLCONF.
    pub(crate) peer: Peer,
    /// Set by SYNC and PSYNC: the client is a replica and gets the replication stream.
    pub(crate) replica: Option<Arc<Replica>>,
    /// Offset of the replication stream after the client's last write.
    pub(crate) last_write: u64,
    /// Position in the log of changes after the client's last write.
    pub(crate) last_write_in_file: u64,
    /// The client may have written since `last_write` and `last_write_in_file` were updated.
    pub(crate) has_written: bool,
    /// Number of changes that the turn had made before this client's commands.
    pub(crate) dirty_before: u64,
    /// Row of the last command, with which the lookup of the next command compares first; `None`
    /// after a renamed command.
    pub last: Option<&'static Entry>,
    /// State of the applied stream, if the client is this server's primary.
    pub(crate) upstream: Option<Box<Applied>>,
}

impl Session {
    /// Creates the session of a new client. The client is authenticated if the user needs no
    /// password.
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
            asking: 0,
            reads_replica: false,
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
            fieldsets: Fieldsets::default(),
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

    /// Returns true if the client is this server's primary, whose commands are the replication
    /// stream.
    #[inline]
    pub(crate) fn is_primary(&self) -> bool {
        self.upstream.is_some()
    }

    /// Returns the number of subscriptions of all kinds.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// Returns true if only commands about subscriptions are allowed, because RESP2 does not
    /// distinguish messages from replies.
    pub fn in_subscribed_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions() > 0
    }

    /// Returns true if other clients' commands may send messages to this client.
    pub fn receives_messages(&self) -> bool {
        self.subscriptions() > 0 || self.monitor
    }

    /// Returns true if the client is in tracking mode.
    pub(crate) fn is_tracking(&self) -> bool {
        self.tracking.as_ref().is_some_and(|t| t.on)
    }

    /// Sets whether CLIENT CACHING applies to the next command.
    pub(crate) fn set_caching(&mut self, on: bool) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = on;
            self.reader = tracking.reader();
        }
        self.caching = on;
    }

    /// Ends CLIENT CACHING after a command, unless the command is in a transaction or is a CLIENT
    /// command that keeps it.
    #[cold]
    pub(crate) fn end_caching(&mut self, command: Option<&Entry>) {
        let keeps = command.is_some_and(|entry| entry.row.flags.has(Flags::KEEPS_CACHING));
        if !keeps && self.multi.is_none() {
            self.set_caching(false);
        }
    }

    /// Returns true if messages are inserted between the client's replies, in the order of events.
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

    /// Returns the number of subscriptions in the reply to a subscription of this kind. Shard
    /// channels are counted separately.
    pub fn reported_subscriptions(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels.len() + self.patterns.len(),
            Kind::Shard => self.shard_channels.len(),
        }
    }

    /// Writes the message that a subscription has ended.
    pub(crate) fn confirm_end(&self, kind: Kind, topic: Option<&[u8]>, reply: &mut Reply) {
        reply.push(3);
        reply.bulk(kind.unsubscribed());
        match topic {
            Some(topic) => reply.bulk(topic),
            None => reply.null(),
        }
        reply.int(self.reported_subscriptions(kind) as i64);
    }

    /// Returns the client's entry for the pub/sub registry.
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

    /// Removes all subscriptions. O(n · (log topics + log listeners)) for n subscriptions of the
    /// client.
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

    /// Sets the client's user, or a new snapshot of the same user.
    pub(crate) fn set_user(&mut self, user: Arc<User>) {
        if self.user.identity.id != user.identity.id {
            *self.info.user.lock() = user.identity.clone();
        }
        self.restricted = !user.is_unrestricted();
        self.user = user;
    }

    /// Swaps the users of two sessions, so that a script's commands run with its caller's
    /// permissions.
    pub(crate) fn swap_users(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.user, &mut other.user);
        std::mem::swap(&mut self.restricted, &mut other.restricted);
    }

    /// Selects a database.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.db.store(db as u32, Ordering::Relaxed);
    }

    /// Sets whether reads leave the usage of keys unchanged (CLIENT NO-TOUCH).
    pub fn set_no_touch(&mut self, on: bool) {
        self.no_touch = on;
        self.info.no_touch.store(on, Ordering::Relaxed);
    }

    /// Sets whether the client is exempt from client eviction (CLIENT NO-EVICT).
    pub fn set_no_evict(&mut self, on: bool) {
        self.no_evict = on;
        self.info.no_evict.store(on, Ordering::Relaxed);
    }

    /// Copies the numbers of subscriptions to [`ClientInfo`].
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
