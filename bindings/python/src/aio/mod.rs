//! `punctual.aio`: asyncio's timers on the wheel.
//!
//! | file | what it is |
//! |---|---|
//! | `base` | `LoopTimers`, the base class with `call_later` and `call_at` that comes before asyncio's loop |
//! | `handle` | `TimerHandle`, what they return |
//! | `timers` | `Timers`, the wheel of one loop; in the place of asyncio's heap |
//! | `sleep` | `Sleep`, in the place of the selector's `select`: sleeps no longer than until the next deadline |
//! | `nap` | its last part, exact to the microsecond |
//! | `clock` | the clock, and loop times as ticks |
//! | `attributes` | what asyncio assigns to the loop that arming has to know |
//! | `asyncio` | what is asked of asyncio itself |
//!
//! Ground rules:
//!
//! - The GIL is the lock. Cells are held for a few instructions in which no Python code runs: objects that leave a cell
//!   are dropped outside it, since a `__del__` may come back to the loop.
//! - A handle is in the wheel exactly while it is armed. The wheel owns it then; a cancelled one is gone at once.
//! - A turn of the loop moves a bounded number of due handles to asyncio's `_ready`, after the events of its selector, so
//!   that no turn takes long however many are due. The others come in the turns that follow, in order.
//! - Nothing fires before the loop's own clock shows its deadline.

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
