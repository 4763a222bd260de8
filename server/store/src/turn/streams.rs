//! Processing of what is due in streams: entries that are too old (XRETAIN), leases that have
//! ended, entries for dead-letter streams, and old message IDs of producers.
//!
//! Ground rules: a stream has one timer. When it fires, under the lock of the stream's shard,
//! [`Turn::stream_due`] removes old entries in batches. The end of a lease changes no data: the key
//! becomes ready, and waiting readers run their command again. An entry whose deliveries are
//! exhausted moves to the group's dead-letter stream, which may be in another shard.
//! [`Turn::move_dead_letters`] moves such entries after the expiry step: it locks both shards and
//! checks again which entries are due. If it cannot lock, because a transaction has pinned its
//! shards, the timer fires again a millisecond later.
//!
//! A command that looks up a stream with old entries removes them first ([`Turn::settle_stream`]);
//! in a [frozen](Turn::frozen) turn it only hides them. So no command sees an entry that has
//! reached its maximum age. These removals and moves have commands of Redis as effects: XTRIM
//! MINID, and XADD and XACK between MULTI and EXEC.

use super::Turn;
use super::expiry::Name;
use crate::events::{Classes, DeadLetterFailed};
use crate::keyspace::records::Id as RecordId;
use crate::keyspace::shard::Touched;
use crate::time::Now;
use crate::value::Kind;
use crate::value::stream::{Bound, Id, Retention, Stream, Trim};

/// Maximum number of blocks that one step removes from a stream.
const BLOCKS: usize = 64;
/// Maximum number of entries of a group that move to a dead-letter stream in one step.
const DEAD_LETTERS: usize = 64;

/// A consumer group with entries that are due for its dead-letter stream, and the key of that
/// stream.
struct DueGroup {
    group: Box<[u8]>,
    dead_letter: Box<[u8]>,
}

impl Turn<'_> {
    fn stream_at(&mut self, number: usize, db: usize, id: RecordId) -> Option<&mut Stream> {
        Stream::of_mut(&mut self.shard_db(number, db).get_mut(id).value)
    }

    /// Processes what is due in a stream whose timer has fired, and arms the timer again.
    pub(super) fn stream_due(
        &mut self,
        number: usize,
        db: usize,
        id: RecordId,
        until: Now,
        budget: &mut usize,
    ) {
        let record = self.shard_db(number, db).get(id);
        let key = Name::from_slice(record.key.as_bytes());
        if self.trim_old(number, db, &key, id, until, BLOCKS) {
            *budget = budget.saturating_sub(BLOCKS);
        }
        if let Some(stream) = self.stream_at(number, db, id) {
            *budget = budget.saturating_sub(stream.drop_messages(until.read_ms()) / BLOCKS);
        }
        let mut dead = false;
        let retry_ms = until.read_ms() + self.retry_delay_ms(&key);
        self.shard_db(number, db).timelines(id, |_, timeline| {
            timeline.mark_notified(until);
            if timeline.has_dead_letters(until) {
                timeline.retry_ms = retry_ms;
                dead = true;
            }
        });
        if dead {
            self.dead_letters.push((db, key[..].into()));
        }
        self.note_ready(db, &key);
        self.renew_claims(number, db, &key);
        self.shard_db(number, db).rearm(id);
    }

    /// Removes entries that are too old at `now`, at most the entries of `blocks` + 1 blocks.
    /// Returns whether there were such entries.
    fn trim_old(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: RecordId,
        now: Now,
        blocks: usize,
    ) -> bool {
        let stream = Stream::of(&self.shard_db(number, db).get(id).value);
        let Some((floor, first)) = stream.and_then(|s| Some((s.floor(now)?, s.first_id()))) else {
            return false;
        };
        let age_max_ms = stream
            .and_then(Stream::retention)
            .map_or(0, |r| r.age_max_ms);
        let Some(stream) = self.stream_at(number, db, id) else {
            return false;
        };
        let (removed, bound) = stream.trim_aged(floor, blocks);
        self.stats.retained_out += removed;
        let deadline_ms = first.ms.saturating_add(age_max_ms);
        self.sink.became_due(self.now, deadline_ms);
        self.expiry_effect(db, &[b"XTRIM", key, b"MINID", &bound.text()]);
        self.commit_expiry(db, key, Classes::STREAM, "xtrim", None);
        true
    }

    /// Removes all entries that are too old from a stream that a command has looked up, unless the
    /// turn is frozen.
    #[cold]
    pub(crate) fn settle_stream(&mut self, number: usize, db: usize, key: &[u8], id: RecordId) {
        if !self.frozen {
            self.deadlines_may_change(Touched::One(db));
            self.trim_old(number, db, key, id, self.now, usize::MAX);
            self.shard_db(number, db).rearm(id);
        }
    }

    /// Applies the retention of a stream after an entry was added or the retention was set. Adds a
    /// further effect to the running command, which has set its own effects before. Returns the
    /// number of removed entries.
    pub(crate) fn retain(&mut self, number: usize, db: usize, key: &[u8], id: RecordId) -> u64 {
        let now = self.now;
        let Some(stream) = self.stream_at(number, db, id) else {
            return 0;
        };
        let mut removed = 0;
        let mut bound = None;
        if let Some(floor) = stream.floor(now) {
            removed += stream.trim_aged(floor, usize::MAX).0;
            bound = Some(floor);
        }
        let len_max = stream.retention().and_then(|retention| retention.len_max);
        if let Some(len) = len_max.filter(|len| stream.len() > *len) {
            removed += stream.trim(Trim {
                bound: Bound::Len(len),
                approximate: false,
                limit: 0,
            });
            bound = Some(stream.first_id());
        }
        if let Some(bound) = bound {
            self.stats.retained_out += removed;
            self.commit(db, key, Classes::STREAM, "xtrim", 0);
            let text = bound.text();
            let words: [&[u8]; 4] = [b"XTRIM", key, b"MINID", &text];
            self.effect(db, words.iter());
        }
        removed
    }

    /// Stores the idle times after which waiting readers claim entries (XREADGROUP with CLAIM) in
    /// the groups of a stream.
    pub(super) fn renew_claims(&mut self, number: usize, db: usize, key: &[u8]) {
        let now = self.now;
        let shard = self.shard_mut(number);
        let part = &mut shard.dbs[db];
        let Some(id) = part.find(key) else { return };
        let waiting = match shard.waiters.any() {
            true => shard.waiters.claims(db, key, now),
            false => Vec::new(),
        };
        part.timelines(id, |_, timeline| timeline.claims.clear());
        for (group, idle_ms) in &waiting {
            part.expect_claims(id, group, *idle_ms);
        }
        part.rearm(id);
        if !waiting.is_empty() {
            self.deadlines_may_change(Touched::One(db));
        }
    }

    /// Moves entries to dead-letter streams, and dead jobs to other queues, up to [`DEAD_LETTERS`]
    /// entries of each group. Returns false if there was nothing to do or if shards are pinned.
    /// Locks the shards of both keys.
    pub(super) fn move_dead_letters(&mut self) -> bool {
        if self.dead_letters.is_empty() || self.pinned {
            // While shards are pinned no other shard can be locked. The timer fires again.
            self.dead_letters.clear();
            return false;
        }
        for (db, key) in std::mem::take(&mut self.dead_letters) {
            self.move_dead_jobs(db, &key);
            for due in self.groups_with_dead_letters(db, &key) {
                self.lock_keys([&key[..], &due.dead_letter].into_iter());
                self.deadlines_may_change(Touched::One(db));
                self.move_dead_letters_of(db, &key, &due);
            }
        }
        true
    }

    /// Returns the delay in ms of the next attempt to move entries or jobs to another key, if this
    /// attempt fails: a shard is pinned for a short time, a slot moves for a longer one.
    pub(super) fn retry_delay_ms(&self, key: &[u8]) -> u64 {
        if self.store.moves(key) { 1000 } else { 1 }
    }

    /// Finds a value of this type that has not expired. Its shard must be held.
    pub(super) fn find_live<K: Kind>(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
    ) -> Option<RecordId> {
        let now = self.now;
        let part = self.shard_db(number, db);
        let id = part.find(key)?;
        let record = part.get(id);
        (!record.has_expired(now) && K::of(&record.value).is_some()).then_some(id)
    }

    /// Finds a key, or adds it with a new value, outside of a command. Also returns whether the key
    /// is new. Its shard must be held.
    pub(super) fn find_or_add<K: Kind>(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        value: impl FnOnce() -> K,
    ) -> (RecordId, bool) {
        let now = self.now;
        let part = self.shard_db(number, db);
        match part.find(key) {
            Some(id) if part.get(id).has_expired(now) => self.expire_due(number, db, id),
            Some(id) => return (id, false),
            None => {}
        }
        let uses = self.limits.uses.initial(now);
        let part = self.shard_db(number, db);
        let id = part.insert(key, value().into_value(), uses);
        self.announce(db, Classes::NEW, "new", key);
        (id, true)
    }

    /// Returns the groups of a stream with entries that are due for a dead-letter stream. Locks the
    /// stream's shard.
    fn groups_with_dead_letters(&mut self, db: usize, key: &[u8]) -> Vec<DueGroup> {
        let (number, now) = (self.store.shard_of(key), self.now);
        self.lock_one(number);
        let mut found = Vec::new();
        if self.store.moves(key) {
            return found;
        }
        if let Some(id) = self.find_live::<Stream>(number, db, key) {
            self.shard_db(number, db).timelines(id, |group, timeline| {
                if let Some(target) = timeline
                    .lease()
                    .and_then(|lease| lease.dead_letter.as_ref())
                    && !timeline.dead_letters(now, 1).is_empty()
                {
                    found.push(DueGroup {
                        group: group.into(),
                        dead_letter: target.key.clone(),
                    });
                }
            });
        }
        found
    }

    /// Moves entries of a group to its dead-letter stream. Both shards must be held. Returns `None`
    /// if the group has changed while its shard was unlocked.
    fn move_dead_letters_of(&mut self, db: usize, key: &[u8], due: &DueGroup) -> Option<()> {
        let (number, now) = (self.store.shard_of(key), self.now);
        let id = self.find_live::<Stream>(number, db, key)?;
        self.framed(|turn| turn.settle_stream(number, db, key, id));
        let stream = self.stream_at(number, db, id)?;
        let timeline = stream.group(&due.group)?.timeline()?;
        let lease = timeline.lease()?;
        let lease_ms = lease.ms;
        if lease.dead_letter.as_ref()?.key != due.dead_letter {
            return None;
        }
        let mut failed = None;
        for entry in timeline.dead_letters(now, DEAD_LETTERS) {
            match self.framed(|turn| turn.move_entry(db, key, (number, id), due, entry)) {
                Ok(()) => self.stats.dead_letters += 1,
                Err(reason) => {
                    failed = Some(reason);
                    break;
                }
            }
        }
        let retry_ms = match failed {
            None => 0,
            Some(reason) => {
                self.stats.dead_letter_errors += 1;
                self.sink.dead_letter_failed(&DeadLetterFailed {
                    db,
                    key,
                    group: &due.group,
                    dead_letter: &due.dead_letter,
                    reason,
                });
                now.base_ms().saturating_add(lease_ms)
            }
        };
        let part = self.shard_db(number, db);
        part.timelines(id, |group, timeline| {
            if *group == *due.group {
                timeline.retry_ms = retry_ms;
            }
        });
        part.rearm(id);
        Some(())
    }

    /// Moves one entry. An entry that was deleted from its stream is acknowledged and not copied.
    fn move_entry(
        &mut self,
        db: usize,
        key: &[u8],
        (number, id): (usize, RecordId),
        due: &DueGroup,
        entry: Id,
    ) -> Result<(), &'static str> {
        let Some(stream) = self.stream_at(number, db, id) else {
            return Ok(());
        };
        let group = stream.group(&due.group);
        let Some((group, pending)) = group.and_then(|g| Some((g, g.pending().get(entry)?))) else {
            return Ok(());
        };
        let fields = stream.get(entry).map(|entry| {
            let text = |element: punctual_rdb::Element<'_>| element.with_text(<[u8]>::to_vec);
            let pairs = entry.pairs().map(|(name, value)| (text(name), text(value)));
            let mut fields: Vec<(Vec<u8>, Vec<u8>)> = pairs.collect();
            let consumer = group.consumer(pending.consumer).name().to_vec();
            let deliveries = pending.deliveries.to_string().into_bytes();
            for (name, value) in [
                ("origin-stream", key.to_vec()),
                ("origin-group", due.group.to_vec()),
                ("origin-id", entry.id.text()),
                ("origin-consumer", consumer),
                ("origin-deliveries", deliveries),
            ] {
                fields.push((name.into(), value));
            }
            fields
        });
        if let Some(fields) = fields {
            let bytes = fields.iter().map(|(name, value)| name.len() + value.len());
            if Stream::is_too_long(bytes.sum()) {
                return Err("the entry is too large");
            }
            let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
            self.add_entry(db, &due.dead_letter, pairs, None)?;
        }
        let stream = self.stream_at(number, db, id);
        if let Some(group) = stream.and_then(|stream| stream.group_mut(&due.group)) {
            group.acknowledge(entry);
        }
        self.commit_group(db, key, None, 1);
        let text = entry.text();
        let words: [&[u8]; 4] = [b"XACK", key, &due.group, &text];
        self.effect(db, words.iter());
        Ok(())
    }

    /// Appends an entry to a stream, outside of a command. Creates the stream if it does not exist,
    /// with a retention of `max_age_ms` if it is given. The key's shard must be held.
    ///
    /// # Errors
    /// The reason for which the entry cannot be appended.
    pub(super) fn add_entry<'f>(
        &mut self,
        db: usize,
        key: &[u8],
        fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
        max_age_ms: Option<u64>,
    ) -> Result<(), &'static str> {
        let (now, limits, number) = (self.now, self.limits, self.store.shard_of(key));
        let (id, is_new) = self.find_or_add(number, db, key, Stream::new);
        let part = self.shard_db(number, db);
        let Some(last) = Stream::of(&part.get(id).value).map(Stream::last_id) else {
            return Err("the key of the stream holds another type");
        };
        let next = last.next().ok_or("the stream has no more IDs")?;
        let new = next.max(Id::new(now.read_ms(), 0));
        if let Some(stream) = self.stream_at(number, db, id) {
            stream.push(new, fields.clone(), &limits);
        }
        self.commit(db, key, Classes::STREAM, "xadd", 1);
        let text = new.text();
        let fields = fields.flat_map(|(name, value)| [name, value]);
        let words: Vec<&[u8]> = [&b"XADD"[..], key, &text]
            .into_iter()
            .chain(fields)
            .collect();
        self.effect(db, words.iter());
        match max_age_ms.filter(|_| is_new) {
            Some(age_max_ms) => self.set_age_retention(number, db, key, id, age_max_ms),
            None => {
                self.retain(number, db, key, id);
                self.shard_db(number, db).rearm(id);
            }
        }
        Ok(())
    }

    /// Gives a stream a retention by age, as a further effect.
    pub(crate) fn set_age_retention(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: RecordId,
        age_max_ms: u64,
    ) {
        if let Some(stream) = self.stream_at(number, db, id) {
            stream.set_retention(Some(Retention {
                age_max_ms,
                len_max: None,
            }));
        }
        self.commit(db, key, Classes::STREAM, "xretain", 0);
        let mut buffer = itoa::Buffer::new();
        let words: [&[u8]; 4] = [
            b"XRETAIN",
            key,
            b"MAXAGE",
            buffer.format(age_max_ms).as_bytes(),
        ];
        self.effect(db, words.iter());
        self.retain(number, db, key, id);
        self.shard_db(number, db).rearm(id);
    }
}
