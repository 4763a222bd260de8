//! The directives of the metrics and the page as plain fields.

use super::settings::{BindAddress, Values};

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
    pub(super) fn from_values(values: &Values<'_>) -> Self {
        Self {
            port: values.number("metrics-port"),
            bind: values.addresses("metrics-bind"),
            password: Some(values.text("metrics-password").to_vec())
                .filter(|text| !text.is_empty()),
        }
    }
}
