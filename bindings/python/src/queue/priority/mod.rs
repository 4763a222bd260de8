//! `PriorityQueue`: priorities are any Python objects that `<` compares.
//!
//! Ground rules:
//! - Comparing two objects runs Python code while the queue's lock is held, because the heap must
//!   not change meanwhile. All comparisons of an operation precede its first change (see `heap`),
//!   so an operation that raises changes nothing.
//! - A comparison that uses its own queue raises RuntimeError (see `lock`). Other threads wait for
//!   the lock with the GIL released.
//! - Otherwise the rules of timer queues apply: no Python object is created or dropped under the
//!   lock.

mod heap;
mod lock;
mod rank;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyIterator, PyList};
use pyo3::{PyTraverseError, PyVisit};

use super::key::{self, Fallback, Key};
use heap::Heap;
use lock::ComparisonLock;
use rank::Priority;

/// An entry in Python: its key, its priority and its value.
type Listed<'py> = (Bound<'py, PyInt>, Py<PyAny>, Py<PyAny>);

/// A priority queue whose entries can be found, changed and removed by their keys.
///
/// The entry with the least priority comes first, with `reverse=True` the entry with the greatest.
/// Entries with equal priorities come in the order in which they were pushed. Priorities are
/// numbers, or any objects that `<` compares with each other, such as tuples or strings.
///
/// If a comparison raises, the operation raises the same exception and leaves the queue unchanged.
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
    heap: ComparisonLock<Heap>,
}

#[pymethods]
impl PriorityQueue {
    #[new]
    #[pyo3(signature = (*, reverse=false))]
    fn new(reverse: bool) -> Self {
        PriorityQueue {
            heap: ComparisonLock::new(Heap::new(reverse)),
        }
    }

    /// Adds a value and returns its key. O(log n).
    ///
    /// Raises ValueError if the priority is NaN, and any exception from the comparison of
    /// priorities.
    #[pyo3(signature = (priority, value, /))]
    fn push<'py>(
        &self,
        priority: Bound<'py, PyAny>,
        value: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyInt>> {
        let py = priority.py();
        let priority = Priority::new(priority)?;
        let key = {
            let mut heap = self.heap.lock(py)?;
            let to = heap.place_in(py, &priority)?;
            heap.push(priority, value, to)
        };
        Ok(key::given(py, key))
    }

    /// Removes the first entry and returns its priority and value. O(log n). Raises IndexError if
    /// the queue is empty.
    fn pop(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let first = self.take_out(py, |heap| (heap.len() > 0).then_some(0))?;
        first.ok_or_else(|| PyIndexError::new_err("pop from an empty PriorityQueue"))
    }

    /// Returns the priority and value of the first entry, which stays. O(1). Raises IndexError if
    /// the queue is empty.
    fn peek(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let first = self.heap.lock(py)?.at(py, 0);
        first.ok_or_else(|| PyIndexError::new_err("peek at an empty PriorityQueue"))
    }

    /// Removes an entry and returns its value. O(log n).
    ///
    /// If the entry was popped or removed, returns the default; without a default, raises KeyError.
    #[pyo3(signature = (key, default=Fallback(None), /), text_signature = "($self, key, default=..., /)")]
    fn remove(&self, key: &Bound<'_, PyAny>, default: Fallback) -> PyResult<Py<PyAny>> {
        let entry = key.extract::<Key>()?.timer();
        let found = self.take_out(key.py(), |heap| heap.place(entry?))?;
        default.or(found.map(|(_, value)| value), key)
    }

    /// Changes the priority of an entry and returns the old priority. O(log n).
    ///
    /// The entry becomes the last of the entries with an equal priority. Raises KeyError if it was
    /// popped or removed.
    #[pyo3(signature = (key, priority, /))]
    fn change_priority(
        &self,
        key: &Bound<'_, PyAny>,
        priority: Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let py = key.py();
        let entry = key.extract::<Key>()?.timer();
        let priority = Priority::new(priority)?;
        let mut heap = self.heap.lock(py)?;
        let Some(place) = entry.and_then(|entry| heap.place(entry)) else {
            drop(heap);
            return Err(key::stale(key));
        };
        let to = heap.place_from(py, place, &priority)?;
        Ok(heap.change(place, priority, to))
    }

    /// Returns the priority of an entry. O(1). Raises KeyError if it was popped or removed.
    #[pyo3(signature = (key, /))]
    fn priority(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.find(key, |priority, _| priority)?;
        Fallback(None).or(found, key)
    }

    /// Returns the value of an entry, or the default if there is no such entry. O(1).
    #[pyo3(signature = (key, default=None, /))]
    fn get(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.find(key, |_, value| value)?.or(default))
    }

    /// Returns all entries in no particular order: a list of (key, priority, value). O(n).
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<_> = {
            let heap = self.heap.lock(py)?;
            let all = heap.iter();
            all.map(|(entry, priority, value)| (entry, priority.clone_ref(py), value.clone_ref(py)))
                .collect()
        };
        let listed =
            |(entry, priority, value)| -> Listed<'py> { (key::given(py, entry), priority, value) };
        PyList::new(py, all.into_iter().map(listed))
    }

    /// Removes all entries; their keys become stale. O(n).
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let dropped = self.heap.lock(py)?.clear();
        drop(dropped);
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.heap.lock(py)?.len())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        match Key::sought(key) {
            Some(entry) => Ok(self.heap.lock(key.py())?.place(entry).is_some()),
            None => Ok(false),
        }
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.find(key, |_, value| value)?;
        Fallback(None).or(found, key)
    }

    /// Iterates over a snapshot of the keys of all entries, in no particular order.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let heap = self.heap.lock(py)?;
        let keys: Vec<_> = heap.iter().map(|(entry, ..)| key::bits(entry)).collect();
        drop(heap);
        PyList::new(py, keys)?.try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (len, first) = {
            let heap = self.heap.lock(py)?;
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

    /// Returns the size of the queue in bytes, without priorities and values.
    fn __sizeof__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(size_of::<Self>() + self.heap.lock(py)?.allocated())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.heap.try_lock() {
            Some(heap) => heap.traverse(&visit),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        // A thread that compares has a reference to the queue, so no comparison is running.
        let dropped = self.heap.try_lock().map(|mut heap| heap.clear());
        drop(dropped);
    }
}

impl PriorityQueue {
    /// Removes the entry at the place that `find` returns, if any. Returns its priority and value.
    #[inline]
    fn take_out(
        &self,
        py: Python<'_>,
        find: impl FnOnce(&Heap) -> Option<usize>,
    ) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
        let mut heap = self.heap.lock(py)?;
        let Some(place) = find(&heap) else {
            return Ok(None);
        };
        let to = heap.place_out(py, place)?;
        Ok(heap.take_out(place, to))
    }

    /// Returns an entry's priority or value, selected by `which`; `None` if the key is stale.
    fn find(
        &self,
        key: &Bound<'_, PyAny>,
        which: impl FnOnce(Py<PyAny>, Py<PyAny>) -> Py<PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let Some(entry) = key.extract::<Key>()?.timer() else {
            return Ok(None);
        };
        let heap = self.heap.lock(py)?;
        let found = heap.place(entry).and_then(|place| heap.at(py, place));
        drop(heap);
        Ok(found.map(|(priority, value)| which(priority, value)))
    }
}
