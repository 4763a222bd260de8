//! [`Timeout`]: a future with a time limit.

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

/// Limits the time of a future: the result is its output, or [`Elapsed`]. O(1).
///
/// A poll polls the future before it checks the limit, so a ready future is never too late. The
/// duration counts from the first poll, when the future starts to work, not from this call. So a
/// future that is ready at its first poll costs no clock reading and no timer. To count from
/// another moment, use [`timeout_at`].
///
/// When the time is up, the `Timeout` still owns the future; [`Timeout::into_inner`] returns it.
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

/// Limits a future to an instant: the result is its output, or [`Elapsed`]. O(1).
///
/// A poll polls the future before it checks the instant, so a ready future is never too late.
///
/// ```
/// use std::time::{Duration, Instant};
/// use punctual::future::timeout_at;
///
/// # smol::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// let first = timeout_at(deadline, async { "read the request" }).await;
/// let then = timeout_at(deadline, std::future::pending::<()>()).await; // the rest of the 5 ms
/// assert!(first.is_ok() && then.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: Limit::Until(sleep_until(deadline)),
    }
}

/// The error of a future that was not ready in time.
///
/// It converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
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
    /// The first poll that finds the future not ready arms a timer. The timer is disarmed when the
    /// future is ready or the `Timeout` is dropped. Dropping the `Timeout` drops the future.
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
    /// The duration from the first poll, while the `Timeout` was not polled yet.
    After(Duration),
    Until(Sleep),
}

impl Limit {
    /// Polls the limit of a future that is not ready. The function is not generic, so it is
    /// compiled once.
    #[inline(never)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Elapsed> {
        match self {
            Limit::After(Duration::ZERO) => Poll::Ready(Elapsed),
            Limit::After(duration) => {
                let timeline = Timeline::current();
                // The deadline is in the future, because the clock was just read.
                let deadline = timeline.deadline_after(*duration);
                *self = Limit::Until(Sleep::waiting(timeline, deadline, cx.waker()));
                Poll::Pending
            }
            Limit::Until(sleep) => sleep.poll_elapsed(cx).map(|()| Elapsed),
        }
    }

    /// Disarms the limit.
    #[inline]
    fn disarm(&mut self) {
        if let Limit::Until(sleep) = self {
            drop(sleep.stop_waiting());
        }
    }
}

impl<F> Timeout<F> {
    /// Returns the future. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::future::timeout;
    /// assert!(timeout(Duration::ZERO, std::future::ready(7)).get_ref().clone().into_inner() == 7);
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the future for modification. O(1).
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

    /// Returns the future without its limit. O(1).
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
            this.limit.disarm();
            return Poll::Ready(Ok(output));
        }
        this.limit.poll(cx).map(Err)
    }
}

#[cfg(all(test, not(loom)))]
impl<F> Timeout<F> {
    /// Returns true if the `Timeout` was polled and has set its deadline.
    pub(super) fn has_started(&self) -> bool {
        matches!(self.limit, Limit::Until(_))
    }
}
