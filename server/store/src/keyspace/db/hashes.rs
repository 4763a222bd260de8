//! Changes of hashes in a database, and RENAME. A change that removes the deadline of a field arms
//! the hash's timer again ([`Db::rearm`]).

use super::Db;
use crate::Error;
use crate::keyspace::records::Id;
use crate::limits::Limits;
use crate::value::Kind;
use crate::value::content::Content as _;
use crate::value::hash::Hash;
use crate::value::parts::Parts as _;

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

    /// Sets the values of fields and removes their deadlines. Returns the number of new fields.
    /// O(pairs) amortised, in a packed block O(pairs * bytes).
    pub(crate) fn set_fields<'k>(
        &mut self,
        id: Id,
        pairs: impl ExactSizeIterator<Item = (&'k [u8], &'k [u8])>,
        limits: &Limits,
    ) -> usize {
        let hash = self.hash_mut(id);
        hash.reserve(pairs.len(), limits);
        let mut created = 0;
        for (name, value) in pairs {
            created += usize::from(hash.set(name, value, false, limits));
        }
        if hash.deadlines().is_some() {
            self.rearm(id);
        }
        created
    }

    /// Sets the value of a field; its deadline stays. O(1) amortised, in a packed block O(bytes).
    pub(crate) fn change_field(&mut self, id: Id, name: &[u8], value: &[u8], limits: &Limits) {
        self.hash_mut(id).set(name, value, true, limits);
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

    /// Removes a field. Returns whether it existed. O(1) amortised, in a packed block O(bytes).
    pub(crate) fn remove_field(&mut self, id: Id, name: &[u8]) -> bool {
        let removed = self.hash_mut(id).remove(name);
        self.rearm(id);
        removed
    }

    /// Sets the deadline of an existing field, or removes it for `NEVER`. O(log deadlines). The
    /// first deadline of a small hash makes it a table.
    pub(crate) fn set_field_deadline(
        &mut self,
        id: Id,
        name: &[u8],
        deadline: u64,
        limits: &Limits,
    ) {
        self.hash_mut(id).set_deadline(name, deadline, limits);
        self.rearm(id);
    }

    /// Renames a key. No key may have the new name. Value, deadline and uses stay. O(length of the
    /// name) amortised.
    ///
    /// # Panics
    /// If the key was removed since `id` was found.
    pub(crate) fn rename(&mut self, id: Id, key: &[u8]) {
        let hash = self.hash(key);
        let old = self.get(id).hash;
        self.cut(old, id);
        let record = self.get_mut(id);
        record.key = crate::keyspace::key::Key::new(key, record.key.uses());
        record.hash = hash.place;
        self.link(hash, id);
    }
}
