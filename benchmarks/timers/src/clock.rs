//! Measurement of durations: by the CPU time of this thread, or by the time-stamp counter for short
//! *sections* of work.
//!
//! Other processes do not disturb the CPU time, but reading it is a system call of about half a
//! microsecond, so it measures batches that take milliseconds. The counter measures many shorter
//! sections. Sections that were interrupted are left out.

use std::time::Duration;

use punctual_figures::spread::Spread;
use rustix::time::{ClockId, clock_gettime};

/// The amount of work in a round, and its time limits.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of operations in a round, if time permits.
    pub operations: usize,
    /// Maximum duration of a batch. A batch that takes longer is cut short: its figure is the cost
    /// of the completed operations.
    pub cut_after: Duration,
    /// Maximum CPU time of the preparation of a round; after that, the round is cancelled. If a
    /// whole round takes longer, the contender runs no further rounds.
    pub patience: Duration,
}

/// Result of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds per operation.
    pub nanos: f64,
    /// True if the batch was cut short.
    pub cut: bool,
}

/// Returns the CPU time of this process or this thread.
pub fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of this thread.
pub fn cpu() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

/// Measures operations in chunks that double in size, so that the clock is rarely read, but slow
/// operations can be cut short.
pub fn batch(operations: usize, cut_after: Duration, mut operation: impl FnMut()) -> Took {
    let (mut done, mut next) = (0, 1);
    let start = cpu();
    loop {
        let count = next.min(operations - done);
        for _ in 0..count {
            operation();
        }
        done += count;
        next *= 2;
        let elapsed = cpu() - start;
        if done == operations || elapsed >= cut_after {
            return Took {
                nanos: elapsed.as_nanos() as f64 / done as f64,
                cut: done < operations,
            };
        }
    }
}

/// Measures a batch of `operations`, after a batch of an eighth as many that warms up.
pub fn timed(operations: usize, pace: &Pace, mut operation: impl FnMut()) -> Took {
    // Both calls pass the same type, so that the operation is compiled once and inlined.
    batch(operations / 8 + 1, pace.cut_after / 4, &mut operation);
    batch(operations, pace.cut_after, &mut operation)
}

/// Sections of equal work that are measured one by one. The first eighth of them warms up.
pub struct Sections {
    /// Number of operations in a section.
    each: usize,
    counter: quanta::Clock,
    /// Time of two reads of the counter, in nanoseconds.
    overhead: f64,
    nanos: Vec<f64>,
    spent: f64,
}

impl Sections {
    /// From this number of operations on, a section is long enough to be measured by CPU time.
    const LONG: usize = 50_000;

    /// Creates a measurement of sections that have `each` operations.
    pub fn of(each: usize) -> Self {
        let mut sections = Sections {
            each: 1,
            counter: quanta::Clock::new(),
            overhead: 0.0,
            nanos: Vec::new(),
            spent: 0.0,
        };
        (0..256).for_each(|_| sections.time(|| ()));
        let overhead = undisturbed_mean(&sections.nanos);
        Sections {
            each,
            overhead,
            nanos: Vec::new(),
            spent: 0.0,
            ..sections
        }
    }

    /// Measures one section.
    #[inline]
    pub fn time(&mut self, work: impl FnOnce()) {
        let nanos = if self.each >= Self::LONG {
            let start = cpu();
            work();
            (cpu() - start).as_nanos() as f64
        } else {
            let start = self.counter.raw();
            work();
            let nanos = self.counter.delta_as_nanos(start, self.counter.raw()) as f64;
            (nanos - self.overhead).max(0.0)
        };
        self.nanos.push(nanos);
        self.spent += nanos;
    }

    /// Returns true if the round needs another section.
    pub fn wants_more(&self, pace: &Pace) -> bool {
        self.is_short(pace) && self.spent < pace.cut_after.as_nanos() as f64
    }

    fn is_short(&self, pace: &Pace) -> bool {
        self.nanos.len() * self.each < pace.operations
    }

    /// Returns the cost of an operation.
    pub fn took(&self, pace: &Pace) -> Took {
        let counted = &self.nanos[self.nanos.len() / 8..];
        Took {
            nanos: undisturbed_mean(counted) / self.each as f64,
            cut: self.is_short(pace),
        }
    }
}

/// Returns the mean duration of sections of equal work. Sections that took more than ten times the
/// median count as interrupted, and are left out.
fn undisturbed_mean(sections: &[f64]) -> f64 {
    let median = Spread::of(sections.iter().copied()).map_or(f64::NAN, |spread| spread.median);
    let undisturbed = || sections.iter().filter(|&&section| section <= median * 10.0);
    undisturbed().sum::<f64>() / undisturbed().count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_sections_do_not_count() {
        assert_eq!(undisturbed_mean(&[2.0, 4.0, 3.0, 500.0]), 3.0);
        // A section that takes a few times the median counts: the queue may have grown during the
        // section, which is part of the cost.
        assert_eq!(undisturbed_mean(&[1.0, 1.0, 1.0, 5.0]), 2.0);
    }

    #[test]
    fn slow_batches_are_cut_short() {
        let limit = Duration::from_millis(5);
        let mut done = 0;
        assert!(!batch(1000, Duration::MAX, || done += 1).cut && done == 1000);
        assert!(batch(usize::MAX, limit, std::thread::yield_now).cut);
    }
}
