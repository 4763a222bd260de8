//! `punctual.queue`: deadline queues and a priority queue for Python objects.
//!
//! Ground rules:
//! - Every queue is behind a lock of its own. Timers' locks are held for a few instructions and never while Python code
//!   may run: numbers are converted before, Python objects are made and dropped after (a value's `__del__`, or a garbage
//!   collection that an allocation sets off, may use the very same queue). The one exception, with its own rules, is the
//!   comparison of priorities: see `priority`.
//! - `__traverse__` never waits for a lock. Who holds it keeps the queue alive, so there is nothing to collect.

mod due;
mod key;
mod priority;
mod tick;
mod timers;

use pyo3::prelude::*;

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<timers::Wheel>()?;
    m.add_class::<timers::Heap>()?;
    m.add_class::<due::Due>()?;
    m.add_class::<priority::PriorityQueue>()
}
