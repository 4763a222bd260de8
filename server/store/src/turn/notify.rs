//! Entries of NOTIFY, a command that Redis lacks. A rule of NOTIFY selects keyspace events and
//! names a stream. While a command runs, the turn records the selected events. When the handler has
//! returned, the turn appends an entry for each event to the rule's stream.
//!
//! A handler may hold the index of a record that an append changes or removes, such as the stream
//! itself, so nothing is appended while it runs. The append happens before the turn unlocks a
//! shard, and in the same frame of the log as the change: after a crash both the change and its
//! entry exist, or neither.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cluster::slot;

use super::{Cx, Turn};
use crate::error::Error;
use crate::events::Classes;
use crate::keyspace::notify::{Payload, Rule, Rules};
use crate::keyspace::shard::Touched;
use crate::planted::Bug;
use crate::value::Value;
use crate::value::stream::Stream;

/// A turn's copy of the rules, and the events that are not appended yet.
#[derive(Default)]
pub(super) struct Recorder {
    /// Classes of events that at least one rule selects.
    pub(super) classes: Classes,
    rules: Option<Arc<Rules>>,
    pub(super) events: Vec<Recorded>,
    /// Whether the running commands move keys between nodes; see [`Turn::set_moves_keys`].
    moves_keys: bool,
    /// Unix ms at which the event that follows was due, if a restart may repeat it.
    pub(super) due_ms: Option<u64>,
}

/// An event that a rule has selected.
pub(super) struct Recorded {
    rule: Arc<Rule>,
    event: Box<str>,
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

impl Recorder {
    /// Returns whether there are rules.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.classes != Classes::none()
    }
}

impl Turn<'_> {
    /// Reads the rules again. Called after this turn has changed the rules, and whenever a shard is
    /// locked while there are rules or the turn has a copy of rules.
    #[cold]
    pub(super) fn renew_rules(&mut self) {
        self.recorder.classes = self.store.notify.classes();
        self.recorder.rules = self.recorder.any().then(|| self.store.notify.rules());
    }

    /// Returns whether the shards of all target streams are held, or no shard is held.
    pub(super) fn holds_targets(&self) -> bool {
        let notify = &self.store.notify;
        let holds = |number: &usize| self.holds(*number);
        let unlocked = Bug::RuleStreamUnlocked.is_active();
        self.held.is_empty()
            || !notify.any()
            || unlocked
            || notify.rules().shards().iter().all(holds)
    }

    /// Adds a rule from a snapshot's [`FIELD`](crate::keyspace::notify::FIELD). Locks every shard.
    ///
    /// # Errors
    /// The text does not have the form of [`Store::notify_rules`](crate::Store::notify_rules), or
    /// it names a database that does not exist.
    pub fn restore_notify_rule(&mut self, text: &[u8]) -> Result<(), Error> {
        self.lock_all();
        self.store.restore_notify_rule(text)?;
        self.renew_rules();
        Ok(())
    }

    /// Sets whether the commands that follow move keys between nodes of a cluster. The events of
    /// such a move have no entries if the key's slot moves, because the key lives on.
    pub fn set_moves_keys(&mut self, on: bool) {
        self.recorder.moves_keys = on;
    }

    /// Records an event for each rule that selects it. `value` is the last value of a key that has
    /// just been removed; `None` if the key can be looked up.
    #[cold]
    pub(super) fn record(
        &mut self,
        db: usize,
        class: Classes,
        event: &str,
        key: &[u8],
        value: Option<&Value>,
    ) {
        // A replayed log contains the entries, which the server that wrote the log has appended.
        if self.replays || self.recorder.moves_keys && self.store.moves(key) {
            return;
        }
        let Some(rules) = self.recorder.rules.clone() else {
            return;
        };
        for rule in rules.selecting(db, class, key) {
            if self.recorder.due_ms.is_some_and(|at| at <= rule.since_ms) {
                continue;
            }
            let value = match (rule.payload, value) {
                (Payload::None, _) => None,
                (payload, Some(value)) => shown(payload, value),
                (payload, None) => {
                    let part = self.shard_db(self.store.shard_of(key), db);
                    let found = part.find(key).map(|id| part.get(id));
                    found.and_then(|record| shown(payload, &record.value))
                }
            };
            self.recorder.events.push(Recorded {
                rule: Arc::clone(rule),
                event: event.into(),
                key: key.into(),
                value,
            });
        }
    }

    /// Runs a change that is not a command in a frame of the log, which also has the entries of its
    /// events.
    pub(super) fn framed<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        debug_assert!(self.holds_targets(), "a rule has a stream in another shard");
        self.begin_frame();
        let done = act(self);
        self.append_recorded();
        self.end_frame();
        done
    }

    /// Appends the recorded events to their streams.
    pub(super) fn append_recorded(&mut self) {
        for recorded in std::mem::take(&mut self.recorder.events) {
            // The frame may begin with an expiry, which is not counted as a command, and must still
            // be surrounded by MULTI and EXEC.
            self.effects.frame.commands += 1;
            let count = match self.append(&recorded) {
                Ok(()) => &recorded.rule.appended,
                Err(_) => &recorded.rule.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Appends the entry of one event to its stream.
    fn append(&mut self, recorded: &Recorded) -> Result<(), &'static str> {
        let Recorded {
            rule,
            event,
            key,
            value,
        } = recorded;
        let len = value.as_ref().map_or(0, |value| value.len());
        let omitted = len as u64 > rule.max_bytes.unwrap_or(u64::MAX) || Stream::is_too_long(len);
        let omitted = omitted.then(|| len.to_string());
        let mut fields: Vec<(&[u8], &[u8])> = vec![(b"event", event.as_bytes()), (b"key", key)];
        match (&omitted, value) {
            (Some(len), _) => fields.push((b"omitted", len.as_bytes())),
            (None, Some(value)) => fields.push((b"value", value)),
            (None, None) => {}
        }
        let of_slot = match self.store.is_cluster() {
            true => Some(rule.stream_of_slot(slot::of_key(key)).ok_or("a bad name")?),
            false => None,
        };
        let stream = of_slot.as_deref().unwrap_or(&rule.stream);
        self.deadlines_may_change(Touched::One(rule.db));
        self.add_entry(rule.db, stream, fields.iter().copied(), rule.max_age)
    }
}

/// Returns the form of a value that an entry contains.
fn shown(payload: Payload, value: &Value) -> Option<Box<[u8]>> {
    match payload {
        Payload::None => None,
        Payload::String => Some(value.as_str()?.bytes().as_ref().into()),
        Payload::Dump => Some(value.dump().into()),
    }
}

impl Cx<'_, '_> {
    /// Changes the rules, and commits the change.
    pub(crate) fn change_notify_rules(&mut self, change: impl FnOnce(&mut Vec<Arc<Rule>>)) {
        self.turn.store.change_notify_rules(change);
        self.turn.renew_rules();
        self.turn.changed = true;
        self.turn.stats.dirty += 1;
    }
}
