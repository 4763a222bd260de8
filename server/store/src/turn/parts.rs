//! Expiry of a hash's fields and of the members of sets and sorted sets.
//!
//! Ground rules: a collection has one timer, at its earliest deadline. When it fires,
//! [`Turn::parts_due`] removes the elements with this deadline, and arms the timer at the next one.
//! So the elements of all collections and the keys expire in the order of their deadlines. An
//! expired element is reported to the sink and counted once. Elements of one collection that expire
//! at once share one event. A collection that has lost its last element is removed, with the event
//! `del`.
//!
//! No command sees a due element. A command that names elements removes those that are due first
//! ([`Turn::expire_named`]). A command that reads or changes a set or a sorted set as a whole
//! removes all due members first ([`Turn::settle`]), because members are counted and have ranks. In
//! a frozen turn nothing expires; a command that only reads then gets a copy of the collection
//! without the due members ([`Turn::live`]). Commands that read a whole hash skip its due fields.

use super::Turn;
use super::expiry::Name;
use super::subkeys::Subkeys;
use crate::events::Classes;
use crate::keyspace::records::Id;
use crate::keyspace::shard::Touched;
use crate::time::{NEVER, Now};
use crate::turn::cx::{Live, Place};
use crate::value::Value;
use crate::value::parts::{Parts, Words};
use crate::value::text::Text;

impl Turn<'_> {
    fn parts_at(&mut self, number: usize, db: usize, id: Id) -> &mut dyn Parts {
        let value = &mut self.shard_db(number, db).get_mut(id).value;
        let parts = value.content_mut().parts_mut();
        parts.expect("the value has elements with deadlines")
    }

    /// Expires the elements of a value whose timer has fired, and arms the timer again.
    pub(super) fn parts_due(
        &mut self,
        number: usize,
        db: usize,
        id: Id,
        until: Now,
        budget: &mut usize,
    ) {
        let record = self.shard_db(number, db).get(id);
        let (deadline, key) = (record.value.next_deadline(), record.key.as_bytes());
        let key = Name::from_slice(key);
        if until.is_due(deadline) {
            self.expire_first(number, db, &key, id, Now::from_ms(deadline), budget);
        } else {
            self.shard_db(number, db).rearm(id);
        }
    }

    /// Expires the elements that are due at `until`, at most `budget`, and at least
    /// one. Returns true if the collection has become empty and was removed.
    fn expire_first(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: Id,
        until: Now,
        budget: &mut usize,
    ) -> bool {
        let words = self.parts_at(number, db, id).words();
        let mut gone: Subkeys<Text> = self.subkeys(words.class);
        loop {
            let parts = self.parts_at(number, db, id);
            let deadline = parts
                .deadlines()
                .map_or(NEVER, |deadlines| deadlines.next());
            let Some(name) = parts.take_first() else {
                break;
            };
            self.part_expired(db, key, words, (name.as_bytes(), deadline));
            gone.push(name);
            self.publish_if_full(db, words.expired, key, &mut gone);
            *budget = budget.saturating_sub(1);
            let next = self.shard_db(number, db).get(id).value.next_deadline();
            if !until.is_due(next) || *budget == 0 {
                break;
            }
        }
        self.parts_expired(number, db, key, id, &gone)
    }

    /// Expires all due members of a collection that a command has looked up, unless the turn is
    /// frozen. Returns `None` if the collection has become empty and was removed. O(due members).
    #[cold]
    pub(crate) fn settle(&mut self, place: Place, id: Id, key: &[u8]) -> Option<Id> {
        if self.frozen {
            return Some(id);
        }
        let (number, db, now) = (place.shard(), place.db(), self.now);
        self.deadlines_may_change(Touched::One(db));
        let gone = self.expire_first(number, db, key, id, now, &mut { usize::MAX });
        (!gone).then_some(id)
    }

    /// Returns the value of a collection with due members for a command that only reads. Returns
    /// `None` if all members are due. O(due members), in a frozen turn O(members).
    #[cold]
    pub(crate) fn live(&mut self, place: Place, id: Id, key: &[u8]) -> Option<Live> {
        if !self.frozen {
            return self.settle(place, id, key).map(Live::Record);
        }
        let now = self.now;
        let mut copy = self
            .shard_db(place.shard(), place.db())
            .get(id)
            .value
            .clone();
        while now.is_due(copy.next_deadline()) {
            copy.content_mut().parts_mut()?.take_first()?;
        }
        if copy.is_empty_collection() {
            return None;
        }
        self.copies.push(copy);
        Some(Live::Copy(self.copies.len() - 1))
    }

    /// Returns the value that [`Turn::live`] has found.
    #[inline]
    pub(crate) fn live_value(&self, place: Place, live: Live) -> &Value {
        match live {
            Live::Record(id) => &self.shard_db_ref(place.shard(), place.db()).get(id).value,
            Live::Copy(number) => &self.copies[number],
        }
    }

    /// Expires due elements that a command has named, unless the turn is frozen. Returns true if
    /// the collection has become empty and was removed.
    #[cold]
    pub(crate) fn expire_named<'k>(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: Id,
        names: impl Iterator<Item = &'k [u8]>,
    ) -> bool {
        if self.frozen {
            return false;
        }
        let now = self.now;
        let words = self.parts_at(number, db, id).words();
        let mut gone: Subkeys<&[u8]> = self.subkeys(words.class);
        let mut expired = false;
        for name in names {
            let parts = self.parts_at(number, db, id);
            if let Some(deadline) = parts.deadline(name).filter(|at| now.is_due(*at)) {
                parts.remove_part(name);
                self.part_expired(db, key, words, (name, deadline));
                gone.push(name);
                self.publish_if_full(db, words.expired, key, &mut gone);
                expired = true;
            }
        }
        expired && {
            self.deadlines_may_change(Touched::One(db));
            self.parts_expired(number, db, key, id, &gone)
        }
    }

    /// Counts and reports an element that was removed because its deadline has passed.
    fn part_expired(
        &mut self,
        db: usize,
        key: &[u8],
        words: &Words,
        (name, deadline): (&[u8], u64),
    ) {
        self.stats.expired_fields += 1;
        self.expiry_effect(db, &[words.remove, key, name]);
        self.sink.field_expired(self.now, db, key, name, deadline);
    }

    /// Commits the expiry of elements, and arms the timer again. Returns true if the collection has
    /// become empty and was removed.
    fn parts_expired<N: AsRef<[u8]>>(
        &mut self,
        number: usize,
        db: usize,
        key: &[u8],
        id: Id,
        gone: &Subkeys<N>,
    ) -> bool {
        let parts = self.parts_at(number, db, id);
        let (words, emptied) = (parts.words(), parts.elements() == 0);
        self.commit_expiry_silently(db, key);
        self.announce_with(db, words.class, words.expired, key, None, gone.iter());
        let part = self.shard_db(number, db);
        if emptied {
            part.remove(id);
            self.commit_expiry(db, key, Classes::GENERIC, "del", None);
        } else {
            part.rearm(id);
        }
        emptied
    }
}
