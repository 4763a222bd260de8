//! One timer of quinn's: a handle to a record in the queue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use punctual::TimerKey;
use quinn::AsyncTimer;

use crate::driver::Shared;

/// A timer. Disarmed when dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
    key: TimerKey,
    /// Set by the driver as it takes the timer out of the queue.
    fired: Arc<AtomicBool>,
    /// The waker that the record holds, so that polling again by the same task takes no lock.
    registered: Option<Waker>,
}

impl Timer {
    pub(crate) fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        let fired = Arc::new(AtomicBool::new(false));
        let tick = shared.tick(deadline);
        let (key, driver) = shared.schedule.lock().arm(tick, fired.clone(), None);
        driver.wake();
        Timer {
            shared,
            key,
            fired,
            registered: None,
        }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let timer = &mut *self;
        let tick = timer.shared.tick(deadline);
        let mut schedule = timer.shared.schedule.lock();
        let driver = match schedule.rearm(timer.key, tick) {
            Some(driver) => driver,
            None => {
                let waker = timer.registered.clone();
                let (key, driver) = schedule.arm(tick, timer.fired.clone(), waker);
                timer.key = key;
                driver
            }
        };
        drop(schedule);
        driver.wake();
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timer = &mut *self;
        if timer.fired.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        match &timer.registered {
            Some(waker) if waker.will_wake(cx.waker()) => return Poll::Pending,
            _ => {}
        }
        let waker = cx.waker().clone();
        timer.registered = Some(waker.clone());
        let replaced = timer.shared.schedule.lock().register(timer.key, waker);
        drop(replaced);
        // It may have fired since it was asked, without waking this task.
        match timer.fired.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let armed = self.shared.schedule.lock().disarm(self.key);
        drop(armed);
    }
}
