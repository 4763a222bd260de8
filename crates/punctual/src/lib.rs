//! Timer queues for servers and runtimes, with exact deadlines.
//!
//! ```
//! use punctual::{DeadlineQueue, Wheel};
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
//! - [`queue`]: deadline queues over `u64` ticks of any length. [`Wheel`], a hierarchical
//!   timing wheel, suits any number of timers, and [`RawWheel`](queue::wheel::RawWheel) is the same for
//!   timers that are stored elsewhere.
//! - [`tick`]: conversion between times and ticks. All rounding happens here, so that nothing fires early.
//! - [`time`]: timers, tickers and timeouts with Go's semantics, on one thread, and virtual time.
//! - [`driver`]: one thread that sleeps exactly until the next deadline.
//! - `future` (feature `async`): `sleep`, `timeout`, `interval` and a `DelayQueue` for any executor.
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
