//! Directives of the HTTP port (`metrics-port`), which serves metrics for Prometheus and a web page
//! about the server, as plain fields.

use crate::config::settings::{BindAddress, Values};

/// Settings of the HTTP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Port of the metrics and the page; with 0 the server opens no such port.
    pub port: u16,
    /// Addresses to listen on.
    pub bind: Vec<BindAddress>,
    /// Password for the page's actions, and for its data if Redis clients need a password or the
    /// request comes from another machine. Without a password the page offers no actions.
    pub password: Option<Vec<u8>>,
}

impl MetricsSettings {
    /// Maximum number of simultaneous connections to the port.
    pub(crate) const CONNECTIONS_MAX: usize = 32;
    /// Maximum number of simultaneous connections from the port's thread to the event loops.
    pub(crate) const LINKS_MAX: usize = 8;

    /// Returns the maximum number of files that the port opens.
    pub(crate) fn open_files(&self) -> u64 {
        /// Number of files that the port's async executor and its listeners open.
        const OTHERS: usize = 8;
        match self.port {
            0 => 0,
            // A link is a pair of sockets.
            _ => (Self::CONNECTIONS_MAX + 2 * Self::LINKS_MAX + OTHERS) as u64,
        }
    }

    pub(super) fn from_values(values: &Values<'_>) -> Self {
        Self {
            port: values.number("metrics-port"),
            bind: values.addresses("metrics-bind"),
            password: Some(values.text("metrics-password").to_vec())
                .filter(|text| !text.is_empty()),
        }
    }
}
