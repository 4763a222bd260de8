//! Whose timeouts: what a contender has to offer, and those that offer it.
//!
//! All run as tasks of the same tokio runtimes, for tokio's timers and pingora's only work there.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::contender::Role;

/// Sleeping, and giving a future so much time.
pub trait Contender: 'static {
    const NAME: &'static str;
    const ROLE: Role = Role::Peer;
    /// That the time is up.
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

/// A wheel in the runtime, under one lock; to the millisecond.
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

/// A tree for each thread, of alarms that all timeouts of the same 10 ms share. None is ever taken out before its time.
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

/// A heap that a thread of its own keeps; it has no `timeout`, so its users write this one or have it written.
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

/// No timeout at all: what the harness costs.
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
