//! How long something took: the CPU time of this thread, or the time-stamp counter for what is short.
//!
//! Asking for the CPU time is a system call of about half a microsecond, so it times batches of
//! milliseconds, and other processes do not disturb it. Sections too short for it are timed with
//! the counter, many of them, and interrupted ones are left out.

use std::time::Duration;

use punctual_figures::spread::Spread;
use rustix::time::{ClockId, clock_gettime};

/// How much to do in a round, and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Operations in a round, if there is time for them.
    pub operations: usize,
    /// A batch longer than this is cut short; its figure stands for what was done.
    pub cut_after: Duration,
    /// How long to prepare a round before giving it up.
    pub patience: Duration,
}

/// How long a round has taken, in CPU time: a machine that is busy with other things is no reason to
/// give up.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(f64);

impl Stopwatch {
    /// From now on.
    pub fn start() -> Self {
        Stopwatch(cpu_nanos())
    }

    /// The CPU time since the start.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos((cpu_nanos() - self.0) as u64)
    }
}

/// What a batch took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Nanoseconds per operation.
    pub nanos: f64,
    /// Operations done.
    pub operations: usize,
    /// Whether it was cut short.
    pub cut: bool,
}

/// CPU time of this thread in nanoseconds.
pub fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Times a batch. `chunk(k)` does k operations; chunks double, so that the clock is read a few times
/// only, and yet a slow batch can be cut short.
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

/// Sections of the same work, timed one by one.
pub struct Sections {
    /// Whether a section is long enough for the CPU clock.
    long: bool,
    counter: quanta::Clock,
    /// What reading the counter twice takes.
    overhead: f64,
    per_operation: Vec<f64>,
    operations: usize,
    spent: f64,
}

impl Sections {
    /// Sections of so many operations each.
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

    /// Times one; `work` says how many operations it did.
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

    /// Operations done so far.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Whether the round needs another section.
    pub fn wants_more(&self, pace: &Pace) -> bool {
        self.operations < pace.operations && !self.cut(pace)
    }

    fn cut(&self, pace: &Pace) -> bool {
        self.spent >= pace.cut_after.as_nanos() as f64
    }

    /// What an operation took.
    pub fn took(&self, pace: &Pace) -> Took {
        Took {
            nanos: undisturbed_mean(&self.per_operation).unwrap_or(f64::NAN),
            operations: self.operations,
            cut: self.operations < pace.operations && self.cut(pace),
        }
    }
}

/// The mean of sections that should all take the same, in nanoseconds: those that took ten times the
/// median were interrupted and are left out.
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
        // Growth belongs to what is measured: a section of a few times the median stays.
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
