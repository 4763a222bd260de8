//! The C ABI of Punctual. cbindgen generates `include/punctual.h` from this crate.
//!
//! Ground rules
//!
//! - `unsafe` is limited to exported names, callbacks, and pointers and arrays of the caller.
//!   Nearly all functions take a nullable pointer as an `Option` of a reference or a box, so their
//!   bodies are safe Rust. Each function documents what the caller must guarantee.
//! - A panic never unwinds into C: `boundary` converts it to [`Status::Panicked`], or to the value
//!   that means failure in the function's return type.
//! - For a null pointer to an object, a function returns an error, or the value that means failure.
//!   A function that frees an object does nothing for a null pointer.
//! - The documentation of public items is written for C programmers, because it becomes the
//!   comments of the header.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod boundary;
mod callback;
pub mod fork;
pub mod raw_wheel;
pub mod status;
pub mod ticker;
pub mod time;
pub mod version;
pub mod virtual_time;
pub mod wheel;

pub use status::Status;
