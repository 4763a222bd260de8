//! `punctual.aio`: asyncio's timers on the wheel.
//!
//! | file | content |
//! |---|---|
//! | `base` | `LoopTimers`: a base class that precedes asyncio's loop; `call_later`, `call_at` |
//! | `handle` | `TimerHandle`: the result of `call_later` and `call_at` |
//! | `timers` | `Timers`: the wheel of a loop; replaces asyncio's heap |
//! | `sleep` | `Sleep`: replaces the selector's `select`, and also wakes for the next deadline |
//! | `nap` | the last part of a sleep, exact to the microsecond |
//! | `clock` | the clock, and the conversion of loop times to ticks |
//! | `attributes` | attributes of the loop that arming depends on |
//! | `asyncio` | objects imported from asyncio |
//!
//! Ground rules:
//!
//! - The GIL is the lock. A [`GilLock`](crate::gil::GilLock) is held for a few instructions in
//!   which no Python code runs. Objects that are taken out of it are dropped after its release,
//!   since a `__del__` may call the loop.
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
