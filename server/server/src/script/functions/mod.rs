//! Functions: libraries of scripts by name.
//!
//! The *registry* has the code of all libraries and what they declare; all loops share it. Each
//! loop loads a library into its own interpreter when it first calls one of its functions, and
//! drops it when the registry no longer has it. So a variable that a library keeps between calls
//! (an upvalue of its functions) exists once for each loop.

pub(crate) mod header;
pub(crate) mod loaded;
pub(crate) mod registry;
