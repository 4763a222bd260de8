//! Loading of snapshots: at startup, by DEBUG RELOAD, of an append-only file, and from a primary.
//!
//! At startup, the event loops reply LOADING meanwhile. A damaged file is refused and not changed.

mod fields;
mod start;
mod unsupported;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use punctual_rdb::{Blocks, Event, Failure, Own, Reader, Record, Source};
use punctual_store::limits::Limits;
use punctual_store::value::Value;
use punctual_store::value::decode::{Unreadable, damage, read_value};
use punctual_store::{NOTIFY_FIELD, Now, RestoreBatch, Restored, Turn};

use self::fields::Fields;
pub(crate) use self::start::{at_start, begin_start};
use self::unsupported::Unsupported;
use crate::durability::files::AofError;
use crate::log;
use crate::node::Shared;
use crate::persist::delay;
use crate::persist::encode::HistoryPosition;
use crate::persist::history::ExpiredKey;
use crate::persist::save;
use crate::script::functions::loaded::{self, Loader, taken};
use crate::script::functions::registry::Libraries;
use crate::world::disk::Input;

/// Read size in bytes.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Number of records after which a load at startup releases its locks.
const RECORDS_PER_PAUSE: u64 = 512;
/// File size above which the log shows the progress of a load.
const PROGRESS_MIN_BYTES: u64 = 64 << 20;
/// Assumed minimum size of a record in bytes: a type, a key and a value.
const RECORD_MIN_BYTES: u64 = 5;
/// Maximum number of keys without elements that the log lists.
const EMPTY_LISTED_MAX: u64 = 10;

/// Error of a load. The snapshot's file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be opened, or the system does not report its length.
    #[error("Fatal error: can't open the RDB file {} for reading: {source}", path.display())]
    Open {
        /// Path of the snapshot.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file cannot be read to its end.
    #[error("Reading the RDB file {} failed at byte {offset}: {source}", path.display())]
    Read {
        /// Path of the snapshot.
        path: PathBuf,
        /// Offset of the failure in the file.
        offset: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is damaged, or has an item that cannot be loaded, such as an existing key.
    #[error(
        "The RDB file {} is damaged at byte {offset}: {reason}. The file is unchanged: repair it or move it away, or \
         start with another `dbfilename`",
        path.display()
    )]
    Damaged {
        /// Path of the snapshot.
        path: PathBuf,
        /// Offset of the failure in the file.
        offset: u64,
        /// Description of the defect.
        reason: String,
    },
    /// The file has more databases than the server.
    #[error(
        "The RDB file {} has database {db}, and this server has {databases}: start it with `databases {}` or more",
        path.display(), db + 1
    )]
    Databases {
        /// Path of the snapshot.
        path: PathBuf,
        /// Number of the database in the file.
        db: u64,
        /// Number of the server's databases.
        databases: usize,
    },
    /// The file has records that the server cannot keep, and `import-skip-unknown` is off.
    #[error(
        "The RDB file {} has {count} record(s) of types that this server does not support: {records}. The next save \
         would lose them. The file is unchanged: start with `import-skip-unknown yes` to load the rest without them",
        path.display()
    )]
    Unsupported {
        /// Path of the snapshot.
        path: PathBuf,
        /// Number of these records.
        count: u64,
        /// The first of these records, with their types and offsets.
        records: String,
    },
    /// The append-only file cannot be loaded, or the server cannot continue it.
    #[error(transparent)]
    AppendOnly(#[from] AofError),
    /// The load was aborted: the server stops, or the data is no longer needed.
    #[error("Loading was aborted because the server stops")]
    Stopped,
}

impl LoadError {
    /// Returns whether a snapshot, or the base of an append-only file, could not be read.
    pub(crate) fn concerns_snapshot(&self) -> bool {
        !matches!(self, Self::AppendOnly(_) | Self::Stopped)
    }
}

/// Loads the configured snapshot; the turn keeps its locks. An existing key is replaced if
/// `replace` is true, and is an error otherwise.
pub(crate) fn foreground(shared: &Shared, turn: &mut Turn, replace: bool) -> Result<(), LoadError> {
    load(
        shared,
        &save::path(&shared.settings()),
        turn,
        replace,
        |_| {},
    )?;
    Ok(())
}

/// Failure of a read. `At` has the offset and the reason of damage.
pub(crate) enum ReadFailure {
    At(u64, String),
    Io(io::Error),
    Other(LoadError),
}

impl From<Failure<io::Error>> for ReadFailure {
    fn from(failure: Failure<io::Error>) -> Self {
        match failure {
            Failure::Format(error) => Self::At(error.offset, error.reason.to_string()),
            Failure::Source(error) => Self::Io(error),
        }
    }
}

/// Progress of a load of one or several files, for INFO and the log.
pub(crate) struct Progress<'s> {
    shared: &'s Shared,
    total_bytes: u64,
    /// Bytes of the files that are already loaded.
    before_bytes: u64,
    logged_tenths: u64,
}

impl<'s> Progress<'s> {
    pub(crate) fn begin(shared: &'s Shared, now: Now, total_bytes: u64) -> Self {
        let loading = &shared.durability.loading;
        loading.began_ms.store(now.read_ms(), Ordering::Relaxed);
        loading.total_bytes.store(total_bytes, Ordering::Relaxed);
        for count in [
            &loading.loaded_bytes,
            &loading.keys_loaded,
            &loading.keys_expired,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        Self {
            shared,
            total_bytes,
            before_bytes: 0,
            logged_tenths: 0,
        }
    }

    /// Records that the current file is loaded up to `offset`.
    ///
    /// # Errors
    /// The server is stopping.
    pub(super) fn reached(&mut self, offset: u64) -> Result<(), LoadError> {
        let (shared, offset) = (self.shared, self.before_bytes + offset);
        let loading = &shared.durability.loading;
        loading.loaded_bytes.store(offset, Ordering::Relaxed);
        let total = self.total_bytes;
        if total > PROGRESS_MIN_BYTES && offset * 10 / total > self.logged_tenths {
            self.logged_tenths = offset * 10 / total;
            log::notice!(shared.logger, "Loading: {}%", self.logged_tenths * 10);
        }
        if shared.stopping.load(Ordering::Acquire) {
            return Err(LoadError::Stopped);
        }
        Ok(())
    }

    /// Records that a file of `len` bytes is loaded.
    pub(super) fn file_done(&mut self, len: u64) {
        self.before_bytes += len;
        let loading = &self.shared.durability.loading;
        loading
            .loaded_bytes
            .store(self.before_bytes, Ordering::Relaxed);
    }
}

fn load<'s>(
    shared: &Shared,
    path: &Path,
    turn: &mut Turn<'s>,
    replace: bool,
    mut pause: impl FnMut(&mut Turn<'s>),
) -> Result<SnapshotExtras, LoadError> {
    let began = shared.world.stopwatch();
    let len = shared
        .durability
        .disk
        .length(path)
        .map_err(|source| LoadError::Open {
            path: path.to_owned(),
            source,
        })?;
    let mut progress = Progress::begin(shared, turn.now, len);
    let (len, extras) = read_file(shared, path, turn, replace, &mut progress, &mut pause)?;
    progress.file_done(len);
    log::notice!(
        shared.logger,
        "DB loaded from disk: {:.3} seconds",
        shared.world.since(began).as_secs_f64()
    );
    Ok(extras)
}

/// Fills a part of `buffer` with the next bytes of the file. Returns the number of bytes, 0 at the
/// end.
pub(in crate::persist) fn read_block(file: &mut dyn Input, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Loads the snapshot at the start of a file. Skips keys that are due at the turn's instant, except
/// timers and queues of jobs. Returns the snapshot's length, and its content other than keys.
pub(super) fn read_file<'s>(
    shared: &Shared,
    path: &Path,
    turn: &mut Turn<'s>,
    replace: bool,
    progress: &mut Progress<'_>,
    pause: &mut impl FnMut(&mut Turn<'s>),
) -> Result<(u64, SnapshotExtras), LoadError> {
    let opened = shared.durability.disk.open(path);
    let opened = opened.and_then(|file| Ok((file.length()?, file)));
    let (len, mut file) = opened.map_err(|source| LoadError::Open {
        path: path.to_owned(),
        source,
    })?;
    let blocks = Blocks::new(BLOCK_BYTES, Some(len), |buffer: &mut [u8]| {
        read_block(&mut *file, buffer)
    });
    let mut reader = Reader::new(blocks).verify_checksum(shared.settings().rdb_checksum);
    let done = read_all(shared, &mut reader, turn, replace, progress, |turn| {
        pause(turn);
        true
    });
    let offset = reader.offset();
    let joined = done.and_then(|loaded| {
        join(shared, &loaded.libraries, replace, offset)?;
        Ok(loaded)
    });
    let extras = joined.map_err(|failure| match failure {
        ReadFailure::At(offset, reason) => LoadError::Damaged {
            path: path.to_owned(),
            offset,
            reason,
        },
        ReadFailure::Io(source) => LoadError::Read {
            path: path.to_owned(),
            offset,
            source,
        },
        ReadFailure::Other(LoadError::Databases { db, databases, .. }) => LoadError::Databases {
            path: path.to_owned(),
            db,
            databases,
        },
        ReadFailure::Other(LoadError::Unsupported { count, records, .. }) => {
            LoadError::Unsupported {
                path: path.to_owned(),
                count,
                records,
            }
        }
        ReadFailure::Other(other) => other,
    })?;
    let loading = &shared.durability.loading;
    let empty = match extras.skipped_empty {
        0 => String::new(),
        count => format!(", empty keys skipped: {count}"),
    };
    log::notice!(
        shared.logger,
        "Done loading RDB, keys loaded: {}, keys expired: {}{empty}.",
        loading.keys_loaded.load(Ordering::Relaxed),
        loading.keys_expired.load(Ordering::Relaxed)
    );
    Ok((offset, extras))
}

/// Content of a snapshot other than its keys.
#[derive(Default)]
pub(crate) struct SnapshotExtras {
    pub(crate) libraries: Libraries,
    /// Database that the replication stream has selected at the instant of the snapshot.
    pub(crate) stream_db: usize,
    /// Position of the snapshot in a replication history, if the snapshot names one.
    pub(crate) position: Option<HistoryPosition>,
    /// Keys that were due at the load, if the snapshot names its position.
    pub(crate) expired: Vec<ExpiredKey>,
    /// Number of collections without elements, which the load skips.
    skipped_empty: u64,
}

/// Adds the function libraries of a snapshot to the libraries of the server.
fn join(
    shared: &Shared,
    libraries: &Libraries,
    replace: bool,
    offset: u64,
) -> Result<(), ReadFailure> {
    if libraries.is_empty() {
        return Ok(());
    }
    let joined = shared
        .scripting
        .functions
        .change(|all| all.join(libraries, replace));
    joined.map_err(|name| ReadFailure::At(offset, taken(name).to_string()))
}

/// Reads a snapshot into the keyspace of `turn`, which may not be the server's own. Calls `pause`
/// at intervals, and ends if `pause` returns false. The caller adds the returned libraries. Logs
/// damage.
pub(crate) fn read_all<'s, S: Source<Error = io::Error>>(
    shared: &Shared,
    reader: &mut Reader<S>,
    turn: &mut Turn<'s>,
    replace: bool,
    progress: &mut Progress<'_>,
    pause: impl FnMut(&mut Turn<'s>) -> bool,
) -> Result<SnapshotExtras, ReadFailure> {
    let done = read_records(shared, reader, turn, replace, progress, pause);
    if let Err(ReadFailure::At(offset, reason)) = &done {
        let logger = &shared.logger;
        log::warning!(
            logger,
            "Internal error in RDB reading offset {offset}: {reason}"
        );
    }
    done
}

fn read_records<'s, S: Source<Error = io::Error>>(
    shared: &Shared,
    reader: &mut Reader<S>,
    turn: &mut Turn<'s>,
    replace: bool,
    progress: &mut Progress<'_>,
    mut pause: impl FnMut(&mut Turn<'s>) -> bool,
) -> Result<SnapshotExtras, ReadFailure> {
    let (loading, limits) = (&shared.durability.loading, turn.limits);
    let total = loading.total_bytes.load(Ordering::Relaxed);
    let databases = turn.store.databases();
    let mut batch = RestoreBatch::default();
    // This only checks the libraries: each loop loads them when it first calls their functions.
    let mut loaded_here = loaded::Loaded::new(
        shared.world,
        shared.scripting.cache.random.clone(),
        shared.settings().redis_version,
    );
    let mut libraries = Libraries::default();
    let mut loader = Loader {
        loaded: &mut loaded_here,
        registry: &shared.scripting.functions,
        logger: &shared.logger,
    };
    let mut unsupported = Unsupported::new(shared.settings().import_skip_unknown);
    let (mut db, mut loaded, mut expired, mut skipped_empty) = (0, 0, 0, 0);
    let (mut fields, mut expired_keys) = (Fields::default(), Vec::new());
    let mut delay_us = shared.settings().key_load_delay_us;
    for number in 1.. {
        if number % RECORDS_PER_PAUSE == 0 || delay_us != 0 {
            loading.keys_loaded.store(loaded, Ordering::Relaxed);
            loading.keys_expired.store(expired, Ordering::Relaxed);
            delay_us = shared.settings().key_load_delay_us;
            delay::wait(shared.world, delay_us, 1, || match pause(turn) {
                true => progress.reached(reader.offset()),
                false => Err(LoadError::Stopped),
            })
            .map_err(ReadFailure::Other)?;
        }
        match reader.next()? {
            Event::SelectDb(number) => db = known_database(number, databases)?,
            // The load fails at the end. The rest of the file is read only to complete the list in
            // the error.
            Event::Key(_) | Event::Library { .. } if unsupported.refuses() => {}
            Event::Key(record) => {
                let (settings, meta) = (fields.settings.take(), record.meta);
                let deadline = meta.expire_ms.map(|ms| ms.max(0) as u64);
                // A due timer fires, and a due queue of jobs expires, after the load.
                let may_skip = !matches!(record.value.own(), Some(Own::Timer | Own::Jobs));
                if may_skip && deadline.is_some_and(|at| turn.now.is_due(at)) {
                    expired += 1;
                    if fields.id.is_some() {
                        expired_keys.push((db, record.key.into()));
                    }
                    continue;
                }
                let (key, offset) = (record.key, record.offset);
                let Some(value) = value_of(record, settings, &limits)? else {
                    skipped_empty += 1;
                    if skipped_empty <= EMPTY_LISTED_MAX {
                        let key = key.escape_ascii();
                        log::notice!(shared.logger, "Loading: skipping empty key: {key}");
                    }
                    continue;
                };
                let restored = Restored {
                    db,
                    key,
                    value,
                    deadline,
                    idle_s: meta.idle_s,
                    freq: meta.freq,
                };
                turn.restore(&mut batch, restored, replace)
                    .map_err(|taken| ReadFailure::At(offset, taken.to_string()))?;
                loaded += 1;
            }
            Event::Library { code, offset } => {
                let exists = |name: &str| !replace && libraries.contains(name);
                loader
                    .load(code, exists, false)
                    .and_then(|new| libraries.replace(&new).map_err(taken))
                    .map_err(|error| ReadFailure::At(offset, error.to_string()))?;
            }
            Event::Aux { name, text } if name == NOTIFY_FIELD.as_bytes() => {
                let restored = turn.restore_notify_rule(text);
                restored.map_err(|error| ReadFailure::At(reader.offset(), error.to_string()))?;
            }
            Event::Aux { name, text } => fields.note(name, text, databases),
            Event::Skipped(passed) => unsupported.add(shared, &passed, db),
            Event::ResizeDb { keys, .. } => {
                // The number is untrusted, so the file size limits it.
                let keys = keys.min(total / RECORD_MIN_BYTES);
                turn.reserve(db, usize::try_from(keys).unwrap_or(0));
            }
            Event::End { .. } => break,
            _ => {}
        }
    }
    unsupported.end(shared)?;
    let last = turn.restore_all(&mut batch, replace);
    last.map_err(|taken| ReadFailure::At(reader.offset(), taken.to_string()))?;
    loading.keys_loaded.store(loaded, Ordering::Relaxed);
    loading.keys_expired.store(expired, Ordering::Relaxed);
    Ok(SnapshotExtras {
        libraries,
        stream_db: fields.stream_db,
        position: fields.position(),
        expired: expired_keys,
        skipped_empty,
    })
}

/// Returns the index of a database if the server has it.
fn known_database(db: u64, databases: usize) -> Result<usize, ReadFailure> {
    let known = usize::try_from(db).ok().filter(|db| *db < databases);
    known.ok_or(ReadFailure::Other(LoadError::Databases {
        path: PathBuf::new(),
        db,
        databases,
    }))
}

/// Reads the value of a record, and applies the settings from the auxiliary field before the
/// record. Returns `None` for a collection without elements.
fn value_of<S: Source<Error = io::Error>>(
    record: Record<'_, S>,
    settings: Option<Vec<u8>>,
    limits: &Limits,
) -> Result<Option<Value>, ReadFailure> {
    let (key, offset, kind) = (record.key, record.offset, record.value.kind());
    let contents = record.value.read().map_err(Unreadable::from);
    let error = match contents.and_then(|contents| read_value(contents, limits)) {
        Ok(Some(mut value)) => {
            if settings.is_some_and(|text| !value.apply_settings(&text)) {
                let what = "settings of a stream that are not understood";
                let reason = format!("{what} (key \"{}\")", key.escape_ascii());
                return Err(ReadFailure::At(offset, reason));
            }
            return Ok(Some(value));
        }
        Ok(None) => return Ok(None),
        Err(error) => error,
    };
    let at = match &error {
        Unreadable::Failure(Failure::Format(error)) => error.offset,
        _ => offset,
    };
    if let Unreadable::Failure(Failure::Source(error)) = error {
        return Err(ReadFailure::Io(error));
    }
    let (flaw, key) = (damage(kind, error), key.escape_ascii());
    Err(ReadFailure::At(at, format!("{flaw} (key \"{key}\")")))
}
