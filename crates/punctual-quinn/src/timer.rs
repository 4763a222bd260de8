//! A timer for quinn: a handle to a record in the queue.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use punctual::TimerKey;
use quinn::AsyncTimer;

use crate::driver::Shared;
use crate::schedule::TimerState;

/// A timer, which is disarmed when dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    shared: Arc<Shared>,
    key: TimerKey,
}

impl Timer {
    pub(crate) fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        let tick = shared.tick(deadline);
        let mut timers = shared.timers.lock();
        let (key, wakeup) = timers.schedule.arm(tick);
        timers.shorten_sleep(wakeup, &shared);
        drop(timers);
        Timer { shared, key }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let timer = &mut *self;
        let tick = timer.shared.tick(deadline);
        let mut timers = timer.shared.timers.lock();
        let wakeup = timers.schedule.rearm(&mut timer.key, tick);
        timers.shorten_sleep(wakeup, &timer.shared);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self
            .shared
            .timers
            .lock()
            .schedule
            .poll(self.key, cx.waker());
        match asked {
            TimerState::Fired => Poll::Ready(()),
            TimerState::Armed { replaced } => {
                drop(replaced);
                Poll::Pending
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = self.shared.timers.lock().schedule.disarm(self.key);
        drop(waker);
    }
}
