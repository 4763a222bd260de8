//! What is assigned to a loop that arming has to know: asyncio's state is in the loop's `__dict__`, where looking up
//! three names would cost more than arming does.
//!
//! So `LoopTimers` sees every assignment. asyncio makes them when a loop is made, closed and set to debug mode; programs
//! put functions of their own in a loop's place of `time` or `call_at`, mostly in tests.

#![allow(unsafe_code, reason = "the generic assignment has no safe form")]

use super::base::LoopTimers;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{ffi, intern};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Methods that somebody put others in the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Replaced(u8);

impl Replaced {
    const TIME: u8 = 1;
    const CALL_AT: u8 = 2;
    const CANCELLED: u8 = 4;

    /// `time`: the clock is the program's.
    #[inline]
    pub(super) fn time(self) -> bool {
        self.0 & Self::TIME != 0
    }

    /// `time` or `call_at`, which `call_later` consists of.
    #[inline]
    pub(super) fn call_later(self) -> bool {
        self.0 & (Self::TIME | Self::CALL_AT) != 0
    }

    /// `_timer_handle_cancelled`, which a handle tells of its end.
    #[inline]
    pub(super) fn cancelled(self) -> bool {
        self.0 & Self::CANCELLED != 0
    }
}

/// Written under the GIL only; atomic because a class must be `Sync`.
#[derive(Default)]
pub(super) struct Attributes {
    closed: AtomicBool,
    debug: AtomicBool,
    /// Replaced in the loop itself.
    own: AtomicU8,
    /// Replaced in the loop's class, and which class that is.
    inherited: AtomicU8,
    class: AtomicUsize,
}

impl Attributes {
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    #[inline]
    pub(super) fn is_debug(&self) -> bool {
        self.debug.load(Relaxed)
    }

    /// What is replaced in this loop, or in its class, which a program may exchange, too.
    #[inline]
    pub(super) fn replaced(&self, timers: &Bound<'_, LoopTimers>) -> PyResult<Replaced> {
        if self.class.load(Relaxed) != timers.get_type_ptr() as usize {
            self.look_at_class(timers)?;
        }
        Ok(Replaced(
            self.own.load(Relaxed) | self.inherited.load(Relaxed),
        ))
    }

    #[cold]
    fn look_at_class(&self, timers: &Bound<'_, LoopTimers>) -> PyResult<()> {
        let py = timers.py();
        let (class, ours) = (timers.get_type(), PyType::new::<LoopTimers>(py));
        let is_replaced = |name| PyResult::Ok(!class.getattr(name)?.is(&ours.getattr(name)?));
        let mut inherited = 0;
        for (name, bit) in [
            (intern!(py, "time"), Replaced::TIME),
            (intern!(py, "call_at"), Replaced::CALL_AT),
            (intern!(py, "_timer_handle_cancelled"), Replaced::CANCELLED),
        ] {
            if is_replaced(name)? {
                inherited |= bit;
            }
        }
        self.inherited.store(inherited, Relaxed);
        self.class.store(timers.get_type_ptr() as usize, Relaxed);
        Ok(())
    }

    fn method(name: &Bound<'_, PyAny>) -> u8 {
        let py = name.py();
        // Names of attributes are interned.
        if name.is(intern!(py, "time")) {
            Replaced::TIME
        } else if name.is(intern!(py, "call_at")) {
            Replaced::CALL_AT
        } else if name.is(intern!(py, "_timer_handle_cancelled")) {
            Replaced::CANCELLED
        } else {
            0
        }
    }
}

/// `setattr(timers, name, value)`.
pub(super) fn assign<'py>(
    timers: &Bound<'py, LoopTimers>,
    name: &Bound<'py, PyAny>,
    mut value: Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = timers.py();
    let attributes = &timers.get().attributes;
    if name.is(intern!(py, "_scheduled")) {
        // asyncio's heap. There is none; what is looked up there is the wheel.
        value = timers.get().timers.bind(py).as_any().clone();
    } else if name.is(intern!(py, "_closed")) {
        attributes.closed.store(value.is_truthy()?, Relaxed);
    } else if name.is(intern!(py, "_debug")) {
        attributes.debug.store(value.is_truthy()?, Relaxed);
    }
    generic(timers, name, Some(&value))?;
    attributes.own.fetch_or(Attributes::method(name), Relaxed);
    Ok(())
}

/// `delattr(timers, name)`.
pub(super) fn delete<'py>(
    timers: &Bound<'py, LoopTimers>,
    name: &Bound<'py, PyAny>,
) -> PyResult<()> {
    generic(timers, name, None)?;
    let attributes = &timers.get().attributes;
    attributes.own.fetch_and(!Attributes::method(name), Relaxed);
    Ok(())
}

/// What every object does; `object.__setattr__` refuses to do it for a class with an own one.
fn generic(
    timers: &Bound<'_, LoopTimers>,
    name: &Bound<'_, PyAny>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let value = value.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: three objects that are borrowed for the call, the last of which may be null; the GIL is held.
    let done = unsafe { ffi::PyObject_GenericSetAttr(timers.as_ptr(), name.as_ptr(), value) };
    if done == 0 {
        Ok(())
    } else {
        Err(PyErr::take(timers.py()).unwrap_or_else(|| PyAttributeError::new_err("not set")))
    }
}
