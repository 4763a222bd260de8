//! Durations of commands: one histogram for each command of each event loop.
//!
//! As in HDR histograms, there are 32 buckets from each power of two to the next, so a result is at
//! most 1/32 too high. While `latency-tracking` is on, every command is recorded, because recording
//! takes only about a nanosecond (a few bit operations, one load and one store). A histogram takes
//! 8 KiB, which are allocated when the loop first runs the command.

use std::sync::OnceLock;

use crate::observe::stats::Counter;

/// Base-2 logarithm of the number of buckets per power of two.
const SUB_BITS: u32 = 5;
const SUBS: usize = 1 << SUB_BITS;
/// Base-2 logarithm of the maximum duration in ns, slightly more than a minute. Longer durations
/// count as this maximum.
const MAX_BITS: u32 = 36;
const BUCKETS: usize = (MAX_BITS - SUB_BITS + 1) as usize * SUBS;

/// Durations of one command in one loop. Only the loop records durations.
#[derive(Debug, Default)]
pub struct CommandLatency(OnceLock<Box<[Counter]>>);

impl CommandLatency {
    /// Adds a duration. O(1).
    #[inline]
    pub fn record(&self, nanos: u64) {
        let buckets = self
            .0
            .get_or_init(|| (0..BUCKETS).map(|_| Counter::default()).collect());
        buckets[bucket(nanos)].add(1);
    }

    /// Removes all durations (CONFIG RESETSTAT).
    pub fn reset(&self) {
        if let Some(buckets) = self.0.get() {
            buckets.iter().for_each(Counter::reset);
        }
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << MAX_BITS) - 1);
    if nanos < SUBS as u64 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - SUB_BITS;
    shift as usize * SUBS + (nanos >> shift) as usize
}

/// Returns the maximum duration of a bucket in ns.
const fn top(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    let shift = (bucket / SUBS - 1) as u32;
    (((bucket % SUBS + SUBS) as u64 + 1) << shift) - 1
}

/// Durations of one command, summed over all loops.
#[derive(Debug)]
pub struct Distribution {
    counts: Vec<u64>,
    /// Number of durations.
    pub total: u64,
}

impl Distribution {
    /// Sums the histograms of the loops.
    pub fn sum<'a>(loops: impl Iterator<Item = &'a CommandLatency>) -> Self {
        let mut counts = vec![0; BUCKETS];
        for buckets in loops.filter_map(|l| l.0.get()) {
            for (sum, count) in counts.iter_mut().zip(buckets) {
                *sum += count.get();
            }
        }
        let total = counts.iter().sum();
        Self { counts, total }
    }

    /// Returns the duration in ns that `percent` of all durations do not exceed; 0 if there are no
    /// durations.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank =
            ((percent / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top(i);
            }
        }
        0
    }

    /// Returns the pairs of LATENCY HISTOGRAM: a bound in microseconds, and the number of durations
    /// up to it. A pair is left out if its number equals the previous one. The bounds are
    /// powers of two in ns. Their labels are Redis's, which are slightly higher: 2113 for 2^21 ns.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        let (mut at, mut seen, mut shown) = (0, 0, 0);
        for bits in 10..=MAX_BITS {
            let bound = 1_u64 << bits;
            while at < BUCKETS && top(at) < bound {
                seen += self.counts[at];
                at += 1;
            }
            if seen > shown {
                pairs.push(((bound + bound / 128 - 1) / 1000, seen));
                shown = seen;
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_fine_and_in_order() {
        let mut before = 0;
        for bits in 0..64 {
            for nanos in [1_u64 << bits, (1 << bits) + (1 << bits) / 3] {
                let at = bucket(nanos);
                assert!(at >= before && at < BUCKETS, "{nanos}");
                before = at;
                let nanos = nanos.min((1 << MAX_BITS) - 1);
                assert!(
                    top(at) >= nanos && top(at) - nanos <= nanos / 32,
                    "{nanos}: {}",
                    top(at)
                );
            }
        }
        for at in 0..BUCKETS {
            assert_eq!(bucket(top(at)), at);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_powers_of_two_over_two_loops() {
        let loops = [
            CommandLatency::default(),
            CommandLatency::default(),
            CommandLatency::default(),
        ];
        (0..98).for_each(|_| loops[0].record(7_000));
        loops[1].record(24_000);
        loops[1].record(2_000_000);
        let all = Distribution::sum(loops.iter());
        assert_eq!(all.total, 100);
        assert!((7_000..7_220).contains(&all.percentile(50.0)));
        assert!((7_000..7_220).contains(&all.percentile(98.0)));
        assert!((24_000..24_750).contains(&all.percentile(99.0)));
        assert!((2_000_000..2_063_000).contains(&all.percentile(100.0)));
        assert_eq!(all.cumulative(), [(8, 98), (33, 99), (2113, 100)]);
        loops[0].reset();
        loops[1].reset();
        let none = Distribution::sum(loops.iter());
        assert_eq!((none.total, none.percentile(99.0)), (0, 0));
        assert!(none.cumulative().is_empty());
    }
}
