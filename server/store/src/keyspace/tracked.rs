//! The table of a shard's keys that clients have read and may have cached (CLIENT TRACKING). The
//! shard's lock guards the table.
//!
//! The table has names without databases: as in Redis, a change of a key in one database
//! invalidates the name in all databases. A *reader* is a number that the server gives to a client
//! in tracking mode. The server gives the same number to another client only after 2^32 other
//! numbers. So the number of a disconnected client may stay in the table until its keys change or
//! leave the table.
//!
//! The readers of a key are bits of 64-bit words, and each word is stored with its place.
//! Consecutive numbers share words, so the readers of a key that a thousand clients have read take
//! about 256 bytes. One reader takes no memory besides the key's entry.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::SmallRng;
use smallvec::SmallVec;

use crate::check::Check;
use crate::hash_table::{Hash, HashTable, SlotBits, WARM_MAX};
use crate::pages::Pages;
use crate::random::below;

/// A word of a set of readers.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// The number of the first bit, divided by 64.
    place: u32,
    bits: u64,
}

/// Numbers of the clients that have read a key.
#[derive(Clone, Debug, Default)]
pub struct Readers(SmallVec<[Word; 1]>);

impl Readers {
    /// Adds a number. Returns false if the set contains it already. O(log words) if the set
    /// contains a number of the same word, else O(words).
    fn add(&mut self, number: u32) -> bool {
        let (place, bit) = (number / 64, 1 << (number % 64));
        match self.0.binary_search_by_key(&place, |word| word.place) {
            Ok(at) => {
                let new = self.0[at].bits & bit == 0;
                self.0[at].bits |= bit;
                new
            }
            Err(at) => {
                self.0.insert(at, Word { place, bits: bit });
                true
            }
        }
    }

    /// Returns the numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|word| {
            let mut left = word.bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(word.place * 64 + bit)
            })
        })
    }

    /// Returns the number of readers.
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.bits.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Totals of the tables of all shards, and settings of the tables.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    /// A client tracks prefixes (BCAST), so the sink receives every changed key.
    pub(crate) broadcasts: AtomicBool,
    /// Number of keys in all tables.
    pub(crate) keys: AtomicU64,
    /// Number of pairs of a key and a reader in all tables.
    pub(crate) items: AtomicU64,
    /// Maximum number of keys (`tracking-table-max-keys`); 0: no limit.
    pub(crate) keys_max: AtomicU64,
}

impl Tracking {
    /// Returns whether the sink receives every changed key.
    #[inline]
    pub(crate) fn broadcasts(&self) -> bool {
        self.broadcasts.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn is_over_limit(&self) -> bool {
        let most = self.keys_max.load(Ordering::Relaxed);
        most > 0 && self.keys.load(Ordering::Relaxed) > most
    }

    #[inline]
    pub(crate) fn removed(&self, keys: usize, items: usize) {
        self.keys.fetch_sub(keys as u64, Ordering::Relaxed);
        self.items.fetch_sub(items as u64, Ordering::Relaxed);
    }
}

struct Entry {
    name: Box<[u8]>,
    hash: Hash,
    readers: Readers,
}

/// The table of one shard.
pub(crate) struct Tracked {
    index: HashTable,
    entries: Pages<Entry>,
    /// Number of pairs of a key and a reader.
    items: usize,
}

/// Numbers of keys, and of pairs of a key and a reader, that a call has added to the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) keys: u64,
    pub(crate) items: u64,
}

impl Tracked {
    /// Creates an empty table for hashes with these bits of the slot.
    pub(crate) fn new(slots: SlotBits) -> Self {
        Self {
            index: HashTable::new(slots),
            entries: Pages::default(),
            items: 0,
        }
    }

    /// Returns whether the table has any key.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.entries.is_empty()
    }

    fn find(&self, hash: Hash, key: &[u8]) -> Option<u32> {
        let is = |at| self.entries.get(at).is_some_and(|e| *e.name == *key);
        self.index.find(hash, is)
    }

    /// Loads the cache lines that look-ups of these hashes will need, each in its table, so that
    /// the cache misses overlap.
    pub(crate) fn warm(names: &[(&Self, Hash)]) {
        // The sums keep the compiler from removing the loads.
        let lines = |sum, (table, hash): &(&Self, Hash)| sum ^ table.index.warm(*hash);
        black_box(names.iter().fold(0, lines));
        let entries: SmallVec<[&Entry; WARM_MAX]> = names
            .iter()
            .filter_map(|(table, hash)| table.entries.get(table.index.candidate(*hash)?))
            .collect();
        black_box(entries.iter().fold(0, |sum, entry| sum ^ entry.hash.place));
        let first = |entry: &&Entry| entry.name.first().copied();
        black_box(
            entries
                .iter()
                .filter_map(first)
                .fold(0, |sum, byte| sum ^ byte),
        );
    }

    /// Adds a reader to a key, and the key to the table if necessary. O(length of the name + words
    /// of readers).
    pub(crate) fn remember(&mut self, hash: Hash, key: &[u8], reader: u32) -> Added {
        let found = self.find(hash, key);
        let keys = u64::from(found.is_none());
        let at = found.unwrap_or_else(|| {
            let at = self.entries.insert(Entry {
                name: key.into(),
                hash,
                readers: Readers::default(),
            });
            let entries = &self.entries;
            self.index.insert(hash, at, |i| place(entries, i));
            at
        });
        let entry = self.entries.get_mut(at);
        let new = entry.is_some_and(|entry| entry.readers.add(reader));
        self.items += usize::from(new);
        let items = u64::from(new);
        Added { keys, items }
    }

    /// Removes a key, and returns its readers. O(length of the name + words of readers).
    pub(crate) fn take(&mut self, hash: Hash, key: &[u8]) -> Option<Readers> {
        let at = self.find(hash, key)?;
        Some(self.remove(at)?.1)
    }

    /// Removes a random key, and returns it and its readers. O(words of readers) on average.
    pub(crate) fn take_random(&mut self, random: &mut SmallRng) -> Option<(Box<[u8]>, Readers)> {
        let at = self.entries.at_random(below(random))?;
        self.remove(at)
    }

    fn remove(&mut self, at: u32) -> Option<(Box<[u8]>, Readers)> {
        let entries = &self.entries;
        let key_place = entries.get(at)?.hash.place;
        self.index.remove(key_place, at, |i| place(entries, i));
        let entry = self.entries.remove(at)?;
        self.items -= entry.readers.len();
        Some((entry.name, entry.readers))
    }

    /// Checks that the table finds each key, and the number of readers.
    pub(crate) fn check(&self, to: &mut Check, belongs: impl Fn(&[u8]) -> bool) {
        self.entries.check(to);
        self.index.check(to, self.entries.len());
        let items = self.entries.iter().map(|(_, entry)| entry.readers.len());
        to.equal("pairs of a key and a reader", self.items, items.sum());
        for (at, entry) in self.entries.iter() {
            to.within(
                || format!("tracked key {}", entry.name.escape_ascii()),
                |to| {
                    to.equal("place", self.find(entry.hash, &entry.name), Some(at));
                    to.holds("the key is in its shard", belongs(&entry.name));
                    to.holds("it has readers", !entry.readers.is_empty());
                },
            );
        }
    }

    /// Returns the number of keys and the number of pairs of a key and a reader. O(1).
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.entries.len(), self.items)
    }
}

/// Returns the place of an entry's hash.
fn place(entries: &Pages<Entry>, at: u32) -> u32 {
    entries.get(at).map_or(0, |entry| entry.hash.place)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use rand::SeedableRng as _;

    use super::*;

    fn hash(key: u8) -> Hash {
        // Few values, so that names share hashes.
        Hash::new(u64::from(key % 16).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_map_of_sets(steps in prop::collection::vec((0..3u8, any::<u8>(), 0..300u32), 0..400)) {
            let mut tracked = Tracked::new(SlotBits::default());
            let mut random = SmallRng::seed_from_u64(1);
            let mut model: BTreeMap<u8, BTreeSet<u32>> = BTreeMap::new();
            for (what, key, reader) in steps {
                match what {
                    0 => {
                        let added = tracked.remember(hash(key), &[key], reader);
                        let keys = u64::from(!model.contains_key(&key));
                        let items = u64::from(model.entry(key).or_default().insert(reader));
                        prop_assert_eq!(added, Added { keys, items });
                    }
                    1 => {
                        let taken = tracked.take(hash(key), &[key]);
                        let taken = taken.map(|readers| readers.iter().collect::<BTreeSet<u32>>());
                        prop_assert_eq!(taken, model.remove(&key));
                    }
                    _ => match tracked.take_random(&mut random) {
                        None => prop_assert!(model.is_empty()),
                        Some((name, readers)) => {
                            let expected = model.remove(&name[0]);
                            prop_assert_eq!(readers.len(), readers.iter().count());
                            prop_assert_eq!(expected, Some(readers.iter().collect()));
                        }
                    },
                }
                let items = model.values().map(BTreeSet::len).sum();
                prop_assert_eq!(tracked.totals(), (model.len(), items));
                prop_assert_eq!(tracked.any(), !model.is_empty());
            }
        }
    }

    #[test]
    fn a_reader_takes_little_memory() {
        // Name, hash and the first word of readers.
        assert!(size_of::<Entry>() <= 48, "{}", size_of::<Entry>());
        let mut readers = Readers::default();
        for number in 1_000_000..1_001_000 {
            readers.add(number);
        }
        assert!(readers.0.len() <= 17, "{}", readers.0.len());
    }
}
