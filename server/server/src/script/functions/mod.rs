//! Functions: named libraries of scripts.
//!
//! The [`registry::Registry`] holds all libraries as one immutable set, which all loops share:
//! names, sources and declarations. FUNCTION LOAD runs the library in the interpreter of its loop,
//! then locks all shards and replaces the set by a changed copy. So a failure changes nothing, and
//! neither a function nor the start of a snapshot sees half of a change.
//!
//! Each change raises a version. Before a call a loop compares the version, frees removed
//! libraries, and loads the function's library if it has not loaded it. Interpreters share nothing,
//! so a variable that a library keeps between calls (an upvalue) exists once per loop.
//!
//! While a library is loaded, its code sees little except `redis.register_function`. Its functions
//! see the globals of scripts. FLUSHALL keeps the libraries, a snapshot contains them, and DEBUG
//! RELOAD replaces them.

pub(crate) mod header;
pub(crate) mod loaded;
pub(crate) mod registry;
