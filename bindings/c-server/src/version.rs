//! The version at compile time and at run time.

/// Major version of this header.
pub const VERSION_MAJOR: u32 = 0;
/// Minor version of this header. Before 1.0 a new minor version may break the ABI.
pub const VERSION_MINOR: u32 = 1;
/// Patch version of this header.
pub const VERSION_PATCH: u32 = 0;

/// Returns the version of the loaded library as major * 1000000 + minor * 1000 + patch, like
/// PUNCTUAL_SERVER_VERSION.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_version() -> u32 {
    VERSION_MAJOR * 1_000_000 + VERSION_MINOR * 1_000 + VERSION_PATCH
}

#[cfg(test)]
mod tests {
    use super::{VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH};

    #[test]
    fn the_version_of_the_header_equals_that_of_the_package() {
        // cbindgen reads only literal numbers, so the constants repeat the package's version.
        let version = format!("{VERSION_MAJOR}.{VERSION_MINOR}.{VERSION_PATCH}");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}
