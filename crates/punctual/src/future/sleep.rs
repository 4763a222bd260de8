//! [`Sleep`]: a future that becomes ready at a deadline.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use futures_core::FusedFuture;

use super::waiting::Waiting;
use crate::time::timeline::{self, Timeline};

/// Returns a future that is ready after `duration`. O(1).
///
/// The duration counts from this call, not from the first poll. If it has passed before the first
/// poll, the task is woken at once. A duration of more than 584 years never ends. A duration of
/// zero is ready at the first poll, without letting other tasks run; use the executor's `yield_now`
/// to let them run.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::sleep;
///
/// # smol::block_on(async {
/// let start = Instant::now();
/// sleep(Duration::from_millis(2)).await;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// A `Sleep` is `Unpin`, so a loop can wait for the same `Sleep` again and again:
///
/// ```
/// use std::time::Duration;
/// use punctual::future::{interval, sleep};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut ticks = interval(Duration::from_millis(1))?;
/// let mut end = sleep(Duration::from_millis(20));
/// let mut ticked = 0;
/// loop {
///     tokio::select! {
///         _ = ticks.tick() => ticked += 1,
///         () = &mut end => break,
///     }
/// }
/// assert!((1..=20).contains(&ticked));
/// # Ok(()) }
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    let timeline = Timeline::current();
    let deadline = timeline.deadline_after(duration);
    // Only for the real clock: another thread may advance a virtual clock before the first poll
    // arms the alarm, and the alarm would not fire.
    let ahead = matches!(timeline, Timeline::Real) && !duration.is_zero();
    Sleep {
        timeline,
        deadline,
        state: if ahead { State::Ahead } else { State::Idle },
    }
}

/// Returns a future that is ready at an instant. An instant in the past is ready at the first poll.
/// O(1).
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::sleep_until;
///
/// # smol::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(2);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(Timeline::current(), timeline::tick(deadline))
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// The first poll that has to wait arms the `Sleep`, and dropping disarms it. A `Sleep` that is
/// ready stays ready until it is [reset](Self::reset), and may be polled again.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    timeline: Timeline,
    /// Deadline in ticks of the timeline's driver.
    deadline: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No task waits.
    Idle,
    /// No task waits, and the deadline was in the future when it was set. So the first poll arms
    /// the alarm without reading the clock. If the deadline has passed since, the driver wakes the
    /// task at once.
    Ahead,
    /// A task waits, or has been woken since its last poll.
    Waiting(Waiting),
    /// A poll has found that the deadline has passed.
    Elapsed,
}

impl Sleep {
    pub(super) fn new(timeline: Timeline, deadline: u64) -> Self {
        Sleep {
            timeline,
            deadline,
            state: State::Idle,
        }
    }

    /// Returns the deadline. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use punctual::future::sleep_until;
    ///
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    pub fn deadline(&self) -> Instant {
        timeline::instant(self.deadline)
    }

    /// Returns true if the deadline has passed. Reads the clock, unless a poll has already returned
    /// ready. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::sleep;
    ///
    /// assert!(sleep(Duration::ZERO).is_elapsed());
    /// assert!(!sleep(Duration::from_secs(60)).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        matches!(self.state, State::Elapsed) || self.deadline <= self.timeline.now()
    }

    /// Changes the deadline to an earlier or later instant. O(1).
    ///
    /// A waiting task is woken at the new deadline. If the old deadline has just passed, the task
    /// may be woken spuriously, and its next poll waits again. A reset usually changes only the
    /// timer's record: it neither allocates nor wakes the driver's thread.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use punctual::future::sleep;
    ///
    /// # smol::block_on(async {
    /// let mut idle = sleep(Duration::from_secs(60));
    /// let earlier = Instant::now() + Duration::from_millis(1);
    /// idle.reset(earlier);
    /// (&mut idle).await;
    /// assert!(Instant::now() >= earlier);
    /// # });
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.set_deadline(timeline::tick(deadline));
    }

    /// Calls [`reset`](Self::reset) with `duration` from now on this future's clock. O(1), and a
    /// clock reading.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::sleep;
    ///
    /// let patience = Duration::from_secs(30);
    /// # smol::block_on(async {
    /// # let (sender, replies) = smol::channel::unbounded();
    /// # sender.try_send("pong").unwrap();
    /// # drop(sender);
    /// let mut idle = sleep(patience);
    /// while let Ok(reply) = replies.recv().await {
    ///     assert_eq!(reply, "pong");
    ///     idle.reset_after(patience);
    /// }
    /// assert!(!idle.is_elapsed());
    /// # });
    /// ```
    pub fn reset_after(&mut self, duration: Duration) {
        self.set_deadline(self.timeline.deadline_after(duration));
    }

    /// Calls [`reset`](Self::reset) with a tick.
    pub(super) fn set_deadline(&mut self, deadline: u64) {
        let earlier = deadline < self.deadline;
        self.deadline = deadline;
        let State::Waiting(waiting) = &self.state else {
            self.state = State::Idle;
            return;
        };
        // A poll of a waiting sleep does not read the clock, so a deadline that has passed must not
        // stay armed.
        let passed = earlier && deadline <= self.timeline.now();
        if !passed && !waiting.rearm(&self.timeline, deadline) {
            self.state = State::Idle;
        } else if (passed || self.timeline.has_passed(deadline))
            && let Some(waker) = self.stop_waiting()
        {
            waker.wake();
        }
    }

    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(super) fn tick(&self) -> u64 {
        self.deadline
    }

    /// Returns a sleep whose task waits already. If the deadline has passed, the driver wakes the
    /// task at once.
    #[inline(always)]
    pub(super) fn waiting(timeline: Timeline, deadline: u64, waker: &Waker) -> Self {
        let waiting = Waiting::start(&timeline, deadline, waker);
        Sleep {
            timeline,
            deadline,
            state: State::Waiting(waiting),
        }
    }

    /// Returns true if a task waits. The driver may have woken the task already.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Makes the task of `waker` wait. No task may be waiting. If the deadline has passed, the
    /// driver wakes the task at once.
    ///
    /// Returns false, and the task does not wait, if another thread has advanced a virtual clock
    /// past the deadline meanwhile.
    #[inline]
    pub(super) fn wait(&mut self, waker: &Waker) -> bool {
        debug_assert!(!self.is_waiting());
        let waiting = Waiting::start(&self.timeline, self.deadline, waker);
        self.state = State::Waiting(waiting);
        if self.timeline.has_passed(self.deadline) {
            drop(self.stop_waiting());
        }
        self.is_waiting()
    }

    /// Stops waiting. Returns the waker, or `None` if no task waited or the driver has taken the
    /// waker.
    #[inline]
    pub(super) fn stop_waiting(&mut self) -> Option<Waker> {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Waiting(waiting) => waiting.stop(&self.timeline),
            State::Idle | State::Ahead | State::Elapsed => None,
        }
    }

    #[inline]
    pub(super) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.state {
            State::Elapsed => return Poll::Ready(()),
            State::Waiting(waiting) => {
                if waiting.is_pending(&self.timeline, cx.waker()) {
                    return Poll::Pending;
                }
            }
            State::Idle => {
                if self.deadline > self.timeline.now() && self.wait(cx.waker()) {
                    return Poll::Pending;
                }
            }
            State::Ahead => {
                if self.wait(cx.waker()) {
                    return Poll::Pending;
                }
            }
        }
        self.state = State::Elapsed;
        Poll::Ready(())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().poll_elapsed(cx)
    }
}

/// A sleep is terminated after a poll has returned ready, until it is reset. The `select!` of the
/// crate `futures` skips a terminated sleep.
impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Elapsed)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if self.is_waiting() {
            drop(self.stop_waiting());
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("elapsed", &self.is_elapsed())
            .finish()
    }
}
