//! Memory: eviction under `maxmemory`, and the return of freed pages to the system.

pub(crate) mod limit;
pub(crate) mod rounds;
