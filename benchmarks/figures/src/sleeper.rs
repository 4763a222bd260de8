//! A thread that sleeps during a measurement and records how late it wakes. The lateness shows
//! whether the machine had other work.
//!
//! The sleeper is an ordinary thread. If the sleeper does not get a processor in time, the program
//! under test does not get one in time either.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Duration of each sleep.
const PERIOD: Duration = Duration::from_millis(1);

/// If the 99th percentile of the lateness is above this limit, the machine is too busy for a
/// verdict. On an idle machine it is about 0.1 ms, most of which is the kernel's timer slack.
pub const LIMIT: Duration = Duration::from_micros(500);

/// Lateness of the sleeps in a part of a run.
#[derive(Debug, Clone, Default)]
pub struct Sleeps(Vec<Duration>);

impl Sleeps {
    /// Adds the sleeps of another part of the run.
    pub fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Returns the 99th percentile of the lateness; `None` without sleeps.
    pub fn p99(&self) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.into_iter().nth_back(self.0.len() / 100)
    }

    /// Returns true if the machine was too busy for a verdict: the 99th percentile of the lateness
    /// is above [`LIMIT`].
    pub fn late(&self) -> bool {
        self.p99().is_some_and(|late| late > LIMIT)
    }
}

#[derive(Debug, Default)]
struct Shared {
    sleeps: Mutex<Sleeps>,
    stop: AtomicBool,
}

impl Shared {
    fn with_sleeps<T>(&self, work: impl FnOnce(&mut Sleeps) -> T) -> T {
        work(&mut self.sleeps.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The sleeping thread, which ends when this value is dropped.
#[derive(Debug)]
pub struct Sleeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system's error if it starts no thread.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let sleep = move || {
            while !own.stop.load(Relaxed) {
                let due = Instant::now() + PERIOD;
                thread::sleep(PERIOD);
                own.with_sleeps(|sleeps| sleeps.0.push(due.elapsed()));
            }
        };
        let thread = thread::Builder::new().name("sleeper".into()).spawn(sleep)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the sleeps since the last call.
    pub fn take(&mut self) -> Sleeps {
        self.shared.with_sleeps(std::mem::take)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, so `join` does not fail.
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
        assert_eq!((sleeps.p99(), sleeps.late()), (None, false));
        let usual = Duration::from_micros(120);
        sleeps.add(&Sleeps(vec![usual; 99]));
        sleeps.add(&Sleeps(vec![Duration::from_secs(3)]));
        assert_eq!((sleeps.p99(), sleeps.late()), (Some(usual), false));
        sleeps.add(&Sleeps(vec![Duration::from_millis(2)]));
        assert_eq!(sleeps.p99(), Some(Duration::from_millis(2)));
        assert!(sleeps.late());
    }

    #[test]
    fn each_sleep_is_taken_once() {
        let mut sleeper = Sleeper::start().unwrap();
        while sleeper.take().p99().is_none() {
            thread::yield_now();
        }
        sleeper.shared.stop.store(true, Relaxed);
        sleeper.thread.take().unwrap().join().unwrap();
        sleeper.take();
        assert_eq!(sleeper.take().p99(), None);
    }
}
