//! The contenders of the comparison of timeouts, and their interface.
//!
//! All run as tasks of the same tokio runtimes, because tokio's and pingora's timers require them.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::contender::Role;

/// A library with sleeps and timeouts.
pub trait Contender: 'static {
    const NAME: &'static str;
    const ROLE: Role = Role::Peer;
    /// Whether it runs on runtimes with tokio's alternative timers.
    const ALTERNATIVE: bool = false;
    /// Error of a timeout.
    type Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static;
}

pub struct Punctual;

impl Contender for Punctual {
    const NAME: &'static str = "punctual";
    const ROLE: Role = Role::Ours;
    type Elapsed = punctual::future::Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        punctual::future::timeout(time, future)
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        punctual::future::sleep(time)
    }
}

/// A wheel in the runtime, under one lock, with ticks of a millisecond.
pub struct Tokio;

impl Contender for Tokio {
    const NAME: &'static str = "tokio::time";
    type Elapsed = tokio::time::error::Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        tokio::time::timeout(time, future)
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }
}

/// A wheel for each worker of a runtime that is built with `enable_alt_timer`: tokio's new timers, which only a runtime of
/// several threads has, and only with `--cfg tokio_unstable`.
pub struct TokioAlternative;

impl Contender for TokioAlternative {
    const NAME: &'static str = "tokio, enable_alt_timer";
    const ALTERNATIVE: bool = true;
    type Elapsed = tokio::time::error::Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        Tokio::timeout(time, future)
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        Tokio::sleep(time)
    }
}

/// A tree per thread, of alarms that all timeouts of the same 10 ms share. No alarm is removed before its time.
pub struct Pingora;

impl Contender for Pingora {
    const NAME: &'static str = "pingora-timeout";
    type Elapsed = pingora_timeout::Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
        pingora_timeout::fast_timeout::fast_timeout(time, future)
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        pingora_timeout::fast_timeout::fast_sleep(time)
    }
}

/// A heap on its own thread. It has no `timeout`, so its users write one like this.
pub struct FuturesTimer;

impl Contender for FuturesTimer {
    const NAME: &'static str = "futures-timer";
    type Elapsed = ();

    async fn timeout<F: Future + Send>(time: Duration, future: F) -> Result<F::Output, ()> {
        let mut delay = futures_timer::Delay::new(time);
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut delay).poll(cx).map(Err),
        })
        .await
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
        futures_timer::Delay::new(time)
    }
}

/// No timeout: the cost of the harness.
pub struct Nothing;

impl Contender for Nothing {
    const NAME: &'static str = "no timeout";
    const ROLE: Role = Role::Floor;
    type Elapsed = Infallible;

    async fn timeout<F: Future + Send>(
        _time: Duration,
        future: F,
    ) -> Result<F::Output, Infallible> {
        Ok(future.await)
    }

    fn sleep(_time: Duration) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}
