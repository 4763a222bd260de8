//! The directives of the metrics and the page as plain fields.

use crate::config::settings::{BindAddress, Values};

/// The directives of the HTTP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Port of the metrics and the page; 0 means none.
    pub port: u16,
    /// Addresses to listen on.
    pub bind: Vec<BindAddress>,
    /// Password of the page's actions; without one there are none.
    pub password: Option<Vec<u8>>,
}

impl MetricsSettings {
    /// Most connections to the port at a time.
    pub(crate) const CONNECTIONS_MAX: usize = 32;
    /// Most connections of the port's thread to the event loops at a time.
    pub(crate) const LINKS_MAX: usize = 8;

    /// Returns the number of files that the port may open.
    pub(crate) fn open_files(&self) -> u64 {
        /// Those of the executor, and listeners.
        const OTHERS: usize = 8;
        match self.port {
            0 => 0,
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
