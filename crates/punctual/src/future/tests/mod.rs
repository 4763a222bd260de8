//! Tests of the futures on a virtual clock, polled by hand. `stress.rs` tests them with threads,
//! `tests/executors.rs` with real executors, and `model.rs` checks the interleavings of a poll and
//! a deadline.

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

/// Counts the wake-ups of a task.
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

    /// Returns the number of wake-ups since the last call.
    fn woken(&self) -> usize {
        self.count.0.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of clones of the waker outside this task.
    fn waker_clones(&self) -> usize {
        Arc::strong_count(&self.count) - 2
    }
}

/// Returns the number of armed alarms on this thread's clock.
fn armed() -> usize {
    match Timeline::current() {
        Timeline::Virtual(simulation) => simulation.pending(),
        Timeline::Real => panic!("no virtual clock was entered"),
    }
}

#[test]
fn futures_and_streams_compose() {
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
    fn check_send<T: Send + Sync + Unpin>(_: &T) {}
    check_send(&sleep(MS));
    check_send(&timeout(MS, ready(())));
    check_send(&interval(MS).unwrap());
    check_send(&DelayQueue::<u32>::new());
    // A queue is `Unpin` for values of any type.
    fn check_unpin<T: Unpin>(_: &T) {}
    check_unpin(&DelayQueue::<core::marker::PhantomPinned>::new());
    assert!(size_of::<Sleep>() <= 40);
    assert!(size_of::<Timeout<core::future::Ready<()>>>() <= 48);
}
