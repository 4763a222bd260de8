//! Redis's snapshot format: what RDB files and DUMP payloads are made of, without a keyspace and without
//! input or output.
//!
//! - [`listpack`] is the entry format of small collections: the codec of single entries, on bare bytes, and
//!   the listpack around them.
//!
//! Everything that reads bytes from outside checks them: damaged input ends in an error with the offset and
//! the reason, never in a panic, in a read out of bounds or in an allocation that the input does not justify.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod corrupt;
pub mod listpack;

pub use corrupt::{Corrupt, Flaw};
