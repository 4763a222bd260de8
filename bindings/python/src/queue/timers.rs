//! `Wheel` and `Heap`: one class each, the same methods, on the Rust queues of these names.

use parking_lot::Mutex;
use punctual::{DeadlineQueue, Expired};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyIterator, PyList};
use pyo3::{PyTraverseError, PyVisit};

use super::due::{Due, Source};
use super::key::{self, Fallback, Key};
use super::tick;

/// A timer, for Python: its key, its deadline and its value.
type Listed<'py> = (Bound<'py, PyInt>, f64, Py<PyAny>);

/// A class on the Rust queue `$Queue`. Its documentation is what `help()` shows.
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
            /// The deadline is a number, in the unit that the queue is used with; one in the past is due at once, and
            /// `float("inf")` never. Raises ValueError if it is NaN.
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
            /// If the timer has fired or was removed, returns the default; without one, raises KeyError.
            #[pyo3(signature = (key, default=Fallback(None), /), text_signature = "($self, key, default=..., /)")]
            fn remove(&self, key: &Bound<'_, PyAny>, default: Fallback) -> PyResult<Py<PyAny>> {
                let timer = key.extract::<Key>()?.timer();
                let found = timer.and_then(|timer| self.timers.lock().remove(timer));
                default.or(found, key)
            }

            /// Arms a timer anew, earlier or later; its key stays good.
            ///
            /// Among timers of equal deadlines it is now the last. Raises KeyError if it has fired or was removed.
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

            /// The value of an armed timer; the default if there is no such timer.
            #[pyo3(signature = (key, default=None, /))]
            fn get(&self, py: Python<'_>, key: Key, default: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
                let timer = key.timer();
                timer
                    .and_then(|timer| self.timers.lock().get(timer).map(|value| value.clone_ref(py)))
                    .or(default)
            }

            /// When a timer is due. Raises KeyError if it has fired or was removed.
            #[pyo3(signature = (key, /))]
            fn deadline(&self, key: &Bound<'_, PyAny>) -> PyResult<f64> {
                let timer = key.extract::<Key>()?.timer();
                timer
                    .and_then(|timer| self.timers.lock().deadline(timer))
                    .map(tick::number)
                    .ok_or_else(|| key::stale(key))
            }

            /// The earliest deadline; None if no timer is armed.
            fn next_deadline(&self) -> Option<f64> {
                self.timers.lock().next_deadline().map(tick::number)
            }

            /// Takes out the first timer that is due at `now`: its deadline and its value; None if none is.
            ///
            /// The first is the one of the earliest deadline, and among equal ones the one armed first.
            #[pyo3(signature = (now, /))]
            fn pop_due(&self, now: &Bound<'_, PyAny>) -> PyResult<Option<(f64, Py<PyAny>)>> {
                let now = tick::of_reading(now)?;
                Ok(self.take_due(now).map(|timer| (tick::number(timer.deadline), timer.value)))
            }

            /// Takes out all timers that are due at `now`, one after another: an iterator over their values.
            ///
            /// Timers may be armed, reset and removed meanwhile; one armed for `now` or earlier is among those due.
            #[pyo3(signature = (now, /))]
            fn due(slf: Bound<'_, Self>, now: &Bound<'_, PyAny>) -> PyResult<Due> {
                let now = tick::of_reading(now)?;
                Ok(Due::new(Source::$Name(slf.unbind()), now))
            }

            /// All timers, in no particular order: a list of (key, deadline, value).
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

            /// Cancels all timers; their keys are stale from now on.
            fn clear(&self, py: Python<'_>) {
                // One more reference to each value lets it outlive the lock: its `__del__` may use the queue.
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

            /// The keys of all timers, as they are now, in no particular order.
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

            /// Bytes that the queue takes, without the values.
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
    "Timers in a hierarchical timing wheel: arm, cancel and re-arm in O(1), however many there are."
    ""
    "A deadline is a number in whatever unit you like: seconds of time.monotonic(), milliseconds, ticks."
    "Nothing is due before its deadline. Timers fall due in the order of their deadlines, equal ones in"
    "the order in which they were armed. What the queue never does is look at a clock."
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
    "Timers in a heap: as Wheel, in O(log n). It takes less memory while timers are few."
    ""
    ">>> from punctual.queue import Heap"
    ">>> heap = Heap()"
    ">>> _ = heap.insert(2, \"b\")"
    ">>> _ = heap.insert(1, \"a\")"
    ">>> heap.pop_due(5)"
    "(1.0, 'a')"
);
