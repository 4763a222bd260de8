//! An alarm that is a sleeping thread, for systems without a better one.
//!
//! The thread sleeps until the deadline, and then writes a byte to a pipe, whose other end the poll
//! watches. If the loop sets an earlier deadline, it wakes the thread. A lock guards the deadline.
//! The thread disarms the alarm before it writes the byte, so a deadline that the loop sets after
//! the byte is never lost.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mio::unix::pipe::{self, Receiver, Sender};
use mio::{Interest, Registry, Token};
use parking_lot::{Condvar, Mutex};

use crate::world::alarm::sleep_until;
use crate::world::{JoinHandle, World};

/// Name of the alarm in INFO.
pub(crate) const NAME: &str = "thread";

/// Wakes a loop at an absolute time. Dropping the alarm ends its thread.
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    /// Readable after the alarm has fired.
    fired: Receiver,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Unix time in milliseconds at which the alarm fires; `u64::MAX` if it is disarmed.
    at_ms: u64,
    ended: bool,
}

impl Alarm {
    /// Creates an alarm that reports its events to a poll under this token.
    ///
    /// # Errors
    /// Returns an error if the system refuses a pipe or a thread.
    pub(crate) fn new(world: World, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::with_clock(world, registry, token, SystemTime::now)
    }

    fn with_clock(
        world: World,
        registry: &Registry,
        token: Token,
        clock: impl Fn() -> SystemTime + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, mut fired) = pipe::new()?;
        registry.register(&mut fired, token, Interest::READABLE)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                at_ms: u64::MAX,
                ended: false,
            }),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = world.spawn("punctual-alarm", move || own.ring(bell, clock))?;
        Ok(Self {
            shared,
            fired,
            thread: Some(thread),
        })
    }

    /// Reads the bytes of the pipe, after the alarm has fired.
    pub(crate) fn fired(&mut self) {
        while matches!(self.fired.read(&mut [0; 16]), Ok(1..)) {}
    }

    /// Arms the alarm to fire at `at_ms` (Unix milliseconds) or earlier. Returns no timeout for the
    /// poll.
    pub(crate) fn set(&mut self, at_ms: u64) -> Option<Duration> {
        let mut state = self.shared.state.lock();
        if at_ms < state.at_ms {
            state.at_ms = at_ms;
            self.shared.changed.notify_one();
        }
        None
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, its message is already printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Writes a byte to the pipe at each deadline, until the alarm is dropped.
    fn ring(&self, mut bell: Sender, clock: impl Fn() -> SystemTime) {
        let mut state = self.state.lock();
        while !state.ended {
            if state.at_ms == u64::MAX {
                self.changed.wait(&mut state);
                continue;
            }
            let left = sleep_until(state.at_ms, clock());
            if left.is_zero() {
                state.at_ms = u64::MAX;
                // If the pipe is full, it is readable already.
                let _ = bell.write(&[0]);
            } else {
                self.changed.wait_for(&mut state, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use mio::{Events, Poll};

    use super::*;

    /// Creates an alarm on a clock that the test moves.
    fn alarm(poll: &Poll) -> (Alarm, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&now);
        let clock =
            move || SystemTime::UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::SeqCst));
        let alarm = Alarm::with_clock(World::new(1), poll.registry(), Token(7), clock);
        (alarm.unwrap(), now)
    }

    #[test]
    fn dropping_the_alarm_ends_its_thread() {
        let poll = Poll::new().unwrap();
        for at_ms in [u64::MAX, 1_000_000, 0] {
            let (mut alarm, _) = alarm(&poll);
            alarm.set(at_ms);
            let shared = Arc::downgrade(&alarm.shared);
            drop(alarm);
            // The thread holds a reference until it ends.
            assert_eq!(shared.strong_count(), 0);
        }
    }

    #[test]
    fn the_alarm_notices_that_the_clock_was_set() {
        let mut poll = Poll::new().unwrap();
        let (mut alarm, now) = alarm(&poll);
        alarm.set(3_600_000);
        now.store(3_600_000, Ordering::SeqCst);
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(Duration::from_secs(60)))
            .unwrap();
        assert!(!events.is_empty(), "the alarm is lost");
        // The thread disarms the alarm before it writes the byte.
        assert_eq!(alarm.shared.state.lock().at_ms, u64::MAX);
    }
}
