//! Histograms of the sizes of values, with the bins of Redis 8's INFO keysizes.
//!
//! No write maintains them. They are counted on request: [`Turn::value_sizes`](crate::Turn) visits
//! every record in one go; a [`SizeCensus`] visits a bounded number in each step, and the next step
//! continues.

use std::time::Duration;

use super::db::Db;
use super::shard::Store;
use crate::value::Value;
use crate::value::content::Content as _;

/// Number of records that a census visits under one lock of a shard.
const LOCKED_MAX: u32 = 512;
/// Time that a census waits for a shard, which a script may hold for long.
const PATIENCE: Duration = Duration::from_millis(5);

/// Sizes of values: the number of values in each bin, and the sum of all sizes. The size of a
/// string is its length in bytes; the size of a collection is its number of elements.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bin 0 has the empty values; bin n has the sizes from 2^(n-1) to 2^n - 1.
    bins: [u64; 65],
    sum: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            bins: [0; 65],
            sum: 0,
        }
    }
}

impl Sizes {
    fn add(&mut self, size: usize) {
        self.bins[(usize::BITS - size.leading_zeros()) as usize] += 1;
        self.sum += size as u64;
    }

    /// Returns the number of values. O(1).
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Returns the sum of all sizes. O(1).
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the bins that are not empty: the smallest size of the bin, and its number of values.
    /// O(1).
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let smallest = |bin: usize| if bin == 0 { 0 } else { 1 << (bin - 1) };
        let bins = self.bins.iter().enumerate();
        bins.filter(|(_, count)| **count > 0)
            .map(move |(bin, count)| (smallest(bin), *count))
    }

    /// Returns the number of values whose size is less than 2^`power`. O(1).
    pub fn below(&self, power: usize) -> u64 {
        self.bins.iter().take(power + 1).sum()
    }
}

/// The sizes of a database's values, by type.
#[derive(Clone, Debug, Default)]
pub struct DbSizes([Sizes; DbSizes::TYPES.len()]);

impl DbSizes {
    /// The types whose values are counted, as TYPE names them, in Redis's order.
    pub const TYPES: [&'static str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

    /// Returns the types and the sizes of their values. O(1).
    pub fn by_type(&self) -> impl Iterator<Item = (&'static str, &Sizes)> {
        Self::TYPES.into_iter().zip(&self.0)
    }

    fn add(&mut self, value: &Value) {
        let (number, size) = match value {
            Value::Str(text) => (0, text.len()),
            Value::List(list) => (1, list.elements()),
            Value::Set(set) => (2, set.elements()),
            Value::Zset(zset) => (3, zset.elements()),
            Value::Hash(hash) => (4, hash.elements()),
            Value::Stream(stream) => (5, stream.elements()),
            Value::Timer(_) | Value::Jobs(_) => return,
        };
        self.0[number].add(size);
    }

    /// Adds all values of a part of a database.
    pub(crate) fn add_all(&mut self, part: &Db) {
        part.iter().for_each(|(_, record)| self.add(&record.value));
    }
}

/// A count of the sizes of all values in bounded steps. Keys that change meanwhile are counted
/// before or after their change, or, if they move, twice or not at all.
#[derive(Debug, Default)]
pub struct SizeCensus {
    /// Place of the next step: shard, database, index of a record.
    next: (usize, usize, u32),
    /// One element for each database.
    counting: Vec<DbSizes>,
    complete: Vec<DbSizes>,
}

impl SizeCensus {
    /// Visits at most `budget` places of records, until the count is complete; the next call then
    /// begins a new count. Locks a shard for at most 512 places at a time. Returns early if a shard
    /// is not free within some milliseconds. O(budget + shards · databases).
    pub fn advance(&mut self, store: &Store, mut budget: u32) {
        self.counting
            .resize_with(store.databases(), DbSizes::default);
        while self.next.0 < store.shards() {
            if budget == 0 {
                return;
            }
            let (shard, db, from) = self.next;
            let to = from.saturating_add(budget.min(LOCKED_MAX));
            let sizes = &mut self.counting[db];
            let end = store.locked[shard].try_walk(PATIENCE, |shard| {
                shard.dbs[db].visit(from..to, |value| sizes.add(value))
            });
            let Some(end) = end else {
                return;
            };
            budget -= end.min(to).saturating_sub(from);
            self.next = match () {
                () if to < end => (shard, db, to),
                () if db + 1 < store.databases() => (shard, db + 1, 0),
                () => (shard + 1, 0, 0),
            };
        }
        self.next = (0, 0, 0);
        self.complete = std::mem::take(&mut self.counting);
    }

    /// Returns the sizes of the last complete count, one element for each database; empty before
    /// the first count is complete. O(1).
    pub fn complete(&self) -> &[DbSizes] {
        &self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::{DbSizes, SizeCensus};
    use crate::command::testing::Fixture;

    /// Returns the bins of each type that has values.
    fn shown(sizes: &DbSizes) -> String {
        let by_type = sizes.by_type().filter(|(_, sizes)| sizes.count() > 0);
        let by_type = by_type.map(|(name, sizes)| {
            let bins = sizes.bins().map(|(size, count)| format!("{size}={count}"));
            let bins = bins.collect::<Vec<_>>().join(",");
            format!("{name} {bins} sum {}", sizes.sum())
        });
        by_type.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn each_type_has_its_bins() {
        for shards in [1, 8] {
            let mut fixture = Fixture::sharded(shards);
            for line in [
                "SET one x",
                "SET n 12345",
                "SET four abcd",
                "SET boxed a-string-of-thirty-three-letters-",
                "RPUSH list a b c",
                "SADD set a",
                "ZADD zset 1 a 2 b",
                "HSET hash a 1 b 2 c 3 d 4",
                "XGROUP CREATE stream g 0 MKSTREAM",
                "JOB ADD q x",
            ] {
                let reply = fixture.run(line);
                assert!(!reply.starts_with('-'), "{line}: {reply}");
            }
            fixture.db = 5;
            fixture.run("XADD s * a 1");
            fixture.run_words(&[&b"SET"[..], b"none", b""]);
            let expected = "string 1=1,4=2,32=1 sum 43; list 2=1 sum 3; set 1=1 sum 1; \
                            zset 2=1 sum 2; hash 4=1 sum 4; stream 0=1 sum 0";
            let all = fixture.with_turn(|turn| turn.value_sizes());
            assert_eq!(shown(&all[0]), expected);
            assert_eq!(shown(&all[5]), "string 0=1 sum 0; stream 1=1 sum 1");
            let strings = all[0].by_type().next().unwrap().1;
            assert_eq!(
                [0, 1, 2, 3, 5, 6].map(|power| strings.below(power)),
                [0, 1, 1, 3, 3, 4]
            );
            assert_eq!((shown(&all[1]), all.len()), (String::new(), 16));
            let mut census = SizeCensus::default();
            census.advance(&fixture.store, 1_000);
            assert_eq!(shown(&census.complete()[0]), expected);
        }
    }

    /// A census that needs several calls shows the last complete count, and a call visits no more
    /// than its budget.
    #[test]
    fn a_census_continues_where_it_stopped() {
        let mut fixture = Fixture::sharded(4);
        for n in 0..5_000 {
            fixture.run(&format!("SET key:{n} {n}"));
        }
        let mut census = SizeCensus::default();
        let mut calls = 0;
        while census.complete().is_empty() {
            census.advance(&fixture.store, 700);
            calls += 1;
        }
        assert!((8..=16).contains(&calls), "{calls} calls");
        let first = "string 1=10,2=990,4=4000 sum 18890";
        assert_eq!(shown(&census.complete()[0]), first);
        fixture.run("FLUSHALL");
        census.advance(&fixture.store, 0);
        assert_eq!(shown(&census.complete()[0]), first);
        census.advance(&fixture.store, 700);
        assert_eq!(shown(&census.complete()[0]), "");
    }
}
