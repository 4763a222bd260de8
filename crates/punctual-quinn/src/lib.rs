#![doc = include_str!("../README.md")]
//!
//! # Ground rules
//!
//! Timers are records in one queue under one lock, in ticks of a microsecond. All access is under the
//! lock:
//!
//! | operation | accesses |
//! |---|---|
//! | a timer's `reset` | its record; the tokio timer, if the driver would sleep too long |
//! | a timer's `poll` | its record, written only if another task polls than before |
//! | a timer's drop | its record |
//! | the driver | at most 64 due records, then the tokio timer; other threads can take the lock between two batches |
//!
//! - The driver runs only when the tokio timer fires.
//! - Wakers are woken and dropped without the lock, because both may drop timers.
//! - Deadlines are rounded up to a tick and clock readings down, so nothing fires early. A spurious
//!   wake-up, of a task or of the driver, costs one check.
//! - Only the driver reads a clock: tokio's, so that a test can pause it and jump.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod driver;
mod schedule;
mod stats;
mod timer;

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::runtime::Handle;

use crate::driver::{Driver, Shared};
use crate::timer::Timer;

pub use crate::stats::Stats;

/// quinn's runtime, with the timers of all connections on one deadline queue. Sockets and tasks
/// are tokio's.
///
/// Pass it to [`quinn::Endpoint::new`]. Clones share the timers. It may be used outside the
/// tokio runtime it was created for, but that runtime must run for timers to fire.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use std::sync::Arc;
/// use punctual_quinn::PunctualRuntime;
/// use quinn::{Endpoint, EndpointConfig};
///
/// let runtime = PunctualRuntime::new(tokio::runtime::Handle::current());
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(runtime))?;
/// # assert!(endpoint.local_addr()?.port() > 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PunctualRuntime {
    tokio: Handle,
    shared: Arc<Shared>,
}

impl PunctualRuntime {
    /// Returns a runtime whose timers run within this tokio runtime. Spawns the driver, which ends when the
    /// runtime and its timers are dropped. O(1).
    ///
    /// # Panics
    ///
    /// If the tokio runtime was built without its timers: call `enable_time` or `enable_all`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use punctual_quinn::PunctualRuntime;
    /// let runtime = PunctualRuntime::new(tokio::runtime::Handle::current());
    /// assert_eq!(runtime.stats().arms, 0);
    /// # }
    /// ```
    pub fn new(tokio: Handle) -> Self {
        Self::start(tokio, false)
    }

    /// Returns a runtime that measures the driver's time, with two readings of the time-stamp counter
    /// each time it runs. Calibrating the counter may take about 100 ms once.
    ///
    /// # Panics
    ///
    /// Like [`new`](Self::new).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use punctual_quinn::PunctualRuntime;
    /// let runtime = PunctualRuntime::metered(tokio::runtime::Handle::current());
    /// tokio::task::yield_now().await;
    /// assert!(!runtime.stats().driver_time.is_zero());
    /// # }
    /// ```
    pub fn metered(tokio: Handle) -> Self {
        Self::start(tokio, true)
    }

    fn start(tokio: Handle, metered: bool) -> Self {
        let entered = tokio.enter();
        let shared = Arc::new(Shared::new(metered));
        tokio.spawn(Driver::new(&shared));
        drop(entered);
        PunctualRuntime { tokio, shared }
    }

    /// Returns the counts so far. O(1).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::time::{Duration, Instant};
    /// use punctual_quinn::PunctualRuntime;
    /// use quinn::Runtime as _;
    ///
    /// let runtime = PunctualRuntime::new(tokio::runtime::Handle::current());
    /// drop(runtime.new_timer(Instant::now() + Duration::from_secs(30)));
    /// assert_eq!(runtime.stats().disarms, 1);
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.shared.timers.lock().schedule.stats
    }
}

impl Runtime for PunctualRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer::new(self.shared.clone(), deadline))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tokio.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _entered = self.tokio.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
