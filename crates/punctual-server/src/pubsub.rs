//! Who listens to what, and how a message reaches them.
//!
//! One registry for all loops. A message is encoded once per protocol and left in the mailbox of each loop that
//! has listeners; the loops put it into their clients' output. Messages of one channel reach a client in
//! the order in which they were published.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use punctual_resp::{Protocol, Reply};
use punctual_store::glob;

use crate::mailbox::Mailbox;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

impl Kind {
    /// First element of what is sent when a subscription begins.
    pub const fn subscribed(self) -> &'static [u8] {
        match self {
            Self::Channel => b"subscribe",
            Self::Pattern => b"psubscribe",
            Self::Shard => b"ssubscribe",
        }
    }

    /// First element of what is sent when a subscription ends.
    pub const fn unsubscribed(self) -> &'static [u8] {
        match self {
            Self::Channel => b"unsubscribe",
            Self::Pattern => b"punsubscribe",
            Self::Shard => b"sunsubscribe",
        }
    }
}

/// A client that listens.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber {
    /// Its number.
    pub client: u64,
    /// Its loop.
    pub loop_number: usize,
    /// Its place in the loop.
    pub slot: usize,
    /// How it wants its messages.
    pub protocol: Protocol,
}

type Topics = BTreeMap<Box<[u8]>, Vec<Subscriber>>;

#[derive(Default)]
struct Registry {
    channels: Topics,
    patterns: Topics,
    shard_channels: Topics,
}

impl Registry {
    fn of(&mut self, kind: Kind) -> &mut Topics {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard_channels,
        }
    }
}

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    registry: Mutex<Registry>,
    /// Subscriptions of all kinds: publishing to nobody costs one look.
    total: AtomicUsize,
}

impl PubSub {
    /// Adds a subscription that is not there yet.
    pub fn subscribe(&self, kind: Kind, topic: &[u8], subscriber: Subscriber) {
        let mut registry = self.registry.lock();
        registry.of(kind).entry(topic.into()).or_default().push(subscriber);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a subscription. O(listeners of the topic).
    pub fn unsubscribe(&self, kind: Kind, topic: &[u8], client: u64) {
        let mut registry = self.registry.lock();
        let topics = registry.of(kind);
        if let Some(listeners) = topics.get_mut(topic)
            && let Some(at) = listeners.iter().position(|s| s.client == client)
        {
            listeners.remove(at);
            self.total.fetch_sub(1, Ordering::Relaxed);
            if listeners.is_empty() {
                topics.remove(topic);
            }
        }
    }

    /// A client has changed its protocol.
    pub fn set_protocol(&self, kind: Kind, topic: &[u8], client: u64, protocol: Protocol) {
        if let Some(listeners) = self.registry.lock().of(kind).get_mut(topic) {
            for listener in listeners.iter_mut().filter(|s| s.client == client) {
                listener.protocol = protocol;
            }
        }
    }

    /// Sends a message to the listeners of a channel and of the patterns that match it; how many there are.
    pub fn publish(&self, mailboxes: &[Mailbox], channel: &[u8], message: &[u8]) -> usize {
        if self.total.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let registry = self.registry.lock();
        let mut count = 0;
        if let Some(listeners) = registry.channels.get(channel) {
            count += listeners.len();
            send(mailboxes, listeners, &[b"message", channel, message]);
        }
        for (pattern, listeners) in &registry.patterns {
            if glob::matches(pattern, channel) {
                count += listeners.len();
                send(mailboxes, listeners, &[b"pmessage", pattern, channel, message]);
            }
        }
        count
    }

    /// Sends a message to the listeners of a shard channel; how many there are.
    pub fn publish_shard(&self, mailboxes: &[Mailbox], channel: &[u8], message: &[u8]) -> usize {
        let registry = self.registry.lock();
        let listeners = registry.shard_channels.get(channel).map_or(&[][..], |l| l);
        send(mailboxes, listeners, &[b"smessage", channel, message]);
        listeners.len()
    }

    /// The topics that match `pattern` (all of them without one), in order.
    pub fn topics(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        self.registry
            .lock()
            .of(kind)
            .keys()
            .filter(|topic| pattern.is_none_or(|p| glob::matches(p, topic)))
            .cloned()
            .collect()
    }

    /// How many topics of a kind have listeners.
    pub fn topic_count(&self, kind: Kind) -> usize {
        self.registry.lock().of(kind).len()
    }

    /// How many listeners a topic has.
    pub fn listeners(&self, kind: Kind, topic: &[u8]) -> usize {
        self.registry.lock().of(kind).get(topic).map_or(0, Vec::len)
    }
}

/// Leaves a message for the listeners, encoded once per protocol.
fn send(mailboxes: &[Mailbox], listeners: &[Subscriber], parts: &[&[u8]]) {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        if !listeners.iter().any(|s| s.protocol == protocol) {
            continue;
        }
        let mut bytes = Vec::with_capacity(64 + parts.iter().map(|p| p.len()).sum::<usize>());
        let mut reply = Reply::new(&mut bytes, protocol);
        reply.push(parts.len());
        for part in parts {
            reply.bulk(part);
        }
        for (number, mailbox) in mailboxes.iter().enumerate() {
            let mut here = listeners
                .iter()
                .filter(|s| s.protocol == protocol && s.loop_number == number)
                .map(|s| (s.client, s.slot))
                .peekable();
            if here.peek().is_some() {
                mailbox.deliver(&bytes, here);
            }
        }
    }
}
