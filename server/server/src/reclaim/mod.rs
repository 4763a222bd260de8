//! Memory that becomes free: eviction, and freed memory on its way back to the system.

pub(crate) mod limit;
pub(crate) mod rounds;
