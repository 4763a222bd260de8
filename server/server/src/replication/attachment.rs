//! Results that the handshake with the primary, and the thread that loads its snapshot, pass to
//! loop 0. The types hold only data, because all sides depend on them.

use std::io;
use std::sync::Arc;

use punctual_store::Store;

use crate::net::socket::Socket;
use crate::replication::incoming::Incoming;
use crate::replication::state::ReplicationId;
use crate::replication::upstream::Attempt;
use crate::script::functions::registry::Libraries;

/// A link to the primary whose stream begins now.
pub(crate) struct Attachment {
    pub(crate) attempt: Attempt,
    pub(crate) socket: Socket,
    /// Input that was read after the handshake or the snapshot.
    pub(crate) rest: Vec<u8>,
    pub(crate) start: Start,
}

/// The point at which the stream begins.
pub(crate) enum Start {
    /// After the primary's snapshot, which has been loaded.
    Full(Box<Data>),
    /// At the end of the server's own data. The primary may have given the history a new id.
    Continued(Option<ReplicationId>),
}

/// Data loaded from a primary's snapshot.
pub(crate) struct Data {
    pub(crate) store: Store,
    pub(crate) libraries: Libraries,
    pub(crate) id: ReplicationId,
    /// Offset in the stream that the data corresponds to.
    pub(crate) offset: u64,
    /// Database that the stream has selected at that offset.
    pub(crate) db: usize,
}

/// Reason for which a full synchronization has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The result is no longer needed: the server follows another primary or no primary, or stops.
    Outdated,
    /// The transfer of the snapshot failed.
    Transfer(io::Error),
    /// The snapshot cannot be loaded.
    Refused(String),
}

/// Result of loading a primary's snapshot: the data, and stream bytes that the thread has read
/// after the snapshot.
pub(crate) struct Loaded {
    /// Queue from which the thread read the snapshot.
    pub(crate) incoming: Arc<Incoming>,
    pub(crate) result: Result<(Box<Data>, Vec<u8>), Failure>,
}
