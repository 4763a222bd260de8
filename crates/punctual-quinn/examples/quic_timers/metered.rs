//! Wraps any quinn runtime to measure the time spent on timers.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

/// Number of calls to timers, and the ticks of the time-stamp counter spent in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub count: u64,
    ticks: u64,
}

impl Calls {
    pub fn since(self, before: Calls) -> Calls {
        Calls {
            count: self.count - before.count,
            ticks: self.ticks - before.ticks,
        }
    }

    /// Returns the nanoseconds spent, without the cost of reading the counter.
    pub fn nanos(self, meter: &Meter) -> f64 {
        let nanos = meter.clock.delta_as_nanos(0, self.ticks) as f64;
        (nanos - self.count as f64 * meter.overhead_ns).max(0.0)
    }
}

/// Adds up the calls to all timers of a runtime: creation, reset, poll and drop.
pub struct Meter {
    clock: quanta::Clock,
    /// The result of an empty measurement.
    overhead_ns: f64,
    count: AtomicU64,
    ticks: AtomicU64,
}

impl Meter {
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let samples = 100_000;
        let ticks: u64 = (0..samples)
            .map(|_| {
                let begun = clock.raw();
                clock.raw() - begun
            })
            .sum();
        Meter {
            overhead_ns: clock.delta_as_nanos(0, ticks) as f64 / f64::from(samples),
            clock,
            count: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        }
    }

    pub fn calls(&self) -> Calls {
        Calls {
            count: self.count.load(Relaxed),
            ticks: self.ticks.load(Relaxed),
        }
    }

    /// The job runs on one thread: plain additions would do if `Runtime` did not require `Sync`.
    fn measure<T>(&self, call: impl FnOnce() -> T) -> T {
        let begun = self.clock.raw();
        let result = call();
        let ticks = self.clock.raw().saturating_sub(begun);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        self.ticks.store(self.ticks.load(Relaxed) + ticks, Relaxed);
        result
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls().fmt(f)
    }
}

#[derive(Debug)]
pub struct Metered<R> {
    pub runtime: R,
    pub meter: Arc<Meter>,
}

impl<R: Runtime> Runtime for Metered<R> {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(MeteredTimer {
            timer: Some(self.meter.measure(|| self.runtime.new_timer(deadline))),
            meter: self.meter.clone(),
        })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.runtime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.runtime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }
}

#[derive(Debug)]
struct MeteredTimer {
    /// `None` only while it is dropped.
    timer: Option<Pin<Box<dyn AsyncTimer>>>,
    meter: Arc<Meter>,
}

impl AsyncTimer for MeteredTimer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let MeteredTimer { timer, meter } = &mut *self;
        if let Some(timer) = timer {
            meter.measure(|| timer.as_mut().reset(deadline));
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let MeteredTimer { timer, meter } = &mut *self;
        match timer {
            Some(timer) => meter.measure(|| timer.as_mut().poll(cx)),
            None => Poll::Pending,
        }
    }
}

impl Drop for MeteredTimer {
    fn drop(&mut self) {
        let timer = self.timer.take();
        self.meter.measure(|| drop(timer));
    }
}
