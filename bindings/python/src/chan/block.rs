//! Operations on channels that may block: sends, receives, and selects of both.
//!
//! # Ground rules
//!
//! - Everything but the sleep itself runs under the GIL. Only the thread of the timer driver uses
//!   channels without the GIL. Locks are taken in the order GIL, channel.
//! - A blocked thread uses no processor time. On the main thread a signal ends the sleep: the
//!   kernel delivers the process's signals to this thread, and they interrupt a futex. Then
//!   Python's handlers run, and their exceptions propagate. A signal that arrives between the last
//!   check and the sleep, or on another thread, does not end the sleep. So the thread also polls
//!   for signals: after 13 ms, 130 ms, and every 1.3 s from then on. These odd numbers rarely
//!   coincide with the periods of tickers.
//! - In a thread with gevent's hub, the greenlet switches to the hub instead of sleeping
//!   (`python/punctual/_greenlets.py`). gevent may end the wait with an exception.
//! - An operation that ends with an exception has received and sent nothing: the operation leaves
//!   the queues of its channels before signal handlers run, and joins them again afterwards. The
//!   one exception: gevent throws into a greenlet whose operation another thread has just
//!   completed.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;

use super::channel::{Channel, Refused};
use super::item::Item;
use super::waiter::{Bell, Outcome, Waiter, Woken};
use crate::greenlet;
use crate::time::Timer;

/// One case of an operation.
pub(super) enum Case<'a> {
    /// A receive, maybe from a timer's channel.
    Receive(&'a Channel<Item>, Option<&'a Timer>),
    /// A send and its item. `None` while the item is in the channel's queue, and after it was sent.
    Send(&'a Channel<Item>, Option<Item>),
    /// An operation on the nil channel.
    Never,
}

impl Case<'_> {
    fn poll(&mut self) -> Option<Outcome<Item>> {
        match self {
            Case::Receive(channel, _) => channel.try_receive(),
            Case::Send(channel, item) => match channel.try_send(item.take()?) {
                Ok(()) => Some(Outcome::Sent),
                Err(Refused::Full(back)) => {
                    *item = Some(back);
                    None
                }
                Err(Refused::Closed(back)) => {
                    *item = Some(back);
                    Some(Outcome::Closed)
                }
            },
            Case::Never => None,
        }
    }

    /// Adds the case to the queue of its channel. Returns false, and adds nothing, if the case is
    /// ready.
    fn join(&mut self, py: Python<'_>, waiter: &Arc<Waiter<Item>>, number: u32) -> bool {
        match self {
            Case::Receive(channel, timer) => {
                let joined = channel.wait_to_receive(waiter, number);
                if let (true, Some(timer)) = (joined, timer) {
                    timer.arm_in_driver(py);
                }
                joined
            }
            Case::Send(channel, item) => match item.take() {
                Some(taken) => match channel.wait_to_send(waiter, number, taken) {
                    Ok(()) => true,
                    Err(back) => {
                        *item = Some(back);
                        false
                    }
                },
                None => true,
            },
            Case::Never => true,
        }
    }
}

/// Performs one of the ready cases, chosen at random. Returns `None` if none is ready.
pub(super) fn poll(cases: &mut [Case<'_>]) -> Option<(usize, Outcome<Item>)> {
    if let [case] = cases {
        return case.poll().map(|outcome| (0, outcome));
    }
    // Fisher and Yates's shuffle (1938), computed only as far as needed.
    let mut order: smallvec::SmallVec<[u32; 8]> = (0..cases.len() as u32).collect();
    for at in 0..order.len() {
        let other = at + random(order.len() - at);
        order.swap(at, other);
        let number = order[at] as usize;
        if let Some(outcome) = cases[number].poll() {
            return Some((number, outcome));
        }
    }
    None
}

/// Performs one of the cases as soon as one is ready. Blocks forever if no case can become ready.
///
/// # Errors
///
/// The exception of a signal handler.
#[cold]
pub(super) fn wait(py: Python<'_>, cases: &mut [Case<'_>]) -> PyResult<(usize, Outcome<Item>)> {
    let hub = greenlet::hub(py)?;
    let mut signals = Signals::new();
    loop {
        if let Some(done) = poll(cases) {
            return Ok(done);
        }
        let waiter = Arc::new(match hub {
            None => Waiter::new(),
            Some(_) => Waiter::of_greenlet(Bell::take()?),
        });
        let joined = (0..)
            .zip(cases.iter_mut())
            .all(|(number, case)| case.join(py, &waiter, number));
        let mut thrown = Ok(());
        if joined {
            match (&hub, waiter.polled_file()) {
                (Some(hub), Some(file)) => thrown = hub.wait_readable(file),
                _ => {
                    let limit = signals.poll_interval();
                    py.detach(|| while waiter.sleep(limit) == Woken::Early && limit.is_none() {});
                }
            }
        }
        let done = waiter.withdraw();
        leave(cases, &waiter);
        Waiter::put_back(waiter);
        thrown?;
        if let Some(done) = done {
            return Ok(done);
        }
        if joined {
            signals.check(py)?;
        }
    }
}

/// Removes the operation from the queues of its channels, and puts unsent items back into the
/// cases.
fn leave(cases: &mut [Case<'_>], waiter: &Arc<Waiter<Item>>) {
    let mut unsent = Vec::new();
    for case in cases.iter() {
        match case {
            Case::Receive(channel, _) | Case::Send(channel, _) => {
                channel.leave(waiter, &mut unsent);
            }
            Case::Never => {}
        }
    }
    for (number, back) in unsent {
        if let Case::Send(_, item) = &mut cases[number] {
            *item = Some(back);
        }
    }
}

/// The schedule on which a blocked thread checks for signals.
pub(crate) struct Signals {
    /// Time until the next check. `None` if this thread runs no handlers.
    poll_interval: Option<Duration>,
}

impl Signals {
    const SHORTEST: Duration = Duration::from_millis(13);
    const LONGEST: Duration = Duration::from_millis(1_300);

    pub(crate) fn new() -> Self {
        Signals {
            poll_interval: on_main_thread().then_some(Self::SHORTEST),
        }
    }

    /// Returns the maximum length of the next sleep; `None` for no maximum.
    pub(crate) fn poll_interval(&self) -> Option<Duration> {
        self.poll_interval
    }

    /// Runs the handlers of caught signals. Called after a sleep.
    pub(crate) fn check(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(poll_interval) = &mut self.poll_interval else {
            return Ok(());
        };
        *poll_interval = (*poll_interval * 10).min(Self::LONGEST);
        py.check_signals()
    }
}

#[cfg(target_os = "linux")]
fn on_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Returns true on every thread: this system has no cheap check, so every thread polls for signals.
#[cfg(not(target_os = "linux"))]
fn on_main_thread() -> bool {
    true
}

/// Returns a number below `bound`, random enough for fairness (xorshift64*, Vigna 2016).
fn random(bound: usize) -> usize {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish() | 1);
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        let high = x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((high * bound as u64) >> 32) as usize
    })
}
