//! What a large sorted set costs: nanoseconds an operation, bytes a member.
//!
//! ```sh
//! cargo run --release -p punctual-store --example zset_cost
//! ```

use std::hint::black_box;
use std::time::Instant;

use punctual_store::limits::Limits;
use punctual_store::value::zset::Zset;

/// Measurements of each operation; the median is shown.
const ROUNDS: usize = 5;

/// SplitMix64 (Steele et al., 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn score(&mut self) -> f64 {
        (self.next() >> 40) as f64
    }
}

/// Nanoseconds a call, the median of some rounds of `count` calls.
fn nanos(count: usize, mut call: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..count).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let limits = Limits::default();
    let mut random = Random(7);
    for members in [1_000, 100_000, 1_000_000] {
        let names: Vec<String> = (0..members).map(|n| format!("member:{n:012}")).collect();
        let start = Instant::now();
        let mut zset = Zset::default();
        for name in &names {
            zset.insert(name.as_bytes(), random.score(), limits);
        }
        let add = start.elapsed().as_nanos() as f64 / members as f64;
        let bytes = zset.heap_bytes() as f64 / members as f64;
        let calls = 200_000;
        let update = nanos(calls, || {
            let name = &names[random.below(members)];
            zset.insert(name.as_bytes(), random.score(), limits);
        });
        let score = nanos(calls, || {
            black_box(zset.score(names[random.below(members)].as_bytes()));
        });
        let rank = nanos(calls, || {
            black_box(zset.rank(names[random.below(members)].as_bytes()));
        });
        let range = nanos(calls / 20, || {
            let from = random.score();
            let found = zset.range_by_score(from, f64::INFINITY).take(100);
            black_box(found.map(|(_, score)| score).sum::<f64>());
        });
        let moved = nanos(calls, || {
            let name = &names[random.below(members)];
            let score = zset.score(name.as_bytes()).unwrap_or_default();
            zset.insert(name.as_bytes(), score + 1.0, limits);
        });
        println!(
            "{members:>9} members: add {add:.0} ns, other score {update:.0}, score and a bit more {moved:.0}, \
             score {score:.0}, rank {rank:.0}, 100 by score {range:.0}; {bytes:.1} bytes a member"
        );
    }
}
