//! The functions of the C library that the simulation defines.
//!
//! Ground rules: a function first asks [`crate::baton::current`]. Without a simulated thread, and
//! for descriptors and paths of the real system, it makes the real call. Functions only turn
//! pointers into slices and results into `errno`; [`crate::kernel`] has the behaviour. The
//! functions have the C library's contracts: pointers are valid as its manual says.

#![allow(unsafe_op_in_unsafe_fn, clippy::missing_safety_doc)]

mod files;
mod poll;
pub mod real;
mod sockets;
mod threads;

pub use threads::prepare;
mod time;

use std::ffi::{CStr, c_char, c_int};

use crate::kernel::descriptors::FIRST;

/// Sets `errno`, and returns -1.
fn fail<T: From<i8>>(error: c_int) -> T {
    // SAFETY: The C library returns the address of the thread's own variable.
    unsafe { *libc::__errno_location() = error };
    T::from(-1)
}

/// Turns a result into the C library's: a value, or -1 and `errno`.
fn answer<T: From<i8>>(result: Result<T, c_int>) -> T {
    result.unwrap_or_else(fail)
}

/// Returns whether a descriptor is simulated.
fn is_ours(fd: c_int) -> bool {
    fd >= FIRST
}

/// Returns a path below `/sim/`.
unsafe fn own_path<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    let path = CStr::from_ptr(path).to_str().ok()?;
    path.starts_with("/sim/").then_some(path)
}
