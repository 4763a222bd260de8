//! How handlers reach keys: every look-up goes through here, so a key whose deadline has passed is never
//! seen, whether or not the wheel has got to it.

use smallvec::SmallVec;

use crate::events::Classes;
use crate::hash_table::Hash;
use crate::keyspace::db::Db;
use crate::keyspace::records::Id;
use crate::keyspace::records::Record;
use crate::keyspace::shard::Touched;
use crate::limits::Limits;
use crate::time::Now;
use crate::turn::Cx;
use crate::value::string::Str;
use crate::value::{Kind, Value};
use crate::{Error, Store};

/// Where a name belongs, worked out once a command: good for its look-up, its insertion and every change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    shard: usize,
    db: usize,
    hash: Hash,
}

impl<'s> Cx<'_, 's> {
    /// The instant.
    pub fn now(&self) -> Now {
        self.turn.now
    }

    /// The keyspace.
    pub fn store(&self) -> &'s Store {
        self.turn.store
    }

    /// The part of the client's database that holds `key`.
    ///
    /// # Panics
    /// If the command's row does not name the key.
    #[inline]
    pub fn db_of(&mut self, key: &[u8]) -> &mut Db {
        self.db_of_in(self.db, key)
    }

    /// The part of database `db` that holds `key`.
    ///
    /// # Panics
    /// If the command's row does not name the key.
    #[inline]
    pub fn db_of_in(&mut self, db: usize, key: &[u8]) -> &mut Db {
        self.touch_other(db);
        let number = self.turn.shard_of(key);
        self.turn.shard_db(number, db)
    }

    /// Finds a key; one that is due goes now, with its event. Counts nothing. O(length of the name).
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Option<Id> {
        self.find_in(self.db, key)
    }

    /// As [`Cx::find`], in database `db`.
    #[inline]
    pub fn find_in(&mut self, db: usize, key: &[u8]) -> Option<Id> {
        self.seek_in(db, key, false).1
    }

    /// Finds a key of the client's database and keeps where it belongs; one that is due goes now, with its event.
    /// Notes the use if `touch`. Counts nothing. O(length of the name).
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8], touch: bool) -> (Place, Option<Id>) {
        self.seek_in(self.db, key, touch)
    }

    #[inline]
    fn seek_in(&mut self, db: usize, key: &[u8], touch: bool) -> (Place, Option<Id>) {
        self.touch_other(db);
        let now = self.turn.now;
        let uses = self.turn.limits.uses;
        let shard = self.turn.shard_of(key);
        let part = self.turn.shard_db(shard, db);
        let hash = part.hash(key);
        let place = Place { shard, db, hash };
        let Some(id) = part.find_hashed(hash, key) else {
            return (place, None);
        };
        if now.is_due(part.get(id).deadline) {
            self.turn.expire_touched(db, key, id);
            return (place, None);
        }
        if touch {
            let used = uses.again(part.get(id).key.uses(), now);
            part.touch(id, used);
        }
        (place, Some(id))
    }

    /// The part of the keyspace that a place lies in.
    #[inline]
    pub(crate) fn db_at(&mut self, place: Place) -> &mut Db {
        self.turn.shard_db(place.shard, place.db)
    }

    /// Finds a key to be read: counts a hit or a miss, tells `keymiss`, and notes the use. O(length of the name).
    #[inline]
    pub fn read(&mut self, key: &[u8]) -> Option<&Record> {
        let (place, found) = self.seek_to_read(key);
        Some(self.db_at(place).get(found?))
    }

    /// As [`Cx::read`], for a key that may then be changed.
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

    /// Finds a key whose value is not used: counts a hit or a miss and tells `keymiss`, but the key's last use
    /// stays what it was. O(length of the name).
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

    /// Finds a string to be read, as [`Cx::read`].
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub fn read_str(&mut self, key: &[u8]) -> Result<Option<&Str>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(record) => record.value.as_str().map(Some).ok_or(Error::WrongType),
        }
    }

    /// Finds a key to be written, and notes the use. O(length of the name).
    #[inline]
    pub fn find_to_write(&mut self, key: &[u8]) -> Option<Id> {
        self.seek_to_write(key).1
    }

    /// As [`Cx::find_to_write`], and keeps where the key belongs.
    #[inline]
    pub(crate) fn seek_to_write(&mut self, key: &[u8]) -> (Place, Option<Id>) {
        self.seek(key, self.touch)
    }

    /// The string of a key that was found.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub(crate) fn str_at(&mut self, place: Place, id: Id) -> Result<&mut Str, Error> {
        let value = &mut self.db_at(place).get_mut(id).value;
        value.as_str_mut().ok_or(Error::WrongType)
    }

    /// Finds a key to be read as a `K`: counts and tells as [`Cx::read`].
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub(crate) fn read_as<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(record) => K::of(&record.value).map(Some).ok_or(Error::WrongType),
        }
    }

    /// Finds keys to be read, one after the other, as [`Cx::read`] does, and gives the values of all at once; `None`
    /// for those that are not there.
    ///
    /// # Errors
    /// [`Error::WrongType`] at the first value that `fits` refuses; the keys behind are not looked at.
    pub(crate) fn values<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<SmallVec<[Option<&Value>; 4]>, Error> {
        let mut found: SmallVec<[(Place, Option<Id>); 4]> = SmallVec::new();
        for key in keys {
            let (place, id) = self.seek_to_read(key);
            if id.is_some_and(|id| !fits(&self.db_at(place).get(id).value)) {
                return Err(Error::WrongType);
            }
            found.push((place, id));
        }
        // None of them went since: the instant is the same for all.
        let turn = &*self.turn;
        let value = |(place, id): (Place, Option<Id>)| {
            Some(&turn.shard_db_ref(place.shard, place.db).get(id?).value)
        };
        Ok(found.into_iter().map(value).collect())
    }

    /// As [`Cx::values`], all of them a `K`.
    ///
    /// # Errors
    /// [`Error::WrongType`] at the first key that holds something else; those behind are not looked at.
    pub(crate) fn views<'k, K: Kind + 'static>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<SmallVec<[Option<&K>; 4]>, Error> {
        let values = self.values(keys, |value| K::of(value).is_some())?;
        Ok(values.into_iter().map(|value| K::of(value?)).collect())
    }

    /// Finds a key to be changed as a `K`, and keeps where it belongs; notes the use.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub(crate) fn seek_as<K: Kind>(&mut self, key: &[u8]) -> Result<(Place, Option<Id>), Error> {
        let (place, found) = self.seek_to_write(key);
        if let Some(id) = found {
            K::of(&self.db_at(place).get(id).value).ok_or(Error::WrongType)?;
        }
        Ok((place, found))
    }

    /// What a key holds, as a `K`, to be read.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub(crate) fn view<K: Kind>(&mut self, place: Place, id: Id) -> Result<&K, Error> {
        K::of(&self.db_at(place).get(id).value).ok_or(Error::WrongType)
    }

    /// What a key holds, as a `K`, to be changed. Only for what changes it: a snapshot that is being made keeps the
    /// value as it was.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    #[inline]
    pub(crate) fn edit<K: Kind>(&mut self, place: Place, id: Id) -> Result<&mut K, Error> {
        K::of_mut(&mut self.db_at(place).get_mut(id).value).ok_or(Error::WrongType)
    }

    /// Lets those of the named fields go that are due, with their event, so that who writes or reads them finds none;
    /// the hash, `None` if it went with them. O(1) if no field has a deadline, else O(names).
    #[inline]
    pub(crate) fn meet_fields<'k>(
        &mut self,
        place: Place,
        id: Id,
        key: &[u8],
        names: impl Iterator<Item = &'k [u8]>,
    ) -> Option<Id> {
        let now = self.turn.now;
        let Some(table) = self.db_at(place).hash_at(id).table() else {
            return Some(id);
        };
        if table.with_deadline() == 0 {
            return Some(id);
        }
        let mut due: SmallVec<[u32; 8]> = names
            .filter_map(|name| table.find(name))
            .filter(|&field| now.is_due(table.field(field).deadline()))
            .collect();
        due.sort_unstable();
        due.dedup();
        let Place { shard, db, .. } = place;
        let gone = !due.is_empty() && self.turn.expire_fields(shard, db, key, id, &due);
        (!gone).then_some(id)
    }

    /// Lets go what is due in the part of the database that holds `key`, as far as a little work gets: for who counts.
    pub(crate) fn catch_up(&mut self, key: &[u8]) {
        const STEPS: usize = 1000;
        let (db, now) = (self.db, self.turn.now);
        let wakeup = self.db_of(key).next_wakeup();
        if wakeup.is_some_and(|at| now.is_due(at))
            && self.turn.store.active_expire()
            && !self.turn.frozen
        {
            self.turn.touch(Touched::One(db));
            let shard = self.turn.shard_of(key);
            self.turn.expire_db(shard, db, now, &mut { STEPS });
        }
    }

    /// Gives a key a value that replaces whatever it held, deadline included: what `*STORE` commands do. Tells `new`
    /// if the key was not there, and nothing else.
    pub(crate) fn overwrite(&mut self, key: &[u8], value: Value) -> Id {
        let (place, found) = self.seek_to_write(key);
        match found {
            None => self.add_at(place, key, value),
            Some(id) => {
                let db = self.db_at(place);
                let old = db.replace(id, value);
                db.set_deadline(id, None);
                self.turn.discarded.value(old);
                id
            }
        }
    }

    /// Up to which size collections stay compact.
    pub(crate) fn limits(&self) -> Limits {
        self.turn.limits
    }

    /// Adds a key that is not there, and tells `new`. O(length of the name) amortised.
    pub fn add(&mut self, key: &[u8], value: Value) -> Id {
        self.add_in(self.db, key, value)
    }

    /// As [`Cx::add`], in database `db`.
    pub fn add_in(&mut self, db: usize, key: &[u8], value: Value) -> Id {
        let uses = self.turn.limits.uses.first(self.turn.now);
        let id = self.db_of_in(db, key).insert(key, value, uses);
        self.turn.announce(db, Classes::NEW, "new", key);
        id
    }

    /// As [`Cx::add`], at the place of a look-up that found nothing: hashes nothing again.
    pub(crate) fn add_at(&mut self, place: Place, key: &[u8], value: Value) -> Id {
        let uses = self.turn.limits.uses.first(self.turn.now);
        let id = self
            .db_at(place)
            .insert_hashed(place.hash, key, value, uses);
        self.turn.announce(place.db, Classes::NEW, "new", key);
        id
    }

    /// Removes a key; whether it was there. Tells no event. O(length of the name).
    pub fn remove(&mut self, key: &[u8]) -> Option<Record> {
        let id = self.find(key)?;
        Some(self.db_of(key).remove(id))
    }

    /// Gives a key a deadline in unix ms, or takes it away. O(1).
    pub fn set_deadline(&mut self, key: &[u8], id: Id, deadline: Option<u64>) {
        self.db_of(key).set_deadline(id, deadline);
    }

    /// The turn knows that the client's database may change; another one must be told.
    #[inline]
    fn touch_other(&mut self, db: usize) {
        if db != self.db {
            self.turn.touch(Touched::Any);
        }
    }
}
