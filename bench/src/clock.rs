//! Measurement of durations: CPU time of this thread, or the time-stamp counter for short sections.
//!
//! Reading the CPU time is a system call of about half a microsecond, so it times batches of
//! milliseconds; other processes do not disturb it. The counter times shorter sections, many of
//! them, and interrupted ones are left out.

use std::time::Duration;

use punctual_figures::spread::Spread;
use rustix::time::{ClockId, clock_gettime};

/// Amount of work in a round, and its limits of time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of operations in a round, if time permits.
    pub operations: usize,
    /// Longest batch; a longer one is cut short, and its figure covers the completed operations.
    pub cut_after: Duration,
    /// Longest preparation of a round before it is cancelled.
    pub patience: Duration,
}

/// Time since the start of a round, in CPU time, so that other load on the machine does not cancel
/// the round.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(f64);

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        Stopwatch(cpu_nanos())
    }

    /// Returns the CPU time since the start.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos((cpu_nanos() - self.0) as u64)
    }
}

/// Result of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds per operation.
    pub nanos: f64,
    /// Number of completed operations.
    pub operations: usize,
    /// Whether the batch was cut short.
    pub cut: bool,
}

/// Returns the CPU time of this thread in nanoseconds.
pub fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Times a batch. `chunk(k)` does k operations. Chunks double in size, so the clock is rarely read,
/// but a slow batch can still be cut short.
pub fn batch(operations: usize, cut_after: Duration, mut chunk: impl FnMut(usize)) -> Took {
    let most = cut_after.as_nanos() as f64;
    let (mut done, mut next) = (0, 1);
    let start = cpu_nanos();
    let elapsed = loop {
        let count = next.min(operations - done);
        chunk(count);
        done += count;
        next *= 2;
        let elapsed = cpu_nanos() - start;
        if done == operations || elapsed >= most {
            break elapsed;
        }
    };
    Took {
        nanos: elapsed / done as f64,
        operations: done,
        cut: done < operations,
    }
}

/// Sections of equal work, timed one by one.
pub struct Sections {
    /// Whether a section is long enough for the CPU clock.
    long: bool,
    counter: quanta::Clock,
    /// Time of two reads of the counter, in nanoseconds.
    overhead: f64,
    per_operation: Vec<f64>,
    operations: usize,
    spent: f64,
}

impl Sections {
    /// Returns a measurement of sections with `operations` operations each.
    pub fn of(operations: usize) -> Self {
        let counter = quanta::Clock::new();
        let empty: Vec<f64> = (0..256)
            .map(|_| {
                let start = counter.raw();
                counter.delta_as_nanos(start, counter.raw()) as f64
            })
            .collect();
        Sections {
            long: operations >= 50_000,
            counter,
            overhead: undisturbed_mean(&empty).unwrap_or(0.0),
            per_operation: Vec::new(),
            operations: 0,
            spent: 0.0,
        }
    }

    /// Times one section; `work` returns its number of operations.
    #[inline]
    pub fn time(&mut self, work: impl FnOnce() -> usize) {
        let (nanos, operations) = if self.long {
            let start = cpu_nanos();
            let operations = work();
            (cpu_nanos() - start, operations)
        } else {
            let start = self.counter.raw();
            let operations = work();
            let nanos = self.counter.delta_as_nanos(start, self.counter.raw()) as f64;
            ((nanos - self.overhead).max(0.0), operations)
        };
        self.per_operation.push(nanos / operations.max(1) as f64);
        self.operations += operations;
        self.spent += nanos;
    }

    /// Returns the number of completed operations.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Returns whether the round needs another section.
    pub fn wants_more(&self, pace: &Pace) -> bool {
        self.operations < pace.operations && !self.cut(pace)
    }

    fn cut(&self, pace: &Pace) -> bool {
        self.spent >= pace.cut_after.as_nanos() as f64
    }

    /// Returns the cost of an operation.
    pub fn took(&self, pace: &Pace) -> Took {
        Took {
            nanos: undisturbed_mean(&self.per_operation).unwrap_or(f64::NAN),
            operations: self.operations,
            cut: self.operations < pace.operations && self.cut(pace),
        }
    }
}

/// Returns the mean of sections of equal work, in nanoseconds. Sections above ten times the median
/// were interrupted and are left out.
fn undisturbed_mean(sections: &[f64]) -> Option<f64> {
    let most = Spread::of(sections.iter().copied())?.median * 10.0;
    let (mut sum, mut count) = (0.0, 0_usize);
    for &section in sections.iter().filter(|&&section| section <= most) {
        sum += section;
        count += 1;
    }
    Some(sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_sections_do_not_count() {
        assert_eq!(undisturbed_mean(&[]), None);
        assert_eq!(undisturbed_mean(&[2.0, 4.0, 3.0, 500.0]), Some(3.0));
        // The growth of a queue belongs to its cost: a section of a few times the median counts.
        assert_eq!(undisturbed_mean(&[1.0, 1.0, 1.0, 5.0]), Some(2.0));
    }

    #[test]
    fn batches_do_what_they_are_asked() {
        let mut done = 0;
        let took = batch(1000, Duration::from_secs(10), |count| done += count);
        assert_eq!((done, took.operations, took.cut), (1000, 1000, false));
    }

    #[test]
    fn slow_batches_are_cut_short() {
        let (mut done, mut sink) = (0, 0_u64);
        let took = batch(usize::MAX, Duration::from_millis(20), |count| {
            for number in 0..count as u64 * 1000 {
                sink = std::hint::black_box(sink ^ number);
            }
            done += count;
        });
        assert!(took.cut && took.operations == done);
        assert!(took.nanos > 0.0 && took.nanos * (done as f64) < 1e9);
    }

    #[test]
    fn sections_add_up() {
        let pace = Pace {
            operations: 100,
            cut_after: Duration::from_secs(10),
            patience: Duration::from_secs(10),
        };
        let mut sections = Sections::of(10);
        while sections.wants_more(&pace) {
            sections.time(|| 10);
        }
        assert_eq!(sections.took(&pace).operations, 100);
    }
}
