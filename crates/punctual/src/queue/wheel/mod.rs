//! Hierarchical timing wheels.

mod chunk;
mod front;
mod level;
mod raw;
mod sweep;

pub use raw::{Due, RawWheel, Step, Timers};
