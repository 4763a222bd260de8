//! Candidates for eviction: keys of a shard that the eviction policy may remove next.
//!
//! As in Redis, a few random keys are examined for each eviction. With an LRU, LRM or LFU policy,
//! the keys that the policy prefers are kept as candidates for later evictions. A candidate that
//! was used or replaced since it was examined is dropped. [`WARM_MAX`] keys are examined at a time,
//! so that their cache misses overlap.

use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};
use smallvec::SmallVec;

use crate::eviction::{Eviction, EvictionOrder};
use crate::hash_table::WARM_MAX;
use crate::keyspace::db::Db;
use crate::keyspace::records::{Id, Record};
use crate::time::{NEVER, Now};
use crate::uses::Uses;

/// Maximum number of candidates.
const KEPT: usize = 128;
/// Below this number of candidates, further keys are examined.
const FEW: usize = 16;
/// Maximum number of random draws, of [`WARM_MAX`] places each, before a search in index order
/// begins.
const ROUNDS: usize = 16;
/// Maximum number of records that one search in index order visits, about half a millisecond of
/// work.
const SEARCH: u32 = 65_536;

/// A key as it was when it was examined.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// [`Uses::rank`] at the tick `ranked_at`; the key with the greatest rank is evicted first.
    rank: u32,
    db: u32,
    id: Id,
    hash: u32,
    uses: u32,
}

/// The candidates of a shard. The best candidate is the key that the policy evicts first.
pub(crate) struct Candidates {
    all: Vec<Candidate>,
    /// Policy and measure of usage by which `all` is sorted.
    by: Option<(Eviction, Uses)>,
    /// [`Uses::tick`] at which the ranks were computed.
    ranked_at: u32,
    /// Number of keys that are still to be examined for the evictions so far.
    owed: usize,
    /// Database and index at which the next search begins.
    search: (usize, u32),
    /// A fast generator, because each eviction draws several numbers.
    random: SmallRng,
}

/// A batch of keys: database and record.
pub(crate) type Batch = SmallVec<[(usize, Id); WARM_MAX]>;
/// Keys of one database that were drawn at once.
type Drawn<'d> = SmallVec<[(Id, &'d Record); WARM_MAX]>;

/// Returns whether a key may be evicted; with `volatile`, only keys with a deadline may.
fn may_be_evicted(record: &Record, volatile: bool) -> bool {
    Db::is_evictable(record) && (!volatile || record.deadline != NEVER)
}

/// Removes duplicates.
fn distinct(batch: &mut Batch) {
    batch.sort_unstable();
    batch.dedup();
}

/// Returns a random number below `end`. It is biased by at most `end` / 2^32, far less than a
/// sample's own error.
fn below(random: &mut SmallRng, end: u32) -> u32 {
    ((u64::from(random.next_u32()) * u64::from(end)) >> 32) as u32
}

impl Candidates {
    /// Creates an empty set of candidates, which draws keys with `random`.
    pub(crate) const fn new(random: SmallRng) -> Self {
        Self {
            all: Vec::new(),
            by: None,
            ranked_at: 0,
            owed: 0,
            search: (0, 0),
            random,
        }
    }

    /// Takes up to `count` keys to evict into `batch`, the best first. The result matters only if
    /// `batch` stays empty: false means that another call may find a key.
    pub(crate) fn take(
        &mut self,
        dbs: &[Db],
        policy: Eviction,
        uses: Uses,
        now: Now,
        count: usize,
        batch: &mut Batch,
    ) -> bool {
        if policy.order == EvictionOrder::Random {
            let ended = self.collect(dbs, policy.volatile, count, batch);
            distinct(batch);
            return ended;
        }
        if policy.order == EvictionOrder::Ttl {
            let ended = self.collect(dbs, true, WARM_MAX, batch);
            distinct(batch);
            let deadline =
                |(db, id): &(usize, Id)| dbs[*db].peek(*id).map_or(NEVER, |r| r.deadline);
            batch.sort_unstable_by_key(deadline);
            batch.truncate(count);
            return ended;
        }
        if self.by.replace((policy, uses)) != Some((policy, uses)) {
            self.all.clear();
        }
        self.rank_again(uses, now);
        self.owed += policy.samples * count;
        loop {
            let ended = self.examine_more(dbs, policy, uses, now);
            let any = !self.all.is_empty();
            self.take_best(dbs, policy, count, batch);
            // If all candidates were used or removed meanwhile, further keys are examined.
            if !batch.is_empty() || !any {
                return ended;
            }
        }
    }

    /// Computes the ranks of all candidates again if time has passed.
    fn rank_again(&mut self, uses: Uses, now: Now) {
        let tick = uses.tick(now);
        if std::mem::replace(&mut self.ranked_at, tick) == tick {
            return;
        }
        for candidate in &mut self.all {
            candidate.rank = uses.rank(candidate.uses, now);
        }
        // The candidates are almost in order, so the stable sort is fast.
        self.all.sort_by_key(|candidate| candidate.rank);
    }

    /// Examines [`owed`](Self::owed) keys, or more if there are few candidates. Returns false if it
    /// found no key but another call may find one.
    fn examine_more(&mut self, dbs: &[Db], policy: Eviction, uses: Uses, now: Now) -> bool {
        let mut ended = true;
        while self.owed >= WARM_MAX || self.all.len() < FEW {
            let before = self.all.len();
            let Some(number) = self.choose(dbs, policy.volatile) else {
                self.owed = 0;
                break;
            };
            let mut drawn = Drawn::new();
            self.draw(&dbs[number], policy.volatile, &mut drawn);
            if drawn.is_empty() {
                let mut batch = Batch::new();
                ended = self.collect(dbs, policy.volatile, WARM_MAX, &mut batch);
                self.owed = self.owed.saturating_sub(WARM_MAX);
                for (db, id) in batch {
                    if let Some(record) = dbs[db].peek(id) {
                        self.examine(record, db, id, uses, now);
                    }
                }
            }
            self.owed = self.owed.saturating_sub(drawn.len());
            for (id, record) in drawn {
                self.examine(record, number, id, uses, now);
            }
            if self.all.len() == before && self.owed < WARM_MAX {
                break;
            }
        }
        ended
    }

    /// Moves up to `count` of the best candidates to `batch`. Drops candidates that were used or
    /// replaced.
    fn take_best(&mut self, dbs: &[Db], policy: Eviction, count: usize, batch: &mut Batch) {
        while batch.len() < count {
            let Some(best) = self.all.pop() else {
                break;
            };
            let record = dbs[best.db as usize].peek(best.id);
            let same = |r: &&Record| {
                r.hash == best.hash
                    && r.key.uses() == best.uses
                    && (!policy.volatile || r.deadline != NEVER)
            };
            if record.as_ref().is_some_and(same) {
                batch.push((best.db as usize, best.id));
            }
        }
    }

    /// Updates the indices of candidates whose records have moved. `moved` has pairs of old and new
    /// indices, ascending by old index.
    pub(crate) fn moved(&mut self, db: usize, moved: &[(Id, Id)]) {
        for candidate in self.all.iter_mut().filter(|c| c.db as usize == db) {
            if let Ok(at) = moved.binary_search_by_key(&candidate.id, |(old, _)| *old) {
                candidate.id = moved[at].1;
            }
        }
    }

    /// Makes a key a candidate if it is better than the worst candidate, or if there are fewer than
    /// [`KEPT`].
    fn examine(&mut self, record: &Record, db: usize, id: Id, uses: Uses, now: Now) {
        let candidate = Candidate {
            rank: uses.rank(record.key.uses(), now),
            db: db as u32,
            id,
            hash: record.hash,
            uses: record.key.uses(),
        };
        let full = self.all.len() >= KEPT;
        if full && self.all[0].rank >= candidate.rank {
            return;
        }
        let at = self.all.partition_point(|c| c.rank < candidate.rank);
        // The same key with another rank is stale, because the key was used since, and is dropped
        // later.
        let mut equal = self.all[at..]
            .iter()
            .take_while(|c| c.rank == candidate.rank);
        if equal.any(|c| (c.db, c.id) == (candidate.db, id)) {
            return;
        }
        if full {
            self.all.copy_within(1..at, 0);
            self.all[at - 1] = candidate;
        } else {
            self.all.insert(at, candidate);
        }
    }

    /// Chooses a random database, with a probability in proportion to its [`Db::evictable`] keys.
    /// Returns `None` if no database has such keys.
    fn choose(&mut self, dbs: &[Db], volatile: bool) -> Option<usize> {
        let size = |db: &Db| db.evictable(volatile);
        let total: usize = dbs.iter().map(size).sum();
        if total == 0 {
            return None;
        }
        let mut nth = self.random.random_range(0..total);
        dbs.iter().position(|db| {
            let here = nth < size(db);
            nth -= if here { 0 } else { size(db) };
            here
        })
    }

    /// Draws places for records at random, and appends the evictable keys at these places, perhaps
    /// with duplicates. A free place has no key. Few places are free, because compaction moves
    /// records together when many are free.
    fn draw<'d>(&mut self, db: &'d Db, volatile: bool, keys: &mut Drawn<'d>) {
        let places = db.places();
        let drawn: [Id; WARM_MAX] = std::array::from_fn(|_| below(&mut self.random, places));
        // The loads do not depend on each other, so they overlap. The sum keeps the compiler from
        // removing the loads.
        let records = drawn.map(|id| db.peek(id));
        let hash = |record: &Option<&Record>| record.map_or(0, |record| record.hash);
        std::hint::black_box(records.iter().map(hash).fold(0, |sum, hash| sum ^ hash));
        for (id, record) in drawn.into_iter().zip(records) {
            if let Some(record) = record.filter(|record| may_be_evicted(record, volatile)) {
                keys.push((id, record));
            }
        }
    }

    /// Appends up to `count` random keys, perhaps with duplicates. Returns false if a database has
    /// [`Db::evictable`] keys but no key was found.
    fn collect(&mut self, dbs: &[Db], volatile: bool, count: usize, batch: &mut Batch) -> bool {
        let Some(number) = self.choose(dbs, volatile) else {
            return true;
        };
        let db = &dbs[number];
        let size = db.evictable(volatile);
        if size * 8 >= db.len() {
            for _ in 0..ROUNDS {
                let mut drawn = Drawn::new();
                self.draw(db, volatile, &mut drawn);
                let room = count - batch.len();
                batch.extend(drawn.into_iter().take(room).map(|(id, _)| (number, id)));
                if batch.len() >= count.min(size) {
                    break;
                }
            }
        }
        if batch.is_empty() {
            return self.search(dbs, number, volatile, count, batch);
        }
        true
    }

    /// Searches for evictable keys in index order, from the place where the last search has ended.
    /// For databases with few evictable keys. Returns whether a key was found.
    fn search(
        &mut self,
        dbs: &[Db],
        number: usize,
        volatile: bool,
        count: usize,
        batch: &mut Batch,
    ) -> bool {
        let db = &dbs[number];
        let end = db.end();
        let mut at = if self.search.0 == number {
            self.search.1
        } else {
            below(&mut self.random, end)
        };
        for _ in 0..SEARCH.min(end) {
            at = if at + 1 >= end { 0 } else { at + 1 };
            if db
                .peek(at)
                .is_some_and(|record| may_be_evicted(record, volatile))
            {
                batch.push((number, at));
                if batch.len() == count {
                    break;
                }
            }
        }
        self.search = (number, at);
        !batch.is_empty()
    }
}
