//! [`Timeout`]: a future and the time it has.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::time::Instant;

use pin_project_lite::pin_project;

use super::sleep::{Sleep, sleep_until};
use crate::time::timeline::Timeline;

/// Gives a future so much time: its output, or [`Elapsed`]. O(1).
///
/// The future is polled first, so one that is ready is never too late. The time counts from its first poll, when
/// the future begins to work, and not from this call: a future that is ready at its first poll costs neither a clock reading
/// nor a timer. Where the time must count from a certain moment, say it: [`timeout_at`].
///
/// The future is not dropped when its time is up, but when the `Timeout` is; until then it can be had back with [`Timeout::into_inner`].
///
/// ```
/// use std::time::Duration;
/// use punctual::future::{Elapsed, timeout};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
/// let nothing = timeout(Duration::from_millis(1), receiver.recv()).await;
/// assert!(nothing.is_err());
///
/// sender.send("hello").await.unwrap();
/// assert_eq!(timeout(Duration::from_millis(1), receiver.recv()).await, Ok(Some("hello")));
/// # }
/// ```
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: Limit::After(duration),
    }
}

/// Gives a future until an instant: its output, or [`Elapsed`]. O(1).
///
/// The future is polled first, so one that is ready is never too late, whatever the instant.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::timeout_at;
///
/// # smol::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// let first = timeout_at(deadline, async { "read the request" }).await;
/// let then = timeout_at(deadline, std::future::pending::<()>()).await; // what is left of the 5 ms
/// assert!(first.is_ok() && then.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: Limit::Until(sleep_until(deadline)),
    }
}

/// The time is up, and the future is not ready.
///
/// It turns into an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up, and the future is not ready")
    }
}

impl core::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    ///
    /// It is armed when the future is first found not to be ready, and disarmed when it is ready or the `Timeout` is dropped. Dropping
    /// it drops the future in it.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Limit,
    }
}

#[derive(Debug)]
enum Limit {
    /// It has not been polled.
    After(Duration),
    Until(Sleep),
}

impl Limit {
    /// The future is not ready: is its time up? Compiled once, not with every future.
    #[inline(never)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Elapsed> {
        match self {
            Limit::After(Duration::ZERO) => Poll::Ready(Elapsed),
            Limit::After(duration) => {
                let timeline = Timeline::current();
                // It lies ahead: the clock is read now.
                let deadline = timeline.deadline_after(*duration);
                *self = Limit::Until(Sleep::waiting(timeline, deadline, cx.waker()));
                Poll::Pending
            }
            Limit::Until(sleep) => sleep.poll_elapsed(cx).map(|()| Elapsed),
        }
    }

    /// Nobody waits any more.
    #[inline]
    fn end(&mut self) {
        if let Limit::Until(sleep) = self {
            drop(sleep.leave());
        }
    }
}

impl<F> Timeout<F> {
    /// The future. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::timeout;
    /// assert!(timeout(Duration::ZERO, std::future::ready(7)).get_ref().clone().into_inner() == 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future, to be changed. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::timeout;
    /// let mut bounded = timeout(Duration::from_secs(1), std::future::ready(7));
    /// *bounded.get_mut() = std::future::ready(8);
    /// ```
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future, from now on without a limit. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::timeout;
    ///
    /// # smol::block_on(async {
    /// let (sender, receiver) = smol::channel::bounded(1);
    /// let mut bounded = timeout(Duration::from_millis(1), Box::pin(receiver.recv()));
    /// if (&mut bounded).await.is_err() {
    ///     println!("this takes longer than usual");
    /// #   sender.send(7).await;
    ///     assert_eq!(bounded.into_inner().await, Ok(7));
    /// }
    /// # });
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            this.limit.end();
            return Poll::Ready(Ok(output));
        }
        this.limit.poll(cx).map(Err)
    }
}

#[cfg(all(test, not(loom)))]
impl<F> Timeout<F> {
    /// Whether its time has begun: the clock was read.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.limit, Limit::Until(_))
    }
}
