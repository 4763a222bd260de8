//! `PriorityQueue`: any Python objects that `<` compares as priorities.
//!
//! Ground rules:
//! - Comparing two objects runs Python code with the queue's lock held, as the heap must not change meanwhile. All
//!   comparisons of an operation come before its first change (`heap`), so one that raises changes nothing.
//! - A comparison that uses the queue it is made for is refused with RuntimeError (`turn`). Another thread that comes
//!   meanwhile waits with the GIL released.
//! - Apart from comparisons, the rules of timers: no Python object is made or dropped under the lock.

mod heap;
mod rank;
mod turn;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyIterator, PyList};
use pyo3::{PyTraverseError, PyVisit};

use super::key::{self, Fallback, Key};
use heap::Heap;
use rank::Priority;
use turn::Turns;

/// An entry, for Python: its key, its priority and its value.
type Listed<'py> = (Bound<'py, PyInt>, Py<PyAny>, Py<PyAny>);

/// A priority queue whose entries can be found, changed and removed by their keys.
///
/// The least priority comes first, with `reverse=True` the greatest, and equal ones in the order in which they were
/// pushed. Priorities are numbers, or any objects that `<` compares with each other: tuples, strings, your own.
///
/// If a comparison raises, so does the operation, and the queue is as it was.
///
/// >>> from punctual.queue import PriorityQueue
/// >>> jobs = PriorityQueue()
/// >>> backup = jobs.push(9, "backup")
/// >>> _ = jobs.push(2, "reply")
/// >>> jobs.change_priority(backup, 1)  # it is urgent now
/// 9
/// >>> jobs.pop()
/// (1, 'backup')
#[pyclass(frozen, generic, mapping, weakref, module = "punctual.queue")]
pub(crate) struct PriorityQueue {
    heap: Turns<Heap>,
}

#[pymethods]
impl PriorityQueue {
    #[new]
    #[pyo3(signature = (*, reverse=false))]
    fn new(reverse: bool) -> Self {
        PriorityQueue {
            heap: Turns::new(Heap::new(reverse)),
        }
    }

    /// Adds a value and returns its key. O(log n).
    ///
    /// Raises ValueError if the priority is NaN, and what the comparison of priorities raises.
    #[pyo3(signature = (priority, value, /))]
    fn push<'py>(
        &self,
        priority: Bound<'py, PyAny>,
        value: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyInt>> {
        let py = priority.py();
        let priority = Priority::new(priority)?;
        let key = {
            let mut heap = self.heap.take(py)?;
            let route = heap.route_in(py, &priority)?;
            heap.push(priority, value, &route)
        };
        Ok(key::given(py, key))
    }

    /// Takes out the first entry: its priority and its value. O(log n). Raises IndexError if there is none.
    fn pop(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let first = self.take_out(py, |heap| (heap.len() > 0).then_some(0))?;
        first.ok_or_else(|| PyIndexError::new_err("pop from an empty PriorityQueue"))
    }

    /// The first entry, which stays: its priority and its value. O(1). Raises IndexError if there is none.
    fn peek(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let first = self.heap.take(py)?.at(py, 0);
        first.ok_or_else(|| PyIndexError::new_err("peek at an empty PriorityQueue"))
    }

    /// Takes out an entry and returns its value. O(log n).
    ///
    /// If the entry was popped or removed, returns the default; without one, raises KeyError.
    #[pyo3(signature = (key, default=Fallback(None), /), text_signature = "($self, key, default=..., /)")]
    fn remove(&self, key: &Bound<'_, PyAny>, default: Fallback) -> PyResult<Py<PyAny>> {
        let entry = key.extract::<Key>()?.timer();
        let found = self.take_out(key.py(), |heap| heap.place(entry?))?;
        default.or(found.map(|(_, value)| value), key)
    }

    /// Gives an entry another priority and returns the one it had. O(log n).
    ///
    /// Among entries of equal priorities it is now the last. Raises KeyError if it was popped or removed.
    #[pyo3(signature = (key, priority, /))]
    fn change_priority(
        &self,
        key: &Bound<'_, PyAny>,
        priority: Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let py = key.py();
        let entry = key.extract::<Key>()?.timer();
        let priority = Priority::new(priority)?;
        let mut heap = self.heap.take(py)?;
        let Some(place) = entry.and_then(|entry| heap.place(entry)) else {
            drop(heap);
            return Err(key::stale(key));
        };
        let route = heap.route_from(py, place, &priority)?;
        Ok(heap.change(place, priority, &route))
    }

    /// The priority of an entry. O(1). Raises KeyError if it was popped or removed.
    #[pyo3(signature = (key, /))]
    fn priority(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.find(key, |priority, _| priority)?;
        Fallback(None).or(found, key)
    }

    /// The value of an entry; the default if there is no such entry. O(1).
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(key, |_, value| value)?.or(default))
    }

    /// All entries, in no particular order: a list of (key, priority, value). O(n).
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<_> = self.heap.take(py)?.all(py).collect();
        let listed =
            |(entry, priority, value)| -> Listed<'py> { (key::given(py, entry), priority, value) };
        PyList::new(py, all.into_iter().map(listed))
    }

    /// Removes all entries; their keys are stale from now on. O(n).
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let dropped = self.heap.take(py)?.clear();
        drop(dropped);
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.heap.take(py)?.len())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        match Key::sought(key) {
            Some(entry) => Ok(self.heap.take(key.py())?.place(entry).is_some()),
            None => Ok(false),
        }
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.find(key, |_, value| value)?;
        Fallback(None).or(found, key)
    }

    /// The keys of all entries, as they are now, in no particular order.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let keys: Vec<_> = self.heap.take(py)?.keys().map(key::bits).collect();
        PyList::new(py, keys)?.try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (len, first) = {
            let heap = self.heap.take(py)?;
            (heap.len(), heap.at(py, 0))
        };
        let Some((priority, _)) = first else {
            return Ok("<PriorityQueue of 0 entries>".to_owned());
        };
        let entries = if len == 1 { "entry" } else { "entries" };
        Ok(format!(
            "<PriorityQueue of {len} {entries}, the first of priority {}>",
            priority.bind(py).repr()?
        ))
    }

    /// Bytes that the queue takes, without priorities and values.
    fn __sizeof__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(size_of::<Self>() + self.heap.take(py)?.allocated())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.heap.try_take() {
            Some(heap) => heap.traverse(&visit),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        // Whoever compared would hold a reference: nobody does.
        let dropped = self.heap.try_take().map(|mut heap| heap.clear());
        drop(dropped);
    }
}

impl PriorityQueue {
    /// Takes out the entry at the place that `find` says, if any: its priority and its value.
    #[inline]
    fn take_out(
        &self,
        py: Python<'_>,
        find: impl FnOnce(&Heap) -> Option<usize>,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let mut heap = self.heap.take(py)?;
        let Some(place) = find(&heap) else {
            return Ok(None);
        };
        let route = heap.route_out(py, place)?;
        Ok(heap.take_out(place, &route))
    }

    /// An entry's priority or value, `which` of them; `None` if the key is stale.
    fn find(
        &self,
        key: &Bound<'_, PyAny>,
        which: impl FnOnce(Py<PyAny>, Py<PyAny>) -> Py<PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let Some(entry) = key.extract::<Key>()?.timer() else {
            return Ok(None);
        };
        let heap = self.heap.take(py)?;
        let found = heap.place(entry).and_then(|place| heap.at(py, place));
        drop(heap);
        Ok(found.map(|(priority, value)| which(priority, value)))
    }
}
