//! A thread that sleeps beside a run and records how late it wakes, to show whether the machine had time for the run.
//!
//! The sleeper is an ordinary thread. If it does not get a processor in time, then neither does the program under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Duration of each sleep.
const PERIOD: Duration = Duration::from_millis(1);

/// Greatest lateness that is counted by itself, in units of [`STEP_MICROS`]; a later sleep counts as this late.
const STEPS: usize = 1000;
const STEP_MICROS: u64 = 50;

/// The 99th percentile of the lateness above which a machine is too busy for a verdict. An idle machine has about
/// 0.1 ms, most of it the kernel's timer slack.
pub const LIMIT: Duration = Duration::from_micros(500);

/// Lateness of the sleeps in a part of a run.
#[derive(Debug, Clone)]
pub struct Sleeps {
    /// Number of sleeps by lateness.
    counts: Vec<u64>,
}

/// The sleeping thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Sleeper {
    shared: Arc<Shared>,
    /// Counts that [`Sleeper::take`] has already returned.
    taken: Sleeps,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    counts: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl Default for Sleeps {
    fn default() -> Self {
        Self {
            counts: vec![0; STEPS + 1],
        }
    }
}

impl Sleeps {
    /// Adds the sleeps of another part of the run.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Returns the 99th percentile of the lateness, rounded down to 0.05 ms; `None` without sleeps.
    pub fn p99(&self) -> Option<Duration> {
        let all: u64 = self.counts.iter().sum();
        let mut left = all / 100;
        for (step, &count) in self.counts.iter().enumerate().rev() {
            if count > left {
                return Some(Duration::from_micros(step as u64 * STEP_MICROS));
            }
            left -= count;
        }
        None
    }

    /// Returns true if the machine was too busy for a verdict: the sleeps were late by more than [`LIMIT`].
    pub fn late(&self) -> bool {
        self.p99().is_some_and(|late| late > LIMIT)
    }
}

/// Returns the index of the count for this lateness.
fn step(late: Duration) -> usize {
    let steps = late.as_micros() / u128::from(STEP_MICROS);
    usize::try_from(steps).map_or(STEPS, |steps| steps.min(STEPS))
}

impl Sleeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system's error if it starts no thread.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            counts: (0..=STEPS).map(|_| AtomicU64::new(0)).collect(),
            stop: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("sleeper".into())
            .spawn(move || {
                while !own.stop.load(Relaxed) {
                    let due = Instant::now() + PERIOD;
                    thread::sleep(PERIOD);
                    own.counts[step(due.elapsed())].fetch_add(1, Relaxed);
                }
            })?;
        Ok(Self {
            shared,
            taken: Sleeps::default(),
            thread: Some(thread),
        })
    }

    /// Returns the sleeps since the last call.
    pub fn take(&mut self) -> Sleeps {
        let mut since = Sleeps::default();
        let counts = since.counts.iter_mut().zip(&mut self.taken.counts);
        for ((since, taken), count) in counts.zip(&self.shared.counts) {
            let now = count.load(Relaxed);
            *since = now - *taken;
            *taken = now;
        }
        since
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that panics, and there is nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_sleep_in_a_hundred_is_allowed() {
        let mut sleeps = Sleeps::default();
        let record = |sleeps: &mut Sleeps, late| sleeps.counts[step(late)] += 1;
        assert_eq!((sleeps.p99(), sleeps.late()), (None, false));
        for _ in 0..99 {
            record(&mut sleeps, Duration::from_micros(120));
        }
        record(&mut sleeps, Duration::from_secs(3));
        assert_eq!(sleeps.p99(), Some(Duration::from_micros(100)));
        assert!(!sleeps.late());
        let mut other = Sleeps::default();
        record(&mut other, Duration::from_millis(2));
        sleeps.add(&other);
        assert_eq!(sleeps.p99(), Some(Duration::from_millis(2)));
        assert!(sleeps.late());
    }

    #[test]
    fn each_sleep_is_taken_once() {
        let mut sleeper = Sleeper::start().unwrap();
        let mut first = sleeper.take();
        while first.p99().is_none() {
            thread::yield_now();
            first = sleeper.take();
        }
        sleeper.shared.stop.store(true, Relaxed);
        sleeper.thread.take().unwrap().join().unwrap();
        sleeper.take();
        assert_eq!(sleeper.take().p99(), None);
    }
}
