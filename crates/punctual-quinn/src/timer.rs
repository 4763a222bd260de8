//! One timer of quinn's: a handle to a record in the queue, and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use punctual::TimerKey;
use quinn::AsyncTimer;

use crate::driver::Shared;
use crate::schedule::Asked;

/// A timer. Disarmed when dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
    key: TimerKey,
}

impl Timer {
    pub(crate) fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        let tick = shared.tick(deadline);
        let (key, driver) = shared.schedule.lock().arm(tick);
        driver.wake();
        Timer { shared, key }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let timer = &mut *self;
        let tick = timer.shared.tick(deadline);
        let driver = timer.shared.schedule.lock().rearm(&mut timer.key, tick);
        driver.wake();
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.shared.schedule.lock().ask(self.key, cx.waker());
        match asked {
            Asked::Fired => Poll::Ready(()),
            Asked::Armed { replaced } => {
                drop(replaced);
                Poll::Pending
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = self.shared.schedule.lock().disarm(self.key);
        drop(waker);
    }
}
