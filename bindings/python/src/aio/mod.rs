//! `punctual.aio`: asyncio's timers on the wheel.
//!
//! | file | what it is |
//! |---|---|
//! | `base` | `LoopTimers`, the base class that precedes asyncio's loop and has `call_later` and `call_at` |
//! | `handle` | `TimerHandle`, their result |
//! | `timers` | `Timers`, the wheel of a loop; replaces asyncio's heap |
//! | `sleep` | `Sleep`, which replaces the selector's `select`: sleeps no longer than until the next deadline |
//! | `nap` | the last part of a sleep, exact to the microsecond |
//! | `clock` | the clock, and the conversion of loop times to ticks |
//! | `attributes` | attributes of the loop that arming depends on |
//! | `asyncio` | objects imported from asyncio |
//!
//! Ground rules:
//!
//! - The GIL is the lock. Cells are locked for a few instructions in which no Python code runs;
//!   objects that leave a cell are dropped outside, since a `__del__` may call the loop.
//! - A handle is in the wheel exactly while it is armed, and the wheel owns a reference to it.
//!   Cancellation removes it at once.
//! - An iteration of the loop moves a bounded number of due handles to asyncio's `_ready`, after
//!   the selector's events, so no iteration takes long. The remaining handles follow in order in
//!   the next iterations.
//! - Nothing fires before the loop's own clock reaches its deadline.

mod asyncio;
mod attributes;
mod base;
mod clock;
mod handle;
mod nap;
mod sleep;
mod timers;

use pyo3::prelude::*;

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<base::LoopTimers>()?;
    m.add_class::<sleep::Sleep>()
}
