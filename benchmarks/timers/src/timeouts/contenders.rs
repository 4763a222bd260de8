//! The contenders of the comparison of timeouts, and their interface.
//!
//! All contenders run as tasks of tokio runtimes, because tokio's and pingora's timers require a
//! runtime. All of them share the same runtimes, except tokio's alternative timers.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

/// A library with sleeps and timeouts.
pub trait Contender: 'static {
    const NAME: &'static str;
    /// True if the contender runs on runtimes with tokio's alternative timers.
    const ALTERNATIVE: bool = false;
    /// Error of a timeout.
    type Elapsed;

    fn timeout<F: Future + Send>(
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;

    fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static;
}

/// Defines a contender from two functions of a library, `timeout` and `sleep`.
macro_rules! contender {
    ($(#[$about:meta])* $type:ident, $name:literal, $elapsed:ty, $timeout:path, $sleep:path $(, $alternative:literal)?) => {
        $(#[$about])*
        pub struct $type;

        impl Contender for $type {
            const NAME: &'static str = $name;
            $(const ALTERNATIVE: bool = $alternative;)?
            type Elapsed = $elapsed;

            fn timeout<F: Future + Send>(
                time: Duration,
                future: F,
            ) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
                $timeout(time, future)
            }

            fn sleep(time: Duration) -> impl Future<Output = ()> + Send + 'static {
                $sleep(time)
            }
        }
    };
}

contender!(
    Punctual,
    "punctual",
    punctual::future::Elapsed,
    punctual::future::timeout,
    punctual::future::sleep
);

contender!(
    /// A wheel in the runtime, under one lock, with ticks of a millisecond.
    Tokio,
    "tokio::time",
    tokio::time::error::Elapsed,
    tokio::time::timeout,
    tokio::time::sleep
);

contender!(
    /// A wheel for each worker of a runtime that is built with `enable_alt_timer`, which needs
    /// `--cfg tokio_unstable`.
    TokioAlternative,
    "tokio, enable_alt_timer",
    tokio::time::error::Elapsed,
    tokio::time::timeout,
    tokio::time::sleep,
    true
);

contender!(
    /// A tree of alarms for each thread. All timeouts within the same 10 ms share one alarm, and
    /// alarms are not removed before their time.
    Pingora,
    "pingora-timeout",
    pingora_timeout::Elapsed,
    pingora_timeout::fast_timeout::fast_timeout,
    pingora_timeout::fast_timeout::fast_sleep
);

async fn no_timeout<F: Future>(_time: Duration, future: F) -> Result<F::Output, Infallible> {
    Ok(future.await)
}

async fn no_sleep(_time: Duration) {
    std::future::pending().await
}

contender!(
    /// No timeout: shows the cost of the benchmark itself.
    Nothing,
    "no timeout",
    Infallible,
    no_timeout,
    no_sleep
);
