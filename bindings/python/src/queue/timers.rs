//! The classes `Wheel` and `Heap`: the same methods on `punctual::Wheel` and `punctual::Heap`.

use parking_lot::Mutex;
use punctual::Expired;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyIterator, PyList};
use pyo3::{PyTraverseError, PyVisit};

use super::due::{Due, Source};
use super::key::{self, Fallback, Key};
use super::tick;

/// A timer in Python: its key, its deadline and its value.
type Listed<'py> = (Bound<'py, PyInt>, f64, Py<PyAny>);

/// Defines a class on the Rust queue `$Queue`. `help()` shows the doc comments.
macro_rules! timer_queue {
    ($Name:ident, $Queue:ty, $($doc:literal)+) => {
        $(#[doc = $doc])+
        #[pyclass(frozen, generic, mapping, weakref, module = "punctual.queue")]
        pub(crate) struct $Name {
            timers: Mutex<$Queue>,
        }

        impl $Name {
            pub(super) fn take_due(&self, now: u64) -> Option<Expired<Py<PyAny>>> {
                self.timers.lock().pop_due(now)
            }
        }

        #[pymethods]
        impl $Name {
            #[new]
            fn new() -> Self {
                $Name { timers: Mutex::new(<$Queue>::new()) }
            }

            /// Arms a timer and returns its key.
            ///
            /// The deadline is a number in any unit. A timer with a past deadline is due at once; a
            /// timer with the deadline `float("inf")` never fires. Raises ValueError if the
            /// deadline is NaN.
            #[pyo3(signature = (deadline, value, /))]
            fn insert<'py>(
                &self,
                deadline: &Bound<'py, PyAny>,
                value: Py<PyAny>,
            ) -> PyResult<Bound<'py, PyInt>> {
                let tick = tick::of_deadline(deadline)?;
                let key = self.timers.lock().insert(tick, value);
                Ok(key::given(deadline.py(), key))
            }

            /// Cancels a timer and returns its value.
            ///
            /// If the timer has fired or was removed, returns the default; without a default,
            /// raises KeyError.
            #[pyo3(signature = (key, default=Fallback(None), /), text_signature = "($self, key, default=..., /)")]
            fn remove(&self, key: &Bound<'_, PyAny>, default: Fallback) -> PyResult<Py<PyAny>> {
                let timer = key.extract::<Key>()?.timer();
                let found = timer.and_then(|timer| self.timers.lock().remove(timer));
                default.or(found, key)
            }

            /// Moves a timer to another deadline, earlier or later; its key stays valid.
            ///
            /// The timer becomes the last of the timers with an equal deadline. Raises KeyError if
            /// it has fired or was removed.
            #[pyo3(signature = (key, deadline, /))]
            fn reset(&self, key: &Bound<'_, PyAny>, deadline: &Bound<'_, PyAny>) -> PyResult<()> {
                let timer = key.extract::<Key>()?.timer();
                let tick = tick::of_deadline(deadline)?;
                if timer.is_some_and(|timer| self.timers.lock().reset(timer, tick)) {
                    Ok(())
                } else {
                    Err(key::stale(key))
                }
            }

            /// Returns the value of an armed timer, or the default if there is no such timer.
            #[pyo3(signature = (key, default=None, /))]
            fn get(&self, py: Python<'_>, key: Key, default: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
                let timer = key.timer();
                timer
                    .and_then(|timer| self.timers.lock().get(timer).map(|value| value.clone_ref(py)))
                    .or(default)
            }

            /// Returns the deadline of a timer. Raises KeyError if it has fired or was removed.
            #[pyo3(signature = (key, /))]
            fn deadline(&self, key: &Bound<'_, PyAny>) -> PyResult<f64> {
                let timer = key.extract::<Key>()?.timer();
                timer
                    .and_then(|timer| self.timers.lock().deadline(timer))
                    .map(tick::number)
                    .ok_or_else(|| key::stale(key))
            }

            /// Returns the earliest deadline; None if no timer is armed.
            fn next_deadline(&self) -> Option<f64> {
                self.timers.lock().next_deadline().map(tick::number)
            }

            /// Removes the first timer that is due at `now`. Returns its deadline and value; None
            /// if no timer is due.
            ///
            /// The first timer is the timer with the earliest deadline; of several timers with this
            /// deadline, the timer that was armed first.
            #[pyo3(signature = (now, /))]
            fn pop_due(&self, now: &Bound<'_, PyAny>) -> PyResult<Option<(f64, Py<PyAny>)>> {
                let now = tick::of_reading(now)?;
                Ok(self.take_due(now).map(|timer| (tick::number(timer.deadline), timer.value)))
            }

            /// Removes all timers that are due at `now`, one after another. Returns an iterator
            /// over their values.
            ///
            /// The program may arm, reset and remove timers during the iteration. A timer armed
            /// meanwhile for `now` or earlier is included.
            #[pyo3(signature = (now, /))]
            fn due(slf: Bound<'_, Self>, now: &Bound<'_, PyAny>) -> PyResult<Due> {
                let now = tick::of_reading(now)?;
                Ok(Due::new(Source::$Name(slf.unbind()), now))
            }

            /// Returns all timers in no particular order: a list of (key, deadline, value).
            fn timers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
                let all: Vec<_> = {
                    let timers = self.timers.lock();
                    timers.iter().map(|(key, tick, value)| (key, tick, value.clone_ref(py))).collect()
                };
                let listed = |(timer, tick, value)| -> Listed<'py> {
                    (key::given(py, timer), tick::number(tick), value)
                };
                PyList::new(py, all.into_iter().map(listed))
            }

            /// Cancels all timers; their keys become stale.
            fn clear(&self, py: Python<'_>) {
                // An additional reference keeps each value alive until the lock is released: the
                // value's `__del__` may use the queue.
                let mut values = Vec::new();
                {
                    let mut timers = self.timers.lock();
                    values.extend(timers.iter().map(|(_, _, value)| value.clone_ref(py)));
                    timers.clear();
                }
                drop(values);
            }

            fn __len__(&self) -> usize {
                self.timers.lock().len()
            }

            fn __contains__(&self, key: &Bound<'_, PyAny>) -> bool {
                Key::sought(key).is_some_and(|timer| self.timers.lock().get(timer).is_some())
            }

            fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                let timer = key.extract::<Key>()?.timer();
                let found =
                    timer.and_then(|timer| self.timers.lock().get(timer).map(|value| value.clone_ref(key.py())));
                Fallback(None).or(found, key)
            }

            /// Iterates over a snapshot of the keys of all timers, in no particular order.
            fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
                let keys: Vec<_> = self.timers.lock().iter().map(|(key, ..)| key::bits(key)).collect();
                PyList::new(py, keys)?.try_iter()
            }

            fn __repr__(&self) -> String {
                let mut timers = self.timers.lock();
                let next = timers.next_deadline().map(tick::number);
                match (timers.len(), next) {
                    (1, Some(next)) => format!("<{} of 1 timer, due at {next:?}>", stringify!($Name)),
                    (len, Some(next)) => format!("<{} of {len} timers, the next due at {next:?}>", stringify!($Name)),
                    _ => format!("<{} of 0 timers>", stringify!($Name)),
                }
            }

            /// Returns the size of the queue in bytes, without the values.
            fn __sizeof__(&self) -> usize {
                size_of::<Self>() - size_of::<$Queue>() + self.timers.lock().memory()
            }

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                let Some(timers) = self.timers.try_lock() else {
                    return Ok(());
                };
                timers.iter().try_for_each(|(_, _, value)| visit.call(value))
            }

            fn __clear__(&self) {
                Python::attach(|py| self.clear(py));
            }
        }
    };
}

timer_queue!(
    Wheel,
    punctual::Wheel<Py<PyAny>>,
    "Timers in a hierarchical timing wheel: arming, cancelling and re-arming are O(1), for any number of timers."
    ""
    "A deadline is a number in a unit of your choice: seconds of time.monotonic(), milliseconds, ticks."
    "No timer fires before its deadline. Timers fire in the order of their deadlines; timers with equal"
    "deadlines fire in the order in which they were armed. The queue never reads a clock: you pass the time."
    ""
    ">>> from punctual.queue import Wheel"
    ">>> timeouts = Wheel()"
    ">>> request = timeouts.insert(1.5, \"request 1\")"
    ">>> _ = timeouts.insert(0.9, \"request 2\")"
    ">>> timeouts.next_deadline()"
    "0.9"
    ">>> timeouts.remove(request)  # answered in time"
    "'request 1'"
    ">>> list(timeouts.due(1.0))"
    "['request 2']"
);

timer_queue!(
    Heap,
    punctual::Heap<Py<PyAny>>,
    "Timers in a heap: the methods of Wheel in O(log n). It takes less memory for few timers."
    ""
    ">>> from punctual.queue import Heap"
    ">>> heap = Heap()"
    ">>> _ = heap.insert(2, \"b\")"
    ">>> _ = heap.insert(1, \"a\")"
    ">>> heap.pop_due(5)"
    "(1.0, 'a')"
);
