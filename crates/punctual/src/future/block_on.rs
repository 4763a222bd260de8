//! [`VirtualTime::block_on`]: an executor of one future that advances the clock instead of waiting.

use core::future::{Future, IntoFuture};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use crate::time::VirtualTime;
use crate::time::timeline::Simulation;

/// The waker of the future: notes that the future must be polled.
struct Woken {
    woken: AtomicBool,
    simulation: Arc<Simulation>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.simulation.notify_watchers();
    }
}

/// Requires the feature `async`.
impl VirtualTime {
    /// Runs a future to its end on this thread. The thread [enters](Self::enter) this clock
    /// meanwhile.
    ///
    /// Whenever the future waits and was not woken, the clock advances to the next deadline at
    /// once; no thread sleeps.
    ///
    /// Pass an `async` block that creates the futures it awaits: a [`sleep`](crate::future::sleep)
    /// that was created before keeps the clock it was created on.
    ///
    /// If the future waits and no timer is armed, this blocks until another thread wakes the future
    /// or arms a timer. In all other cases the clock does not wait for other threads. A test whose
    /// clock must wait for other threads can let them call [`advance`](Self::advance) instead.
    ///
    /// The future may run an executor's tasks, as in `time.block_on(executor.run(future))` with
    /// smol's executor or `time.block_on(local_set.run_until(future))` with tokio's `LocalSet`.
    ///
    /// # Panics
    ///
    /// In a callback of a virtual clock, if the future has to wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::{interval, sleep};
    /// use punctual::time::VirtualTime;
    ///
    /// let time = VirtualTime::new();
    /// let executor = smol::LocalExecutor::new();
    /// let hours = time.block_on(executor.run(async {
    ///     let (sender, chimes) = smol::channel::unbounded();
    ///     executor.spawn(async move {
    ///         let mut clock = interval(Duration::from_secs(3600)).unwrap();
    ///         while sender.send(clock.tick().await).await.is_ok() {}
    ///     }).detach();
    ///     sleep(Duration::from_secs(24 * 3600 + 1)).await;
    ///     chimes.len()
    /// }));
    /// assert_eq!(hours, 24);
    /// ```
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        let _entered = self.enter();
        let task = Arc::new(Woken {
            woken: AtomicBool::new(false),
            simulation: self.simulation.clone(),
        });
        let waker = Waker::from(task.clone());
        let mut future = pin!(future.into_future());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let woken = || task.woken.load(Ordering::SeqCst);
            while !task.woken.swap(false, Ordering::SeqCst) {
                if !self.simulation.advance_to_next(woken) {
                    self.simulation.wait_for_deadline_or(woken);
                }
            }
        }
    }
}
