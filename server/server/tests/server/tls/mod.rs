//! Certificates that are created for a test, and a client with TLS.

use crate::wire::configured;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_harness::Wire;
use punctual_resp::Value;
use punctual_server::Builder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

/// A certificate authority, and the files of certificates that it has signed.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates `ca.crt`, and `server.crt` and `client.crt` with their keys.
    pub fn new() -> Self {
        let (issuer, pem) = authority("an authority", None);
        let authority = Self {
            folder: tempfile::tempdir().unwrap(),
            issuer,
        };
        std::fs::write(authority.file("ca.crt"), pem).unwrap();
        authority.issue("server");
        authority.issue("client");
        authority
    }

    /// Creates a certificate and its key.
    pub fn issue(&self, name: &str) {
        let (pem, key) = leaf(name, &self.issuer);
        std::fs::write(self.file(&format!("{name}.crt")), pem).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key).unwrap();
    }

    /// Creates a certificate that an intermediate authority has signed. Its file has the whole
    /// chain.
    pub fn issue_by_intermediate(&self, name: &str) {
        let (between, between_pem) = authority("between", Some(&self.issuer));
        let (pem, key) = leaf(name, &between);
        std::fs::write(self.file(&format!("{name}.crt")), pem + &between_pem).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// Returns the TLS directives of a server, each with its value.
    pub fn directives(&self) -> [(&'static str, String); 3] {
        [
            ("tls-cert-file", self.path("server.crt")),
            ("tls-key-file", self.path("server.key")),
            ("tls-ca-cert-file", self.path("ca.crt")),
        ]
    }

    /// Returns the same directives as options of redis-server.
    pub fn options(&self) -> Vec<String> {
        let pairs = self.directives().into_iter();
        pairs
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect()
    }

    /// Returns a builder of a server with a plain and a TLS port, which requests no client
    /// certificates.
    pub fn builder(&self) -> Builder {
        let builder = configured("tls-auth-clients no|enable-debug-command yes").tls_port(0);
        self.directives()
            .into_iter()
            .fold(builder, |builder, (name, value)| {
                builder.option(name, &value)
            })
    }

    /// Returns a client configuration, with the certificate of this name if there is one.
    pub fn client(&self, certificate: Option<&str>) -> ClientConfig {
        self.client_of(
            certificate,
            &[&rustls::version::TLS13, &rustls::version::TLS12],
        )
    }

    pub fn client_of(
        &self,
        certificate: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.file("ca.crt")).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match certificate {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::pem_file_iter(self.file(&format!("{name}.crt")))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }
}

fn authority(
    name: &str,
    by: Option<&Issuer<'static, KeyPair>>,
) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = match by {
        None => params.self_signed(&key),
        Some(issuer) => params.signed_by(&key, issuer),
    };
    let pem = certificate.unwrap().pem();
    (Issuer::new(params, key), pem)
}

fn leaf(name: &str, by: &Issuer<'static, KeyPair>) -> (String, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A connection with TLS.
pub type TlsWire = Wire<StreamOwned<ClientConnection, TcpStream>>;

/// Opens connections with TLS.
pub trait Encrypt: Sized {
    /// Connects. The handshake happens at the first write or read.
    fn connect(port: u16, config: &Arc<ClientConfig>) -> Self;

    /// Sends PING, and returns the error of a connection that is refused.
    fn try_ping(&mut self) -> Result<(), String>;
}

impl Encrypt for TlsWire {
    fn connect(port: u16, config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(config), name).unwrap();
        Self::over(StreamOwned::new(session, Wire::to(port).stream))
    }

    fn try_ping(&mut self) -> Result<(), String> {
        let reply = self.try_send(&["PING"]).and_then(|()| self.try_value());
        match reply {
            Ok(reply) => {
                assert_eq!(reply, Value::Simple(b"PONG".into()));
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => panic!("no answer"),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// Returns whether the first certificate of `shown` is the certificate in this file.
pub fn is_first(path: &Path, shown: Option<&[CertificateDer<'_>]>) -> bool {
    let first = CertificateDer::from_pem_file(path).unwrap();
    shown.is_some_and(|shown| shown.first() == Some(&first))
}
