//! The driver: one task per runtime, which sleeps until the earliest deadline and fires what is due.
//!
//! It sleeps on a tokio timer, the only one there is. So a connection that puts its timer off
//! touches one record of the queue and nothing of tokio's, and a connection that needs the driver
//! earlier sets that timer itself: the driver runs only when time has come.
//!
//! A thread of its own would fire to the microsecond rather than to the millisecond. But it wakes
//! the thread of the connections for every timer, through the kernel; the README has the figures.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use punctual::{Epoch, TickScale};
use tokio::time::{Sleep, sleep_until};

use crate::schedule::{BATCH, Hurry, Next, Schedule};

/// Batches fired before other tasks have their turn.
const BATCHES_PER_POLL: usize = 16;

/// How long the driver sleeps if nothing is due for longer.
const SLEEP_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What the runtime, its timers and its driver share. The driver ends when the others are gone.
#[derive(Debug)]
pub(crate) struct Shared {
    epoch: Epoch,
    pub(crate) timers: Mutex<Timers>,
    /// For metering the driver.
    meter: Option<quanta::Clock>,
}

/// What the lock is for.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) schedule: Schedule,
    /// What the driver sleeps on. It holds the driver's waker while the driver sleeps.
    sleep: Pin<Box<Sleep>>,
    /// The driver, to be woken for good.
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

    /// The tick at which a timer may fire.
    #[inline]
    pub(crate) fn tick(&self, deadline: Instant) -> u64 {
        self.epoch.deadline(deadline)
    }
}

impl Timers {
    /// Lets the driver sleep less. It need not run for that.
    #[inline]
    pub(crate) fn hurry(&mut self, hurry: Hurry, shared: &Shared) {
        if let Hurry(Some(tick)) = hurry
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

/// tokio's clock, which tests may stop. Nothing else here reads one.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[derive(Debug)]
pub(crate) struct Driver {
    shared: Weak<Shared>,
    /// Wakers of a batch; kept for its allocation.
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
                .turn(shared.epoch.reading(now), &mut self.due)
            {
                Next::Turn => false,
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
