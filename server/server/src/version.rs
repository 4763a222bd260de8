//! The versions of Redis that the server implements and can report.

/// Version of Redis whose commands and replies this server implements. Clients enable features by
/// the version that the server reports.
pub const REDIS_VERSION: &str = "7.2.4";

/// Values of the directive `reported-version`.
pub(crate) const COMPATIBLE: &[&str] = &["7.2", "7.4", "8.0", "8.2", "8.4", "8.6", "8.8", "8.10"];

/// Returns the version, with a patch level, that the server reports to clients for a value of
/// `reported-version`.
pub(crate) fn named(compatible: &str) -> &'static str {
    match compatible {
        "7.4" => "7.4.0",
        "8.0" => "8.0.0",
        "8.2" => "8.2.0",
        "8.4" => "8.4.0",
        "8.6" => "8.6.0",
        "8.8" => "8.8.0",
        "8.10" => "8.10.0",
        _ => REDIS_VERSION,
    }
}
