//! Timer futures and streams for any executor: tokio, smol, futures, or your own.
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
//! | [`sleep`], [`sleep_until`] | become ready at a deadline | O(1) |
//! | [`timeout`], [`timeout_at`] | limit the time of a future | O(1); free if it is ready at once |
//! | [`interval`], [`interval_at`] | tick periodically, without drift | O(1) per tick |
//! | [`DelayQueue`] | yields values when they are due | O(1) per operation |
//!
//! The futures need no setup, and a runtime's own timers need not be enabled. The
//! [driver](crate::driver) of the process wakes them: a thread that sleeps exactly until the next
//! deadline. Waiting futures of different threads rarely contend for a lock.
//!
//! # Exactness
//!
//! Deadlines have nanosecond precision, and no future is ready early. After a deadline, the system
//! wakes the driver's thread, and the executor wakes the task, usually within 0.1 ms. Runtimes
//! whose timers are part of their event loop round deadlines to a millisecond.
//!
//! # Cancellation
//!
//! All futures may be dropped between any two polls. A dropped future is disarmed at once, and the
//! driver reuses its memory. Dropping [`Interval::tick`] or [`DelayQueue::next`] loses no tick and
//! no value, so they can be branches of a `select!` in a loop. Forgetting a future (`mem::forget`)
//! costs only a spurious wake-up.
//!
//! # Tests
//!
//! [`VirtualTime::block_on`] runs a future on a virtual clock, which advances to the next deadline
//! by itself whenever the future has nothing else to do:
//!
//! ```
//! use std::time::Duration;
//! use punctual::future::{sleep, timeout};
//! use punctual::time::{VirtualTime, now};
//!
//! const DAY: Duration = Duration::from_secs(86_400);
//! let time = VirtualTime::new();
//! time.block_on(async {
//!     let start = now();
//!     let bounded = timeout(30 * DAY, sleep(365 * DAY)).await;
//!     assert!(bounded.is_err());
//!     assert_eq!(now() - start, 30 * DAY);
//! });
//! ```
//!
//! On other executors, these futures use the virtual clock that the thread has [entered], which
//! moves only when a thread advances it. Let every thread of a runtime enter the clock, and leak
//! the guards:
//!
//! ```
//! use std::time::Duration;
//! use punctual::future::sleep;
//! use punctual::time::VirtualTime;
//!
//! let time = VirtualTime::new();
//! let on_workers = time.clone();
//! let runtime = tokio::runtime::Builder::new_multi_thread()
//!     .worker_threads(2)
//!     .on_thread_start(move || std::mem::forget(on_workers.enter()))
//!     .build()?;
//!
//! let task = runtime.spawn(async { sleep(Duration::from_secs(3600)).await });
//! time.wait_for_pending(1); // the task waits
//! time.advance(Duration::from_secs(3600));
//! runtime.block_on(task)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`VirtualTime::block_on`]: crate::time::VirtualTime::block_on
//! [entered]: crate::time::VirtualTime::enter
//!
//! # Ground rules
//!
//! - A future owns at most one alarm, which holds a waker. A poll that has to wait arms the alarm.
//!   The alarm is disarmed when the future is ready or dropped.
//! - Only the module `waiting` passes wakers to the driver. A waker is cloned, woken and dropped
//!   with no lock held, because all three may run the executor's code.
//! - A future keeps its *timeline*: the real clock, or the virtual clock that its thread has
//!   entered. The timeline is chosen when the future is created, or when a [`Timeout`] is first
//!   polled.

mod block_on;
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
pub use interval::{Interval, MissedTickBehavior, Tick, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};
