//! The alarms that the timer driver (`punctual::driver::Driver`) fires for Python's timers.
//!
//! # Ground rules
//!
//! - On the system's clock, `fire` runs on the driver's thread, without the GIL; on a virtual clock
//!   it runs in `advance`, with the GIL. It must never take the GIL. It sends plain floats into
//!   channels. A function call is a job, which runs after `fire` with the GIL.
//! - An alarm points to its timer without keeping it alive. Dropping a timer disarms it first, so
//!   the timer of an armed alarm exists; after `disarm` returns, no `fire` is running.
//! - `disarm` returns the alarm, so that an alarm that owns an object is dropped with the GIL and
//!   outside the lock of the driver's shard.

#![allow(unsafe_code)]

use std::num::NonZeroU32;
use std::ptr::NonNull;

use punctual::driver::{Alarm, Driver, Fired, Handle};
use pyo3::prelude::*;

use super::fork::NoFork;
use super::ticker::Ticker;
use super::timer::Timer;
use crate::chan::forks;

/// A function to call.
pub(super) type Job = Py<PyAny>;

pub(super) type TimeDriver = Driver<PyAlarm>;

pub(super) enum PyAlarm {
    Send(Pinned<Timer>),
    Tick(Pinned<Ticker>),
    /// A function to call; `None` after the alarm has fired.
    Call(Option<Py<PyAny>>),
}

/// Pointer to a timer or ticker, which lives at least as long as its alarm is armed.
pub(super) struct Pinned<T>(NonNull<T>);

// SAFETY: used only as a `&T`.
unsafe impl<T: Sync> Send for Pinned<T> {}

impl<T> Pinned<T> {
    fn get(&self) -> &T {
        // SAFETY: a timer is the content of a Python object, which does not move. The timer's
        // `Drop` disarms the alarm, and a disarmed alarm does not fire.
        unsafe { self.0.as_ref() }
    }
}

impl PyAlarm {
    pub(super) fn send(timer: &Timer) -> Self {
        PyAlarm::Send(Pinned(NonNull::from(timer)))
    }

    pub(super) fn tick(ticker: &Ticker) -> Self {
        PyAlarm::Tick(Pinned(NonNull::from(ticker)))
    }
}

impl Alarm for PyAlarm {
    type Job = Job;

    fn fire(&mut self, due: u64, now: u64) -> Fired<Job> {
        match self {
            PyAlarm::Call(function) => function.take().map_or(Fired::Done, Fired::Do),
            PyAlarm::Send(timer) => {
                let _here = NoFork::enter();
                timer.get().expire(now);
                Fired::Done
            }
            PyAlarm::Tick(ticker) => {
                let _here = NoFork::enter();
                Fired::Again(ticker.get().tick(due, now))
            }
        }
    }

    fn armed(&mut self, handle: Handle) {
        if let PyAlarm::Tick(ticker) = self {
            let _here = NoFork::enter();
            ticker.get().armed(Armed::new(handle));
        }
    }
}

/// A value that is meaningful only in the process that created it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct ProcessLocal<T> {
    value: T,
    process: NonZeroU32,
}

/// Returns a number that no ancestor of this process has: the number of forks in its history, plus
/// 1.
#[inline]
fn process(forks: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(forks)
}

impl<T> ProcessLocal<T> {
    #[inline]
    pub(super) fn new(value: T) -> Self {
        ProcessLocal {
            value,
            process: process(forks()),
        }
    }

    /// Returns the value, or `None` in a child of its process.
    #[inline]
    pub(super) fn get(self) -> Option<T> {
        self.of(forks())
    }

    /// Returns the value if its process has this number of forks.
    #[inline]
    pub(super) fn of(self, forks: u32) -> Option<T> {
        (self.process == process(forks)).then_some(self.value)
    }
}

/// The handle of an armed timer.
pub(super) type Armed = ProcessLocal<Handle>;

impl Armed {
    /// Returns the handle, or `None` if it belongs to the driver of a parent process. The driver of
    /// a virtual clock has no thread and works in the child as well.
    #[inline]
    pub(super) fn handle(self, driver: &TimeDriver) -> Option<Handle> {
        if driver.is_virtual() {
            Some(self.value)
        } else {
            self.get()
        }
    }
}
