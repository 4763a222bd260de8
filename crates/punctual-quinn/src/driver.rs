//! The driver: one task per runtime, which sleeps until the earliest deadline and fires due timers.
//!
//! It sleeps on a tokio timer, the only one in use. A connection that postpones its timer
//! writes one record of the queue and nothing of tokio's. A connection that needs the driver
//! earlier resets the tokio timer itself, so the driver runs only when timers are due.
//!
//! A thread of its own would fire within microseconds instead of milliseconds. But it would wake
//! the thread of the connections through the kernel for every timer; the README has the figures.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use punctual::{Epoch, TickScale};
use tokio::time::{Sleep, sleep_until};

use crate::schedule::{BATCH, EarlierWakeup, Next, Schedule};

/// Number of batches fired before other tasks may run.
const BATCHES_PER_POLL: usize = 16;

/// Maximum time that the driver sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The state shared by the runtime, its timers and its driver. The driver ends when the others are dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    epoch: Epoch,
    pub(crate) timers: Mutex<Timers>,
    /// Measures the driver's time, if requested.
    meter: Option<quanta::Clock>,
}

/// The state under the lock.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) schedule: Schedule,
    /// The timer on which the driver sleeps. It holds the driver's waker meanwhile.
    sleep: Pin<Box<Sleep>>,
    /// Wakes the driver when the runtime and its timers are dropped.
    driver: Option<Waker>,
}

impl Shared {
    /// # Panics
    ///
    /// Outside a tokio runtime that has its timers enabled.
    pub(crate) fn new(metered: bool) -> Self {
        let now = now();
        Shared {
            epoch: Epoch::new(now, TickScale::MICROSECOND),
            timers: Mutex::new(Timers {
                schedule: Schedule::default(),
                sleep: Box::pin(sleep_until(now.into())),
                driver: None,
            }),
            meter: metered.then(quanta::Clock::new),
        }
    }

    /// Returns the tick at which a timer with this deadline may fire.
    #[inline]
    pub(crate) fn tick(&self, deadline: Instant) -> u64 {
        self.epoch.deadline(deadline)
    }
}

impl Timers {
    /// Shortens the driver's sleep if needed, without waking it.
    #[inline]
    pub(crate) fn shorten_sleep(&mut self, wakeup: EarlierWakeup, shared: &Shared) {
        if let EarlierWakeup(Some(tick)) = wakeup
            && let Some(instant) = shared.epoch.instant(tick)
        {
            self.sleep.as_mut().reset(instant.into());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(driver) = self.timers.get_mut().driver.take() {
            driver.wake();
        }
    }
}

/// Returns tokio's time, which tests can pause. Nothing else here reads a clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[derive(Debug)]
pub(crate) struct Driver {
    shared: Weak<Shared>,
    /// The wakers of a batch; kept for its allocation.
    due: Vec<Waker>,
}

impl Driver {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Driver {
            shared: Arc::downgrade(shared),
            due: Vec::with_capacity(BATCH),
        }
    }

    fn drive(&mut self, shared: &Shared, cx: &mut Context<'_>) {
        for _ in 0..BATCHES_PER_POLL {
            let now = now();
            let mut timers = shared.timers.lock();
            let sleeps = match timers
                .schedule
                .fire_batch(shared.epoch.reading(now), &mut self.due)
            {
                Next::FireMore => false,
                Next::SleepUntil(tick) => {
                    let longest = now + SLEEP_MAX;
                    let due = shared.epoch.instant(tick);
                    let until = due.map_or(longest, |instant| instant.min(longest));
                    timers.sleep.as_mut().reset(until.into());
                    timers.sleep.as_mut().poll(cx).is_pending()
                }
            };
            let replaced = match &timers.driver {
                Some(driver) if driver.will_wake(cx.waker()) => None,
                _ => timers.driver.replace(cx.waker().clone()),
            };
            drop(timers);
            drop(replaced);
            self.due.drain(..).for_each(Waker::wake);
            if sleeps {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.shared.upgrade() else {
            return Poll::Ready(());
        };
        let Some(clock) = &shared.meter else {
            self.drive(&shared, cx);
            return Poll::Pending;
        };
        let begun = clock.raw();
        self.drive(&shared, cx);
        let nanos = clock.delta_as_nanos(begun, clock.raw());
        shared.timers.lock().schedule.stats.driver_time += Duration::from_nanos(nanos);
        Poll::Pending
    }
}
