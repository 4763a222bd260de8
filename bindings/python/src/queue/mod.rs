//! `punctual.queue`: deadline queues and a priority queue for Python objects.
//!
//! Ground rules:
//! - Every queue has its own lock. A timer queue's lock is held for a few instructions, never while
//!   Python code may run: numbers are converted before the queue is locked, and Python objects are
//!   created and dropped after its release. A value's `__del__`, or a garbage collection that an
//!   allocation triggers, may use the same queue. The one exception is the comparison of
//!   priorities: see `priority`.
//! - `__traverse__` never waits for a lock. A thread that holds the lock keeps the queue alive, so
//!   there is nothing to collect.

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
