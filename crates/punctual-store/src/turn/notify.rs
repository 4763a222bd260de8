//! Entries of NOTIFY: events that rules want are kept while a command runs, and appended when it has ended.
//!
//! A handler may have looked up places that an append would move, so nothing is appended in the middle of it. Everything
//! happens before the turn unlocks anything, and in one frame of the log: after a crash both the change and its entry are
//! there, or neither.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Cx, Turn};
use crate::events::Classes;
use crate::keyspace::shard::Touched;
use crate::notify::{Payload, Rule, Rules};
use crate::value::stream::{Bound, Id, Stream, Trim};
use crate::value::{Kind, Value, encode};

/// What a turn knows of the rules, and the events that it has not appended yet.
#[derive(Default)]
pub(super) struct Recorder {
    /// Classes that some rule wants.
    pub(super) classes: Classes,
    rules: Option<Arc<Rules>>,
    pub(super) events: Vec<Recorded>,
}

/// An event for a rule.
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
    /// Reads anew which rules there are. Called whenever a shard is locked while there are rules, or were.
    #[cold]
    pub(super) fn renew_rules(&mut self) {
        self.recorder.classes = self.store.notify.classes();
        self.recorder.rules = self.recorder.any().then(|| self.store.notify.rules());
    }

    /// Returns whether the shards of all target streams are held.
    pub(super) fn holds_targets(&self) -> bool {
        let rules = self.recorder.rules.as_ref();
        rules.is_none_or(|rules| rules.shards().iter().all(|number| self.holds(*number)))
    }

    /// Keeps an event for the rules that want it. `value` is the value of a key that is gone already.
    #[cold]
    pub(super) fn record(
        &mut self,
        db: usize,
        class: Classes,
        event: &str,
        key: &[u8],
        value: Option<&Value>,
    ) {
        // Whoever wrote the log that is replayed has appended the entries too.
        if self.replays {
            return;
        }
        let Some(rules) = self.recorder.rules.clone() else {
            return;
        };
        for rule in rules.of(db, class, key) {
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

    /// Appends the kept events to their streams.
    #[cold]
    pub(super) fn append_recorded(&mut self) {
        for recorded in std::mem::take(&mut self.recorder.events) {
            let count = match self.append(&recorded) {
                Some(()) => &recorded.rule.appended,
                None => &recorded.rule.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Appends an event. Returns `None` if the key holds another type, or the stream has no further ID.
    fn append(&mut self, recorded: &Recorded) -> Option<()> {
        let Recorded {
            rule,
            event,
            key: subject,
            value,
        } = recorded;
        let (db, key, now) = (rule.db, &rule.stream, self.now);
        self.touch(Touched::One(db));
        let (number, hash) = (self.store.shard_of(key), self.store.hash(key));
        let mut found = self.shard_db(number, db).find_hashed(hash, key);
        if let Some(id) = found
            && now.is_due(self.shard_db(number, db).get(id).deadline)
        {
            self.expire_met(number, db, id);
            found = None;
        }
        let len = value.as_ref().map_or(0, |value| value.len() as u64);
        let omitted = len > rule.max_bytes.unwrap_or(u64::MAX) || Stream::is_too_long(len as usize);
        let omitted = omitted.then(|| len.to_string());
        let mut fields: Vec<(&[u8], &[u8])> = vec![(b"event", event.as_bytes()), (b"key", subject)];
        match (&omitted, value) {
            (Some(len), _) => fields.push((b"omitted", len.as_bytes())),
            (None, Some(value)) => fields.push((b"value", value)),
            (None, None) => {}
        }
        let (limits, uses) = (self.limits, self.limits.uses.initial(now));
        let part = self.shard_db(number, db);
        let record = match found {
            Some(record) => record,
            None => part.insert_hashed(hash, key, Stream::new().into_value(), uses),
        };
        Stream::of(&part.get(record).value)?;
        let stream = Stream::of_mut(&mut part.get_mut(record).value)?;
        let next = stream.last_id().next()?;
        let id = next.max(Id::new(now.read_ms(), 0));
        stream.push(id, fields.iter().copied(), &limits);
        let oldest = rule
            .max_age
            .map(|age| Id::new(id.ms.saturating_sub(age), 0));
        let trimmed = oldest.map_or(0, |oldest| {
            stream.trim(Trim {
                bound: Bound::MinId(oldest),
                approximate: false,
                limit: 0,
            })
        });
        if found.is_none() {
            self.announce(db, Classes::NEW, "new", key);
        }
        self.commit_entry(db, key, "xadd");
        if trimmed > 0 {
            self.commit_entry(db, key, "xtrim");
        }
        let id = id.text();
        let fields = fields.iter().flat_map(|(name, value)| [*name, *value]);
        let words: Vec<&[u8]> = [&b"XADD"[..], key, &id].into_iter().chain(fields).collect();
        self.frame_effect(db, words.iter());
        if trimmed > 0
            && let Some(oldest) = oldest
        {
            let words: [&[u8]; 4] = [b"XTRIM", key, b"MINID", &oldest.text()];
            self.frame_effect(db, words.iter());
        }
        self.retain(number, db, key, record);
        self.shard_db(number, db).rearm_stream(record);
        Some(())
    }
}

/// Returns what an entry shows of a value.
fn shown(payload: Payload, value: &Value) -> Option<Box<[u8]>> {
    match payload {
        Payload::None => None,
        Payload::String => Some(value.as_str()?.bytes().as_ref().into()),
        Payload::Dump => Some(encode::dump(value).into()),
    }
}

impl Cx<'_, '_> {
    /// Changes the rules, and commits that.
    pub(crate) fn change_notify_rules(&mut self, change: impl FnOnce(&mut Vec<Arc<Rule>>)) {
        self.turn.store.change_notify_rules(change);
        self.turn.renew_rules();
        self.turn.changed = true;
        self.turn.stats.dirty += 1;
    }
}
