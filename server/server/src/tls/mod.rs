//! TLS by rustls: encrypted clients, replication links and migrations.
//!
//! - [`Session`] is one connection's encryption, which [`crate::net::socket`] has. A session has one owner and no lock.
//! - [`context`] reads certificates and keys, and says what a new session may do. A change of the configuration makes a new
//!   context for new connections; sessions keep theirs.
//!
//! Ground rules: nothing here waits for a socket. The lock of the context is held only to copy a pointer.

mod ciphers;
pub(crate) mod context;
mod session;
mod sessions;
mod trust;

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;

pub(crate) use self::context::Context;
pub use self::context::TlsError;
pub(crate) use self::session::Session;

/// The TLS of a server.
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
    /// Sets the context of new sessions.
    pub(crate) fn set(&self, context: Option<Context>) {
        *self.context.write() = context.map(Arc::new);
    }

    /// Begins the session of a client.
    pub(crate) fn accept(&self) -> io::Result<Session> {
        self.context()?.accept()
    }

    /// Begins a session with another server.
    pub(crate) fn connect(&self) -> io::Result<Session> {
        self.context()?.connect()
    }

    fn context(&self) -> io::Result<Arc<Context>> {
        let context = self.context.read().clone();
        context.ok_or_else(|| io::Error::other("TLS is not configured"))
    }
}
