//! Idempotent additions (XADD's IDMP and IDMPAUTO, Redis 8.6): a producer gives each message an ID,
//! and can send the message again with the same ID without adding a second entry.
//!
//! As in Redis, the age of a message counts from the milliseconds of its entry's ID, even if the
//! entry was deleted. So a message expires at the same time on a replica and after a restart. An
//! expired message is not found. The stream's timer drops expired messages, at most once a second
//! unless more than `DROPPED_MAX` have expired. Each new message also drops up to two expired
//! messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_rdb::stream::StreamId as Id;
use punctual_resp::{Limits as RespLimits, Parser, encode_command};

use crate::check::Check;
use crate::limits::Limits;

/// The name of a producer or of a message.
type Name = Arc<[u8]>;

/// Maximum number of messages that the stream's timer drops at once.
pub(super) const DROPPED_MAX: usize = 4_096;

/// The remembered messages of a stream's producers, with their settings and counters.
#[derive(Clone, Debug)]
pub struct Idempotence {
    /// Seconds for which a message is remembered (IDMP-DURATION).
    pub duration_s: u32,
    /// Maximum number of messages of a producer (IDMP-MAXSIZE).
    pub size_max: u32,
    /// Number of messages that were ever added.
    pub added: u64,
    /// Number of messages that were refused because they had been added before.
    pub duplicates: u64,
    producers: BTreeMap<Name, Producer>,
    /// All messages in the order of their entries: the entry's ID, the producer, the message.
    order: BTreeSet<(Id, Name, Name)>,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    entries: BTreeMap<Name, Id>,
    order: BTreeSet<(Id, Name)>,
}

impl Idempotence {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            duration_s: limits.idmp_duration_s,
            size_max: limits.idmp_size_max,
            added: 0,
            duplicates: 0,
            producers: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Returns the number of producers with messages.
    pub fn producers(&self) -> usize {
        self.producers.len()
    }

    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.order.len()
    }

    /// Returns the Unix ms at which the message of an entry expires.
    fn expires_ms(&self, id: Id) -> u64 {
        id.ms.saturating_add(u64::from(self.duration_s) * 1000)
    }

    /// Returns the ID of the entry that a message added, if the message has not expired. O(log
    /// messages).
    pub fn find(&self, producer: &[u8], message: &[u8], now_ms: u64) -> Option<Id> {
        let id = *self.producers.get(producer)?.entries.get(message)?;
        (self.expires_ms(id) > now_ms).then_some(id)
    }

    /// Remembers a message. Forgets the producer's oldest message if the producer then has more
    /// than `size_max`. O(log messages).
    pub fn record(&mut self, producer: &[u8], message: &[u8], id: Id, now_ms: u64) {
        self.drop_expired(now_ms, 2);
        if let Some(before) = self
            .producers
            .get(producer)
            .and_then(|p| p.entries.get(message))
        {
            self.forget((*before, producer.into(), message.into()));
        }
        let (name, message): (Name, Name) = match self.producers.get_key_value(producer) {
            Some((name, _)) => (name.clone(), message.into()),
            None => (producer.into(), message.into()),
        };
        let known = self.producers.entry(name.clone()).or_default();
        known.entries.insert(message.clone(), id);
        known.order.insert((id, message.clone()));
        let over = known.order.len() > self.size_max as usize;
        let first = known.order.first().filter(|_| over).cloned();
        self.order.insert((id, name.clone(), message));
        if let Some((id, message)) = first {
            self.forget((id, name, message));
        }
    }

    fn forget(&mut self, entry: (Id, Name, Name)) {
        self.order.remove(&entry);
        let (id, name, message) = entry;
        if let Some(producer) = self.producers.get_mut(&name) {
            producer.entries.remove(&message);
            producer.order.remove(&(id, message));
            if producer.entries.is_empty() {
                self.producers.remove(&name);
            }
        }
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        self.producers.clear();
        self.order.clear();
    }

    /// Drops expired messages, at most `count`. Returns their number.
    pub(super) fn drop_expired(&mut self, now_ms: u64, count: usize) -> usize {
        let mut dropped = 0;
        while dropped < count
            && let Some(first) = self.order.first()
            && self.expires_ms(first.0) <= now_ms
        {
            self.forget(first.clone());
            dropped += 1;
        }
        dropped
    }

    /// Returns the Unix ms at which the timer drops expired messages. The time is rounded up to a
    /// second, so that the timer fires once for many messages.
    pub(super) fn next_drop_ms(&self) -> Option<u64> {
        let first = self.order.first()?;
        Some(self.expires_ms(first.0).div_ceil(1000).saturating_mul(1000))
    }

    /// Checks that both orders have each message.
    pub(super) fn check(&self, to: &mut Check) {
        let messages = self.producers.values().map(|known| known.entries.len());
        to.equal("messages", self.order.len(), messages.sum());
        for (name, known) in &self.producers {
            let filed = known.entries.iter().all(|(message, id)| {
                known.order.contains(&(*id, message.clone()))
                    && self.order.contains(&(*id, name.clone(), message.clone()))
            });
            to.holds("each message is in both orders", filed);
            to.equal(
                "messages of a producer",
                known.order.len(),
                known.entries.len(),
            );
            to.holds("a producer has messages", !known.entries.is_empty());
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        const NODES: usize = size_of::<(Id, Name, Name)>() + 2 * size_of::<(Name, Id)>() + 32;
        let name = |name: &Name| name.len() + 16;
        let messages = self
            .order
            .iter()
            .map(|(_, _, message)| name(message) + NODES);
        let producers = self
            .producers
            .keys()
            .map(|key| name(key) + size_of::<(Name, Producer)>());
        messages.chain(producers).sum()
    }

    /// Returns the words that a snapshot stores: `IDMP`, settings, counters, and one last word with
    /// the messages, encoded as a RESP command for each producer.
    pub(super) fn words(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut messages = Vec::new();
        for (name, producer) in &self.producers {
            let mut words = vec![name.to_vec()];
            for (id, message) in &producer.order {
                words.extend([id.text(), message.to_vec()]);
            }
            encode_command(&mut messages, &words);
        }
        let numbers = [
            self.duration_s.into(),
            self.size_max.into(),
            self.added,
            self.duplicates,
        ];
        let numbers = numbers.map(|n: u64| itoa::Buffer::new().format(n).as_bytes().to_vec());
        std::iter::once(b"IDMP".to_vec())
            .chain(numbers)
            .chain([messages])
    }

    /// Reads the numbers and the last word of [`Idempotence::words`]. Returns `None` if they are
    /// malformed.
    pub(super) fn read(numbers: [u64; 4], mut messages: &[u8]) -> Option<Self> {
        let [duration_s, size_max, added, duplicates] = numbers;
        let mut read = Self {
            duration_s: duration_s.try_into().ok()?,
            size_max: size_max.try_into().ok()?,
            added,
            duplicates,
            producers: BTreeMap::new(),
            order: BTreeSet::new(),
        };
        while !messages.is_empty() {
            let mut parser = Parser::new();
            let command = parser.parse(messages, &RespLimits::default()).ok()??;
            let (words, consumed) = (command.args, command.consumed);
            for at in (1..words.len()).step_by(2) {
                let id = Id::parse(words.get(at)?, 0)?;
                read.record(words.get(0)?, words.get(at + 1)?, id, 0);
            }
            messages = &messages[consumed..];
        }
        Some(read)
    }
}
