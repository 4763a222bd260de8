//! What the handshake with the primary and the thread that loads its snapshot hand to loop 0. Data
//! only: all sides depend on it.

use std::io;
use std::sync::Arc;

use punctual_store::Store;

use crate::net::socket::Socket;
use crate::replication::incoming::Incoming;
use crate::replication::state::ReplicationId;
use crate::replication::upstream::Attempt;
use crate::script::functions::registry::Libraries;

/// A link whose stream begins, for loop 0.
pub(crate) struct Attachment {
    pub(crate) attempt: Attempt,
    pub(crate) socket: Socket,
    /// Input behind the handshake or the snapshot.
    pub(crate) rest: Vec<u8>,
    pub(crate) start: Start,
}

/// Where the stream begins.
pub(crate) enum Start {
    /// Behind the primary's snapshot.
    Full(Box<Data>),
    /// Where the server's data ends. The history may have a new id.
    Continued(Option<ReplicationId>),
}

/// The data of a primary.
pub(crate) struct Data {
    pub(crate) store: Store,
    pub(crate) libraries: Libraries,
    pub(crate) id: ReplicationId,
    /// Offset of the stream up to which the data reaches.
    pub(crate) offset: u64,
    /// Database that the stream has selected there.
    pub(crate) db: usize,
}

/// Why a full synchronization has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server follows another primary, or none, or stops.
    Unwanted,
    /// The transfer of the snapshot failed.
    Transfer(io::Error),
    /// The snapshot cannot be loaded.
    Refused(String),
}

/// Result of loading a primary's snapshot: the data, and the bytes of the stream that the thread
/// has read.
pub(crate) struct Loaded {
    /// Where the snapshot came from.
    pub(crate) incoming: Arc<Incoming>,
    pub(crate) result: Result<(Box<Data>, Vec<u8>), Failure>,
}
