//! `Timers`: the wheel of one loop, and its clock.
//!
//! It is also what asyncio finds in the place of its heap (`loop._scheduled`): it has the handles, and a length, but is
//! false in a condition, for asyncio asks `if self._scheduled` when it is about to serve a heap.

use super::clock;
use super::handle::TimerHandle;
use crate::gil::GilLock;
use crate::kernel::monotonic;
use punctual::{Adaptive, DeadlineQueue, Polled, TimerKey};
use pyo3::gc::PyVisit;
use pyo3::types::{PyIterator, PyList};
use pyo3::{PyTraverseError, prelude::*};

/// The most handles that become ready in one turn of the loop: what the events of sockets may have to wait for, and
/// what the overhead of a turn, some 10 us with its system call, is spread over.
pub(super) const BATCH: usize = 256;

/// The most work in the wheel for one turn: handles that fall due and entries that move down a level, some 10 ns each.
const BUDGET: usize = 4096;

/// Later than any clock shows: 292 years after its beginning.
pub(super) const END: u64 = 1 << 63;

/// The deadline of what never falls due.
const NEVER: u64 = u64::MAX;

/// The timers that a loop has armed: `loop._scheduled` of `punctual.aio.EventLoop`.
///
/// For looking at: it has a length and yields the handles, in no particular order. It is false even when it has some,
/// because asyncio would take it for its heap otherwise.
#[pyclass(frozen, weakref, module = "punctual.aio")]
pub(crate) struct Timers {
    state: GilLock<State>,
}

struct State {
    queue: Queue,
    /// A virtual clock's time; the system's clock without.
    virtual_now: Option<u64>,
}

type Queue = Adaptive<Py<TimerHandle>>;

/// An empty queue that knows what time it is, and files the first timers near where they come out.
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

    /// The time of the loop's own clock, in ticks.
    #[inline]
    pub(super) fn now(&self, py: Python<'_>) -> u64 {
        self.state
            .with(py, |state| state.virtual_now)
            .unwrap_or_else(monotonic)
    }

    pub(super) fn is_virtual(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.virtual_now.is_some())
    }

    /// Sets a virtual clock, which does not go back.
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

    /// The caller drops what it gets.
    #[inline]
    pub(super) fn remove(&self, py: Python<'_>, key: TimerKey) -> Option<Py<TimerHandle>> {
        self.state.with(py, |state| state.queue.remove(key))
    }

    /// The next deadline that ever comes.
    #[inline]
    pub(super) fn next_deadline(&self, py: Python<'_>) -> Option<u64> {
        self.state
            .with(py, |state| state.queue.next_deadline())
            .filter(|deadline| *deadline != NEVER)
    }

    /// A lower bound of the deadlines, at a glance.
    #[inline]
    pub(super) fn next_wakeup(&self, py: Python<'_>) -> Option<u64> {
        self.state.with(py, |state| state.queue.next_wakeup())
    }

    /// Takes out handles due at `now`: one turn's share, in the order of their deadlines.
    pub(super) fn take_due(&self, py: Python<'_>, now: u64) -> Vec<Py<TimerHandle>> {
        // A clock of the program's own may show anything.
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

    /// There are no timers: gives back a little of what a crowd of them has left.
    #[inline]
    pub(super) fn rest(&self, py: Python<'_>) {
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

    /// Forgets all timers: what asyncio does to its heap when the loop is closed.
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
