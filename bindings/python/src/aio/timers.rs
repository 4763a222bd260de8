//! `Timers`: the wheel of a loop, and its clock.
//!
//! `loop._scheduled`, asyncio's heap, is this object as well. It has a length and yields the
//! handles, but is false in a condition: asyncio uses its heap only if `self._scheduled` is true.

use super::clock;
use super::handle::TimerHandle;
use crate::gil::GilLock;
use crate::kernel::monotonic;
use punctual::{Polled, TimerKey, Wheel};
use pyo3::gc::PyVisit;
use pyo3::types::{PyIterator, PyList};
use pyo3::{PyTraverseError, prelude::*};

/// Maximum number of handles that become ready in one iteration of the loop. A higher limit would
/// delay socket events. A lower one would divide the cost of an iteration, some 10 us with its
/// system call, by fewer handles.
pub(super) const BATCH: usize = 256;

/// Maximum work in the wheel per iteration: the number of due handles and of entries that move to a
/// lower level, some 10 ns each.
const BUDGET: usize = 4096;

/// A tick later than any clock reading: 292 years after tick 0.
pub(super) const END: u64 = 1 << 63;

/// The tick of a timer that never fires.
const NEVER: u64 = u64::MAX;

/// The armed timers of a loop: `loop._scheduled` of `punctual.aio.EventLoop`.
///
/// For inspection only: it has a length and yields the handles in no particular order. It is always
/// false, because asyncio would otherwise use it as its heap.
#[pyclass(frozen, weakref, module = "punctual.aio")]
pub(crate) struct Timers {
    state: GilLock<State>,
}

struct State {
    queue: Queue,
    /// Time of a virtual clock; `None` for the system's clock.
    virtual_now: Option<u64>,
}

type Queue = Wheel<Py<TimerHandle>>;

/// Creates an empty wheel whose current tick is `now`. A wheel at tick 0 would file the first
/// timers in its highest levels.
fn queue_at(now: u64) -> Queue {
    let mut queue = Queue::new();
    queue.pop_due(now);
    queue
}

impl Timers {
    pub(super) fn new() -> Self {
        Timers {
            state: GilLock::new(State {
                queue: queue_at(monotonic()),
                virtual_now: None,
            }),
        }
    }

    /// Returns the time of the loop's clock in ticks.
    #[inline]
    pub(super) fn now(&self, py: Python<'_>) -> u64 {
        self.state
            .with(py, |state| state.virtual_now)
            .unwrap_or_else(monotonic)
    }

    pub(super) fn is_virtual(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.virtual_now.is_some())
    }

    /// Turns the loop's clock into a virtual one at `now`, or moves a virtual clock forward to
    /// `now`.
    pub(super) fn set_virtual(&self, py: Python<'_>, now: u64) {
        self.state.with(py, |state| {
            state.virtual_now = Some(state.virtual_now.map_or(now, |before| before.max(now)));
        });
    }

    #[inline]
    pub(super) fn insert(
        &self,
        py: Python<'_>,
        deadline: u64,
        handle: Py<TimerHandle>,
    ) -> TimerKey {
        let deadline = if deadline < END { deadline } else { NEVER };
        self.state
            .with(py, |state| state.queue.insert(deadline, handle))
    }

    /// Removes a handle, which the caller must drop.
    #[inline]
    pub(super) fn remove(&self, py: Python<'_>, key: TimerKey) -> Option<Py<TimerHandle>> {
        self.state.with(py, |state| state.queue.remove(key))
    }

    /// Returns the exact next deadline.
    #[inline]
    pub(super) fn next_deadline(&self, py: Python<'_>) -> Option<u64> {
        self.state
            .with(py, |state| state.queue.next_deadline())
            .filter(|deadline| *deadline != NEVER)
    }

    /// Returns a lower bound of all deadlines, in O(1).
    #[inline]
    pub(super) fn next_wakeup(&self, py: Python<'_>) -> Option<u64> {
        self.state.with(py, |state| state.queue.next_wakeup())
    }

    /// Removes the handles due at `now` in the order of their deadlines, at most [`BATCH`] of them.
    pub(super) fn take_due(&self, py: Python<'_>, now: u64) -> Vec<Py<TimerHandle>> {
        // A program's own clock may return any time.
        let now = now.min(END);
        let mut due = Vec::new();
        self.state.with(py, |state| {
            let mut budget = BUDGET;
            while due.len() < BATCH
                && let Polled::Due(expired) = state.queue.poll_due(now, &mut budget)
            {
                due.push(expired.value);
            }
        });
        due.iter().for_each(|handle| handle.get().disarmed(py));
        due
    }

    /// Releases some of the memory that a large number of former timers occupied. Called when no
    /// timer is armed.
    #[inline]
    pub(super) fn release_memory(&self, py: Python<'_>) {
        self.state.with(py, |state| {
            let now = state.virtual_now.unwrap_or_else(monotonic);
            if state.queue.is_empty() {
                state.queue.pop_due(now);
            }
        });
    }

    fn handles(&self, py: Python<'_>) -> Vec<Py<TimerHandle>> {
        self.state.with(py, |state| {
            let handles = state.queue.iter();
            handles.map(|(_, _, handle)| handle.clone_ref(py)).collect()
        })
    }
}

#[pymethods]
impl Timers {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.queue.len())
    }

    fn __bool__(&self) -> bool {
        false
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.handles(py))?.try_iter()
    }

    fn __contains__(slf: &Bound<'_, Self>, handle: &Bound<'_, PyAny>) -> bool {
        handle
            .cast::<TimerHandle>()
            .is_ok_and(|handle| handle.get().is_armed_in(slf))
    }

    /// Removes all timers, as asyncio does with its heap when the loop is closed.
    fn clear(&self, py: Python<'_>) {
        let queue = self
            .state
            .with(py, |state| std::mem::take(&mut state.queue));
        queue
            .iter()
            .for_each(|(_, _, handle)| handle.get().disarmed(py));
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let next = self.next_deadline(py).map(clock::seconds);
        let next = next.map_or(String::new(), |next| format!(", the next at {next}"));
        format!("<Timers: {} armed{next}>", self.__len__(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.state
            .visit(visit, |state| {
                state
                    .queue
                    .iter()
                    .try_for_each(|(_, _, handle)| visit.call(handle))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        self.clear(py);
    }
}
