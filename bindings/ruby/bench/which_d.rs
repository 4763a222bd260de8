//! Measures which number of children per entry is best for a heap, and whether AVX2 helps to find
//! the least child. `rake which_d` compiles and runs this program, which has no dependencies.
//!
//! - `keys`: like the gem's heap. A key has 16 bytes: score, order and slot. The search for the
//!   least child uses conditional moves instead of branches.
//! - `scores`: an array of scores of 8 bytes and an array of values. Equal scores have no order.
//! - `AVX2`: like `scores`, but vector instructions compare four scores at a time. This is an upper
//!   bound of the gain for the gem's heap, which also compares the order.
//!
//! Prints nanoseconds: the minimum of 25 short rounds, because other programs only add time.

use std::hint::{black_box, select_unpredictable};
use std::time::Instant;

/// A heap, as far as the comparison needs it.
trait Heap {
    fn push(&mut self, score: i64, value: u64);
    fn pop(&mut self) -> u64;
}

/// The steps that both heaps share, with `D` children per entry.
trait Entries<const D: usize> {
    type Key: Copy + Ord;
    fn keys(&self) -> &[Self::Key];
    /// Copies an entry, with its value if that is in another array.
    fn copy(&mut self, from: usize, to: usize);

    /// Moves entries above `at` down until `key` may take the place of the last of them, which is
    /// returned.
    fn rise(&mut self, mut at: usize, key: Self::Key) -> usize {
        while at > 0 && key < self.keys()[(at - 1) / D] {
            self.copy((at - 1) / D, at);
            at = (at - 1) / D;
        }
        at
    }

    /// If the entry at `at` has fewer than `D` children, moves its least child into the hole at
    /// `at`. Returns the new place of the hole.
    fn tail(&mut self, at: usize) -> usize {
        let children = at * D + 1..self.keys().len().min(at * D + 1 + D);
        let Some(child) = children.min_by_key(|&i| self.keys()[i]) else {
            return at;
        };
        self.copy(child, at);
        child
    }
}

/// Keys of 16 bytes.
#[derive(Default)]
struct Keys<const D: usize> {
    keys: Vec<u128>,
    order: u32,
}

impl<const D: usize> Entries<D> for Keys<D> {
    type Key = u128;
    fn keys(&self) -> &[u128] {
        &self.keys
    }
    fn copy(&mut self, from: usize, to: usize) {
        self.keys[to] = self.keys[from];
    }
}

impl<const D: usize> Heap for Keys<D> {
    fn push(&mut self, score: i64, value: u64) {
        self.order += 1;
        let low = u64::from(self.order) << 32 | value & 0xFFFF_FFFF;
        let key = u128::from(score as u64 ^ 1 << 63) << 64 | u128::from(low);
        self.keys.push(key);
        let at = self.rise(self.keys.len() - 1, key);
        self.keys[at] = key;
    }

    fn pop(&mut self) -> u64 {
        let first = self.keys[0] as u64;
        let last = self.keys.pop().unwrap_or(0);
        if !self.keys.is_empty() {
            let mut at = 0;
            while at * D + D < self.keys.len() {
                let children = &self.keys[at * D + 1..at * D + 1 + D];
                let (mut least, mut place) = (children[0], 0);
                for (i, &child) in children.iter().enumerate().skip(1) {
                    place = select_unpredictable(child < least, i, place);
                    least = select_unpredictable(child < least, child, least);
                }
                self.keys[at] = least;
                at = at * D + 1 + place;
            }
            let at = self.tail(at);
            let at = self.rise(at, last);
            self.keys[at] = last;
        }
        first & 0xFFFF_FFFF
    }
}

/// Scores and values in two arrays. `least` finds the least of `D` scores.
struct Scores<const D: usize> {
    scores: Vec<i64>,
    values: Vec<u64>,
    least: fn(&[i64; D]) -> usize,
}

impl<const D: usize> Entries<D> for Scores<D> {
    type Key = i64;
    fn keys(&self) -> &[i64] {
        &self.scores
    }
    fn copy(&mut self, from: usize, to: usize) {
        self.scores[to] = self.scores[from];
        self.values[to] = self.values[from];
    }
}

impl<const D: usize> Scores<D> {
    /// Puts an entry into the hole at `at`, or above it.
    fn put(&mut self, at: usize, score: i64, value: u64) {
        let at = self.rise(at, score);
        self.scores[at] = score;
        self.values[at] = value;
    }
}

impl<const D: usize> Heap for Scores<D> {
    fn push(&mut self, score: i64, value: u64) {
        self.scores.push(score);
        self.values.push(value);
        self.put(self.scores.len() - 1, score, value);
    }

    fn pop(&mut self) -> u64 {
        let first = self.values[0];
        let score = self.scores.pop().unwrap_or(0);
        let value = self.values.pop().unwrap_or(0);
        if !self.scores.is_empty() {
            let mut at = 0;
            while let Some(children) = self.scores.get(at * D + 1..).and_then(<[i64]>::first_chunk)
            {
                let child = at * D + 1 + (self.least)(children);
                self.copy(child, at);
                at = child;
            }
            let at = self.tail(at);
            self.put(at, score, value);
        }
        first
    }
}

fn least_by_moves<const D: usize>(scores: &[i64; D]) -> usize {
    let (mut least, mut place) = (scores[0], 0);
    for (i, &score) in scores.iter().enumerate().skip(1) {
        place = select_unpredictable(score < least, i, place);
        least = select_unpredictable(score < least, score, least);
    }
    place
}

#[cfg(target_arch = "x86_64")]
fn least_by_avx2<const D: usize>(scores: &[i64; D]) -> usize {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx2")]
    fn least<const D: usize>(scores: &[i64; D]) -> usize {
        // SAFETY: the loads stay within the array, whose length is at least 4.
        let load = |at: usize| unsafe { _mm256_loadu_si256(scores.as_ptr().add(at).cast()) };
        let min = |a, b| _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
        let mut all = load(0);
        let mut at = 4;
        while at < D {
            // The last load may overlap the one before it: that changes no minimum.
            all = min(all, load(at.min(D - 4)));
            at += 4;
        }
        all = min(all, _mm256_permute4x64_epi64::<0b01_00_11_10>(all));
        all = min(all, _mm256_permute4x64_epi64::<0b10_11_00_01>(all));
        let mut at = 0;
        loop {
            let from = at.min(D - 4);
            let equal = _mm256_cmpeq_epi64(load(from), all);
            let mask = _mm256_movemask_pd(_mm256_castsi256_pd(equal));
            if mask != 0 || from == D - 4 {
                return from + mask.trailing_zeros() as usize;
            }
            at += 4;
        }
    }
    // SAFETY: `with_d` uses this function only if the processor has AVX2.
    unsafe { least(scores) }
}

/// Returns the nanoseconds of a pop and a push, which together keep the number of entries.
fn pairs(heap: &mut dyn Heap, random: &mut u64) -> f64 {
    const PAIRS: u32 = 20_000;
    let start = Instant::now();
    for value in 0..PAIRS {
        black_box(heap.pop());
        heap.push(next(random) + (i64::from(value) << 8), u64::from(value));
    }
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

/// Returns a random score below 2^27.
fn next(random: &mut u64) -> i64 {
    *random = random
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*random >> 37) as i64
}

type Named = (String, Box<dyn Heap>);

fn with_d<const D: usize>(heaps: &mut Vec<Named>) {
    heaps.push((format!("keys, d = {D}"), Box::new(Keys::<D>::default())));
    let mut add = |name: &str, least| {
        let heap = Scores::<D> {
            scores: Vec::new(),
            values: Vec::new(),
            least,
        };
        heaps.push((format!("{name}, d = {D}"), Box::new(heap)));
    };
    add("scores", least_by_moves::<D>);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        add("AVX2", least_by_avx2::<D>);
    }
}

fn main() {
    println!(
        "| a pop and a push, ns | N = 10 | 1,000 | 100,000 | 1,000,000 |\n|---|---|---|---|---|"
    );
    let mut table: Vec<(String, Vec<f64>)> = Vec::new();
    for n in [10, 1_000, 100_000, 1_000_000] {
        let mut heaps = Vec::new();
        with_d::<4>(&mut heaps);
        with_d::<6>(&mut heaps);
        with_d::<8>(&mut heaps);
        with_d::<12>(&mut heaps);
        let mut random = 1;
        for (_, heap) in &mut heaps {
            (0..n).for_each(|value| heap.push(next(&mut random), value));
        }
        let mut times = vec![Vec::new(); heaps.len()];
        for _ in 0..25 {
            for ((_, heap), times) in heaps.iter_mut().zip(&mut times) {
                times.push(pairs(heap.as_mut(), &mut random));
            }
        }
        for (i, mut times) in times.into_iter().enumerate() {
            times.sort_by(f64::total_cmp);
            if table.len() <= i {
                table.push((heaps[i].0.clone(), Vec::new()));
            }
            table[i].1.push(times[0]);
        }
    }
    for (name, times) in table {
        let cells: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}
