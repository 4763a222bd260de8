//! [`Sleep`]: ready at a time.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use futures_core::FusedFuture;

use super::waiting::Waiting;
use crate::time::timeline::{self, Timeline};

/// Waits until `duration` from now has passed. O(1).
///
/// The time counts from this call, not from the first poll. Should it have passed by then, the task is woken at once. A
/// duration of more than 584 years never ends. One of zero is ready at once, and does not let other tasks run: that is what an
/// executor's `yield_now` is for.
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
/// A `Sleep` is `Unpin`, so a loop may go on waiting for the same one:
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
    // A virtual clock may be moved before the first poll, and fires nothing by itself.
    let ahead = matches!(timeline, Timeline::Real) && !duration.is_zero();
    Sleep {
        timeline,
        deadline,
        state: if ahead { State::Ahead } else { State::Idle },
    }
}

/// Waits until an instant. One in the past is ready at the first poll. O(1).
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
/// It is armed when a poll first has to wait, and disarmed when it is dropped. Once ready, it stays ready until it
/// is [reset](Self::reset): it may be polled again.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    timeline: Timeline,
    /// In ticks of the timeline's driver.
    deadline: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nobody waits.
    Idle,
    /// Nobody waits, and the deadline lay ahead when it was set: the first poll saves itself a look at the clock. Should
    /// the deadline have passed since then, the driver wakes the task at once.
    Ahead,
    /// A task waits, or has been woken since it was last here.
    Waiting(Waiting),
    /// It was found that the deadline has passed.
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

    /// When it is ready. O(1).
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

    /// Whether the deadline has passed: reads the clock, unless a poll has found so already. O(1).
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

    /// Waits until another instant from now on, earlier or later. O(1).
    ///
    /// A task that waits for it is woken at the new time; if the old time had come just before, it is woken for
    /// nothing, and finds at its next poll that it has to wait. No new allocation, and usually no wake-up of the driver.
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
        self.put(timeline::tick(deadline));
    }

    /// [`reset`](Self::reset) to `duration` from now, by the clock that it keeps to. O(1), and a clock reading.
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
        self.put(self.timeline.deadline_after(duration));
    }

    /// [`reset`](Self::reset) to a tick.
    pub(super) fn put(&mut self, deadline: u64) {
        let earlier = deadline < self.deadline;
        self.deadline = deadline;
        let State::Waiting(waiting) = &self.state else {
            self.state = State::Idle;
            return;
        };
        // A poll that finds it waiting takes it that the deadline lies ahead.
        let passed = earlier && deadline <= self.timeline.now();
        if !passed && !waiting.put_off(&self.timeline, deadline) {
            self.state = State::Idle;
        } else if (passed || self.timeline.has_passed(deadline))
            && let Some(waker) = self.leave()
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

    /// One that waits already. The deadline may have passed: then the driver wakes the task at once.
    #[inline(always)]
    pub(super) fn waiting(timeline: Timeline, deadline: u64, waker: &Waker) -> Self {
        let waiting = Waiting::begin(&timeline, deadline, waker);
        Sleep {
            timeline,
            deadline,
            state: State::Waiting(waiting),
        }
    }

    /// Whether a task waits, as far as is known here.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Waits, though the deadline may have passed: then the driver wakes the task at once. Only if nobody waits.
    ///
    /// `false`, and nobody waits, if another thread has moved a virtual clock past the deadline meanwhile.
    #[inline]
    pub(super) fn wait(&mut self, waker: &Waker) -> bool {
        debug_assert!(!self.is_waiting());
        let waiting = Waiting::begin(&self.timeline, self.deadline, waker);
        self.state = State::Waiting(waiting);
        if self.timeline.has_passed(self.deadline) {
            drop(self.leave());
        }
        self.is_waiting()
    }

    /// Leaves the driver. The waker, if it was not woken.
    #[inline]
    pub(super) fn leave(&mut self) -> Option<Waker> {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Waiting(waiting) => waiting.end(&self.timeline),
            State::Idle | State::Ahead | State::Elapsed => None,
        }
    }

    #[inline]
    pub(super) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.state {
            State::Elapsed => return Poll::Ready(()),
            State::Waiting(waiting) => {
                if waiting.goes_on(&self.timeline, cx.waker()) {
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

/// Terminated once it was found ready, until it is reset: `select!` of the crate `futures` leaves it out then.
impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Elapsed)
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if self.is_waiting() {
            drop(self.leave());
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
