//! Futures and streams of time, for any executor: tokio, smol, futures, or your own.
//!
//! ```
//! use std::time::Duration;
//! use punctual::future::{sleep, timeout};
//!
//! # smol::block_on(async {
//! let answer = timeout(Duration::from_secs(5), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//!
//! let answer = timeout(Duration::from_millis(1), sleep(Duration::from_secs(3600))).await;
//! assert!(answer.is_err());
//! # });
//! ```
//!
//! | | | complexity |
//! |---|---|---|
//! | [`sleep`], [`sleep_until`] | ready at a time | O(1) |
//! | [`timeout`], [`timeout_at`] | bounds the time of a future | O(1); nothing, not even a clock reading, if the future is ready at once |
//! | [`interval`], [`interval_at`] | ready again and again; skips what was missed, and does not drift | O(1) a tick |
//! | [`DelayQueue`] | values that come out when their time has come | O(1) an operation |
//!
//! Nothing has to be set up, and no runtime's own timers have to be enabled. The futures are woken by the
//! [driver](crate::driver) of the process: one thread that sleeps exactly until the next deadline. Waiting futures
//! of different threads do not contend for a lock.
//!
//! # Exactness
//!
//! Deadlines are kept to the nanosecond: nothing is ready early, and a task is woken as soon after its deadline as
//! the system wakes the driver's thread and the executor its own, usually within 0.1 ms. Runtimes whose timers are
//! part of their event loop round to a millisecond.
//!
//! # Cancellation
//!
//! Everything here may be dropped at any time, between any two polls: a dropped future is disarmed at once and
//! leaves nothing behind. [`Interval::tick`] and [`DelayQueue::next`] lose nothing when they are dropped, and so can be branches of a
//! `select!` in a loop. Forgetting a future (`mem::forget`) costs a spurious wake-up, no more.
//!
//! # Tests
//!
//! On a thread that has entered a [`VirtualTime`](crate::time::VirtualTime), all of this runs on that clock, which
//! moves only when it is told to:
//!
//! ```
//! use std::future::Future;
//! use std::pin::pin;
//! use std::task::{Context, Waker};
//! use std::time::Duration;
//! use punctual::future::sleep;
//! use punctual::time::VirtualTime;
//!
//! let time = VirtualTime::new();
//! let _entered = time.enter();
//! let mut year = pin!(sleep(Duration::from_secs(365 * 86_400)));
//! let mut cx = Context::from_waker(Waker::noop());
//! assert!(year.as_mut().poll(&mut cx).is_pending());
//! time.advance(Duration::from_secs(365 * 86_400));
//! assert!(year.as_mut().poll(&mut cx).is_ready());
//! ```
//!
//! # Ground rules
//!
//! - A future owns at most one alarm of its timeline's driver: a waker. It is armed when a poll first has to wait,
//!   and disarmed when the future is done with or dropped.
//! - `waiting` alone talks to the driver about wakers. A waker is cloned, woken and dropped with no lock held, for all three may run the executor's code.
//! - A future keeps to the timeline that it first had to do with: that of the thread it was made on, or, for a [`Timeout`],
//!   first polled on.

mod delay_queue;
mod interval;
#[cfg(all(test, loom))]
mod model;
mod sleep;
#[cfg(all(test, not(loom)))]
mod stress;
#[cfg(all(test, not(loom)))]
mod tests;
mod timeout;
mod waiting;

pub use delay_queue::{DelayQueue, Expired, Next};
pub use interval::{Interval, Tick, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
