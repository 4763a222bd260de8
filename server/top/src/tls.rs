//! TLS for connections: the certificates to trust, and the certificate of this client.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

use crate::options::Options;

/// Files in which systems keep trusted certificates. The first file that exists is used, unless the
/// environment variable `SSL_CERT_FILE` names a file that exists.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A verifier for `--insecure`: accepts any certificate, but checks that the server has the
/// certificate's private key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Returns an error that names a file.
fn in_file(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).map_err(|e| in_file(path, e))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|e| in_file(path, e))?;
    if all.is_empty() {
        return Err(in_file(path, "no certificates"));
    }
    Ok(all)
}

fn roots(options: &Options) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.cacert {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|e| in_file(path, e))?;
        }
        return Ok(roots);
    }
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut paths = named.into_iter().chain(SYSTEM.map(PathBuf::from));
    let path = paths.find(|path| path.exists());
    let path = path.ok_or_else(|| {
        io::Error::other("the system has no trusted certificates: set --cacert to a file")
    })?;
    roots.add_parsable_certificates(certificates(&path)?);
    Ok(roots)
}

/// Returns the configuration of TLS for the options.
///
/// # Errors
/// If a file cannot be read, has no certificate or key, or the key does not belong to the
/// certificate.
pub(crate) fn config(options: &Options) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = if options.insecure {
        let verifier = Arc::new(AcceptAny(provider));
        builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
    } else {
        builder.with_root_certificates(roots(options)?)
    };
    let config = match (&options.cert, &options.key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|e| in_file(key, e))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|e| in_file(certificate, e))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Wraps a TCP connection in TLS. The handshake happens with the first write.
///
/// # Errors
/// If the server's name is not a name that a certificate can have.
pub(crate) fn encrypt(
    options: &Options,
    config: Arc<ClientConfig>,
    stream: TcpStream,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = options.sni.as_ref().unwrap_or(&options.host);
    let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
    let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(session, stream))
}
