//! The class `chan`: an independent channel, the channel of a timer, or the nil channel.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{PyTraverseError, PyVisit};

use super::PanicError;
use super::block::{self, Case};
use super::channel::{AlreadyClosed, Channel};
use super::item::{Dtype, Item};
use super::waiter::Outcome;
use crate::gil::ensure_collected;
use crate::time::{Ticker, Timer};

/// A channel like those of Go, for passing items between threads.
///
/// `chan(size)` buffers up to `size` items. With the default of 0 a sender waits for its receiver.
/// Waiting threads are served in the order in which they began to wait. One exception: the main
/// thread (on systems other than Linux, every thread) also checks for signals during a wait, and
/// each check moves it to the end of the queue. A wait releases the GIL, and Ctrl-C ends it.
///
/// `dtype` is the type of the items, by pygolang's names: `object` (the default), `"C.double"` (or
/// `float`), `"C.int"`, `"C.bool"`, `"C.structZ"`. Sending anything else raises `TypeError`, and an
/// int outside of the type's range `OverflowError`.
///
/// Iteration receives items until the channel is closed. `len` is the number of buffered items.
///
/// After a fork, threads of the parent process that wait on a channel do not exist in the child:
/// the child neither sends to them nor receives from them.
// A timer's channel is often created and freed with its timer. The garbage collector does not visit
// an object with recycled memory, which is right for this channel: it can be in no cycle.
#[pyclass(frozen, name = "chan", module = "punctual", freelist = 8)]
pub(crate) struct Chan {
    link: Link,
}

/// Location of the channel. A timer contains its channel; the `Chan` of that channel keeps the
/// timer alive.
enum Link {
    Own(Box<Channel<Item>>, Dtype),
    Timer(Py<Timer>),
    Ticker(Py<Ticker>),
    Nil(Dtype),
}

/// The nil channels, one per type.
static NIL: PyOnceLock<[Py<Chan>; 5]> = PyOnceLock::new();

impl Chan {
    pub(crate) fn of_timer(timer: Py<Timer>) -> Self {
        Chan {
            link: Link::Timer(timer),
        }
    }

    pub(crate) fn of_ticker(ticker: Py<Ticker>) -> Self {
        Chan {
            link: Link::Ticker(ticker),
        }
    }

    /// Returns the nil channel of this type; always the same object.
    pub(crate) fn nil_of(py: Python<'_>, dtype: Dtype) -> PyResult<Py<Chan>> {
        let all = NIL.get_or_try_init(py, || {
            let make = |dtype| {
                let link = Link::Nil(dtype);
                Py::new(py, Chan { link })
            };
            let [a, b, c, d, e] = Dtype::ALL;
            PyResult::Ok([make(a)?, make(b)?, make(c)?, make(d)?, make(e)?])
        })?;
        let at = Dtype::ALL.iter().position(|other| *other == dtype);
        Ok(all[at.unwrap_or(0)].clone_ref(py))
    }

    /// Returns the channel, or `None` for the nil channel. Code that looks at its items calls
    /// [`current`](Chan::current) instead.
    fn channel(&self) -> Option<&Channel<Item>> {
        match &self.link {
            Link::Own(channel, _) => Some(channel),
            Link::Timer(timer) => timer.get().channel(),
            Link::Ticker(ticker) => Some(ticker.get().channel()),
            Link::Nil(_) => None,
        }
    }

    /// Returns the timer of the channel, if it is not a ticker.
    fn timer(&self) -> Option<&Timer> {
        match &self.link {
            Link::Timer(timer) => Some(timer.get()),
            _ => None,
        }
    }

    /// Returns the channel. If it belongs to a due timer, the timer first sends the time.
    fn current(&self, py: Python<'_>) -> Option<&Channel<Item>> {
        if let Some(timer) = self.timer() {
            timer.send_if_due(py);
        }
        self.channel()
    }

    pub(super) fn receiving(&self, py: Python<'_>) -> Case<'_> {
        match self.current(py) {
            Some(channel) => Case::Receive(channel, self.timer()),
            None => Case::Never,
        }
    }

    /// Creates a send case. `item` must be present.
    pub(super) fn sending(&self, py: Python<'_>, item: Option<Item>) -> Case<'_> {
        let channel = self.current(py);
        if let Some(timer) = self.timer() {
            timer.arm_in_driver(py);
        }
        match channel {
            Some(channel) => Case::Send(channel, item),
            None => Case::Never,
        }
    }

    pub(super) fn dtype(&self) -> Dtype {
        match &self.link {
            Link::Own(_, dtype) | Link::Nil(dtype) => *dtype,
            Link::Timer(_) | Link::Ticker(_) => Dtype::Double,
        }
    }

    /// Returns the value that a receive from the closed channel yields.
    pub(super) fn zero(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.dtype().zero() {
            Some(item) => item.into_object(py),
            None => Ok(py.None()),
        }
    }

    /// Receives an item. Returns `None` if the channel is closed and empty.
    fn receive(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut case = self.receiving(py);
        let cases = std::slice::from_mut(&mut case);
        let (_, outcome) = match block::poll(cases) {
            Some(done) => done,
            None => block::wait(py, cases)?,
        };
        match outcome {
            Outcome::Received(item) => item.into_object(py).map(Some),
            Outcome::Closed | Outcome::Sent => Ok(None),
        }
    }
}

pub(super) fn sent_on_closed() -> PyErr {
    PanicError::new_err("send on closed channel")
}

/// Returns the number of receivers and senders that wait on a channel, for tests; each case of a
/// select counts.
#[pyfunction]
#[pyo3(signature = (channel, /))]
pub(super) fn _waiting(channel: &Bound<'_, Chan>) -> (usize, usize) {
    channel.get().channel().map_or((0, 0), Channel::waiting)
}

#[pymethods]
impl Chan {
    #[new]
    #[pyo3(signature = (size=0, dtype=None))]
    fn new<'py>(
        py: Python<'py>,
        size: i64,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        if size < 0 {
            return Err(PyValueError::new_err(format!(
                "chan: size {size} is negative"
            )));
        }
        let size = u32::try_from(size)
            .map_err(|_| PyOverflowError::new_err("chan: size must be below 2**32"))?;
        let dtype = dtype.map_or(Ok(Dtype::Object), Dtype::of)?;
        let link = Link::Own(Box::new(Channel::new(size)), dtype);
        let channel = Bound::new(py, Chan { link })?;
        ensure_collected(&channel);
        Ok(channel)
    }

    /// Returns the nil channel of a type. Sends and receives on it block forever; closing it raises
    /// `PanicError`.
    #[staticmethod]
    #[pyo3(signature = (dtype, /))]
    fn nil(dtype: &Bound<'_, PyAny>) -> PyResult<Py<Chan>> {
        Chan::nil_of(dtype.py(), Dtype::of(dtype)?)
    }

    /// Sends an item. Blocks while no receiver waits and the buffer is full.
    ///
    /// Raises `PanicError` if the channel is closed, before or during the wait, `TypeError` if the
    /// item does not have the channel's type, and `OverflowError` if it is an int outside of the
    /// type's range.
    #[pyo3(signature = (item, /))]
    fn send(&self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = item.py();
        let item = self.dtype().item(item)?;
        let mut case = self.sending(py, Some(item));
        let cases = std::slice::from_mut(&mut case);
        let (_, outcome) = match block::poll(cases) {
            Some(done) => done,
            None => block::wait(py, cases)?,
        };
        match outcome {
            Outcome::Closed => Err(sent_on_closed()),
            Outcome::Sent | Outcome::Received(_) => Ok(()),
        }
    }

    /// Receives an item. Blocks until there is one.
    ///
    /// Returns the type's zero (`None`, 0.0, 0 or False) at once if the channel is closed and
    /// empty.
    pub(crate) fn recv(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.receive(py)? {
            Some(item) => Ok(item),
            None => self.zero(py),
        }
    }

    /// Receives like `recv`. Returns `(item, ok)`.
    ///
    /// `ok` is False if the channel is closed and empty.
    fn recv_(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, bool)> {
        match self.receive(py)? {
            Some(item) => Ok((item, true)),
            None => Ok((self.zero(py)?, false)),
        }
    }

    /// Closes the channel. Buffered items can still be received; sends are no longer possible.
    ///
    /// Raises `PanicError` if the channel is already closed or is the nil channel. Waiting senders
    /// get a `PanicError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.current(py).map(Channel::close) {
            Some(Ok(())) => Ok(()),
            Some(Err(AlreadyClosed)) => Err(PanicError::new_err("close of closed channel")),
            None => Err(PanicError::new_err("close of nil channel")),
        }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.current(py).map_or(0, Channel::len)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.receive(py)
    }

    /// Compares identities; an untyped nil channel equals every nil channel.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Chan>() else {
            return false;
        };
        let other = other.get();
        match (self.channel(), other.channel()) {
            (Some(own), Some(other)) => std::ptr::eq(own, other),
            (None, None) => {
                let (own, other) = (self.dtype(), other.dtype());
                own == other || own == Dtype::Object || other == Dtype::Object
            }
            _ => false,
        }
    }

    fn __hash__(&self) -> isize {
        // The address, without its low bits, which are the same for all.
        self.channel().map_or(0, |channel| {
            (std::ptr::from_ref(channel) as usize >> 4) as isize
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Some(channel) = self.current(py) else {
            return match self.dtype() {
                Dtype::Object => "nilchan".into(),
                dtype => format!("chan.nil({:?})", dtype.name()).replace('"', "'"),
            };
        };
        let closed = if channel.is_closed() { ", closed" } else { "" };
        let (len, capacity) = (channel.len(), channel.capacity());
        let dtype = self.dtype().name();
        format!("<chan of {dtype}: {len} of {capacity} buffered{closed}>")
    }

    /// Supports annotations such as `chan[float]`.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let alias = cls.py().import("types")?.getattr("GenericAlias")?;
        alias.call1((cls, item))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.link {
            Link::Own(channel, _) => channel.visit(|item| match item {
                Item::Object(object) => visit.call(object),
                _ => Ok(()),
            }),
            Link::Timer(timer) => visit.call(timer),
            Link::Ticker(ticker) => visit.call(ticker),
            Link::Nil(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Link::Own(channel, _) = &self.link {
            drop(channel.drain());
        }
    }
}

impl Drop for Chan {
    fn drop(&mut self) {
        match &self.link {
            Link::Timer(timer) => timer.get().view().forget(),
            Link::Ticker(ticker) => ticker.get().view().forget(),
            Link::Own(..) | Link::Nil(_) => {}
        }
    }
}
