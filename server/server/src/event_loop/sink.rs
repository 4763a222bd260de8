//! Events of a turn: keyspace notifications, invalidations of client-side caches, effects for the
//! log, and wake-ups.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::Protocol;
use punctual_store::events::{Classes, DeadLetterFailed, Sink};
use punctual_store::keyspace::tracked::Readers;
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::{Effects, KeyHash, Now};

use crate::log;
use crate::memory::counters;
use crate::node::Shared;
use crate::session::trackers::{Batch, Prefixes};

use super::subkeys::{Event, each_message, write_channel};

/// Maximum number of keys that are collected for clients in BCAST mode before they are sent.
const BATCH_MAX: usize = 16_384;

/// Receives the events of one event loop during a turn. Dropping it at the end of the turn sends
/// the collected keys.
pub(crate) struct LoopSink<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) loop_number: usize,
    /// Whether the last values of expired strings are published.
    pub(crate) expired_values: bool,
    /// Keys that the turn has changed since it last appended to the log. Empty unless replies wait
    /// for the append-only file.
    changed: Vec<KeyHash>,
    /// Number of keys at the start of `changed` that are noted in the log of changes, so that
    /// replies about them wait for the file.
    noted: usize,
    /// Prefixes of the clients in BCAST mode, once they are known.
    prefixes: Option<Arc<Prefixes>>,
    /// Changed keys with a prefix of a client in BCAST mode.
    batch: Batch,
    /// Bytes of the invalidations that the turn has sent or collected.
    invalidations: u64,
    /// Buffer for channel names such as `__keyspace@0__:key`.
    channel: Vec<u8>,
    /// Last `__keyevent@` channel: its database, its name, and the start of the event in the name.
    /// It is kept because events repeat.
    event_channel: (usize, Vec<u8>, usize),
}

impl<'s> LoopSink<'s> {
    pub(crate) fn new(shared: &'s Shared, loop_number: usize, expired_values: bool) -> Self {
        Self {
            shared,
            loop_number,
            expired_values,
            changed: Vec::new(),
            noted: 0,
            prefixes: None,
            batch: Batch::new(),
            invalidations: 0,
            channel: Vec::new(),
            event_channel: (0, Vec::new(), 0),
        }
    }

    /// Adds the bytes that were allocated for invalidations since the loop's memory counter was
    /// `before`.
    fn count_invalidations(&mut self, before: i64) {
        let bytes = u64::try_from(counters::own() - before).unwrap_or(0);
        self.invalidations += bytes;
        let all = &self.shared.memory.invalidations;
        all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sends the changed keys to the clients in BCAST mode.
    fn send_batch(&mut self) {
        if !self.batch.is_empty() {
            self.shared
                .clients
                .trackers
                .broadcast(&self.shared.destinations(), &self.batch);
            self.batch.clear();
        }
    }

    /// Records the time between a deadline and its effect: an entry expires, a job becomes due, or
    /// a timer fires.
    fn record_lateness(&self, now: Now, deadline_ms: u64) {
        let late_us = now
            .micros()
            .saturating_sub(deadline_ms.saturating_mul(1000));
        self.shared.observed.stats[self.loop_number]
            .lateness_us
            .lock()
            .saturating_record(late_us.max(1));
    }

    fn channel(&mut self, prefix: &str, db: usize, rest: &[u8]) -> &[u8] {
        write_channel(&mut self.channel, prefix, db, &[rest]);
        &self.channel
    }

    fn event_channel(&mut self, db: usize, event: &[u8]) -> &[u8] {
        let (last_db, channel, begin) = &mut self.event_channel;
        if *last_db != db || channel.is_empty() || channel[*begin..] != *event {
            write_channel(channel, "__keyevent@", db, &[]);
            (*last_db, *begin) = (db, channel.len());
            channel.extend_from_slice(event);
        }
        channel
    }
}

/// Sends the keys that are left in the batch.
impl Drop for LoopSink<'_> {
    fn drop(&mut self) {
        self.send_batch();
        // All loops share the counter, and few turns have invalidations.
        if self.invalidations > 0 {
            let all = &self.shared.memory.invalidations;
            all.fetch_sub(self.invalidations, Ordering::Relaxed);
        }
    }
}

impl Sink for LoopSink<'_> {
    fn keyspace(&mut self, db: usize, _: Classes, event: &str, key: &[u8]) {
        let (shared, classes) = (self.shared, self.shared.classes());
        if classes.contains(Classes::KEYSPACE) {
            shared.publish(self.channel("__keyspace@", db, key), event.as_bytes());
        }
        if classes.contains(Classes::KEYEVENT) {
            shared.publish(self.event_channel(db, event.as_bytes()), key);
        }
    }

    fn subkeys(&mut self, db: usize, event: &str, key: &[u8], subkeys: &[&[u8]]) {
        let shared = self.shared;
        if shared.clients.pubsub.has_subscribers() {
            let event = Event {
                db,
                name: event,
                key,
                subkeys,
            };
            let send = |channel: &[u8], payload: &[u8]| {
                shared.publish(channel, payload);
            };
            each_message(shared.classes(), event, send);
        }
    }

    fn expired(&mut self, now: Now, db: usize, key: &[u8], value: Option<&[u8]>, deadline_ms: u64) {
        self.record_lateness(now, deadline_ms);
        if self.expired_values
            && let Some(value) = value
        {
            let shared = self.shared;
            shared.publish(self.channel("__keyvalue@", db, key), value);
        }
    }

    fn field_expired(&mut self, now: Now, _: usize, _: &[u8], _: &[u8], deadline_ms: u64) {
        self.record_lateness(now, deadline_ms);
    }

    fn became_due(&mut self, now: Now, deadline_ms: u64) {
        self.record_lateness(now, deadline_ms);
    }

    fn timer_fires(&mut self, now: Now, _: usize, _: &[u8], deadline_ms: u64) {
        self.record_lateness(now, deadline_ms);
    }

    fn dead_letter_failed(&mut self, failed: &DeadLetterFailed<'_>) {
        log::warning!(
            self.shared.logger,
            "Entries of the group '{}' of the stream '{}' in database {} cannot move to '{}': {}. They stay pending; the next attempt is at \
             the end of another lease",
            failed.group.escape_ascii(),
            failed.key.escape_ascii(),
            failed.db,
            failed.dead_letter.escape_ascii(),
            failed.reason,
        );
    }

    fn log(&mut self, effects: &Effects) {
        let (shared, log) = (self.shared, &self.shared.durability.changelog);
        log.append(effects, |bytes| shared.append_to_stream(bytes));
        if !self.changed.is_empty() {
            log.note_appended(&mut self.changed, shared.store.shards() > 1);
            self.noted = 0;
        }
    }

    fn changed(&mut self, key: KeyHash) {
        self.changed.push(key);
    }

    fn note_changes(&mut self) {
        let log = &self.shared.durability.changelog;
        log.note_recent();
        for key in &self.changed[self.noted..] {
            log.note_change(*key);
        }
        self.noted = self.changed.len();
    }

    fn invalidate(&mut self, key: &[u8], readers: &Readers, by: u64) {
        let before = counters::own();
        self.shared
            .clients
            .trackers
            .invalidate(&self.shared.destinations(), key, readers, by);
        self.count_invalidations(before);
    }

    fn broadcast(&mut self, key: &[u8], by: u64) {
        let trackers = &self.shared.clients.trackers;
        let prefixes = self.prefixes.get_or_insert_default();
        if let Some(changed) = trackers.changed_prefixes(prefixes) {
            *prefixes = changed;
        }
        if !prefixes.match_key(key) {
            return;
        }
        match self.batch.get_mut(key) {
            Some(last) => *last = by,
            None => {
                let before = counters::own();
                self.batch.insert(key.into(), by);
                self.count_invalidations(before);
            }
        }
        if self.batch.len() >= BATCH_MAX {
            self.send_batch();
        }
    }

    fn serves(&mut self, waiter: &Waiter) {
        // RESP2 clients get no messages while they wait.
        if waiter.protocol() == Protocol::Resp3 {
            let id = waiter.id();
            self.shared.mailboxes[id.loop_number].await_answer(id.client);
        }
    }

    fn invalidate_all(&mut self) {
        self.shared
            .clients
            .trackers
            .invalidate_all(&self.shared.destinations());
    }

    fn wake(&mut self, shard: usize, deadline_ms: u64) {
        let owner = self.shared.loop_of(shard);
        if owner != self.loop_number {
            self.shared.mailboxes[owner].wake_for(deadline_ms);
        }
    }
}
