//! Timer queues for servers and runtimes, with exact deadlines.
//!
//! ```
//! use punctual::Wheel;
//!
//! let mut timeouts = Wheel::new();
//! let request = timeouts.insert(1_500, "request 1"); // due at tick 1,500
//! timeouts.insert(900, "request 2");
//!
//! assert_eq!(timeouts.next_deadline(), Some(900)); // sleep until then
//! assert_eq!(timeouts.pop_due(1_000).map(|expired| expired.value), Some("request 2"));
//! assert_eq!(timeouts.remove(request), Some("request 1")); // answered in time
//! assert!(timeouts.is_empty());
//! ```
//!
//! - [`queue`]: deadline queues over `u64` ticks of any length. [`Wheel`], a hierarchical timing
//!   wheel, suits any number of timers. [`RawWheel`](queue::wheel::RawWheel) is a wheel for timers
//!   that the caller stores.
//! - [`timeouts`]: a queue of `Instant`s over a wheel, for protocols that do no I/O themselves.
//! - [`tick`]: conversion between times and ticks. All rounding happens there, so that no timer
//!   fires early.
//! - [`time`]: timers, tickers and timeouts with Go's semantics, and a virtual clock for tests.
//! - [`driver`]: a thread that sleeps exactly until the next deadline and fires the due timers.
//! - `future` (feature `async`): `sleep`, `timeout`, `interval` and a `DelayQueue` for any
//!   executor.
//!
//! # An event loop
//!
//! The queues read no clock. An event loop waits for events until the next deadline, reads the
//! clock once per iteration, and then pops the due timers. [`Epoch`] rounds deadlines up and clock
//! readings down, so no timer fires early. The loop below waits for events from a channel; a loop
//! with sockets calls `epoll` or `poll` with the same timeout.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use punctual::{Epoch, TickScale, Wheel};
//! use std::sync::mpsc::{RecvTimeoutError, channel};
//! use std::time::{Duration, Instant};
//!
//! let (requests, incoming) = channel();
//! requests.send("request 1").unwrap();
//! requests.send("request 2").unwrap();
//!
//! let epoch = Epoch::new(Instant::now(), TickScale::MILLISECOND);
//! let mut timeouts = Wheel::new();
//! let mut timed_out = Vec::new();
//! while timed_out.len() < 2 {
//!     let wakeup = timeouts.next_wakeup().and_then(|tick| epoch.instant(tick));
//!     // If no timer is armed, wait up to an hour for the next request.
//!     let wait = wakeup.map_or(Duration::from_secs(3_600), |wakeup| {
//!         wakeup.saturating_duration_since(Instant::now())
//!     });
//!     match incoming.recv_timeout(wait) {
//!         Ok(request) => {
//!             let deadline = Instant::now() + Duration::from_millis(5);
//!             timeouts.insert(epoch.deadline(deadline), request);
//!         }
//!         Err(RecvTimeoutError::Timeout) => {}
//!         Err(RecvTimeoutError::Disconnected) => break,
//!     }
//!     let now = epoch.reading(Instant::now());
//!     timed_out.extend(timeouts.due(now).map(|expired| expired.value));
//! }
//! assert_eq!(timed_out, ["request 1", "request 2"]);
//! # }
//! ```
//!
//! A loop whose events must not wait for many due timers pops with a budget
//! ([`poll_due`](Wheel::poll_due)). A program that needs only timers uses the [`driver`], which
//! also wakes its thread when another thread arms an earlier timer.
//!
//! # Other designs
//!
//! | | arm, cancel, re-arm | deadlines | order | clock |
//! |---|---|---|---|---|
//! | [`Wheel`] | O(1) | all of `u64` | exact; ties in the order of arming | passed in |
//! | tokio-util's `DelayQueue` | O(1) | two years ahead | no order within a millisecond | tokio's |
//! | [`Heap`], `BinaryHeap` with handles | O(log n) | all | exact | passed in |
//! | `BinaryHeap` that keeps cancelled entries | O(log n) | all | exact | passed in |
//!
//! A heap is as fast as a wheel if a program has a few thousand timers and nearly all of them fire.
//! But programs cancel or postpone most timeouts, and for each of these operations the wheel
//! touches only one record.
//!
//! # Features
//!
//! - `std` (enabled by default): `Epoch`, the driver and the time API. Without this feature, the
//!   crate needs only `alloc`.
//! - `async`: futures and streams on the driver.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// cargo-fuzz sets `fuzzing` for the model that tests share with the fuzz target.
#![cfg_attr(test, allow(unexpected_cfgs))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
// The model shared by tests and fuzzing imports the crate by name.
#[cfg(test)]
extern crate self as punctual;

#[cfg(feature = "std")]
pub mod driver;
#[cfg(feature = "async")]
pub mod future;
pub mod queue;
pub mod tick;
#[cfg(feature = "std")]
pub mod time;
#[cfg(feature = "std")]
pub mod timeouts;

pub use queue::wheel::Wheel;
pub use queue::{DeadlineQueue, Expired, Heap, Polled, PriorityQueue, TimerKey, TotalF64};
#[cfg(feature = "std")]
pub use tick::Epoch;
pub use tick::{TickError, TickScale};
#[cfg(feature = "std")]
pub use timeouts::Timeouts;
