//! The directives of TLS as plain fields.

use std::path::{Path, PathBuf};

use crate::config::settings::{Values, settings};

/// Settings of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Port of encrypted connections; 0 opens no such port.
    pub port: u16,
    /// Encrypt the links of replication.
    pub replication: bool,
    /// Encrypt MIGRATE, as Redis does with the links of a cluster.
    pub cluster: bool,
    /// File of the server's certificate and its chain.
    pub cert_file: Option<PathBuf>,
    /// File of the private key for `cert_file`.
    pub key_file: Option<PathBuf>,
    /// File of the certificate for links to other servers; without it those links use `cert_file`.
    pub client_cert_file: Option<PathBuf>,
    /// File of the private key for `client_cert_file`.
    pub client_key_file: Option<PathBuf>,
    /// File of the trusted authorities' certificates.
    pub ca_cert_file: Option<PathBuf>,
    /// Directory of the trusted authorities' certificates.
    pub ca_cert_dir: Option<PathBuf>,
    /// Whether clients must present a certificate.
    pub auth_clients: AuthClients,
    /// Names of the allowed protocol versions, separated by spaces; empty for all.
    pub protocols: String,
    /// Cipher list of TLS 1.2 in OpenSSL's syntax; empty for all.
    pub ciphers: String,
    /// Cipher suites of TLS 1.3, separated by colons; empty for all.
    pub cipher_suites: String,
    /// The server's order of ciphers takes precedence over the client's.
    pub prefer_server_ciphers: bool,
    /// Clients may resume sessions.
    pub session_caching: bool,
    /// Maximum number of sessions in the cache. A configured 0, which means "no limit" in Redis,
    /// selects the default.
    pub session_cache_size: usize,
    /// Lifetime of a session in the cache, in seconds.
    pub session_cache_timeout_s: u64,
}

/// Whether clients must have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthClients {
    /// The server does not request a certificate.
    No,
    /// A client without a valid certificate is refused.
    Yes,
    /// A client may have no certificate; an invalid one is refused.
    Optional,
}

impl TlsSettings {
    /// Directives that configure TLS. A change of one of them makes the server read all TLS files
    /// again.
    #[rustfmt::skip]
    pub(crate) const READ: [&'static str; 20] = [
        "tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file",
        "tls-client-key-file", "tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir",
        "tls-auth-clients", "tls-protocols", "tls-ciphers", "tls-ciphersuites",
        "tls-prefer-server-ciphers", "tls-session-caching", "tls-session-cache-size",
        "tls-session-cache-timeout", "tls-dh-params-file", "tls-replication", "tls-cluster",
        "tls-port",
    ];

    /// Default size of the session cache.
    const SESSIONS: usize = 20 << 10;

    /// Returns true if the configuration uses TLS, so that the server needs certificates.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.port != 0 || self.replication || self.cluster
    }

    pub(super) fn from_values(values: &Values<'_>, dir: &Path) -> Self {
        let path = |name| values.path(name).map(|path| dir.join(path));
        let text = |name| String::from_utf8_lossy(values.text(name)).into_owned();
        Self {
            port: values.number("tls-port"),
            replication: values.yes("tls-replication"),
            cluster: values.yes("tls-cluster"),
            cert_file: path("tls-cert-file"),
            key_file: path("tls-key-file"),
            client_cert_file: path("tls-client-cert-file"),
            client_key_file: path("tls-client-key-file"),
            ca_cert_file: path("tls-ca-cert-file"),
            ca_cert_dir: path("tls-ca-cert-dir"),
            auth_clients: match values.word("tls-auth-clients") {
                "no" => AuthClients::No,
                "optional" => AuthClients::Optional,
                _ => AuthClients::Yes,
            },
            protocols: text("tls-protocols"),
            ciphers: text("tls-ciphers"),
            cipher_suites: text("tls-ciphersuites"),
            prefer_server_ciphers: values.yes("tls-prefer-server-ciphers"),
            session_caching: values.yes("tls-session-caching"),
            session_cache_size: match values.number("tls-session-cache-size") {
                0 => Self::SESSIONS,
                size => size,
            },
            session_cache_timeout_s: values.number("tls-session-cache-timeout"),
        }
    }
}
