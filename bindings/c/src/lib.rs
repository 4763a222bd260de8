//! The C ABI of Punctual: the source of `include/punctual.h`, which cbindgen generates.
//!
//! Ground rules
//!
//! - `unsafe` is limited to the boundary: exported names, callbacks, the caller's arrays. A
//!   nullable pointer is an `Option` of a reference or a box, so that the rest is safe Rust. Each
//!   function documents what the caller must guarantee.
//! - A panic never crosses the boundary (`boundary`): it becomes [`Status::Panicked`], or the value
//!   that means failure in the function's return type.
//! - A null pointer gets an error and is never dereferenced.
//! - The documentation here is written for C: it becomes the comments of the header.
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
