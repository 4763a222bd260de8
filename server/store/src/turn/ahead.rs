//! The look-ahead of a pipeline: the locks and the cache lines of its next commands, fetched side
//! by side.
//!
//! Ground rules: a [`Name`] is the address of an argument with its hash. It is valid while the
//! caller's buffer is borrowed, so the caller calls [`Turn::end_ahead`] before it gives the buffer
//! up. With several shards, a stretch of commands gets the locks that are free and never waits for
//! one while it holds another; a command whose lock was taken locks as any other command does.

use punctual_resp::Args;
use smallvec::SmallVec;

use super::Turn;
use crate::hash_table::{Hash, WARM_MAX};
use crate::keyspace::db::Db;
use crate::keyspace::tracked::Tracked;

/// Most shards that a stretch of a pipeline locks. More would overlap more cache misses, and keep
/// other threads waiting longer.
pub(super) const LOCKS_MAX: usize = 8;
/// A database with fewer keys is in the cache.
const FEW: usize = 8_000;

/// An argument that names a key, by its address, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// 0 if there is none.
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

    /// Returns whether this is the name of `key`, the same argument.
    #[inline]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        self.address == key.as_ptr() as usize && self.len == key.len()
    }
}

/// First keys of the next commands.
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
    /// Prepares the first of these commands in database `db`, as many as it returns: hashes their
    /// words at `at`, which are probably keys, locks what is free of their shards if there are
    /// several, and fetches the cache lines that the commands will need: the records of their keys,
    /// or elements of the collection that all of them use.
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
        // A stretch that needed many locks may have taken all.
        self.release_whole();
        let shards = self.hash_ahead(at, commands.clone(), same);
        self.try_lock_stretch(&shards);
        let count = self.ahead.len();
        self.warm(db, commands.take(count), same);
        count
    }

    /// Returns whether there is anything to gain from [`Turn::look_ahead_of_clients`]: not if all
    /// keys are in the cache.
    pub fn is_worth_looking_ahead(&mut self) -> bool {
        self.store.shards() > 1 || {
            self.lock_one(0);
            self.held[0].1.dbs.iter().any(|db| db.len() >= FEW)
        }
    }

    /// As [`Turn::look_ahead`], for the next commands of several clients, each with its database;
    /// `None` stands for a client without a complete command. Returns how many of these clients are
    /// prepared for.
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

    /// Locks those of these shards that are free, and no others, unless the turn must keep the held
    /// ones.
    fn try_lock_stretch(&mut self, shards: &Shards) {
        if !self.pinned && !self.whole {
            self.try_lock_some(&shards.numbers[..shards.len]);
        }
    }

    /// Names the first key of command `at` of those that [`Turn::look_ahead`] has prepared; the
    /// command runs next.
    #[inline]
    pub fn begin_ahead(&mut self, at: usize) {
        self.next = self.ahead.get(at).copied().unwrap_or(Name::NONE);
    }

    /// Forgets the prepared commands.
    pub fn end_ahead(&mut self) {
        if !self.ahead.is_empty() {
            self.release_whole();
        }
        self.ahead.clear();
        self.next = Name::NONE;
    }

    /// Hashes the word at `at` of each command, until they need [`LOCKS_MAX`] shards. `same` is the
    /// word that many of them have.
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

    /// Fetches the cache lines of the prepared commands, as far as their shards are held.
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
        // The shards are alike.
        if any.dbs[db].len() * shards < FEW {
            return;
        }
        self.warm_names(names.map(|name| (db, name.hash)));
    }

    /// Fetches the cache lines of the next keys of the running command, which has several.
    pub(super) fn warm_others(&mut self) {
        let names = self.others.iter().skip(self.others_used);
        self.warm_names(names.map(|name| (self.others_db, name.hash)));
        self.others_warm = self.others_used + WARM_MAX;
    }

    /// Fetches the cache lines of keys, each in its database, as far as their shards are held.
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
