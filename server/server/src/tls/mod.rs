//! TLS with rustls: encrypted clients, replication links and migrations.
//!
//! - A [`Session`] encrypts one connection. It belongs to that connection's
//!   [`crate::net::socket::Socket`] and has no lock.
//! - [`context`] reads certificates and keys, and holds the configuration of new sessions. A change
//!   of the configuration creates a new context for new connections; existing sessions keep theirs.
//!
//! Ground rules: nothing here waits for a socket. The lock of the context is held only to copy a
//! pointer.

mod ciphers;
pub(crate) mod context;
pub(crate) mod expiry;
mod session;
mod sessions;
mod trust;

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;

pub(crate) use self::context::Context;
pub use self::context::TlsError;
pub(crate) use self::expiry::Certificates;
pub(crate) use self::session::Session;

/// Creates the TLS sessions of a server.
#[derive(Default)]
pub(crate) struct Tls {
    context: RwLock<Option<Arc<Context>>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Sets the configuration of new sessions; `None` disables TLS.
    pub(crate) fn set(&self, context: Option<Context>) {
        *self.context.write() = context.map(Arc::new);
    }

    /// Returns the certificates in use; none if TLS is disabled.
    pub(crate) fn certificates(&self) -> Certificates {
        let context = self.context.read();
        let certificates = context.as_ref().map(|context| context.certificates.clone());
        certificates.unwrap_or_default()
    }

    /// Begins the session of an accepted connection.
    pub(crate) fn accept(&self) -> io::Result<Session> {
        self.context()?.accept()
    }

    /// Begins the session of a connection to another server.
    pub(crate) fn connect(&self) -> io::Result<Session> {
        self.context()?.connect()
    }

    fn context(&self) -> io::Result<Arc<Context>> {
        let context = self.context.read().clone();
        context.ok_or_else(|| io::Error::other("TLS is not configured"))
    }
}
