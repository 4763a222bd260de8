//! Connections to targets, kept for a later MIGRATE to the same target, as Redis keeps them. An
//! operator who moves a slot sends hundreds of MIGRATEs.

use std::time::Duration;

use crate::net::dial::Conversation;

/// Time for which an unused connection is kept, as in Redis.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(10);
/// Maximum number of connections that a loop keeps, as in Redis.
pub(crate) const KEPT_MAX: usize = 64;

/// A target, and how the connection to it was opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Arguments of AUTH.
    pub(crate) auth: Vec<Vec<u8>>,
    pub(crate) encrypted: bool,
}

/// An unused connection. The target must not send anything on it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) endpoint: Endpoint,
    /// The database that is selected at the target.
    pub(crate) db: i64,
}

impl Conversation for Kept {
    fn write_output(&mut self, _: u64, _: &mut Vec<u8>) {}

    fn read_input(&mut self, _: &mut Vec<u8>) -> bool {
        true
    }
}
