//! The machine that a server runs on: clocks, randomness, threads, files, and the process.
//!
//! A server receives its [`World`] when it is created, and takes clocks, random numbers and threads
//! from it: `scripts/check-layout` refuses other uses, except in `program/`, `crash/` and tests.
//! The log reads the clock for its timestamps directly, and `persist/aof/syncers.rs` starts scoped
//! threads.

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod process;
pub mod system;

use std::fmt;
use std::io;
use std::sync::LazyLock;
/// Handle of a thread that [`World::spawn`] has started.
pub(crate) use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::clock_gettime;
/// A counter that measures the durations of commands.
pub(crate) use quanta::Clock as Counter;

/// A reading of the stopwatch: the time since the machine started, including suspension. Neither a
/// virtual clock nor a step of the system clock affects it.
pub(crate) type Moment = Duration;

/// The clocks, the randomness and the threads of a server.
#[derive(Clone, Copy)]
pub(crate) struct World {
    seed: u64,
}

impl Default for World {
    /// Returns a world with a random seed.
    fn default() -> Self {
        Self::new(0)
    }
}

impl fmt::Debug for World {
    /// Writes no seed, because the seed is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Creates the world of a server. With 0 the seed is random.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed: if seed == 0 { rand::random() } else { seed },
        }
    }

    /// Returns the system's unix time in microseconds; 0 before 1970.
    #[inline]
    pub(crate) fn wall_micros(self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| {
            d.as_secs() * 1_000_000 + u64::from(d.subsec_micros())
        })
    }

    /// Reads the stopwatch through the C library. rustix would look for the vDSO, which Valgrind
    /// hides, and would abort a program that runs a server under Valgrind.
    #[inline]
    pub(crate) fn stopwatch(self) -> Moment {
        let since = clock_gettime(system::STOPWATCH).expect("the system has this clock");
        Duration::new(since.tv_sec() as u64, since.tv_nsec() as u32)
    }

    /// Reads the stopwatch, in milliseconds.
    pub(crate) fn stopwatch_ms(self) -> u64 {
        let since = clock_gettime(system::STOPWATCH).expect("the system has this clock");
        since.tv_sec() as u64 * 1_000 + since.tv_nsec() as u64 / 1_000_000
    }

    /// Returns the time since `began`, by the stopwatch.
    pub(crate) fn since(self, began: Moment) -> Duration {
        self.stopwatch().saturating_sub(began)
    }

    /// Returns a clock that measures the durations of commands. A reading takes a few nanoseconds.
    pub(crate) fn counter(self) -> Counter {
        // A new one asks for the processor's features, which takes long in a virtual machine.
        static COUNTER: LazyLock<Counter> = LazyLock::new(Counter::new);
        COUNTER.clone()
    }

    /// Blocks the calling thread.
    pub(crate) fn sleep(self, time: Duration) {
        Self::nap(time);
    }

    /// Blocks the calling thread, which waits for a shard of the keyspace. The store gets this
    /// function because it has no clock.
    pub(crate) fn nap(time: Duration) {
        std::thread::sleep(time);
    }

    /// Lets another thread run on this processor.
    pub(crate) fn yield_now(self) {
        std::thread::yield_now();
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// Returns an error if the system refuses another thread.
    pub(crate) fn spawn<T: Send + 'static>(
        self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
    }

    /// Returns the seed of the keyspace, from which all of its random numbers follow.
    pub(crate) fn seed(self) -> u64 {
        self.seed
    }

    /// Returns a random number that does not depend on the seed.
    pub(crate) fn random(self) -> u64 {
        rand::random()
    }

    /// Returns `N` random hexadecimal digits.
    pub(crate) fn hex_digits<const N: usize>(self) -> [u8; N] {
        std::array::from_fn(|_| b"0123456789abcdef"[rand::random_range(0..16)])
    }
}
