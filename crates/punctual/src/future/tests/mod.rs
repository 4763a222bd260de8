//! The futures on a virtual clock, polled by hand. Threads are in `stress.rs`, other people's executors in
//! `tests/executors.rs`, and the order of a poll and a deadline in `model.rs`.

mod block_on;
mod delay_queue;
mod interval;
mod sleep;
mod timeout;
mod wakers;

use core::future::{Future, pending, ready};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::time::timeline::Timeline;
use crate::time::{VirtualTime, now};

const MS: Duration = Duration::from_millis(1);

/// A task's waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is polled by hand.
struct Task {
    count: Arc<Count>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let count = Arc::<Count>::default();
        let waker = count.clone().into();
        Task { count, waker }
    }

    fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut self.cx())
    }

    /// How often it was woken since this was last asked.
    fn woken(&self) -> usize {
        self.count.0.swap(0, Ordering::Relaxed)
    }

    /// How many wakers of it there are elsewhere.
    fn held(&self) -> usize {
        Arc::strong_count(&self.count) - 2
    }
}

/// How many alarms are armed on this thread's clock.
fn armed() -> usize {
    match Timeline::current() {
        Timeline::Virtual(simulation) => simulation.pending(),
        Timeline::Real => panic!("no virtual clock was entered"),
    }
}

#[test]
fn they_await_one_another() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let start = now();
    let hour = Duration::from_secs(3600);
    let late = time.block_on(timeout(50 * MS, async {
        sleep(20 * MS).await;
        timeout(hour, sleep(20 * MS)).await.unwrap();
        interval(20 * MS).unwrap().tick().await
    }));
    assert_eq!(late, Err(Elapsed));
    assert_eq!(now() - start, 50 * MS);
    assert_eq!(armed(), 0);
}

#[test]
fn futures_may_go_to_other_threads() {
    fn goes<T: Send + Sync + Unpin>(_: &T) {}
    goes(&sleep(MS));
    goes(&timeout(MS, ready(())));
    goes(&interval(MS).unwrap());
    goes(&DelayQueue::<u32>::new());
    // Values of any kind, and futures that want to be pinned.
    fn stays<T: Unpin>(_: &T) {}
    stays(&DelayQueue::<core::marker::PhantomPinned>::new());
    assert!(size_of::<Sleep>() <= 40);
    assert!(size_of::<Timeout<core::future::Ready<()>>>() <= 48);
}
