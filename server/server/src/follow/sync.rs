//! Full synchronization of a replica: a thread loads the primary's snapshot into a second keyspace.
//!
//! Clients read the old data meanwhile. Loop 0 passes the bytes to the thread, and swaps the
//! keyspaces when the snapshot is complete and valid. If the link breaks earlier, the old data
//! stays. In Redis this is `repl-diskless-load swapdb`; it is the only mode here.

use std::io;
use std::sync::Arc;

use punctual_rdb::{Blocks, Reader, Source as _};
use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::persist::load::{self, Progress, ReadFailure};
use crate::replication::attachment::{Data, Failure, Loaded};
use crate::replication::incoming::Incoming;
use crate::replication::state::ReplicationId;
use crate::replication::upstream::SyncProgress;

/// Maximum size of a read from the snapshot in bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Length of the mark after a snapshot that the primary sends without its size.
const MARK_BYTES: usize = 40;

/// A snapshot that the primary has announced.
pub(crate) struct Announced {
    end: End,
    id: ReplicationId,
    offset: u64,
}

/// End of a snapshot: a number of bytes, or a mark.
enum End {
    Bytes(u64),
    Mark([u8; MARK_BYTES]),
}

impl Announced {
    /// Parses the line that announces the snapshot of the history `id` at `offset`. Logs the reason
    /// and returns `None` if the line announces no snapshot.
    pub(crate) fn parse(
        shared: &Shared,
        line: &str,
        id: ReplicationId,
        offset: u64,
    ) -> Option<Self> {
        let logger = &shared.logger;
        let mark = line.strip_prefix("$EOF:").map(str::as_bytes);
        let len = line.strip_prefix('$').and_then(|len| len.parse().ok());
        let end = if let Some(error) = line.strip_prefix('-') {
            log::warning!(logger, "MASTER aborted replication with an error: {error}");
            return None;
        } else if let Some(Ok(mark)) = mark.map(TryInto::try_into) {
            log::notice!(
                logger,
                "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to parser"
            );
            End::Mark(mark)
        } else if let Some(len) = len {
            log::notice!(
                logger,
                "MASTER <-> REPLICA sync: receiving {len} bytes from master to parser"
            );
            End::Bytes(len)
        } else {
            log::warning!(
                logger,
                "Bad protocol from MASTER, the first byte is not '$' (we received '{}'), are you sure the host and port are right?",
                line.escape_default()
            );
            return None;
        };
        Some(Self { end, id, offset })
    }

    /// Starts the thread that loads the snapshot, and returns the queue for its bytes. The thread
    /// reports the result to loop 0.
    ///
    /// # Errors
    /// Returns an error if the system refuses another thread.
    pub(crate) fn load(self, shared: &Arc<Shared>, generation: u64) -> io::Result<Arc<Incoming>> {
        let incoming = Arc::new(Incoming::default());
        let (shared, source) = (Arc::clone(shared), Arc::clone(&incoming));
        let mut thread = shared.replication.upstream.loader.lock();
        let before = thread.take();
        *thread = Some(shared.world.spawn("punctual-load", {
            let shared = Arc::clone(&shared);
            move || {
                // The thread of the previous attempt frees its data before this one begins.
                let _ = before.map(crate::world::JoinHandle::join);
                let result = self.receive(&shared, &source, generation);
                shared.mailboxes[0].order(Order::SnapshotLoaded(Loaded {
                    incoming: source,
                    result,
                }));
            }
        })?);
        Ok(incoming)
    }

    /// Loads the snapshot. Also returns the first bytes of the stream, if the thread has read some.
    fn receive(
        self,
        shared: &Shared,
        incoming: &Incoming,
        generation: u64,
    ) -> Result<(Box<Data>, Vec<u8>), Failure> {
        log::notice!(
            shared.logger,
            "MASTER <-> REPLICA sync: Loading DB in memory"
        );
        let store = shared.store.beside();
        let mut sink = Silent;
        // The snapshot of a primary may contain due keys. Their deletion follows in the stream.
        let now = shared.clock.now().replaying();
        let mut turn = Turn::new(&store, now, &mut sink, Classes::none());
        let len = match &self.end {
            End::Bytes(len) => Some(*len),
            End::Mark(_) => None,
        };
        let mut left = len.unwrap_or(u64::MAX);
        let mut transfer = SyncProgress {
            total: len.unwrap_or(0),
            read: 0,
        };
        shared.replication.upstream.transferred(transfer);
        let mut progress = Progress::begin(shared, turn.now, transfer.total);
        let resume = || shared.mailboxes[0].order(Order::SnapshotHasRoom);
        let fetch = |buffer: &mut [u8]| {
            let count = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = incoming.read(&mut buffer[..count], resume)?;
            left -= count as u64;
            transfer.read += count as u64;
            shared.replication.upstream.transferred(transfer);
            Ok::<_, io::Error>(count)
        };
        let blocks = Blocks::new(BLOCK_BYTES, len, fetch);
        let mut reader = Reader::new(blocks).verify_checksum(shared.settings().rdb_checksum);
        let wanted = |_: &mut Turn<'_>| shared.replication.upstream.is_current(generation);
        let loaded = load::read_all(shared, &mut reader, &mut turn, false, &mut progress, wanted)
            .map_err(failure)?;
        turn.release();
        drop(turn);
        let mut rest = reader.into_source().buffered().to_vec();
        if let End::Mark(mark) = self.end {
            while rest.len() < MARK_BYTES {
                let mut buffer = [0; MARK_BYTES];
                let count = incoming
                    .read(&mut buffer, resume)
                    .map_err(Failure::Transfer)?;
                rest.extend_from_slice(&buffer[..count]);
            }
            if rest[..MARK_BYTES] != mark {
                return Err(Failure::Refused(
                    "Replication stream EOF marker is broken".into(),
                ));
            }
            rest.drain(..MARK_BYTES);
        } else if left > 0 || !rest.is_empty() {
            return Err(Failure::Refused(
                "the snapshot ends before its announced size".into(),
            ));
        }
        let data = Data {
            store,
            libraries: loaded.libraries,
            id: self.id,
            offset: self.offset,
            db: loaded.stream_db,
        };
        Ok((Box::new(data), rest))
    }
}

fn failure(failure: ReadFailure) -> Failure {
    match failure {
        ReadFailure::Io(error) => Failure::Transfer(error),
        ReadFailure::At(offset, reason) => Failure::Refused(format!("{reason} (at byte {offset})")),
        ReadFailure::Other(load::LoadError::Stopped) => Failure::Outdated,
        ReadFailure::Other(load::LoadError::Databases { db, databases, .. }) => Failure::Refused(
            format!("the primary uses database {db}, and this server has {databases} databases"),
        ),
        ReadFailure::Other(load::LoadError::Unsupported { count, records, .. }) => {
            Failure::Refused(format!(
                "the primary has {count} record(s) of types that this server does not support: {records}. \
                 `import-skip-unknown yes` loads the rest without them"
            ))
        }
        ReadFailure::Other(other) => Failure::Refused(other.to_string()),
    }
}

impl Failure {
    /// Logs the failure, unless the server itself has ended the attempt.
    pub(crate) fn report(self, shared: &Shared) {
        let logger = &shared.logger;
        match self {
            Self::Outdated => {}
            Self::Transfer(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Self::Transfer(error) if error.kind() == io::ErrorKind::TimedOut => log::warning!(
                logger,
                "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' parameter in redis.conf to a larger value."
            ),
            Self::Transfer(error) => log::warning!(
                logger,
                "I/O error trying to sync with MASTER: {}",
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => "connection lost".to_owned(),
                    _ => error.to_string(),
                }
            ),
            Self::Refused(reason) => log::warning!(
                logger,
                "Failed trying to load the MASTER synchronization DB from socket: {reason}"
            ),
        }
    }
}
