//! The directives of TLS as plain fields.

use std::path::{Path, PathBuf};

use crate::config::settings::{Values, settings};

settings! {
    /// Settings of TLS.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TlsSettings;

    pub(super) fn from_values(values: &Values<'_>, dir: &Path) {
        let path = |name| values.path(name).map(|path| dir.join(path));
        let text = |name| String::from_utf8_lossy(values.text(name)).into_owned();
    }

    /// Port of encrypted connections; 0 opens no such port.
    port: u16 = values.number("tls-port");
    /// Encrypt the links of replication.
    replication: bool = values.yes("tls-replication");
    /// Encrypt MIGRATE, as Redis does with the links of a cluster.
    cluster: bool = values.yes("tls-cluster");
    /// File of the server's certificate and its chain.
    cert_file: Option<PathBuf> = path("tls-cert-file");
    /// File of the private key for `cert_file`.
    key_file: Option<PathBuf> = path("tls-key-file");
    /// File of the certificate for links to other servers; without it those links use `cert_file`.
    client_cert_file: Option<PathBuf> = path("tls-client-cert-file");
    /// File of the private key for `client_cert_file`.
    client_key_file: Option<PathBuf> = path("tls-client-key-file");
    /// File of the trusted authorities' certificates.
    ca_cert_file: Option<PathBuf> = path("tls-ca-cert-file");
    /// Directory of the trusted authorities' certificates.
    ca_cert_dir: Option<PathBuf> = path("tls-ca-cert-dir");
    /// Whether clients must present a certificate.
    auth_clients: AuthClients = match values.word("tls-auth-clients") {
        "no" => AuthClients::No,
        "optional" => AuthClients::Optional,
        _ => AuthClients::Yes,
    };
    /// Names of the allowed protocol versions, separated by spaces; empty for all.
    protocols: String = text("tls-protocols");
    /// Cipher list of TLS 1.2 in OpenSSL's syntax; empty for all.
    ciphers: String = text("tls-ciphers");
    /// Cipher suites of TLS 1.3, separated by colons; empty for all.
    cipher_suites: String = text("tls-ciphersuites");
    /// The server's order of ciphers takes precedence over the client's.
    prefer_server_ciphers: bool = values.yes("tls-prefer-server-ciphers");
    /// Clients may resume sessions.
    session_caching: bool = values.yes("tls-session-caching");
    /// Maximum number of sessions in the cache. A configured 0, which means "no limit" in Redis,
    /// selects the default.
    session_cache_size: usize = match values.number("tls-session-cache-size") {
        0 => Self::SESSIONS,
        size => size,
    };
    /// Lifetime of a session in the cache, in seconds.
    session_cache_timeout_s: u64 = values.number("tls-session-cache-timeout");
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
}
