//! What the server remembers of one client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::Protocol;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::keyspace::watch::WatchedKey;

use crate::client::registry::ClientInfo;
use crate::client::transaction::Transaction;
use crate::dispatch::table::Entry;
use crate::pubsub::{Kind, PubSub, Subscriber};

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    On,
    /// None.
    Off,
    /// Not this one's (the CLIENT REPLY SKIP itself); then [`ReplyMode::SkipNext`].
    Skip,
    /// Not the next one's.
    SkipNext,
}

/// A client's state. Owned by its event loop.
pub struct Session {
    /// Number of the client, never used twice.
    pub id: u64,
    /// What other loops may see.
    pub info: Arc<ClientInfo>,
    /// Selected database.
    pub db: usize,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether it may run commands.
    pub authenticated: bool,
    /// Which replies it wants.
    pub reply_mode: ReplyMode,
    /// The reply of this command is a message of the server's, which comes whatever the reply mode.
    pub unsilenced: bool,
    /// The mailbox separates its messages while it runs commands; see [`crate::net::mailbox`].
    pub separated: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// Receives every command (MONITOR).
    pub monitor: bool,
    /// Close after what is in the output buffer is written.
    pub closing: bool,
    /// Channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Shard channels.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// The command that waits for a key.
    pub waiter: Option<Arc<Waiter>>,
    /// What is queued since MULTI.
    pub multi: Option<Box<Transaction>>,
    /// What EXEC runs now.
    pub executing: Option<Box<Transaction>>,
    /// EXEC runs its commands: each must answer at once.
    pub in_exec: bool,
    /// Keys of WATCH.
    pub watched: BTreeSet<WatchedKey>,
    /// The command that ran last: the next one is often the same.
    pub last: Option<&'static Entry>,
}

impl Session {
    /// A new client's.
    pub fn new(info: Arc<ClientInfo>, authenticated: bool) -> Self {
        Self {
            id: info.id,
            info,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            unsilenced: false,
            separated: false,
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
            in_exec: false,
            watched: BTreeSet::new(),
            last: None,
        }
    }

    /// How many subscriptions of all kinds.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// Whether only subscribing commands are allowed: RESP2 cannot tell messages from replies.
    pub fn in_subscribed_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions() > 0
    }

    /// Whether others may leave bytes for it at any time.
    pub fn listens(&self) -> bool {
        self.subscriptions() > 0 || self.monitor
    }

    /// Its subscriptions of a kind.
    pub fn topics(&mut self, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard_channels,
        }
    }

    /// The number that Redis tells when a subscription begins or ends: shard channels are counted apart.
    pub fn counted_with(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels.len() + self.patterns.len(),
            Kind::Shard => self.shard_channels.len(),
        }
    }

    /// What it is in the pub/sub registry.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber {
            resp3: self.protocol == Protocol::Resp3,
            loop_number: self.info.loop_number,
            client: self.id,
            slot: self.info.slot,
        }
    }

    /// Begins a subscription, if it is a new one.
    pub fn subscribe(&mut self, pubsub: &PubSub, kind: Kind, topic: &[u8]) {
        if !self.topics(kind).contains(topic) {
            self.topics(kind).insert(topic.into());
            pubsub.subscribe(kind, topic, self.subscriber());
            self.show_subscriptions();
        }
    }

    /// Ends a subscription, if there is one.
    pub fn unsubscribe(&mut self, pubsub: &PubSub, kind: Kind, topic: &[u8]) {
        if self.topics(kind).remove(topic) {
            pubsub.unsubscribe(kind, topic, self.subscriber());
            self.show_subscriptions();
        }
    }

    /// Ends all subscriptions. O(n log n) for n of them.
    pub fn unsubscribe_all(&mut self, pubsub: &PubSub) {
        for kind in Kind::ALL {
            for topic in std::mem::take(self.topics(kind)) {
                pubsub.unsubscribe(kind, &topic, self.subscriber());
            }
        }
        self.show_subscriptions();
    }

    /// Speaks another protocol from now on, messages included.
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

    /// Works in another database from now on.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.db.store(db as u32, Ordering::Relaxed);
    }

    /// Reads do not count as uses, or do again.
    pub fn set_no_touch(&mut self, on: bool) {
        self.no_touch = on;
        self.info.no_touch.store(on, Ordering::Relaxed);
    }

    /// The client is to stay when clients must go for memory, or is not.
    pub fn set_no_evict(&mut self, on: bool) {
        self.no_evict = on;
        self.info.no_evict.store(on, Ordering::Relaxed);
    }

    /// Tells the other loops how many subscriptions there are.
    fn show_subscriptions(&self) {
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
