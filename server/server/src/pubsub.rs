//! Subscriptions and delivery of messages.
//!
//! All loops share one registry. A message is encoded once per protocol and added to the mailbox of
//! each loop that has subscribers; the loops append it to their clients' output. Messages of one
//! channel reach a client in the order of publishing, and no message reaches a client after its
//! subscription has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_resp::{Protocol, Reply};
use punctual_store::check::Check;
use punctual_store::glob;
use punctual_store::lock_order::{OrderedMutex, Rank};

use crate::net::mailbox::{Mailbox, Origin};

/// Kind of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Subscription of SUBSCRIBE.
    Channel,
    /// Subscription of PSUBSCRIBE.
    Pattern,
    /// Subscription of SSUBSCRIBE.
    Shard,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// Returns the first element of the reply to a subscription.
    pub const fn subscribed(self) -> &'static [u8] {
        match self {
            Self::Channel => b"subscribe",
            Self::Pattern => b"psubscribe",
            Self::Shard => b"ssubscribe",
        }
    }

    /// Returns the first element of the reply to the end of a subscription.
    pub const fn unsubscribed(self) -> &'static [u8] {
        match self {
            Self::Channel => b"unsubscribe",
            Self::Pattern => b"punsubscribe",
            Self::Shard => b"sunsubscribe",
        }
    }
}

/// A client with a subscription. The order of the fields makes subscribers with the same protocol
/// and loop adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscriber {
    /// True for RESP3 messages.
    pub resp3: bool,
    /// Number of the client's loop.
    pub loop_number: usize,
    /// Client id.
    pub client: u64,
    /// Index of the connection in the loop.
    pub slot: usize,
}

/// Subscribers of one topic (channel or pattern). Most topics have one subscriber.
enum Listeners {
    One(Subscriber),
    Many(BTreeSet<Subscriber>),
}

impl Listeners {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(all) => all.len(),
        }
    }

    /// Adds a subscriber. Returns true if the subscriber is new.
    fn add(&mut self, subscriber: Subscriber) -> bool {
        match self {
            Self::One(only) if *only == subscriber => false,
            Self::One(only) => {
                *self = Self::Many([*only, subscriber].into());
                true
            }
            Self::Many(all) => all.insert(subscriber),
        }
    }

    /// Delivers a message to all subscribers.
    fn send<O>(&self, mailboxes: &[Mailbox<O>], encoder: &mut Encoder, parts: &[&[u8]]) {
        match self {
            Self::One(only) => send(mailboxes, encoder, std::iter::once(*only), parts),
            Self::Many(all) => send(mailboxes, encoder, all.iter().copied(), parts),
        }
    }
}

type Topics = BTreeMap<Box<[u8]>, Listeners>;

#[derive(Default)]
struct Registry {
    channels: Topics,
    patterns: Topics,
    shard_channels: Topics,
    encoder: Encoder,
}

/// Encodes messages. It keeps the encoded parts before the last one, because consecutive keyspace
/// events often have the same channel.
#[derive(Default)]
struct Encoder {
    bytes: Vec<u8>,
    /// Length of the encoded parts before the last one.
    head: usize,
    resp3: bool,
    /// Number of parts of the last message; 0 before the first message.
    count: usize,
    /// The parts before the last one.
    parts: [Vec<u8>; 3],
}

impl Encoder {
    /// Encodes a message of at most four parts.
    fn encode(&mut self, resp3: bool, parts: &[&[u8]]) {
        let Some((last, head)) = parts.split_last() else {
            return;
        };
        let same = self.count == parts.len()
            && self.resp3 == resp3
            && head.iter().zip(&self.parts).all(|(new, old)| new == old);
        self.bytes.truncate(if same { self.head } else { 0 });
        let protocol = if resp3 {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        };
        if !same {
            (self.count, self.resp3) = (parts.len(), resp3);
            let mut reply = Reply::new(&mut self.bytes, protocol);
            reply.push(parts.len());
            for (part, kept) in head.iter().zip(&mut self.parts) {
                reply.bulk(part);
                kept.clear();
                kept.extend_from_slice(part);
            }
            self.head = self.bytes.len();
        }
        Reply::new(&mut self.bytes, protocol).bulk(last);
    }

    /// Frees the buffer if a large message has grown it.
    fn shrink(&mut self) {
        const KEPT: usize = 64 << 10;
        if self.bytes.capacity() > KEPT {
            *self = Self::default();
        }
    }
}

impl Registry {
    fn topics_of(&mut self, kind: Kind) -> &mut Topics {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard_channels,
        }
    }

    fn add(&mut self, kind: Kind, topic: &[u8], subscriber: Subscriber) -> bool {
        let topics = self.topics_of(kind);
        if let Some(listeners) = topics.get_mut(topic) {
            return listeners.add(subscriber);
        }
        topics.insert(topic.into(), Listeners::One(subscriber));
        true
    }

    fn remove(&mut self, kind: Kind, topic: &[u8], subscriber: Subscriber) -> bool {
        let topics = self.topics_of(kind);
        match topics.get_mut(topic) {
            None => false,
            Some(Listeners::One(only)) => {
                let found = *only == subscriber;
                if found {
                    topics.remove(topic);
                }
                found
            }
            Some(Listeners::Many(all)) => {
                let found = all.remove(&subscriber);
                if all.is_empty() {
                    topics.remove(topic);
                }
                found
            }
        }
    }
}

/// All subscriptions.
pub struct PubSub {
    registry: OrderedMutex<Registry>,
    /// Number of subscriptions of all kinds. PUBLISH takes no lock while it is 0.
    total: AtomicUsize,
}

impl Default for PubSub {
    fn default() -> Self {
        Self {
            registry: OrderedMutex::new(Rank::PubSub, Registry::default()),
            total: AtomicUsize::new(0),
        }
    }
}

impl PubSub {
    /// Adds a subscription. O(log topics + log listeners).
    pub fn subscribe(&self, kind: Kind, topic: &[u8], subscriber: Subscriber) {
        let mut registry = self.registry.lock();
        if registry.add(kind, topic, subscriber) {
            self.total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a subscription. O(log topics + log listeners).
    pub fn unsubscribe(&self, kind: Kind, topic: &[u8], subscriber: Subscriber) {
        let mut registry = self.registry.lock();
        if registry.remove(kind, topic, subscriber) {
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Replaces a subscriber of `topics` after a change of its protocol. O(n · (log topics + log
    /// listeners)) for n topics of the subscriber.
    pub fn replace<'t>(
        &self,
        kind: Kind,
        topics: impl Iterator<Item = &'t Box<[u8]>>,
        before: Subscriber,
        after: Subscriber,
    ) {
        let mut registry = self.registry.lock();
        for topic in topics {
            if registry.remove(kind, topic, before) {
                registry.add(kind, topic, after);
            }
        }
    }

    /// Checks the number of subscriptions.
    pub(crate) fn check(&self, to: &mut Check) {
        let registry = self.registry.lock();
        let kinds = [
            &registry.channels,
            &registry.patterns,
            &registry.shard_channels,
        ];
        let lens = kinds
            .iter()
            .flat_map(|topics| topics.values())
            .map(Listeners::len);
        let total = self.total.load(Ordering::Relaxed);
        to.holds(
            "each topic has subscribers",
            lens.clone().all(|len| len > 0),
        );
        to.equal("subscriptions", total, lens.sum());
    }

    /// Returns whether a client is subscribed to a channel or a pattern. O(1).
    #[inline]
    pub fn has_subscribers(&self) -> bool {
        self.total.load(Ordering::Relaxed) > 0
    }

    /// Sends a message to the listeners of a channel and of matching patterns. Returns the number
    /// of listeners. O(log channels + patterns + listeners).
    pub fn publish<O>(&self, mailboxes: &[Mailbox<O>], channel: &[u8], message: &[u8]) -> usize {
        if !self.has_subscribers() {
            return 0;
        }
        let mut guard = self.registry.lock();
        let registry = &mut *guard;
        let mut count = 0;
        if let Some(listeners) = registry.channels.get(channel) {
            count += listeners.len();
            listeners.send(
                mailboxes,
                &mut registry.encoder,
                &[b"message", channel, message],
            );
        }
        for (pattern, listeners) in &registry.patterns {
            if glob::matches(pattern, channel) {
                count += listeners.len();
                let parts = [b"pmessage", &**pattern, channel, message];
                listeners.send(mailboxes, &mut registry.encoder, &parts);
            }
        }
        registry.encoder.shrink();
        count
    }

    /// Sends a message to the listeners of a shard channel. Returns the number of listeners. O(log
    /// channels + listeners).
    pub fn publish_shard<O>(
        &self,
        mailboxes: &[Mailbox<O>],
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let mut guard = self.registry.lock();
        let registry = &mut *guard;
        let Some(listeners) = registry.shard_channels.get(channel) else {
            return 0;
        };
        listeners.send(
            mailboxes,
            &mut registry.encoder,
            &[b"smessage", channel, message],
        );
        let count = listeners.len();
        registry.encoder.shrink();
        count
    }

    /// Returns the topics that match `pattern`, or all topics without a pattern, in order.
    pub fn topics(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        self.registry
            .lock()
            .topics_of(kind)
            .keys()
            .filter(|topic| pattern.is_none_or(|p| glob::matches(p, topic)))
            .cloned()
            .collect()
    }

    /// Returns the number of topics of a kind.
    pub fn topic_count(&self, kind: Kind) -> usize {
        self.registry.lock().topics_of(kind).len()
    }

    /// Returns the number of listeners of a topic.
    pub fn listeners(&self, kind: Kind, topic: &[u8]) -> usize {
        self.registry
            .lock()
            .topics_of(kind)
            .get(topic)
            .map_or(0, Listeners::len)
    }
}

/// Delivers a message to `listeners`, which are sorted. Encodes it once per protocol.
fn send<O>(
    mailboxes: &[Mailbox<O>],
    encoder: &mut Encoder,
    listeners: impl Iterator<Item = Subscriber>,
    parts: &[&[u8]],
) {
    let mut listeners = listeners.peekable();
    let mut encoded = None;
    while let Some(&first) = listeners.peek() {
        if encoded != Some(first.resp3) {
            encoded = Some(first.resp3);
            encoder.encode(first.resp3, parts);
        }
        let here = std::iter::from_fn(|| {
            listeners.next_if(|s| (s.resp3, s.loop_number) == (first.resp3, first.loop_number))
        });
        let to = here.map(|s| (s.client, s.slot));
        mailboxes[first.loop_number].deliver(Origin::Published, &encoder.bytes, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber(client: u64) -> Subscriber {
        Subscriber {
            resp3: client % 2 == 1,
            loop_number: (client % 3) as usize,
            client,
            slot: client as usize,
        }
    }

    #[test]
    fn a_repeated_channel_is_encoded_as_before() {
        let (mut kept, text) = (Encoder::default(), vec![b'x'; 100_000]);
        let messages: [&[&[u8]]; 7] = [
            &[b"message", b"c", b"one"],
            &[b"message", b"c", b""],
            &[b"message", b"d", b"two"],
            &[b"pmessage", b"d*", b"d", b"two"],
            &[b"pmessage", b"*", b"d", &text],
            &[b"pmessage", b"*", b"d", b"three"],
            &[b"message", b"d", b"three"],
        ];
        for parts in messages.iter().chain(messages.iter().rev()) {
            for resp3 in [false, false, true] {
                let mut new = Encoder::default();
                new.encode(resp3, parts);
                kept.encode(resp3, parts);
                assert!(kept.bytes == new.bytes, "{resp3}, {} parts", parts.len());
                kept.shrink();
            }
        }
    }

    #[test]
    fn the_last_unsubscribe_removes_the_topic() {
        let pubsub = PubSub::default();
        for client in 1..=100 {
            pubsub.subscribe(Kind::Pattern, b"a*", subscriber(client));
            pubsub.subscribe(Kind::Pattern, b"a*", subscriber(client));
        }
        assert_eq!(pubsub.listeners(Kind::Pattern, b"a*"), 100);
        assert_eq!(pubsub.total.load(Ordering::Relaxed), 100);
        for client in 1..=100 {
            assert_eq!(pubsub.topic_count(Kind::Pattern), 1);
            pubsub.unsubscribe(Kind::Pattern, b"a*", subscriber(client));
            pubsub.unsubscribe(Kind::Pattern, b"a*", subscriber(client));
        }
        assert_eq!(pubsub.topic_count(Kind::Pattern), 0);
        assert_eq!(pubsub.total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_protocol_change_keeps_subscriptions() {
        let pubsub = PubSub::default();
        let before = subscriber(2);
        let after = Subscriber {
            resp3: true,
            ..before
        };
        pubsub.subscribe(Kind::Channel, b"a", before);
        pubsub.subscribe(Kind::Channel, b"b", before);
        pubsub.subscribe(Kind::Channel, b"b", subscriber(3));
        let topics = pubsub.topics(Kind::Channel, None);
        pubsub.replace(Kind::Channel, topics.iter(), before, after);
        pubsub.unsubscribe(Kind::Channel, b"a", before);
        assert_eq!(
            pubsub.listeners(Kind::Channel, b"a"),
            1,
            "the subscriber has the new protocol"
        );
        pubsub.unsubscribe(Kind::Channel, b"a", after);
        pubsub.unsubscribe(Kind::Channel, b"b", after);
        assert_eq!(pubsub.topics(Kind::Channel, None), [b"b".as_slice().into()]);
    }
}
