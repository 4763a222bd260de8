//! Hashes in a database, and timers of values. Every change of a hash goes through this file, so
//! that each field with a deadline has a timer.
//!
//! Invariant: a field has a deadline if and only if [`Db`]'s `fields` has a timer with that
//! deadline. The field holds the number of its timer, the timer holds the record and the number of
//! its field, and the wheel has exactly one entry with the timer's stamp.

use smallvec::SmallVec;

use super::Db;
use crate::Error;
use crate::keyspace::field_timers::{FieldTimer, OF_FIELD};
use crate::keyspace::records::Id;
use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::content::Facts;
use crate::value::hash::{Field, Hash, Table};
use crate::value::{Kind, Value};

impl Db {
    /// Returns the hash of a key.
    ///
    /// # Panics
    /// If the key holds another type.
    pub(crate) fn hash_at(&self, id: Id) -> &Hash {
        Hash::of(&self.get(id).value).expect("the key holds a hash")
    }

    fn hash_mut(&mut self, id: Id) -> &mut Hash {
        Hash::of_mut(&mut self.get_mut(id).value).expect("the key holds a hash")
    }

    fn table_mut(&mut self, id: Id) -> &mut Table {
        let table = self.hash_mut(id).table_mut();
        table.expect("fields with numbers are in a table")
    }

    /// Sets the values of fields and removes their deadlines. Returns the number of new fields.
    /// O(pairs) amortised, in a listpack O(pairs * bytes).
    pub(crate) fn set_fields<'k>(
        &mut self,
        id: Id,
        pairs: impl ExactSizeIterator<Item = (&'k [u8], &'k [u8])>,
        limits: &Limits,
    ) -> usize {
        let hash = self.hash_mut(id);
        hash.reserve(pairs.len(), limits);
        let mut created = 0;
        let mut timers: SmallVec<[u32; 4]> = SmallVec::new();
        for (name, value) in pairs {
            let written = hash.set(name, value, false, limits);
            created += usize::from(written.created);
            timers.extend(written.timer);
        }
        self.disarm(timers);
        created
    }

    /// Sets the value of a field; its deadline stays. O(1) amortised, in a listpack O(bytes).
    pub(crate) fn change_field(&mut self, id: Id, name: &[u8], value: &[u8], limits: &Limits) {
        let written = self.hash_mut(id).set(name, value, true, limits);
        debug_assert!(written.timer.is_none());
    }

    /// Adds to the integer of a field; see [`Hash::add`].
    pub(crate) fn add_to_field(
        &mut self,
        id: Id,
        name: &[u8],
        by: i64,
        limits: &Limits,
    ) -> Result<i64, Error> {
        self.hash_mut(id).add(name, by, limits)
    }

    /// Removes a field. Returns whether it existed. O(1) amortised, in a listpack O(bytes).
    pub(crate) fn remove_field(&mut self, id: Id, name: &[u8]) -> bool {
        let removed = self.hash_mut(id).remove(name);
        self.disarm(removed.flatten());
        removed.is_some()
    }

    /// Removes a field of a table by its number. O(1) amortised.
    pub(crate) fn remove_numbered_field(&mut self, id: Id, field: u32) -> Field {
        let removed = self.table_mut(id).remove(field);
        self.disarm(removed.timer());
        removed
    }

    /// Sets or removes the deadline of an existing field. O(1): a later deadline only rewrites the
    /// timer. The first deadline in a listpack converts the listpack to a table: O(bytes).
    pub(crate) fn set_field_deadline(&mut self, id: Id, name: &[u8], deadline: Option<u64>) {
        let table = self.hash_mut(id).become_table();
        let Some(number) = table.find(name) else {
            debug_assert!(false, "no such field");
            return;
        };
        let Some(deadline) = deadline.map(|at| at.min(NEVER - 1)) else {
            let timer = table.persist(number);
            self.disarm(timer);
            return;
        };
        let field = table.field(number);
        match field.timer() {
            None => {
                let timer = self.arm(id, number, deadline);
                self.table_mut(id).set_deadline(number, deadline, timer);
            }
            Some(timer) => {
                let earlier = deadline < field.deadline();
                table.set_deadline(number, deadline, timer);
                self.move_timer(timer, deadline, earlier);
            }
        }
    }

    /// Moves a timer to another deadline; `earlier` says whether it is earlier than the old one.
    /// O(1): a later deadline only rewrites the timer.
    pub(super) fn move_timer(&mut self, timer: u32, deadline: u64, earlier: bool) {
        let stamp = self.next_stamp();
        let armed = self.fields.get_mut(timer);
        let armed = armed.expect("a deadline in a database has its timer");
        armed.deadline = deadline;
        if earlier {
            armed.stamp = stamp;
            self.wheel.insert(deadline, timer | OF_FIELD, stamp.get());
            self.forget_entry();
        }
    }

    /// Arms a timer for a field. O(1).
    pub(super) fn arm(&mut self, record: Id, field: u32, deadline: u64) -> u32 {
        let stamp = self.next_stamp();
        let timer = self.fields.insert(FieldTimer {
            deadline,
            stamp,
            record,
            field,
        });
        assert!(
            timer < OF_FIELD,
            "2^31 fields with deadlines in one database"
        );
        self.wheel.insert(deadline, timer | OF_FIELD, stamp.get());
        timer
    }

    /// Removes timers. O(1) each.
    pub(super) fn disarm(&mut self, timers: impl IntoIterator<Item = u32>) {
        for timer in timers {
            let timer = self.fields.remove(timer);
            debug_assert!(timer.is_some(), "a deadline has its timer");
            // This call follows each removal at once, because the wheel counts its stale entries
            // and may remove them in any call.
            self.forget_entry();
        }
    }

    /// Arms the timers of a value that was added: of a hash's fields, or of a timeline. Adds timers
    /// and queues of jobs to the database's sets of them. For a hash O(1) if no field has a
    /// deadline, else O(fields).
    pub(super) fn arm_fields(&mut self, id: Id) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        let hash = match &mut record.value {
            Value::Hash(hash) => hash,
            Value::Timer(_) => {
                self.timers.insert((record.deadline, id));
                return;
            }
            value if value.facts().has(Facts::TIMED) => {
                // The value may come from another database and still have the number of its timer
                // in that database.
                value.content_mut().set_timer(None);
                if let Value::Jobs(_) = value {
                    self.queues.insert(id);
                }
                return self.rearm(id);
            }
            _ => return,
        };
        if hash.with_deadline() == 0 {
            return;
        }
        // Arming needs the whole database as `&mut`, so the hash is taken out of it meanwhile.
        let mut hash = std::mem::take(hash);
        if let Some(table) = hash.table_mut() {
            table.arm_all(|field, deadline| self.arm(id, field, deadline));
        }
        if let Some(record) = self.records.get_mut(id) {
            record.value = Value::Hash(hash);
        }
    }

    /// Removes the timers of a value that was removed: of a hash's fields, or of a timeline. For a
    /// hash O(1) if no field has a deadline, else O(fields).
    pub(super) fn disarm_fields(&mut self, value: &Value) {
        let Value::Hash(hash) = value else {
            return self.disarm_timeline(value);
        };
        if hash.with_deadline() > 0
            && let Some(table) = hash.table()
        {
            self.disarm(table.fields().filter_map(|(_, field)| field.timer()));
        }
    }

    /// Returns the record of the hash whose field has this timer.
    pub(crate) fn owner_of_field(&self, timer: u32) -> Option<Id> {
        self.fields.get(timer).map(|timer| timer.record)
    }

    /// Removes a field that [`Db::next_due`] has returned. Returns the record of its hash, which
    /// may be empty now, and the field. O(1) amortised.
    ///
    /// # Panics
    /// If `timer` is not the timer that was due.
    pub(crate) fn remove_due_field(&mut self, timer: u32) -> (Id, Field) {
        let timer = self.fields.remove(timer).expect("it was due");
        let field = self.table_mut(timer.record).remove(timer.field);
        (timer.record, field)
    }

    /// Returns the number of fields with a deadline.
    pub fn fields_with_deadline(&self) -> usize {
        self.fields.len() - self.timelines
    }

    /// Renames a key. No key may have the new name. Value, deadline and uses stay. O(length of the
    /// name) amortised.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub(crate) fn rename(&mut self, id: Id, key: &[u8]) {
        let hash = self.hash(key);
        let old = self.get(id).hash;
        let records = &self.records;
        self.index.remove(old, id, |i| super::place(records, i));
        let record = self.get_mut(id);
        record.key = crate::keyspace::key::Key::new(key, record.key.uses());
        record.hash = hash.place;
        let records = &self.records;
        self.index.insert(hash, id, |i| super::place(records, i));
    }
}
