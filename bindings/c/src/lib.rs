//! The C ABI of Punctual: what `include/punctual.h` declares. cbindgen writes that header from here.
//!
//! Ground rules
//!
//! - `unsafe` stands where the boundary needs it: exported names, callbacks, arrays of the caller. A
//!   pointer that may be null is an `Option` of a reference or of a box, so that what is behind the
//!   boundary is safe Rust. What the caller must keep to stands in each function's documentation.
//! - A panic never crosses the boundary (`boundary`): it becomes [`Status::Panicked`], or whatever
//!   else says "no" in the type that the function answers with.
//! - A pointer that is null is answered, never followed.
//! - What is documented here is documented for readers of C: these comments become the header's.
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
