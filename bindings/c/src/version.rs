//! The version, at compile time and at run time.

use std::ffi::c_char;

/// The version of this header: major.
pub const VERSION_MAJOR: u32 = 0;
/// The version of this header: minor. Before 1.0 it counts for the ABI as major does.
pub const VERSION_MINOR: u32 = 1;
/// The version of this header: patch.
pub const VERSION_PATCH: u32 = 0;

/// The version of the library that is loaded, as major * 1000000 + minor * 1000 + patch, like
/// PUNCTUAL_VERSION.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_version() -> u32 {
    VERSION_MAJOR * 1_000_000 + VERSION_MINOR * 1_000 + VERSION_PATCH
}

/// The version of the library that is loaded, such as "0.1.0": a static string, not to be freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_version_string() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::{VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH};

    #[test]
    fn the_headers_version_is_the_packages() {
        // cbindgen reads numbers only, so they stand above a second time.
        let version = format!("{VERSION_MAJOR}.{VERSION_MINOR}.{VERSION_PATCH}");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}
