//! Random numbers. The seed of the store determines all of them: this crate does not get random
//! numbers from the machine.
//!
//! - The first generator of a store is [`StdRng`](rand::rngs::StdRng), whose state cannot be
//!   computed from the numbers that clients see. It creates the hash keys, the first seed of
//!   [`Draws`], and the generators of each shard.
//! - A command that needs random numbers creates its own generator with [`Draws::generator`]. A
//!   counter numbers these generators, so each command gets different numbers, on any event loop.
//!   With one loop, the same sequence of commands gets the same numbers in each run, even if it is
//!   divided into turns in another way.
//! - Evictions, the access counters of keys, and removals from the table of client-side caches use
//!   the generators of their shard, under the shard's lock.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// Seeds of generators, on a cache line of their own.
#[repr(align(128))]
pub(crate) struct Draws {
    first: u64,
    /// Number of seeds returned so far.
    taken: AtomicU64,
}

impl Draws {
    /// Creates a sequence of seeds that begins with `first`.
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            first,
            taken: AtomicU64::new(0),
        }
    }

    /// Returns a seed that was not returned before.
    pub(crate) fn seed(&self) -> u64 {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        self.first.wrapping_add(taken)
    }

    /// Returns a generator with a new seed. It is fast and not cryptographically secure.
    pub(crate) fn generator(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.seed())
    }
}

/// Returns a function that returns a random number below its argument.
pub(crate) fn below(random: &mut SmallRng) -> impl FnMut(u32) -> u32 {
    |end| random.random_range(0..end)
}

/// Returns an empty set of drawn numbers. Clients do not choose the numbers, so the hash keys need
/// not be secret.
pub(crate) fn drawn(capacity: usize) -> HashSet<u32, RandomState> {
    HashSet::with_capacity_and_hasher(capacity, RandomState::with_seeds(1, 2, 3, 4))
}

#[cfg(test)]
mod tests {
    use crate::command::testing::Fixture;
    use crate::limits::Limits;
    use crate::uses::Uses;

    /// Commands whose replies depend on random numbers.
    const RANDOM: &[&str] = &[
        "SPOP small",
        "SPOP small 3",
        "SPOP large",
        "SPOP large 3",
        "SRANDMEMBER small",
        "SRANDMEMBER small -3",
        "SRANDMEMBER large 3",
        "HRANDFIELD small-hash -3",
        "HRANDFIELD large-hash 3",
        "ZRANDMEMBER small-zset 3",
        "ZRANDMEMBER large-zset -3",
        "RANDOMKEY",
        "OBJECT FREQ used",
    ];

    /// Returns the replies of a store with this seed, by command.
    fn replies(shards: usize, seed: u64) -> Vec<Vec<String>> {
        let mut fixture = Fixture::seeded(shards, seed);
        fixture.store.set_limits(Limits {
            uses: Uses::Count {
                log_factor: 1,
                decay_minutes: 1,
            },
            ..Limits::default()
        });
        for n in 0..600 {
            fixture.run(&format!("SET key:{n} value"));
            for size in ["small", "large"] {
                if size == "small" && n >= 100 {
                    continue;
                }
                fixture.run(&format!("SADD {size} member:{n}"));
                fixture.run(&format!("HSET {size}-hash field:{n} value"));
                fixture.run(&format!("ZADD {size}-zset {n} member:{n}"));
            }
        }
        fixture.run("SET used value");
        let mut replies = vec![Vec::new(); RANDOM.len()];
        for _ in 0..20 {
            fixture.run("GET used");
            for (command, replies) in RANDOM.iter().zip(&mut replies) {
                replies.push(fixture.run(command));
            }
        }
        replies
    }

    #[test]
    fn random_replies_follow_from_the_seed() {
        for shards in [1, 4] {
            let first = replies(shards, 7);
            assert_eq!(first, replies(shards, 7));
            let other = replies(shards, 8);
            for ((command, first), other) in RANDOM.iter().zip(&first).zip(&other) {
                assert_ne!(first, other, "{command}");
            }
        }
    }

    #[test]
    fn no_two_generators_draw_the_same_numbers() {
        use rand::Rng as _;
        use std::collections::BTreeSet;

        let fixture = Fixture::new();
        let draws = || fixture.store.draws.generator().next_u64();
        let firsts: BTreeSet<u64> = (0..10_000).map(|_| draws()).collect();
        assert_eq!(firsts.len(), 10_000);
    }
}
