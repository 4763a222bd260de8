//! Configuration of new sessions: certificates, keys, authorities, protocols and ciphers, read from
//! the files that the directives name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{
    NoServerSessionStorage, ServerConfig, UnbufferedServerConnection, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore};

use crate::config::{AuthClients, TlsSettings};
use crate::log::{self, Logger};
use crate::tls::Session;
use crate::tls::ciphers::{self, Protocols};
use crate::tls::sessions::Sessions;
use crate::tls::trust::ChainOnly;
use crate::world::World;

/// Error of a TLS configuration. `Display` is the log line, as Redis words it if Redis has the
/// error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate is missing: `tls-cert-file`, or `tls-client-cert-file` for a client key.
    #[error("No tls-cert-file configured!")]
    NoCertificate,
    /// A private key is missing: `tls-key-file`, or `tls-client-key-file` for a client certificate.
    #[error("No tls-key-file configured!")]
    NoKey,
    /// No trusted authority is configured, although the settings need one.
    #[error(
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or tls-auth-clients are enabled!"
    )]
    NoAuthority,
    /// The certificate cannot be used.
    #[error("Failed to load certificate: {}: {reason}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason for which the certificate is refused.
        reason: String,
    },
    /// The private key cannot be used.
    #[error("Failed to load private key: {}: {reason}", path.display())]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// Reason for which the key is refused.
        reason: String,
    },
    /// The authorities cannot be used.
    #[error("Failed to configure CA certificate(s) file/directory: {0}")]
    Authorities(String),
    /// A word of `tls-protocols` is unknown.
    #[error(
        "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'."
    )]
    Protocols,
    /// `tls-protocols` names only versions that are not supported.
    #[error("Invalid tls-protocols specified. TLSv1 and TLSv1.1 are not supported.")]
    OldProtocols,
    /// `tls-ciphers` names no cipher that is supported.
    #[error("Failed to configure ciphers: {0}")]
    Ciphers(String),
    /// `tls-ciphersuites` has an unknown name.
    #[error("Failed to configure ciphersuites: {0}")]
    CipherSuites(String),
    /// rustls refuses the combination of settings.
    #[error("Failed to configure TLS: {0}")]
    Other(#[from] rustls::Error),
}

/// Configuration of new sessions.
pub(crate) struct Context {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Context {
    /// Reads the files of the configuration. Logs protocol versions that are not supported.
    ///
    /// # Errors
    /// Returns an error for the first file or directive that cannot be used.
    pub(crate) fn new(
        world: World,
        settings: &TlsSettings,
        logger: &Logger,
    ) -> Result<Self, TlsError> {
        let certificate = settings.cert_file.as_ref().ok_or(TlsError::NoCertificate)?;
        let key = settings.key_file.as_ref().ok_or(TlsError::NoKey)?;
        let trusts = settings.ca_cert_file.is_some() || settings.ca_cert_dir.is_some();
        let asks = settings.auth_clients != AuthClients::No;
        if (asks || settings.replication || settings.cluster) && !trusts {
            return Err(TlsError::NoAuthority);
        }
        let Protocols { versions, too_old } =
            ciphers::protocols(&settings.protocols).ok_or(TlsError::Protocols)?;
        if versions.is_empty() {
            return Err(TlsError::OldProtocols);
        }
        if too_old {
            log::warning!(
                logger,
                "tls-protocols: TLSv1 and TLSv1.1 are not supported, and stay disabled."
            );
        }
        let provider = Arc::new(provider(settings)?);
        let own = certified_key(&provider, certificate, key)?;
        let roots = Arc::new(authorities(settings)?);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?;
        let verifier = || {
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
        };
        let refused =
            |error: rustls::server::VerifierBuilderError| TlsError::Authorities(error.to_string());
        let builder = match settings.auth_clients {
            AuthClients::No => builder.with_no_client_auth(),
            AuthClients::Yes => {
                builder.with_client_cert_verifier(verifier().build().map_err(refused)?)
            }
            AuthClients::Optional => {
                let verifier = verifier().allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(refused)?)
            }
        };
        let mut server = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own.clone())));
        server.ignore_client_order = settings.prefer_server_ciphers;
        // Each new session gets one ticket, for one resumption; a resumed session gets a new
        // ticket.
        server.send_tls13_tickets = usize::from(settings.session_caching);
        server.session_storage = match settings.session_caching {
            false => Arc::new(NoServerSessionStorage {}),
            true => Arc::new(Sessions::new(
                world,
                settings.session_cache_size,
                Duration::from_secs(settings.session_cache_timeout_s),
            )),
        };
        let as_client = match (&settings.client_cert_file, &settings.client_key_file) {
            (None, None) => own,
            (certificate, key) => certified_key(
                &provider,
                certificate.as_ref().ok_or(TlsError::NoCertificate)?,
                key.as_ref().ok_or(TlsError::NoKey)?,
            )?,
        };
        let trust: Arc<dyn ServerCertVerifier> = Arc::new(ChainOnly {
            roots,
            provider: Arc::clone(&provider),
        });
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .dangerous()
            .with_custom_certificate_verifier(trust)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(as_client)));
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }

    /// Begins the session of a client.
    pub(super) fn accept(&self) -> io::Result<Session> {
        UnbufferedServerConnection::new(Arc::clone(&self.server))
            .map(Session::server)
            .map_err(io::Error::other)
    }

    /// Begins a session with another server.
    pub(super) fn connect(&self) -> io::Result<Session> {
        // The name is neither sent nor verified.
        let nobody = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        UnbufferedClientConnection::new(Arc::clone(&self.client), nobody)
            .map(Session::client)
            .map_err(io::Error::other)
    }
}

fn provider(settings: &TlsSettings) -> Result<CryptoProvider, TlsError> {
    let refused = || TlsError::CipherSuites(settings.cipher_suites.clone());
    let mut suites = ciphers::tls13_suites(&settings.cipher_suites).ok_or_else(refused)?;
    let refused = || TlsError::Ciphers(settings.ciphers.clone());
    suites.extend(ciphers::tls12_suites(&settings.ciphers).ok_or_else(refused)?);
    Ok(CryptoProvider {
        cipher_suites: suites,
        ..ring::default_provider()
    })
}

/// Reads a certificate, its chain, and the private key.
fn certified_key(
    provider: &CryptoProvider,
    certificate: &Path,
    key: &Path,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let bad_certificate = |reason: String| TlsError::Certificate {
        path: certificate.to_owned(),
        reason,
    };
    let bad_key = |reason: String| TlsError::Key {
        path: key.to_owned(),
        reason,
    };
    let chain = certificates(certificate).map_err(bad_certificate)?;
    if chain.is_empty() {
        return Err(bad_certificate("no certificate in the file".to_owned()));
    }
    let text = std::fs::read(key).map_err(|e| bad_key(crate::config::io_reason(&e)))?;
    if memchr::memmem::find(&text, b"ENCRYPTED").is_some() {
        return Err(bad_key(
            "encrypted keys are not supported; decrypt the file, and protect it by its permissions"
                .to_owned(),
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|e| bad_key(e.to_string()))
        .and_then(|der| {
            let loaded = provider.key_provider.load_private_key(der);
            loaded.map_err(|e| bad_key(e.to_string()))
        })?;
    let certified = CertifiedKey::new(chain, key);
    // Peers may accept a certificate that rustls cannot parse, so only a mismatch is an error.
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(bad_key("key values mismatch".to_owned()))
        }
        _ => Ok(Arc::new(certified)),
    }
}

/// Reads the certificates of a file, in order.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|e| crate::config::io_reason(&e))?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())
}

/// Reads the certificates of authorities.
fn authorities(settings: &TlsSettings) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &settings.ca_cert_file {
        let all = certificates(path).map_err(TlsError::Authorities)?;
        if all.is_empty() {
            return Err(TlsError::Authorities(format!(
                "{}: no certificate in the file",
                path.display()
            )));
        }
        for certificate in all {
            let added = roots.add(certificate);
            added.map_err(|e| TlsError::Authorities(format!("{}: {e}", path.display())))?;
        }
    }
    if let Some(path) = &settings.ca_cert_dir {
        let entries = std::fs::read_dir(path);
        let entries = entries.map_err(|e| TlsError::Authorities(crate::config::io_reason(&e)))?;
        for entry in entries.flatten() {
            if is_hashed(&entry.file_name().to_string_lossy()) {
                // As with OpenSSL, files without a certificate are skipped.
                let all = certificates(&entry.path()).unwrap_or_default();
                roots.add_parsable_certificates(all);
            }
        }
    }
    Ok(roots)
}

/// Returns true if OpenSSL reads a file of this name in a directory of authorities; `openssl
/// rehash` creates such names. Other files may contain certificates that must not be trusted.
fn is_hashed(name: &str) -> bool {
    name.split_once('.').is_some_and(|(hash, number)| {
        hash.len() == 8
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
