//! The driver: one task per runtime, which sleeps until the earliest deadline and fires what is due.
//!
//! It sleeps on a tokio timer, the only one there is. So a connection that puts its timer off
//! touches one record of the queue and nothing of tokio's, and no thread is woken but by tokio.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use punctual::{Epoch, TickScale};
use tokio::time::{Sleep, sleep_until};

use crate::schedule::{BATCH, Next, Schedule};

/// Batches fired before other tasks have their turn.
const BATCHES_PER_POLL: usize = 16;

/// What the runtime, its timers and its driver share. The driver ends when the others are gone.
#[derive(Debug)]
pub(crate) struct Shared {
    epoch: Epoch,
    pub(crate) schedule: Mutex<Schedule>,
    /// For metering the driver.
    meter: Option<quanta::Clock>,
}

impl Shared {
    pub(crate) fn new(metered: bool) -> Self {
        Shared {
            epoch: Epoch::new(now(), TickScale::MICROSECOND),
            schedule: Mutex::default(),
            meter: metered.then(quanta::Clock::new),
        }
    }

    /// The tick at which a timer may fire.
    #[inline]
    pub(crate) fn tick(&self, deadline: Instant) -> u64 {
        self.epoch.deadline(deadline)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(driver) = self.schedule.get_mut().take_driver() {
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
    sleep: Pin<Box<Sleep>>,
    /// The tick that `sleep` is set to.
    set_to: Option<u64>,
    /// Wakers of a batch; kept for its allocation.
    due: Vec<Waker>,
}

impl Driver {
    /// # Panics
    ///
    /// Outside a tokio runtime that has its timers enabled.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Driver {
            shared: Arc::downgrade(shared),
            sleep: Box::pin(sleep_until(tokio::time::Instant::now())),
            set_to: None,
            due: Vec::with_capacity(BATCH),
        }
    }

    fn drive(&mut self, shared: &Shared, cx: &mut Context<'_>) {
        for _ in 0..BATCHES_PER_POLL {
            let tick = shared.epoch.reading(now());
            let mut schedule = shared.schedule.lock();
            let next = schedule.turn(tick, &mut self.due);
            let replaced = schedule.call(cx.waker());
            drop(schedule);
            drop(replaced);
            self.due.drain(..).for_each(Waker::wake);
            let pending = match next {
                Next::Turn => false,
                Next::Sleep => true,
                // Beyond what `Instant` can say there is nothing to sleep for.
                Next::SleepUntil(tick) => shared
                    .epoch
                    .instant(tick)
                    .is_none_or(|instant| self.sleeps(tick, instant, cx)),
            };
            if pending {
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Sleeps; false if it is time already.
    fn sleeps(&mut self, tick: u64, instant: Instant, cx: &mut Context<'_>) -> bool {
        if self.set_to != Some(tick) {
            self.sleep.as_mut().reset(instant.into());
            self.set_to = Some(tick);
        }
        self.sleep.as_mut().poll(cx).is_pending()
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
        shared.schedule.lock().stats.driver_time += Duration::from_nanos(nanos);
        Poll::Pending
    }
}
