//! Operations on channels that may wait: sends, receives, and selects of both.
//!
//! # Ground rules
//!
//! - Everything but the sleep itself happens under the interpreter's lock. The only thread that is at work on a channel
//!   without it is the timers'; the order of locks is the interpreter's, then a channel's.
//! - A wait costs nothing while it lasts. On the main thread a signal ends the sleep (the kernel hands signals of the
//!   process to that thread, and a futex's sleep ends with them), then Python's handlers are run, and their
//!   exceptions are raised. A signal that comes between the last look and the sleep, or that another thread caught,
//!   is found by looking again: after 13 ms, 130 ms, and every 1.3 s from then
//!   on: times that do not meet those of tickers.
//! - An operation that ends by an exception has taken nothing and sent nothing: it leaves the channels before
//!   handlers run, and joins them again afterwards.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;

use super::channel::{Channel, Refused};
use super::item::Item;
use super::waiter::{Outcome, Waiter, Woken};
use crate::time::Timer;

/// One thing that an operation may do.
pub(super) enum Case<'a> {
    /// From a timer's channel, perhaps.
    Receive(&'a Channel<Item>, Option<&'a Timer>),
    /// `None` only while the item is in the channel's queue, and after it was sent.
    Send(&'a Channel<Item>, Option<Item>),
    /// On the nil channel.
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

    /// Queues it; false if it is ready.
    fn join(&mut self, py: Python<'_>, waiter: &Arc<Waiter<Item>>, number: u32) -> bool {
        match self {
            Case::Receive(channel, timer) => {
                let joined = channel.wait_to_receive(waiter, number);
                if let (true, Some(timer)) = (joined, timer) {
                    timer.watch(py);
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

/// Does one of the cases that are ready, chosen at random; `None` if none is.
pub(super) fn poll(cases: &mut [Case<'_>]) -> Option<(usize, Outcome<Item>)> {
    if let [case] = cases {
        return case.poll().map(|outcome| (0, outcome));
    }
    // Fisher and Yates's shuffle (1938), as far as it is looked at.
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

/// Does one of the cases, as soon as one is ready. For ever, if none can be.
///
/// # Errors
///
/// What a signal's handler raised.
#[cold]
pub(super) fn wait(py: Python<'_>, cases: &mut [Case<'_>]) -> PyResult<(usize, Outcome<Item>)> {
    let mut signals = Signals::new();
    loop {
        if let Some(done) = poll(cases) {
            return Ok(done);
        }
        let waiter = Arc::new(Waiter::new());
        let joined = (0..)
            .zip(cases.iter_mut())
            .all(|(number, case)| case.join(py, &waiter, number));
        if joined {
            let limit = signals.patience();
            py.detach(|| while waiter.sleep(limit) == Woken::Early && limit.is_none() {});
        }
        let done = waiter.withdraw();
        leave(cases, &waiter);
        if let Some(done) = done {
            return Ok(done);
        }
        if joined {
            signals.look(py)?;
        }
    }
}

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

/// When the waiting thread looks for signals.
pub(crate) struct Signals {
    /// `None` if handlers run on other threads only.
    patience: Option<Duration>,
}

impl Signals {
    const FIRST: Duration = Duration::from_millis(13);
    const MOST: Duration = Duration::from_millis(1_300);

    pub(crate) fn new() -> Self {
        Signals {
            patience: on_main_thread().then_some(Self::FIRST),
        }
    }

    /// How long to sleep at most.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// After a sleep: runs the handlers of signals that were caught.
    pub(crate) fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(patience) = &mut self.patience else {
            return Ok(());
        };
        *patience = (*patience * 10).min(Self::MOST);
        py.check_signals()
    }
}

#[cfg(target_os = "linux")]
fn on_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Unknown, so every thread looks.
#[cfg(not(target_os = "linux"))]
fn on_main_thread() -> bool {
    true
}

/// A number below `bound`: enough to be fair, not to keep secrets (xorshift64*, Vigna 2016).
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
