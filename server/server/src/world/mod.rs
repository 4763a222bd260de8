//! The machine: clocks, files, the process.

pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod process;
