//! Consumer groups: entries that were delivered and not acknowledged, in the order of their IDs and
//! for each consumer.
//!
//! A pending entry names its consumer by a small number, which stays the same until the consumer is
//! deleted. In the complexities, n is the number of pending entries. The complexities leave out the
//! pieces that [`Sorted`] shifts when it adds or removes a piece in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_rdb::stream::StreamId as Id;

use super::sorted::{Identified, Sorted};
use super::timeline::{Lease, Timeline};
use crate::check::Check;
use crate::time::Now;

/// Number of a consumer in its group.
pub type ConsumerNumber = u32;

/// A delivered entry that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// ID of the entry, which may have been deleted from the stream.
    pub id: Id,
    /// Time of the last delivery, in Unix ms.
    pub delivered_ms: u64,
    /// Number of deliveries.
    pub deliveries: u32,
    /// Consumer to which the entry was delivered last.
    pub consumer: ConsumerNumber,
}

const _: () = assert!(size_of::<Pending>() == 32);

impl Identified for Pending {
    type Key = Id;

    fn id(&self) -> Id {
        self.id
    }
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// Time of the consumer's last command, in Unix ms.
    pub seen_ms: u64,
    /// Time at which the consumer last got entries, in Unix ms.
    pub active_ms: Option<u64>,
    pending: Sorted<Id>,
}

impl Consumer {
    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the IDs of the consumer's pending entries.
    pub fn pending(&self) -> &Sorted<Id> {
        &self.pending
    }
}

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// ID of the last entry that was delivered, or the ID that XGROUP set.
    pub last_id: Id,
    /// Number of the stream's entries up to `last_id`, including deleted ones; `None` if unknown.
    pub entries_read: Option<u64>,
    pending: Sorted<Pending>,
    /// Consumers by number; `None` for a deleted consumer, whose number is free.
    consumers: Vec<Option<Consumer>>,
    numbers: BTreeMap<Arc<[u8]>, ConsumerNumber>,
    /// The pending entries in the order of their last deliveries. Present if the group has a lease,
    /// or if a reader has claimed entries, or waits to claim them, by idle time.
    timeline: Option<Box<Timeline>>,
}

impl Group {
    /// Creates a group without consumers.
    pub fn new(last_id: Id, entries_read: Option<u64>) -> Self {
        Self {
            last_id,
            entries_read,
            pending: Sorted::default(),
            consumers: Vec::new(),
            numbers: BTreeMap::new(),
            timeline: None,
        }
    }

    /// Returns the pending entries by time, if the group has a timeline.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_deref()
    }

    /// Returns the timeline for changes; see [`Group::timeline`].
    pub fn timeline_mut(&mut self) -> Option<&mut Timeline> {
        self.timeline.as_deref_mut()
    }

    /// Returns the lease.
    pub fn lease(&self) -> Option<&Lease> {
        self.timeline()?.lease()
    }

    /// Sets or removes the lease. O(pending · log pending).
    pub fn set_lease(&mut self, lease: Option<Lease>) {
        let claims = self
            .timeline
            .take()
            .map(|old| old.claims)
            .unwrap_or_default();
        if lease.is_some() || !claims.is_empty() {
            let timeline = Timeline::new(lease, claims, self.pending.iter());
            self.timeline = Some(Box::new(timeline));
        }
    }

    /// Returns the timeline, and creates it if it is absent. O(pending · log pending) for a new
    /// timeline.
    pub fn make_timeline(&mut self) -> &mut Timeline {
        let pending = &self.pending;
        self.timeline.get_or_insert_with(|| {
            Box::new(Timeline::new(None, Default::default(), pending.iter()))
        })
    }

    /// Returns the Unix ms to store for a delivery at `now`. With a lease, the time is rounded up
    /// to the next millisecond, so that the lease does not end early.
    pub fn delivery_ms(&self, now: Now) -> u64 {
        match self.lease() {
            Some(_) => now.base_ms(),
            None => now.read_ms(),
        }
    }

    /// Updates the timeline after a change of a pending entry. `before` is `None` for a new entry,
    /// `after` is `None` for a removed one.
    fn note(&mut self, before: Option<Pending>, after: Option<Pending>) {
        if let Some(timeline) = &mut self.timeline {
            before.iter().for_each(|entry| timeline.remove(entry));
            after.iter().for_each(|entry| timeline.insert(entry));
        }
    }

    /// Returns the pending entries.
    pub fn pending(&self) -> &Sorted<Pending> {
        &self.pending
    }

    /// Returns the number of the consumer `name`. O(log consumers).
    pub fn number_of(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.numbers.get(name).copied()
    }

    /// Returns a consumer.
    ///
    /// # Panics
    /// If no consumer has this number.
    pub fn consumer(&self, number: ConsumerNumber) -> &Consumer {
        self.consumers[number as usize]
            .as_ref()
            .expect("the number of a consumer")
    }

    /// Returns a consumer for changes.
    ///
    /// # Panics
    /// If no consumer has this number.
    pub fn consumer_mut(&mut self, number: ConsumerNumber) -> &mut Consumer {
        self.consumers[number as usize]
            .as_mut()
            .expect("the number of a consumer")
    }

    /// Returns the number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.numbers.len()
    }

    /// Iterates over the consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.numbers.values().map(|number| self.consumer(*number))
    }

    /// Adds a consumer; the name must be new. O(log consumers), or O(consumers) if the number of a
    /// deleted consumer is free.
    pub fn add_consumer(&mut self, name: &[u8], seen_ms: u64) -> ConsumerNumber {
        let name: Arc<[u8]> = name.into();
        let consumer = Some(Consumer {
            name: Arc::clone(&name),
            seen_ms,
            active_ms: None,
            pending: Sorted::default(),
        });
        let free = match self.numbers.len() < self.consumers.len() {
            true => self.consumers.iter().position(Option::is_none),
            false => None,
        };
        let number = match free {
            Some(number) => {
                self.consumers[number] = consumer;
                number
            }
            None => {
                self.consumers.push(consumer);
                self.consumers.len() - 1
            }
        } as ConsumerNumber;
        self.numbers.insert(name, number);
        number
    }

    /// Removes a consumer and its pending entries. Returns their number. O(log n) for each of them.
    pub fn remove_consumer(&mut self, number: ConsumerNumber) -> usize {
        let Some(consumer) = self.consumers[number as usize].take() else {
            return 0;
        };
        self.numbers.remove(&consumer.name);
        for id in consumer.pending.iter() {
            let entry = self.pending.remove(*id);
            self.note(entry, None);
        }
        consumer.pending.len()
    }

    /// Adds a pending entry, or moves it to another consumer. O(1) if its ID is the greatest and
    /// its delivery the latest, otherwise O(log n).
    pub fn assign(&mut self, entry: Pending) {
        let before = self.pending.insert(entry);
        self.note(before, Some(entry));
        match before {
            Some(before) if before.consumer == entry.consumer => return,
            Some(before) => {
                self.consumer_mut(before.consumer).pending.remove(entry.id);
            }
            None => {}
        }
        self.consumer_mut(entry.consumer).pending.insert(entry.id);
    }

    /// Records another delivery of a pending entry to the same consumer. O(log n).
    pub fn redeliver(&mut self, id: Id, now_ms: u64) -> Option<Pending> {
        let entry = self.pending.get_mut(id)?;
        let before = *entry;
        entry.delivered_ms = now_ms;
        entry.deliveries = entry.deliveries.saturating_add(1);
        let after = *entry;
        self.note(Some(before), Some(after));
        Some(after)
    }

    /// Removes a pending entry. O(1) if its ID is the smallest and its delivery the earliest,
    /// otherwise O(log n).
    pub fn acknowledge(&mut self, id: Id) -> Option<Pending> {
        let entry = self.pending.remove(id)?;
        self.note(Some(entry), None);
        self.consumer_mut(entry.consumer).pending.remove(id);
        Some(entry)
    }

    /// Checks that the consumers and the timeline have the group's pending entries.
    pub(super) fn check(&self, to: &mut Check) {
        self.pending.check(to);
        let consumers = self.consumers.iter().flatten();
        to.equal("consumers", self.numbers.len(), consumers.count());
        let mut of_consumers = 0;
        for (name, &number) in &self.numbers {
            to.within(
                || format!("consumer {}", name.escape_ascii()),
                |to| {
                    let consumer = self.consumers.get(number as usize).and_then(Option::as_ref);
                    let Some(consumer) = consumer else {
                        return to.holds("the number has a consumer", false);
                    };
                    to.equal("name", &consumer.name, name);
                    consumer.pending.check(to);
                    of_consumers += consumer.pending.len();
                    let own = |id: &Id| {
                        let entry = self.pending.get(*id);
                        entry.is_some_and(|entry| entry.consumer == number)
                    };
                    let all = consumer.pending.iter().all(own);
                    to.holds("its pending entries are the group's", all);
                },
            );
        }
        to.equal(
            "pending entries of consumers",
            of_consumers,
            self.pending.len(),
        );
        if let Some(timeline) = self.timeline() {
            timeline.check(to, &self.pending);
        }
    }

    /// Returns the bytes on the heap. O(consumers + pieces of pending entries).
    pub fn heap_bytes(&self) -> usize {
        let consumers: usize = self
            .consumers()
            // The name and its reference counts.
            .map(|consumer| consumer.name.len() + 16 + consumer.pending.heap_bytes())
            .sum();
        let numbers = self.numbers.len() * size_of::<(Arc<[u8]>, ConsumerNumber)>();
        let timeline = self.timeline().map_or(0, Timeline::bytes);
        self.pending.heap_bytes()
            + timeline
            + consumers
            + numbers
            + self.consumers.capacity() * size_of::<Option<Consumer>>()
    }
}
