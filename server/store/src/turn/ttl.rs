//! Defaults and limits of TTL (`ttl_rules.rs`), applied at the end of each command.
//!
//! A command *decides* a key's deadline when it creates the key, or sets or removes its deadline:
//! SET without KEEPTTL, EXPIRE, PERSIST, COPY, RENAME, MOVE, the first LPUSH. If there are rules,
//! functions of [`Cx`] note such keys. After the handler, [`Turn::apply_ttl_rules`] lowers a
//! deadline above the maximum, or sets one on a key without a deadline, and publishes `expire`. The
//! log of changes has the deadline as PEXPIREAT, in one frame with the command.
//!
//! - A change of a value, such as INCR of a key that exists, decides nothing.
//! - RESTORE names the TTL, so only the maximum applies to it. MIGRATE sends keys by RESTORE.
//! - Timers, queues of jobs and streams that the server creates itself have no limits.
//! - Replicas, loading, and replays of a log apply no rules.

use super::cx::{Decided, Place};
use super::{Cx, Turn};
use crate::events::Classes;
use crate::keyspace::records::{Id, Record};
use crate::keyspace::shard::Writers;
use crate::ttl_rules::TtlRules;
use crate::value::content::Facts;

impl Turn<'_> {
    /// Notes that the running command has decided the deadline of the key `id`.
    #[inline]
    pub(super) fn note_decided(&mut self, shard: usize, db: usize, id: Id) {
        if self.store.ttl.is_on() {
            self.decided.push(Decided {
                shard,
                db,
                id,
                explicit: false,
            });
        }
    }

    /// Applies the rules to the keys whose deadlines the command has decided.
    #[cold]
    pub(super) fn apply_ttl_rules(&mut self) {
        let mut decided = std::mem::take(&mut self.decided);
        if !self.replays && self.writers == Writers::Clients {
            let rules = self.store.ttl.rules();
            for key in &decided {
                self.apply_ttl_rule(&rules, *key);
            }
        }
        // Keeps the memory for the next command.
        decided.clear();
        self.decided = decided;
    }

    fn apply_ttl_rule(&mut self, rules: &TtlRules, decided: Decided) {
        let Decided {
            shard,
            db,
            id,
            explicit,
        } = decided;
        let now = self.now;
        let part = self.shard_db(shard, db);
        let limited = |record: &&Record| !record.value.facts().has(Facts::ACTS);
        let Some(record) = part.peek(id).filter(limited) else {
            return;
        };
        let (key, asked) = (record.key.as_bytes(), part.deadline(id));
        let wanted = rules.limit(key).deadline(asked, explicit, now);
        if let Some(at) = wanted.filter(|_| wanted != asked) {
            let key = key.to_vec();
            part.set_deadline(id, Some(at));
            self.commit(db, &key, Classes::GENERIC, "expire", 0);
            let mut buffer = itoa::Buffer::new();
            let at = buffer.format(at).as_bytes();
            self.effect(db, [b"PEXPIREAT", &*key, at].into_iter());
        }
    }
}

impl Cx<'_, '_> {
    /// Sets a key's deadline in Unix ms, or removes it. A rule may change it when
    /// the command ends. See `Db::set_deadline` for the time.
    #[inline]
    pub fn set_deadline(&mut self, key: &[u8], id: Id, deadline: Option<u64>) {
        self.set_deadline_in(self.db, key, id, deadline);
    }

    /// Same as [`Cx::set_deadline`], in database `db`.
    pub(crate) fn set_deadline_in(&mut self, db: usize, key: &[u8], id: Id, at: Option<u64>) {
        self.db_of_in(db, key).set_deadline(id, at);
        self.note_decided_in(db, key, id);
    }

    /// Same as [`Cx::set_deadline`], with the place from the key's look-up.
    #[inline]
    pub(crate) fn set_deadline_at(&mut self, place: Place, id: Id, deadline: Option<u64>) {
        self.db_at(place).set_deadline(id, deadline);
        self.note_decided(place, id);
    }

    /// Notes a key whose deadline the command has decided without a change: a new key, and a key
    /// without a deadline that SET replaces.
    #[inline]
    pub(crate) fn note_decided(&mut self, place: Place, id: Id) {
        self.turn.note_decided(place.shard(), place.db(), id);
    }

    /// Same as [`Cx::note_decided`], in database `db`.
    #[inline]
    pub(crate) fn note_decided_in(&mut self, db: usize, key: &[u8], id: Id) {
        if self.turn.store.ttl.is_on() {
            let shard = self.turn.shard_of(key);
            self.turn.note_decided(shard, db, id);
        }
    }

    /// Notes that the command names the TTL of its keys, so that no default applies to them.
    pub(crate) fn names_ttl(&mut self) {
        for decided in &mut self.turn.decided {
            decided.explicit = true;
        }
    }
}

#[cfg(test)]
mod tests;
