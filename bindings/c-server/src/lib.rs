//! The C ABI of an embedded server. cbindgen generates `include/punctual_server.h` from this crate.
//!
//! Ground rules
//!
//! - `unsafe` is limited to exported names, and pointers and arrays of the caller. Functions take a
//!   nullable pointer as an `Option` of a reference or a box, so their bodies are safe Rust.
//! - A function that can fail returns a [`Status`], and leaves the message in its thread:
//!   `status::answer` converts errors and panics. The other functions only read or free.
//! - A result that the caller owns is written to a pointer, and NULL is written after an error.
//! - The documentation of public items is written for C programmers, because it becomes the
//!   comments of the header.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod arguments;
pub mod client;
pub mod reply;
pub mod server;
pub mod status;
pub mod version;

pub use status::Status;
