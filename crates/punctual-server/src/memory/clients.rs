//! The limit `maxmemory-clients`.
