//! What a sorted set of 1,000 to 1,000,000 members costs: nanoseconds an operation, bytes a member.
//!
//! ```sh
//! cargo run --release -p punctual-store --example zset_cost
//! ```

use std::hint::black_box;
use std::time::Instant;

use punctual_harness::Random;
use punctual_store::limits::Limits;
use punctual_store::value::content::Content as _;
use punctual_store::value::zset::Zset;

/// Number of rounds of each measurement except `add`; the median is shown.
const ROUNDS: usize = 5;

fn any_score(random: &mut Random) -> f64 {
    (random.bits() >> 40) as f64
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
    let mut random = Random::new(7);
    for members in [1_000_u64, 100_000, 1_000_000] {
        let names: Vec<String> = (0..members).map(|n| format!("member:{n:012}")).collect();
        let start = Instant::now();
        let mut zset = Zset::default();
        for name in &names {
            zset.insert(name.as_bytes(), any_score(&mut random), limits);
        }
        let add = start.elapsed().as_nanos() as f64 / members as f64;
        let bytes = zset.heap_bytes() as f64 / members as f64;
        let calls = 200_000;
        let update = nanos(calls, || {
            let name = &names[random.below(members) as usize];
            zset.insert(name.as_bytes(), any_score(&mut random), limits);
        });
        let score = nanos(calls, || {
            black_box(zset.score(names[random.below(members) as usize].as_bytes()));
        });
        let rank = nanos(calls, || {
            black_box(zset.rank(names[random.below(members) as usize].as_bytes()));
        });
        let range = nanos(calls / 20, || {
            let from = any_score(&mut random);
            let found = zset.range_by_score(from, f64::INFINITY).take(100);
            black_box(found.map(|(_, score)| score).sum::<f64>());
        });
        let moved = nanos(calls, || {
            let name = &names[random.below(members) as usize];
            let score = zset.score(name.as_bytes()).unwrap_or_default();
            zset.insert(name.as_bytes(), score + 1.0, limits);
        });
        println!(
            "{members:>9} members: add {add:.0} ns, set a random score {update:.0}, \
             read a score and add 1 {moved:.0}, score {score:.0}, rank {rank:.0}, \
             100 by score {range:.0}; {bytes:.1} bytes a member"
        );
    }
}
