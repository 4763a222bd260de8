//! The iterator over due timers. Each step pops one timer from the queue.

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::timers::{Heap, Wheel};

/// The queue to pop from.
pub(crate) enum Source {
    Wheel(Py<Wheel>),
    Heap(Py<Heap>),
}

/// Iterator returned by `due`.
#[pyclass(frozen, module = "punctual.queue", name = "_Due")]
pub(crate) struct Due {
    source: Source,
    /// Tick of the clock reading that the caller passed to `due`.
    now: u64,
}

impl Due {
    pub(crate) fn new(source: Source, now: u64) -> Self {
        Due { source, now }
    }
}

#[pymethods]
impl Due {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        match &self.source {
            Source::Wheel(wheel) => wheel.get().take_due(self.now),
            Source::Heap(heap) => heap.get().take_due(self.now),
        }
        .map(|timer| timer.value)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.source {
            Source::Wheel(wheel) => visit.call(wheel),
            Source::Heap(heap) => visit.call(heap),
        }
    }
}
