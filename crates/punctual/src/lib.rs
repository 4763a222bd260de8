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
//!   wheel, suits any number of timers, and [`RawWheel`](queue::wheel::RawWheel) is the same for
//!   timers that are stored elsewhere.
//! - [`tick`]: conversion between times and ticks. All rounding happens here, so that nothing fires
//!   early.
//! - [`time`]: timers, tickers and timeouts with Go's semantics, on one thread, and virtual time.
//! - [`driver`]: one thread that sleeps exactly until the next deadline.
//! - `future` (feature `async`): `sleep`, `timeout`, `interval` and a `DelayQueue` for any
//!   executor.
//!
//! # An event loop
//!
//! The queues read no clock. A loop reads it once a turn, waits for its sources of events until the
//! next deadline, and then pops what is due. [`Epoch`] rounds deadlines up and readings down, so
//! no timer fires early. Here the source of events is a channel; with sockets, the wait is `epoll`
//! or `poll` with the same timeout.
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
//!     // Without a timer, any wait does.
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
//! A loop that must not be late for its events pops with a budget
//! ([`poll_due`](Wheel::poll_due)). A loop that does nothing but timers is the
//! [`driver`], which also wakes a sleep for an earlier timer.
//!
//! # Other designs
//!
//! | | arm, cancel, re-arm | deadlines | order | clock |
//! |---|---|---|---|---|
//! | [`Wheel`] | O(1) | all of `u64` ticks | exact; equal deadlines in the sequence of arming | passed in |
//! | tokio-util's `DelayQueue` | O(1) | two years ahead | none within a millisecond | tokio's |
//! | [`Heap`], `BinaryHeap` with handles | O(log n) | all | exact | passed in |
//! | `BinaryHeap` with dead entries | O(log n), and memory for what is cancelled | all | exact | passed in |
//!
//! A heap is as good where a few thousand timers nearly all fire. Where most timers are cancelled
//! or postponed, as timeouts are, the wheel touches one record for each.
//!
//! # Features
//!
//! - `std` (enabled by default): `Instant`s, the driver and the time API. Without it the
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

pub use queue::wheel::Wheel;
pub use queue::{DeadlineQueue, Expired, Heap, Polled, PriorityQueue, TimerKey, TotalF64};
#[cfg(feature = "std")]
pub use tick::Epoch;
pub use tick::{TickError, TickScale};
