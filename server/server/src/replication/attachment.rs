//! What the thread of the link hands to loop 0. Data only: both sides depend on it.

use punctual_store::Store;

use crate::replication::state::ReplicationId;
use crate::replication::upstream::Attempt;
use crate::script::functions::registry::Libraries;
use crate::tls::channel::Channel;

/// A link whose stream begins, for loop 0.
pub(crate) struct Attachment {
    pub(crate) attempt: Attempt,
    pub(crate) channel: Channel,
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
