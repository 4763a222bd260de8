//! What the driver does when a timer of Python falls due.
//!
//! # Ground rules
//!
//! - `fire` runs on the timers' thread, without the interpreter's lock, and must never take it. It sends plain floats
//!   into channels. Calling functions is a job, done by others with that lock.
//! - An alarm points to its timer without keeping it alive. A timer that goes disarms first, so an armed alarm's timer
//!   is there; and when `disarm` has answered, no `fire` is on its way.
//! - An alarm that owns an object is dropped with the interpreter's lock, outside the shard's: `disarm` hands it out.

#![allow(unsafe_code)]

use std::num::NonZeroU32;
use std::ptr::NonNull;

use punctual::driver::{Alarm, Driver, Fired, Handle};
use pyo3::prelude::*;

use super::fork::NoFork;
use super::ticker::Ticker;
use super::timer::Timer;
use crate::chan::forks;

/// A function to be called.
pub(super) type Job = Py<PyAny>;

pub(super) type TimeDriver = Driver<PyAlarm>;

pub(super) enum PyAlarm {
    Send(Pinned<Timer>),
    Tick(Pinned<Ticker>),
    /// `None` once it has fired.
    Call(Option<Py<PyAny>>),
}

/// A timer that is there as long as its alarm is armed.
pub(super) struct Pinned<T>(NonNull<T>);

// SAFETY: used as a `&T` only.
unsafe impl<T: Sync> Send for Pinned<T> {}

impl<T> Pinned<T> {
    fn get(&self) -> &T {
        // SAFETY: a timer is the content of a Python object, which does not move, and its `Drop` disarms it,
        // after which nobody calls this.
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

/// What means something only in the process that it is of.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ours<T> {
    value: T,
    process: NonZeroU32,
}

/// Tells a child from its parent: the process that has been through so many forks.
#[inline]
fn process(forks: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(forks)
}

impl<T> Ours<T> {
    #[inline]
    pub(super) fn new(value: T) -> Self {
        Ours {
            value,
            process: process(forks()),
        }
    }

    /// `None` in a child.
    #[inline]
    pub(super) fn get(self) -> Option<T> {
        self.of(forks())
    }

    /// What is of the process that has been through so many forks.
    #[inline]
    pub(super) fn of(self, forks: u32) -> Option<T> {
        (self.process == process(forks)).then_some(self.value)
    }
}

/// The handle of an armed timer.
pub(super) type Armed = Ours<Handle>;

impl Armed {
    /// `None` if it is of a parent process, whose driver is not this one's. A virtual clock is the child's as well.
    #[inline]
    pub(super) fn handle(self, driver: &TimeDriver) -> Option<Handle> {
        if driver.is_virtual() {
            Some(self.value)
        } else {
            self.get()
        }
    }
}
