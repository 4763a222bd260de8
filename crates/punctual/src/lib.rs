//! Deadlines, exact and nearly free: timer queues for servers and runtimes.
//!
//! ```
//! use punctual::{Adaptive, DeadlineQueue};
//!
//! let mut timeouts = Adaptive::new();
//! let request = timeouts.insert(1_500, "request 1"); // due at tick 1,500
//! timeouts.insert(900, "request 2");
//!
//! assert_eq!(timeouts.next_deadline(), Some(900)); // sleep until then
//! assert_eq!(timeouts.pop_due(1_000).map(|expired| expired.value), Some("request 2"));
//! assert_eq!(timeouts.remove(request), Some("request 1")); // answered in time
//! assert!(timeouts.is_empty());
//! ```
//!
//! - [`queue`]: deadline queues over `u64` ticks of any length. [`Adaptive`] suits itself to how
//!   many timers there are; [`Wheel`] is a hierarchical timing wheel, and
//!   [`RawWheel`](queue::wheel::RawWheel) the same for timers that live elsewhere.
//! - [`tick`]: times and ticks. Everything that rounds is there, so that nothing fires early.
//! - [`clock`]: the monotonic clock, and a virtual one for tests.
//! - [`time`]: timers, tickers and timeouts as Go has them, on one thread; and a virtual clock under all of them.
//! - [`driver`]: one thread that sleeps exactly until the next deadline.
//! - `future` (feature `async`): `sleep`, `timeout`, `interval` and a `DelayQueue` for any executor.
//!
//! # Features
//!
//! - `std` (on by default): the monotonic clock and `Instant`s, the driver, the time API. Without it the crate needs
//!   `alloc` only.
//! - `async`: futures and streams on the driver.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
#![deny(missing_docs)]
// cargo-fuzz sets `fuzzing` for the model that tests share with the fuzz target.
#![cfg_attr(test, allow(unexpected_cfgs))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
// The model that tests and fuzzing share uses the crate from outside.
#[cfg(test)]
extern crate self as punctual;

pub mod clock;
#[cfg(feature = "std")]
pub mod driver;
#[cfg(feature = "async")]
pub mod future;
pub mod queue;
pub mod tick;
#[cfg(feature = "std")]
pub mod time;

pub use clock::Clock;
#[cfg(feature = "std")]
pub use clock::Monotonic;
#[cfg(target_has_atomic = "64")]
pub use clock::Virtual;
pub use queue::wheel::Wheel;
pub use queue::{
    Adaptive, DeadlineQueue, Expired, Heap, Polled, PriorityQueue, TimerKey, TotalF64,
};
#[cfg(feature = "std")]
pub use tick::Epoch;
pub use tick::{TickError, TickScale};
