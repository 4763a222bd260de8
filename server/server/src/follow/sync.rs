//! A full synchronization: the primary's snapshot, received and loaded beside the keyspace.
//!
//! Clients read the old data meanwhile. Loop 0 swaps the keyspace when the snapshot is complete and right; a link that is lost
//! before that leaves everything as it was. This is what `repl-diskless-load swapdb` does in Redis; there is no other way here.

use std::io;

use punctual_rdb::{Blocks, Reader, Source as _};
use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use crate::follow::link::Failure;
use crate::log;
use crate::node::Shared;
use crate::persist::load::{self, Progress, ReadFailure};
use crate::replication::attachment::Data;
use crate::replication::state::ReplicationId;
use crate::replication::upstream::{INTERVAL, Phase, Transfer};
use crate::replication::wire::Wire;

/// Read size in bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Length of the mark at the end of a snapshot whose size the primary does not know.
const MARK_BYTES: usize = 40;

/// The primary's announcement of a snapshot.
enum Announced {
    Bytes(u64),
    Until([u8; MARK_BYTES]),
}

/// Receives and loads the snapshot that the primary has announced with `+FULLRESYNC`. Returns also the input behind it.
pub(crate) fn receive(
    shared: &Shared,
    wire: &mut Wire<'_>,
    generation: u64,
    id: ReplicationId,
    offset: u64,
) -> Result<(Data, Vec<u8>), Failure> {
    let announced = announcement(shared, wire)?;
    if !shared
        .replication
        .upstream
        .advance(generation, Phase::Transfer)
    {
        return Err(Failure::Unwanted);
    }
    log::notice!(
        shared.logger,
        "MASTER <-> REPLICA sync: Loading DB in memory"
    );
    let store = shared.store.beside();
    let mut sink = Silent;
    // A primary's snapshot holds keys that are due: their deletion is a part of the stream.
    let now = shared.clock.now().replaying();
    let mut turn = Turn::new(&store, now, &mut sink, Classes::none());
    let len = match &announced {
        Announced::Bytes(len) => Some(*len),
        Announced::Until(_) => None,
    };
    let mut left = len.unwrap_or(u64::MAX);
    let mut transfer = Transfer {
        total: len.unwrap_or(0),
        read: 0,
    };
    shared.replication.upstream.transferred(transfer);
    let mut progress = Progress::begin(shared, turn.now, transfer.total);
    let mut greeted = shared.world.stopwatch();
    let fetch = |place: &mut [u8]| {
        let count = place.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        // The primary must see that the replica is alive.
        if shared.world.since(greeted) >= INTERVAL {
            greeted = shared.world.stopwatch();
            wire.send(b"\n")?;
        }
        let count = wire.read(&mut place[..count], |_| Ok(()))?;
        left -= count as u64;
        transfer.read += count as u64;
        shared.replication.upstream.transferred(transfer);
        Ok::<_, io::Error>(count)
    };
    let blocks = Blocks::new(BLOCK_BYTES, len, fetch);
    let mut reader = Reader::new(blocks).verify_checksum(shared.settings().rdb_checksum);
    let wanted = |_: &mut Turn<'_>| shared.replication.upstream.is_current(generation);
    let loaded = load::read_all(shared, &mut reader, &mut turn, false, &mut progress, wanted);
    let loaded = loaded.map_err(|failure| match failure {
        ReadFailure::Io(error) => Failure::Transfer(error),
        ReadFailure::At(offset, reason) => Failure::Refused(format!("{reason} (at byte {offset})")),
        ReadFailure::Other(load::LoadError::Stopped) => Failure::Unwanted,
        ReadFailure::Other(load::LoadError::Databases { db, databases, .. }) => Failure::Refused(
            format!("the primary has database {db}, and this server has {databases}"),
        ),
        ReadFailure::Other(load::LoadError::Unsupported { count, records, .. }) => {
            Failure::Refused(format!(
                "the primary has {count} record(s) of types that this server does not support: {records}. \
                 `import-skip-unknown yes` loads the rest without them"
            ))
        }
        ReadFailure::Other(other) => Failure::Refused(other.to_string()),
    })?;
    turn.release();
    drop(turn);
    let mut rest = reader.into_source().buffered().to_vec();
    if let Announced::Until(mark) = announced {
        let held = rest.len().min(MARK_BYTES);
        let mut found = [0; MARK_BYTES];
        found[..held].copy_from_slice(&rest[..held]);
        wire.read_exact(&mut found[held..])
            .map_err(Failure::Transfer)?;
        if found != mark {
            return Err(Failure::Refused(
                "Replication stream EOF marker is broken".into(),
            ));
        }
        rest.drain(..held);
    } else if left > 0 || !rest.is_empty() {
        return Err(Failure::Refused(
            "the snapshot ends before its announced size".into(),
        ));
    }
    let data = Data {
        store,
        libraries: loaded.libraries,
        id,
        offset,
        db: loaded.stream_db,
    };
    Ok((data, rest))
}

/// Reads the line before the snapshot.
fn announcement(shared: &Shared, wire: &mut Wire<'_>) -> Result<Announced, Failure> {
    let line = loop {
        let line = wire.line().map_err(|error| {
            log::warning!(
                shared.logger,
                "I/O error reading bulk count from MASTER: {error}"
            );
            Failure::Logged
        })?;
        if !line.is_empty() {
            break line;
        }
    };
    if let Some(error) = line.strip_prefix('-') {
        log::warning!(
            shared.logger,
            "MASTER aborted replication with an error: {error}"
        );
        return Err(Failure::Logged);
    }
    if let Some(mark) = line.strip_prefix("$EOF:") {
        let bytes = mark.as_bytes().try_into();
        if let Ok(mark) = bytes {
            log::notice!(
                shared.logger,
                "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to parser"
            );
            return Ok(Announced::Until(mark));
        }
    }
    if let Some(len) = line.strip_prefix('$').and_then(|len| len.parse().ok()) {
        log::notice!(
            shared.logger,
            "MASTER <-> REPLICA sync: receiving {len} bytes from master to parser"
        );
        return Ok(Announced::Bytes(len));
    }
    log::warning!(
        shared.logger,
        "Bad protocol from MASTER, the first byte is not '$' (we received '{}'), are you sure the host and port are right?",
        line.escape_default()
    );
    Err(Failure::Logged)
}
