//! *Look-ahead*: locks shards and loads cache lines for the next commands of a pipeline before the
//! first of them runs.
//!
//! In a large keyspace a GET has three dependent cache misses (hash table, record, long value). The
//! look-ahead lets the misses of up to [`WARM_MAX`] commands overlap. The caller says which word of
//! the commands is probably a key; a wrong guess costs a look-up. If the first two commands name
//! the same key, the elements that the commands name in that collection are loaded instead. An
//! event loop also looks ahead at the first commands of several clients. A command with many keys
//! loads its next keys in the same way while it runs.
//!
//! Ground rules: a [`Name`] is the address of an argument with the argument's hash. It is valid
//! while the caller's buffer is borrowed, so the caller calls [`Turn::end_ahead`] before the borrow
//! ends. With several shards, the look-ahead prepares a *stretch*: commands that need at most
//! [`LOCKS_MAX`] shards. It skips shards that another thread holds. A command whose shard is not
//! held releases the held shards and locks its own shards as any other command does.

use punctual_resp::Args;
use smallvec::SmallVec;

use super::Turn;
use crate::hash_table::{Hash, WARM_MAX};
use crate::keyspace::db::Db;
use crate::keyspace::tracked::Tracked;

/// Maximum number of shards that a stretch of a pipeline locks. With more, more cache misses would
/// overlap, but other threads would wait longer.
pub(super) const LOCKS_MAX: usize = 8;
/// A database with fewer keys is probably in the processor's cache, so its records are not loaded;
/// the elements of a large collection still are.
const FEW: usize = 8_000;

/// An argument that names a key, by its address, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// Address of the argument's bytes; 0 stands for no argument.
    address: usize,
    len: usize,
    pub(crate) hash: Hash,
}

impl Name {
    pub(crate) const NONE: Self = Self {
        address: 0,
        len: 0,
        hash: Hash::new(0),
    };

    #[inline]
    pub(crate) fn new(key: &[u8], hash: Hash) -> Self {
        Self {
            address: key.as_ptr() as usize,
            len: key.len(),
            hash,
        }
    }

    /// Returns whether `key` is the argument of this name: compares addresses, not bytes.
    #[inline]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        self.address == key.as_ptr() as usize && self.len == key.len()
    }
}

/// The first key of each of the next commands.
pub(super) type Names = SmallVec<[Name; WARM_MAX]>;

/// Shards of a stretch, in any order.
#[derive(Default)]
struct Shards {
    numbers: [usize; LOCKS_MAX],
    len: usize,
}

impl Shards {
    #[inline]
    fn add(&mut self, number: usize) {
        if !self.numbers[..self.len].contains(&number) {
            self.numbers[self.len] = number;
            self.len += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.len == LOCKS_MAX
    }
}

impl Turn<'_> {
    /// Prepares a stretch of these commands in database `db` and returns its length. Hashes the
    /// argument `at` of each command, which is probably a key. Tries to lock the keys' shards, and
    /// skips the shards that another thread holds. Loads the cache lines that the commands will
    /// need: the records of their keys or, if the first two commands name the same key, the
    /// elements that the commands name in that collection.
    pub fn look_ahead<'a>(
        &mut self,
        db: usize,
        at: usize,
        commands: impl ExactSizeIterator<Item = Args<'a>> + Clone,
    ) -> usize {
        let mut keys = commands.clone().filter_map(|args| args.get(at));
        let first = keys.next();
        let same = first.filter(|_| keys.next() == first);
        if self.store.shards() == 1 {
            self.ahead.clear();
            self.lock_one(0);
            if same.is_some() || self.shard_db(0, db).len() >= FEW {
                self.hash_ahead(at, commands.clone(), same);
                self.warm(db, commands.clone(), same);
            }
            return commands.len();
        }
        // The previous stretch may have locked every shard.
        self.release_whole();
        let shards = self.hash_ahead(at, commands.clone(), same);
        self.try_lock_stretch(&shards);
        let count = self.ahead.len();
        self.warm(db, commands.take(count), same);
        count
    }

    /// Returns whether [`Turn::look_ahead_of_clients`] may save time. It saves nothing if there
    /// is one shard and its databases are small enough for the processor's cache.
    pub fn is_worth_looking_ahead(&mut self) -> bool {
        self.store.shards() > 1 || {
            self.lock_one(0);
            self.held[0].1.dbs.iter().any(|db| db.len() >= FEW)
        }
    }

    /// Same as [`Turn::look_ahead`], for the next commands of several clients, each with its
    /// database; `None` stands for a client without a complete command. Returns the number of
    /// clients, from the first on, whose commands were prepared.
    pub fn look_ahead_of_clients<'a>(
        &mut self,
        commands: impl Iterator<Item = (usize, Option<Args<'a>>)>,
    ) -> usize {
        let (store, all) = (self.store, self.store.shards());
        let mut keys: SmallVec<[(usize, Hash); WARM_MAX]> = SmallVec::new();
        let (mut shards, mut count) = (Shards::default(), 0);
        for (db, args) in commands.take(WARM_MAX) {
            count += 1;
            if let Some(key) = args.and_then(|args| args.get(1)) {
                let hash = store.hash(key);
                shards.add(hash.shard(all));
                keys.push((db, hash));
            }
            if shards.is_full() {
                break;
            }
        }
        if all > 1 {
            self.try_lock_stretch(&shards);
        }
        self.warm_names(keys.into_iter());
        count
    }

    /// Releases the held shards and tries to lock these shards. Skips a shard that another thread
    /// holds. Does nothing while shards are pinned.
    fn try_lock_stretch(&mut self, shards: &Shards) {
        if !self.pinned && !self.whole {
            self.try_lock_some(&shards.numbers[..shards.len]);
        }
    }

    /// Sets the command that runs next: command `at` of the stretch that [`Turn::look_ahead`] has
    /// prepared. Its key need not be hashed again.
    #[inline]
    pub fn begin_ahead(&mut self, at: usize) {
        self.next = self.ahead.get(at).copied().unwrap_or(Name::NONE);
    }

    /// Ends the stretch. Releases the shards if the stretch has locked every shard.
    pub fn end_ahead(&mut self) {
        if !self.ahead.is_empty() {
            self.release_whole();
        }
        self.ahead.clear();
        self.next = Name::NONE;
    }

    /// Hashes the argument `at` of each command, until the commands need [`LOCKS_MAX`] shards.
    /// `same` is the argument that the first two commands share, which is hashed once.
    fn hash_ahead<'a>(
        &mut self,
        at: usize,
        commands: impl Iterator<Item = Args<'a>>,
        same: Option<&[u8]>,
    ) -> Shards {
        let (store, all) = (self.store, self.store.shards());
        let same = same.map(|key| (key, store.hash(key)));
        let mut shards = Shards::default();
        self.ahead.clear();
        for args in commands {
            let name = args.get(at).map_or(Name::NONE, |key| {
                let hash = match same {
                    Some((same, hash)) if same == key => hash,
                    _ => store.hash(key),
                };
                shards.add(hash.shard(all));
                Name::new(key, hash)
            });
            self.ahead.push(name);
            if shards.is_full() {
                break;
            }
        }
        shards
    }

    /// Loads the cache lines of the prepared commands whose shards are held.
    fn warm<'a>(
        &mut self,
        db: usize,
        commands: impl Iterator<Item = Args<'a>> + Clone,
        same: Option<&[u8]>,
    ) {
        let shards = self.store.shards();
        let mut names = self.ahead.iter().filter(|name| name.address != 0);
        if let Some(same) = same {
            let place = names.next().map(|name| (name.hash.shard(shards), name));
            if let Some((number, name)) = place.filter(|place| self.holds(place.0)) {
                let part = self.shard_db_ref(number, db);
                let commands = commands.filter(|args| args.len() > 2 && args.at(1) == same);
                if let Some(id) = part.find_hashed(name.hash, same) {
                    part.get(id).value.warm_elements(commands);
                }
            }
            return;
        }
        let Some((_, any)) = self.held.first() else {
            return;
        };
        // All shards have about the same number of keys.
        if any.dbs[db].len() * shards < FEW {
            return;
        }
        self.warm_names(names.map(|name| (db, name.hash)));
    }

    /// Loads the cache lines of the next keys of the running command.
    pub(super) fn warm_keys(&mut self) {
        let names = self.keys.iter().skip(self.keys_used);
        self.warm_names(names.map(|name| (self.keys_db, name.hash)));
        self.keys_warm = self.keys_used + WARM_MAX;
    }

    /// Loads the cache lines of keys, each in its database, whose shards are held.
    fn warm_names(&self, names: impl Iterator<Item = (usize, Hash)>) {
        let shards = self.store.shards();
        let mut keys: SmallVec<[(&Db, Hash); WARM_MAX]> = SmallVec::new();
        let mut tracked: SmallVec<[(&Tracked, Hash); WARM_MAX]> = SmallVec::new();
        for (db, hash) in names.take(WARM_MAX) {
            if let Ok(at) = self.find_held(hash.shard(shards)) {
                let shard = &self.held[at].1;
                if shard.dbs[db].len() * shards >= FEW {
                    keys.push((&shard.dbs[db], hash));
                }
                if shard.tracked.any() {
                    tracked.push((&shard.tracked, hash));
                }
            }
        }
        Db::warm(&keys);
        if !tracked.is_empty() {
            Tracked::warm(&tracked);
        }
    }
}
