//! Native copies of the attributes of a loop that arming a timer reads. asyncio keeps its state in
//! the loop's `__dict__`, where looking up three names would cost more than arming the timer.
//!
//! [`LoopTimers`] updates the copies at every assignment to an attribute. asyncio assigns them when
//! it creates or closes a loop and when it sets debug mode; programs, mostly tests, override `time`
//! or `call_at` of a loop.

#![allow(unsafe_code, reason = "the generic assignment has no safe form")]

use super::base::LoopTimers;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{ffi, intern};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Methods that a program has overridden.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Overrides(u8);

impl Overrides {
    const TIME: u8 = 1;
    const CALL_AT: u8 = 2;
    const CANCELLED: u8 = 4;

    /// `time`: the program supplies the clock.
    #[inline]
    pub(super) fn time(self) -> bool {
        self.0 & Self::TIME != 0
    }

    /// `time` or `call_at`, on which `call_later` depends.
    #[inline]
    pub(super) fn call_later(self) -> bool {
        self.0 & (Self::TIME | Self::CALL_AT) != 0
    }

    /// `_timer_handle_cancelled`, which a cancelled handle calls.
    #[inline]
    pub(super) fn cancelled(self) -> bool {
        self.0 & Self::CANCELLED != 0
    }
}

/// The copies. They are written only under the GIL; the fields are atomic because a class must be
/// `Sync`.
#[derive(Default)]
pub(super) struct Attributes {
    closed: AtomicBool,
    debug: AtomicBool,
    /// Bits of [`Overrides`] that the loop itself has.
    own: AtomicU8,
    /// Bits of [`Overrides`] that the loop's class has.
    inherited: AtomicU8,
    /// Address of the class for which `inherited` is valid; 0 before the first look.
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

    /// Returns the overrides in this loop and in its class. Inspects the class again if the program
    /// has assigned another one to the loop.
    #[inline]
    pub(super) fn overrides(&self, timers: &Bound<'_, LoopTimers>) -> PyResult<Overrides> {
        if self.class.load(Relaxed) != timers.get_type_ptr() as usize {
            self.update_class(timers)?;
        }
        Ok(Overrides(
            self.own.load(Relaxed) | self.inherited.load(Relaxed),
        ))
    }

    #[cold]
    fn update_class(&self, timers: &Bound<'_, LoopTimers>) -> PyResult<()> {
        let py = timers.py();
        let (class, ours) = (timers.get_type(), PyType::new::<LoopTimers>(py));
        let is_overridden = |name| PyResult::Ok(!class.getattr(name)?.is(&ours.getattr(name)?));
        let mut inherited = 0;
        for (name, bit) in [
            (intern!(py, "time"), Overrides::TIME),
            (intern!(py, "call_at"), Overrides::CALL_AT),
            (intern!(py, "_timer_handle_cancelled"), Overrides::CANCELLED),
        ] {
            if is_overridden(name)? {
                inherited |= bit;
            }
        }
        self.inherited.store(inherited, Relaxed);
        self.class.store(timers.get_type_ptr() as usize, Relaxed);
        Ok(())
    }

    fn method(name: &Bound<'_, PyAny>) -> u8 {
        let py = name.py();
        // Attribute names are interned.
        if name.is(intern!(py, "time")) {
            Overrides::TIME
        } else if name.is(intern!(py, "call_at")) {
            Overrides::CALL_AT
        } else if name.is(intern!(py, "_timer_handle_cancelled")) {
            Overrides::CANCELLED
        } else {
            0
        }
    }
}

/// Implements `setattr(timers, name, value)`.
pub(super) fn assign<'py>(
    timers: &Bound<'py, LoopTimers>,
    name: &Bound<'py, PyAny>,
    mut value: Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = timers.py();
    let attributes = &timers.get().attributes;
    if name.is(intern!(py, "_scheduled")) {
        // asyncio assigns its heap; the wheel takes its place.
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

/// Implements `delattr(timers, name)`.
pub(super) fn delete<'py>(
    timers: &Bound<'py, LoopTimers>,
    name: &Bound<'py, PyAny>,
) -> PyResult<()> {
    generic(timers, name, None)?;
    let attributes = &timers.get().attributes;
    attributes.own.fetch_and(!Attributes::method(name), Relaxed);
    Ok(())
}

/// Sets an attribute, or deletes it if `value` is `None`, as `object` does. `object.__setattr__`
/// itself refuses a class that overrides `__setattr__`.
fn generic(
    timers: &Bound<'_, LoopTimers>,
    name: &Bound<'_, PyAny>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let value = value.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: all three objects are borrowed for the call, only the last may be null, and the GIL
    // is held.
    let done = unsafe { ffi::PyObject_GenericSetAttr(timers.as_ptr(), name.as_ptr(), value) };
    if done == 0 {
        Ok(())
    } else {
        Err(PyErr::take(timers.py()).unwrap_or_else(|| PyAttributeError::new_err("not set")))
    }
}
