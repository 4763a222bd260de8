//! Keys of a shard that may be evicted next.
//!
//! As in Redis, a few random keys are examined for each eviction, and the best ones are kept for later evictions. Keys are
//! examined sixteen at a time, so that their cache misses overlap. A candidate that was used or replaced since it was
//! examined is dropped.

use smallvec::SmallVec;

use crate::eviction::{Eviction, Order};
use crate::hash_table::WARM_MAX;
use crate::keyspace::db::Db;
use crate::keyspace::records::Id;
use crate::time::{NEVER, Now};
use crate::uses::Uses;

/// Maximum number of candidates.
const KEPT: usize = 64;
/// Number of candidates below which more keys are examined.
const FEW: usize = 16;
/// Records that one search visits where few keys may be evicted: about half a millisecond of work.
const SEARCH: u32 = 65_536;

/// A key as it was when it was examined.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    db: u32,
    id: Id,
    hash: u32,
    uses: u32,
}

/// The candidates of a shard, the best one last.
#[derive(Default)]
pub(crate) struct Candidates {
    all: Vec<Candidate>,
    /// Policy and kind of usage that the order is of.
    by: Option<(Eviction, Uses)>,
    /// Number of keys to examine for what was evicted.
    owed: usize,
    /// Database and index at which the next search begins.
    search: (usize, u32),
}

/// A batch of keys: database and record.
pub(crate) type Batch = SmallVec<[(usize, Id); WARM_MAX]>;

/// Returns whether a key may be evicted. `volatile`: only if it has a deadline.
fn fits(db: &Db, id: Id, volatile: bool) -> bool {
    db.may_go(id) && (!volatile || db.peek(id).is_some_and(|r| r.deadline != NEVER))
}

/// Returns a random number below `end`.
fn random(end: u32) -> u32 {
    rand::random_range(0..end)
}

impl Candidates {
    /// Takes up to `count` keys to evict into `batch`, the best first. Returns false if none was found, but a search for
    /// more has not reached its end.
    pub(crate) fn take(
        &mut self,
        dbs: &[Db],
        policy: Eviction,
        uses: Uses,
        now: Now,
        count: usize,
        batch: &mut Batch,
    ) -> bool {
        if policy.order == Order::Random {
            return self.draw(dbs, policy.volatile, count, batch);
        }
        if policy.order == Order::Ttl {
            let ended = self.draw(dbs, true, WARM_MAX, batch);
            let deadline =
                |(db, id): &(usize, Id)| dbs[*db].peek(*id).map_or(NEVER, |r| r.deadline);
            batch.sort_unstable_by_key(deadline);
            batch.truncate(count);
            return ended;
        }
        if self.by.replace((policy, uses)) != Some((policy, uses)) {
            self.all.clear();
        }
        self.owed += policy.samples * count;
        loop {
            let ended = self.examine_more(dbs, policy, uses, now);
            let any = !self.all.is_empty();
            self.take_best(dbs, policy, count, batch);
            // Unless all candidates were used or removed meanwhile.
            if !batch.is_empty() || !any {
                return ended;
            }
        }
    }

    /// Examines as many keys as are owed, or more if there are few candidates. Returns as [`Candidates::take`].
    fn examine_more(&mut self, dbs: &[Db], policy: Eviction, uses: Uses, now: Now) -> bool {
        let mut ended = true;
        while self.owed >= WARM_MAX || self.all.len() < FEW {
            self.owed = self.owed.saturating_sub(WARM_MAX);
            let mut drawn = Batch::new();
            ended = self.draw(dbs, policy.volatile, WARM_MAX, &mut drawn);
            let before = self.all.len();
            // The loads do not depend on one another, so they run at once; the sum keeps them alive.
            let hash = |&(db, id): &(usize, Id)| dbs[db].peek(id).map_or(0, |record| record.hash);
            std::hint::black_box(drawn.iter().map(hash).fold(0, |sum, hash| sum ^ hash));
            for (db, id) in drawn {
                self.examine(dbs, db, id, uses, now);
            }
            if self.all.len() == before && self.owed < WARM_MAX {
                break;
            }
        }
        ended
    }

    /// Moves the best candidates that are as they were to `batch`.
    fn take_best(&mut self, dbs: &[Db], policy: Eviction, count: usize, batch: &mut Batch) {
        while batch.len() < count {
            let Some(best) = self.all.pop() else {
                break;
            };
            let record = dbs[best.db as usize].peek(best.id);
            let same = |r: &&crate::keyspace::records::Record| {
                r.hash == best.hash
                    && r.key.uses() == best.uses
                    && (!policy.volatile || r.deadline != NEVER)
            };
            if record.as_ref().is_some_and(same) {
                batch.push((best.db as usize, best.id));
            }
        }
    }

    /// Follows records of a database to other places; `moved` has the old and new indices in the order of the old ones.
    pub(crate) fn moved(&mut self, db: usize, moved: &[(Id, Id)]) {
        for candidate in self.all.iter_mut().filter(|c| c.db as usize == db) {
            if let Ok(at) = moved.binary_search_by_key(&candidate.id, |(old, _)| *old) {
                candidate.id = moved[at].1;
            }
        }
    }

    /// Keeps a key if it is better than the worst candidate, or if there are few.
    fn examine(&mut self, dbs: &[Db], db: usize, id: Id, uses: Uses, now: Now) {
        let Some(record) = dbs[db].peek(id).filter(|_| dbs[db].may_go(id)) else {
            return;
        };
        let candidate = Candidate {
            db: db as u32,
            id,
            hash: record.hash,
            uses: record.key.uses(),
        };
        let rank = |c: &Candidate| uses.rank(c.uses, now);
        let own = rank(&candidate);
        if self.all.len() == KEPT {
            if self.all.first().is_some_and(|worst| rank(worst) >= own) {
                return;
            }
            self.all.remove(0);
        }
        if self.all.iter().any(|c| (c.db, c.id) == (db as u32, id)) {
            return;
        }
        let at = self.all.partition_point(|c| rank(c) < own);
        self.all.insert(at, candidate);
    }

    /// Draws up to `count` random keys. Returns false if there are some, but none was found.
    fn draw(&mut self, dbs: &[Db], volatile: bool, count: usize, batch: &mut Batch) -> bool {
        let size = |db: &Db| db.evictable(volatile);
        let total: usize = dbs.iter().map(size).sum();
        if total == 0 {
            return true;
        }
        let mut nth = rand::random_range(0..total);
        let chosen = dbs.iter().position(|db| {
            let here = nth < size(db);
            nth -= if here { 0 } else { size(db) };
            here
        });
        let number = chosen.unwrap_or(0);
        let db = &dbs[number];
        if size(db) * 8 >= db.len() {
            for _ in 0..16 {
                let drawn: SmallVec<[Id; WARM_MAX]> =
                    (0..WARM_MAX).filter_map(|_| db.at_random(random)).collect();
                let room = count - batch.len();
                let fitting = drawn.into_iter().filter(|id| fits(db, *id, volatile));
                batch.extend(fitting.take(room).map(|id| (number, id)));
                if batch.len() >= count.min(size(db)) {
                    break;
                }
            }
        }
        if batch.is_empty() {
            return self.search(dbs, number, volatile, count, batch);
        }
        // A random key may be drawn twice.
        batch.sort_unstable();
        batch.dedup();
        true
    }

    /// Searches for keys where few may be evicted, from where the last search has ended. Returns whether any was found.
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
            random(end)
        };
        for _ in 0..SEARCH.min(end) {
            at = if at + 1 >= end { 0 } else { at + 1 };
            if fits(db, at, volatile) {
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
