//! Scripts: EVAL and its family.
//!
//! The *cache* of sources by SHA1 is shared by all loops. Each loop has an interpreter of its own and compiles a script when it
//! first needs it, so scripts of several loops run side by side as far as locks allow. A script runs like the commands of
//! a transaction: at one instant, with the shards pinned.

pub(crate) mod cache;
pub(crate) mod compiled;
mod host;
pub(crate) mod running;
mod shebang;
