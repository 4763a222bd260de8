//! The bytes of a snapshot. Files and full synchronizations of replicas use the same code.
//!
//! The encoder passes its bytes in blocks to a sink, which writes them and may block meanwhile. On
//! a thread of its own, the encoder holds the lock of one shard while it reads records, and no lock
//! while the sink runs.

use punctual_rdb::{Dialect, Encoder, VERSION, VERSION_FIELD_EXPIRY, VERSION_VALKEY, Writer};
use punctual_store::snapshot::{Format, Snapshot};
use punctual_store::{NOTIFY_FIELD, Now};

use crate::config::Settings;
use crate::persist::delay;
use crate::replication::state::ReplicationId;
use crate::script::functions::registry::Libraries;
use crate::world::World;
use crate::world::process;

/// Size of a block in bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Returns the format of a walk's records for a file.
pub(crate) fn format(settings: &Settings) -> Format {
    Format {
        compress: settings.rdb_compression,
        dialect: Dialect::Redis,
    }
}

/// Position of a snapshot in a replication history, from which a restarted server continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryPosition {
    pub(crate) id: ReplicationId,
    /// Offset of the stream at the instant of the snapshot.
    pub(crate) offset: u64,
    /// Database that the stream has selected at this offset.
    pub(crate) db: usize,
}

/// Content of a snapshot other than its keys.
pub(crate) struct Header<'a> {
    now: Now,
    libraries: &'a Libraries,
    /// Written as the fields `repl-id`, `repl-offset` and `repl-stream-db`.
    pub(crate) position: Option<HistoryPosition>,
    /// Whether the snapshot is the base of an append-only file.
    pub(crate) aof_base: bool,
    /// The dialect of the snapshot's [`Format`].
    pub(crate) dialect: Dialect,
}

impl<'a> Header<'a> {
    /// Creates the header of a snapshot of the instant `now`.
    pub(crate) fn new(now: Now, libraries: &'a Libraries) -> Self {
        Self {
            now,
            libraries,
            position: None,
            aof_base: false,
            dialect: Dialect::Redis,
        }
    }
}

/// Input of the sink of [`encode`].
pub(crate) enum Piece<'a> {
    /// Bytes that follow the bytes of the previous call.
    Bytes(&'a [u8]),
    /// Number of keys that are written so far, after each step of the walk. The sink may return an
    /// error to end the encoding.
    Keys(usize),
}

/// Encodes a snapshot. `next` appends records to its buffer and returns their database, or `None`
/// at the end.
///
/// # Errors
/// The error of the sink. The caller must abandon the snapshot.
pub(crate) fn encode<E>(
    world: World,
    settings: &Settings,
    header: &Header<'_>,
    snapshot: &mut Snapshot,
    mut next: impl FnMut(&mut Snapshot, &mut Vec<u8>) -> Option<usize>,
    mut sink: impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let version = match (snapshot.has_field_deadlines(), header.dialect) {
        (true, Dialect::Redis) => VERSION_FIELD_EXPIRY,
        (true, Dialect::Valkey) => VERSION_VALKEY,
        (false, _) => VERSION,
    };
    let mut block = Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4);
    let mut writer = Writer::new(&mut block, version, settings.rdb_checksum);
    let mut aux = |name: &str, text: &str| writer.aux(&mut block, name.as_bytes(), text.as_bytes());
    aux("redis-ver", settings.redis_version);
    aux("redis-bits", &usize::BITS.to_string());
    aux("ctime", &(header.now.read_ms() / 1000).to_string());
    aux("used-mem", &process::memory().0.to_string());
    if let Some(position) = &header.position {
        aux("repl-stream-db", &position.db.to_string());
        aux("repl-id", position.id.as_str());
        aux("repl-offset", &position.offset.to_string());
    }
    aux("aof-base", if header.aof_base { "1" } else { "0" });
    for rule in snapshot.notify_rules() {
        writer.aux(&mut block, NOTIFY_FIELD.as_bytes(), rule);
    }
    let (mut records, mut encoder) = (Vec::new(), Encoder::new(settings.rdb_compression));
    for library in header.libraries.iter() {
        encoder.library(&mut records, &library.code);
    }
    writer.feed(&records);
    block.append(&mut records);
    let sizes: Vec<_> = snapshot.sizes().collect();
    let (mut current, mut passed) = (None, 0);
    while let Some(db) = next(snapshot, &mut records) {
        if current != Some(db) {
            current = Some(db);
            writer.select_db(&mut block, db as u64);
            if let Some((_, keys, deadlines)) = sizes.iter().find(|(number, ..)| *number == db) {
                writer.resize_db(&mut block, *keys as u64, *deadlines as u64);
            }
        }
        writer.feed(&records);
        block.append(&mut records);
        if block.len() >= BLOCK_BYTES {
            sink(Piece::Bytes(&block))?;
            block.clear();
        }
        let keys = snapshot.written();
        let new = keys - std::mem::replace(&mut passed, keys);
        delay::wait(world, settings.key_save_delay_us, new, || {
            sink(Piece::Keys(keys))
        })?;
    }
    writer.finish(&mut block);
    sink(Piece::Bytes(&block))
}
