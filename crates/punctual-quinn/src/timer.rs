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
        let mut timers = shared.timers.lock();
        let (key, hurry) = timers.schedule.arm(tick);
        timers.hurry(hurry, &shared);
        drop(timers);
        Timer { shared, key }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let timer = &mut *self;
        let tick = timer.shared.tick(deadline);
        let mut timers = timer.shared.timers.lock();
        let hurry = timers.schedule.rearm(&mut timer.key, tick);
        timers.hurry(hurry, &timer.shared);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.shared.timers.lock().schedule.ask(self.key, cx.waker());
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
        let waker = self.shared.timers.lock().schedule.disarm(self.key);
        drop(waker);
    }
}
