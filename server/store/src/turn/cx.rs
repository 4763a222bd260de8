//! Look-ups of keys by commands' handlers. A look-up here expires the key if it is due, or hides it
//! in a [frozen](crate::Turn::frozen) turn. So a handler sees no key whose deadline has passed,
//! except a timer, even if the wheel has not expired the key yet. Handlers that list keys (KEYS,
//! SCAN) compare the deadlines themselves. `commit.rs` commits the handlers' changes.

use rand::RngExt as _;
use smallvec::SmallVec;

use crate::events::Classes;
use crate::hash_table::Hash;
use crate::keyspace::db::Db;
use crate::keyspace::records::Id;
use crate::keyspace::records::Record;
use crate::keyspace::shard::{Shard, Touched};
use crate::limits::Limits;
use crate::time::Now;
use crate::turn::Cx;
use crate::value::string::Str;
use crate::value::{Kind, Value};
use crate::{Error, Store};

/// The value that a reading command sees.
#[derive(Clone, Copy)]
pub(crate) enum Live {
    /// The value of this record.
    Record(Id),
    /// The copy with this number.
    Copy(usize),
}

/// Shard, database and hash of a key's name. They are computed at the look-up and used again for
/// insertions and changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    shard: usize,
    db: usize,
    hash: Hash,
}

impl Place {
    /// Returns the number of the shard.
    pub(crate) const fn shard(self) -> usize {
        self.shard
    }

    /// Returns the number of the database.
    pub(crate) const fn db(self) -> usize {
        self.db
    }
}

/// A key whose deadline the running command has decided; see `ttl.rs`. If the key was removed
/// since, `id` belongs to no record, or to a key that the same command has created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) shard: usize,
    pub(super) db: usize,
    pub(super) id: Id,
    /// The command has named the TTL, so the default does not apply.
    pub(super) explicit: bool,
}

impl<'s> Cx<'_, 's> {
    /// Returns the instant of the turn.
    pub fn now(&self) -> Now {
        self.turn.now
    }

    /// Returns the keyspace.
    pub fn store(&self) -> &'s Store {
        self.turn.store
    }

    /// Returns the part of the client's database that holds `key`.
    ///
    /// # Panics
    /// If the command's row does not name the key.
    #[inline]
    pub fn db_of(&mut self, key: &[u8]) -> &mut Db {
        self.db_of_in(self.db, key)
    }

    /// Returns the part of database `db` that holds `key`.
    ///
    /// # Panics
    /// If the command's row does not name the key.
    #[inline]
    pub fn db_of_in(&mut self, db: usize, key: &[u8]) -> &mut Db {
        self.other_deadlines_may_change(db);
        let number = self.turn.shard_of(key);
        self.turn.shard_db(number, db)
    }

    /// Finds a key; expires it if it is due. Counts no hit or miss, and notes no use (for LRU and
    /// LFU). O(length of the name).
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Option<Id> {
        self.find_in(self.db, key)
    }

    /// Same as [`Cx::find`], in database `db`.
    #[inline]
    pub fn find_in(&mut self, db: usize, key: &[u8]) -> Option<Id> {
        self.seek_in(db, key, false).1
    }

    /// Finds a key of the client's database; expires it if it is due. Also returns the key's place.
    /// Notes the use if `touch` is set. Counts no hit or miss. O(length of the name).
    #[expect(
        clippy::inline_always,
        reason = "as a call of its own, it costs 37 instructions of an HSET"
    )]
    #[inline(always)]
    pub(crate) fn seek(&mut self, key: &[u8], touch: bool) -> (Place, Option<Id>) {
        self.seek_in(self.db, key, touch)
    }

    #[inline]
    fn seek_in(&mut self, db: usize, key: &[u8], touch: bool) -> (Place, Option<Id>) {
        self.other_deadlines_may_change(db);
        let now = self.turn.now;
        let uses = self.turn.limits.uses;
        let hash = self.turn.hash_of(key);
        let shard = hash.shard(self.turn.store.shards());
        let part = self.turn.shard_db(shard, db);
        let place = Place { shard, db, hash };
        let Some(id) = part.find_hashed(hash, key) else {
            return (place, None);
        };
        let record = part.get(id);
        let before = record.key.uses();
        if now.is_due(record.deadline) && self.turn.expire_touched(db, key, id) {
            return (place, None);
        }
        if touch && uses.counts() {
            self.count_use(place, id);
        } else if touch {
            let used = uses.after_access(before, now);
            // A write only if necessary: an unchanged cache line stays valid in the caches of other
            // cores.
            if used != before {
                self.db_at(place).touch(id, used);
            }
        }
        (place, Some(id))
    }

    /// Notes the use of a key if the eviction policy counts uses (LFU).
    #[cold]
    fn count_use(&mut self, place: Place, id: Id) {
        let (uses, now) = (self.turn.limits.uses, self.turn.now);
        let Shard { dbs, random, .. } = self.turn.shard_mut(place.shard);
        let part = &mut dbs[place.db];
        let before = part.get(id).key.uses();
        part.touch(id, uses.incremented(before, now, random.random()));
    }

    /// Returns the part of a database that contains a place.
    #[inline]
    pub(crate) fn db_at(&mut self, place: Place) -> &mut Db {
        self.turn.shard_db(place.shard, place.db)
    }

    /// Finds a key to read: counts a hit and notes the use, or counts a miss and publishes
    /// `keymiss`. O(length of the name).
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<&Record> {
        let (place, found) = self.seek_to_read(key);
        Some(self.db_at(place).get(found?))
    }

    /// Same as [`Cx::read`], for a key that the handler may then change.
    #[inline]
    pub(crate) fn seek_to_read(&mut self, key: &[u8]) -> (Place, Option<Id>) {
        let (place, found) = self.seek(key, self.touch);
        match found {
            Some(_) => self.turn.stats.hits += 1,
            None => {
                self.turn.stats.misses += 1;
                self.announce(Classes::MISSED, "keymiss", key);
            }
        }
        (place, found)
    }

    /// Same as [`Cx::read`], but notes no use. O(length of the name).
    #[inline]
    pub fn peek(&mut self, key: &[u8]) -> Option<Id> {
        let found = self.find(key);
        match found {
            Some(_) => self.turn.stats.hits += 1,
            None => {
                self.turn.stats.misses += 1;
                self.announce(Classes::MISSED, "keymiss", key);
            }
        }
        found
    }

    /// Finds a string to read, in the same way as [`Cx::read`].
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub fn read_str(&mut self, key: &[u8]) -> Result<Option<&Str>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(record) => record.value.as_str().map(Some).ok_or(Error::WrongType),
        }
    }

    /// Finds a key to write, and notes the use. O(length of the name).
    #[inline]
    pub fn find_to_write(&mut self, key: &[u8]) -> Option<Id> {
        self.seek_to_write(key).1
    }

    /// Same as [`Cx::find_to_write`], and also returns the key's place.
    #[inline]
    pub(crate) fn seek_to_write(&mut self, key: &[u8]) -> (Place, Option<Id>) {
        self.seek(key, self.touch)
    }

    /// Returns the string of a key that was found.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub(crate) fn str_at(&mut self, place: Place, id: Id) -> Result<&mut Str, Error> {
        let value = &mut self.db_at(place).get_mut(id).value;
        value.as_str_mut().ok_or(Error::WrongType)
    }

    /// Finds a key to read as a `K`, in the same way as [`Cx::read`]. The members of a set or
    /// sorted set are all live (`parts.rs`).
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub(crate) fn read_as<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Error> {
        let (place, Some(id)) = self.seek_to_read(key) else {
            return Ok(None);
        };
        if self.has_due_members(place, id) {
            self.view::<K>(place, id)?;
            let live = self.turn.live(place, id, key);
            return Ok(live.and_then(|live| K::of(self.turn.live_value(place, live))));
        }
        self.view(place, id).map(Some)
    }

    /// Same as [`Cx::read_as`], for a command that reads only these members of a set or sorted set.
    /// In a frozen turn, members may be due.
    #[inline]
    pub(crate) fn read_named<'k, K: Kind>(
        &mut self,
        key: &[u8],
        names: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Option<&K>, Error> {
        let (place, found) = self.seek_to_read(key);
        let Some(id) = found else {
            return Ok(None);
        };
        self.view::<K>(place, id)?;
        match self.expire_due_parts(place, id, key, names) {
            None => Ok(None),
            Some(id) => self.view(place, id).map(Some),
        }
    }

    /// Finds keys to read, one after the other, in the same way as [`Cx::read`], and returns all
    /// values at once; `None` for keys that do not exist. The members of a set or sorted set are
    /// all live.
    ///
    /// # Errors
    /// [`Error::WrongType`] at the first value that `fits` refuses; the keys after it are not read.
    pub(crate) fn values<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<SmallVec<[Option<&Value>; 4]>, Error> {
        let mut found: SmallVec<[(Place, Option<Live>); 4]> = SmallVec::new();
        for key in keys {
            let (place, id) = self.seek_to_read(key);
            if id.is_some_and(|id| !fits(&self.db_at(place).get(id).value)) {
                return Err(Error::WrongType);
            }
            found.push((place, id.and_then(|id| self.live(place, id, key))));
        }
        // All look-ups have the same instant, so no look-up has expired a key that an earlier one
        // found.
        let turn = &*self.turn;
        let value = |(place, live): (Place, Option<Live>)| Some(turn.live_value(place, live?));
        Ok(found.into_iter().map(value).collect())
    }

    /// Same as [`Cx::values`], each value a `K`.
    ///
    /// # Errors
    /// [`Error::WrongType`] at the first value of another type; the keys after it are not read.
    pub(crate) fn views<'k, K: Kind + 'static>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<SmallVec<[Option<&K>; 4]>, Error> {
        let values = self.values(keys, |value| K::of(value).is_some())?;
        Ok(values.into_iter().map(|value| K::of(value?)).collect())
    }

    /// Finds a key to change as a `K`, and also returns its place. Notes the use. The members of a
    /// set or sorted set are all live, unless the turn is frozen.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub(crate) fn seek_as<K: Kind>(&mut self, key: &[u8]) -> Result<(Place, Option<Id>), Error> {
        let (place, found) = self.seek_typed::<K>(key)?;
        let found = match found {
            Some(id) if self.has_due_members(place, id) => self.turn.settle(place, id, key),
            found => found,
        };
        Ok((place, found))
    }

    /// Same as [`Cx::seek_as`], for a command that changes only these members.
    #[inline]
    pub(crate) fn seek_named<'k, K: Kind>(
        &mut self,
        key: &[u8],
        names: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(Place, Option<Id>), Error> {
        let (place, found) = self.seek_to_write(key);
        let Some(id) = found else {
            return Ok((place, None));
        };
        let now = self.turn.now;
        let value = &self.db_at(place).get(id).value;
        K::of(value).ok_or(Error::WrongType)?;
        let found = match now.is_due(value.next_deadline()) {
            true => self.expire_due_parts(place, id, key, names),
            false => Some(id),
        };
        Ok((place, found))
    }

    /// Same as [`Cx::seek_as`], but leaves due members.
    #[inline]
    pub(crate) fn seek_typed<K: Kind>(&mut self, key: &[u8]) -> Result<(Place, Option<Id>), Error> {
        let (place, found) = self.seek_to_write(key);
        if let Some(id) = found {
            self.view::<K>(place, id)?;
        }
        Ok((place, found))
    }

    /// Returns whether the value is a set or a sorted set with due members. Commands on hashes skip
    /// due fields themselves.
    #[inline]
    fn has_due_members(&mut self, place: Place, id: Id) -> bool {
        let now = self.turn.now;
        let value = &self.db_at(place).get(id).value;
        matches!(value, Value::Set(_) | Value::Zset(_)) && now.is_due(value.next_deadline())
    }

    /// Returns the value of a key that a command reads, without due members.
    #[inline]
    fn live(&mut self, place: Place, id: Id, key: &[u8]) -> Option<Live> {
        match self.has_due_members(place, id) {
            true => self.turn.live(place, id, key),
            false => Some(Live::Record(id)),
        }
    }

    /// Returns a key's value as a `K`, to read.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub(crate) fn view<K: Kind>(&mut self, place: Place, id: Id) -> Result<&K, Error> {
        K::of(&self.db_at(place).get(id).value).ok_or(Error::WrongType)
    }

    /// Returns a key's value as a `K`, to change. Callers that only read use [`Cx::view`], because
    /// this call may make a snapshot's walk write the value early.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    #[inline]
    pub(crate) fn edit<K: Kind>(&mut self, place: Place, id: Id) -> Result<&mut K, Error> {
        K::of_mut(&mut self.db_at(place).get_mut(id).value).ok_or(Error::WrongType)
    }

    /// Arms the timer of a value after a change.
    pub(crate) fn rearm(&mut self, place: Place, id: Id) {
        self.db_at(place).rearm(id);
    }

    /// Expires the due elements among `names`. Returns the collection, or `None` if it was removed
    /// with its last element. O(1) if nothing is due in the collection, else O(names).
    #[inline]
    pub(crate) fn expire_due_parts<'k>(
        &mut self,
        place: Place,
        id: Id,
        key: &[u8],
        names: impl Iterator<Item = &'k [u8]>,
    ) -> Option<Id> {
        let now = self.turn.now;
        if !now.is_due(self.db_at(place).get(id).value.next_deadline()) {
            return Some(id);
        }
        let Place { shard, db, .. } = place;
        let gone = self.turn.expire_named(shard, db, key, id, names);
        (!gone).then_some(id)
    }

    /// Expires due entries in `key`'s shard, within a budget, before a count.
    pub(crate) fn expire_before_count(&mut self, key: &[u8]) {
        const STEPS: usize = 1000;
        let (db, now) = (self.db, self.turn.now);
        let wakeup = self.db_of(key).next_wakeup();
        if wakeup.is_some_and(|at| now.is_due(at))
            && self.turn.store.active_expire()
            && !self.turn.frozen
        {
            self.turn.deadlines_may_change(Touched::One(db));
            let shard = self.turn.shard_of(key);
            self.turn.expire_db(shard, db, now, &mut { STEPS });
        }
    }

    /// Replaces a key's value and removes its deadline, for `*STORE` commands. Publishes `new` if
    /// the key did not exist. Does not commit the change.
    pub(crate) fn overwrite(&mut self, key: &[u8], value: Value) -> Id {
        let (place, found) = self.seek_to_write(key);
        match found {
            None => self.add_at(place, key, value),
            Some(id) => {
                let old = self.db_at(place).replace(id, value);
                self.set_deadline_at(place, id, None);
                self.turn.discarded.value(old);
                id
            }
        }
    }

    /// Returns the settings that commands need, such as limits of compact collections.
    pub(crate) fn limits(&self) -> Limits {
        self.turn.limits
    }

    /// Adds a key that does not exist, and publishes `new`. O(length of the name) amortised.
    pub fn add(&mut self, key: &[u8], value: Value) -> Id {
        self.add_in(self.db, key, value)
    }

    /// Same as [`Cx::add`], in database `db`.
    pub fn add_in(&mut self, db: usize, key: &[u8], value: Value) -> Id {
        let uses = self.turn.limits.uses.initial(self.turn.now);
        let id = self.db_of_in(db, key).insert(key, value, uses);
        self.note_decided_in(db, key, id);
        self.turn.announce(db, Classes::NEW, "new", key);
        id
    }

    /// Same as [`Cx::add`], with the place from the key's look-up, so that the name is not hashed
    /// again.
    pub(crate) fn add_at(&mut self, place: Place, key: &[u8], value: Value) -> Id {
        let uses = self.turn.limits.uses.initial(self.turn.now);
        let id = self
            .db_at(place)
            .insert_hashed(place.hash, key, value, uses);
        self.note_decided(place, id);
        self.turn.announce(place.db, Classes::NEW, "new", key);
        id
    }

    /// Removes a key and returns its record. Does not commit the change. O(length of the name).
    pub fn remove(&mut self, key: &[u8]) -> Option<Record> {
        let id = self.find(key)?;
        Some(self.db_of(key).remove(id))
    }

    /// Notes that deadlines may change in a database other than the client's.
    #[inline]
    fn other_deadlines_may_change(&mut self, db: usize) {
        if db != self.db {
            self.turn.deadlines_may_change(Touched::Any);
        }
    }
}
