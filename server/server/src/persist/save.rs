//! Saving of a snapshot: on a thread in the background (BGSAVE, save points), or in a turn that
//! holds every shard (SAVE, DEBUG RELOAD, FLUSHALL, a restart, a shutdown).
//!
//! The snapshot is written to a temporary file, which is synced and renamed; then its folder is
//! synced. FLUSHALL does not wait for a background save, whose thread may need a lock that the turn
//! holds. Instead it sets `abort` under the lock `naming`, so the older snapshot is never renamed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_store::snapshot::Snapshot;
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::persist::encode::{self, Header, HistoryPosition, Piece, format};
use crate::reclaim::rounds;
use crate::world::Moment;
use crate::world::disk::{Disk, Output};

/// Number of written bytes after which the file is synced, so that the final sync is short.
const SYNC_BYTES: u64 = 32 << 20;
/// Minimum number of keys for which the log shows the progress of a save.
const PROGRESS_MIN_KEYS: u64 = 500_000;

/// Error of a save. The old file is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    /// Another walk is running: a save, a rewrite or a full synchronization.
    #[error("a background save is in progress")]
    Busy,
    /// The save or rewrite was aborted, for example by FLUSHALL or a shutdown.
    #[error("the save was aborted")]
    Aborted,
    /// An operation on the file has failed.
    #[error("{what} {}: {source}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("can't start the thread of the save: {0}")]
    Thread(#[source] io::Error),
}

/// Returns the path of the snapshot file.
pub(crate) fn path(settings: &Settings) -> PathBuf {
    settings.dir.join(&settings.dbfilename)
}

fn temporary_name(purpose: &str) -> String {
    format!("temp-{}{purpose}.rdb", std::process::id())
}

/// Removes the temporary file of a running save, before the process exits at once.
pub(crate) fn remove_temporary_file(shared: &Shared) {
    let path = path(&shared.settings()).with_file_name(temporary_name(""));
    // The file does not exist if no save is running.
    let _ = shared.durability.disk.remove(&path);
}

/// A file under a temporary name. Dropping it removes the file unless it was renamed.
pub(super) struct NewFile {
    disk: Disk,
    file: Box<dyn Output>,
    temporary: PathBuf,
    path: PathBuf,
    /// Number of bytes since the last sync.
    unsynced: u64,
    /// Whether the file has its final name.
    finished: bool,
}

impl NewFile {
    /// Creates the file `name` beside its final path.
    pub(super) fn create(disk: &Disk, path: PathBuf, name: &str) -> Result<Self, SaveError> {
        let temporary = path.with_file_name(name);
        let file = disk.create(&temporary).map_err(|source| SaveError::File {
            what: "Failed opening the temp file",
            path: temporary.clone(),
            source,
        })?;
        Ok(Self {
            disk: disk.clone(),
            file,
            temporary,
            path,
            unsynced: 0,
            finished: false,
        })
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> SaveError + use<> {
        let path = self.temporary.clone();
        move |source| SaveError::File { what, path, source }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        let failed = self.failed("Write error saving DB on disk in");
        self.file.write_all(bytes).map_err(failed)?;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            let failed = self.failed("Failed syncing");
            self.file.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// Syncs the contents.
    fn sync(&self) -> Result<(), SaveError> {
        let failed = self.failed("Failed syncing");
        self.file.sync().map_err(failed)
    }

    /// Gives the synced file its final name and syncs the folder. After a crash, the old file or
    /// this one exists.
    pub(super) fn rename(mut self) -> Result<(), SaveError> {
        let failed = self.failed("Error moving the temp file to its final name from");
        let renamed = self.disk.rename(&self.temporary, &self.path);
        renamed.map_err(failed)?;
        self.finished = true;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let synced = self.disk.sync_folder(folder);
        synced.map_err(self.failed("Failed syncing the folder of"))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // If the file cannot be removed, a later save overwrites it.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Writes a snapshot and gives the file its final name. `next` is the argument of
/// [`encode::encode`].
fn write_and_rename(
    shared: &Shared,
    settings: &Settings,
    header: &Header<'_>,
    snapshot: &mut Snapshot,
    next: impl FnMut(&mut Snapshot, &mut Vec<u8>) -> Option<usize>,
) -> Result<(), SaveError> {
    let file = NewFile::create(&shared.durability.disk, path(settings), &temporary_name(""))?;
    let state = &shared.durability;
    let abort = &state.abort;
    let file = write_snapshot(file, shared, settings, header, snapshot, abort, next)?;
    // A snapshot from before a FLUSHALL must not replace the empty snapshot of the FLUSHALL.
    let _naming = state.naming.lock();
    if state.abort.load(Ordering::Acquire) {
        return Err(SaveError::Aborted);
    }
    file.rename()
}

/// Writes a snapshot to `file` and syncs it. Fails if `abort` becomes true.
pub(super) fn write_snapshot(
    mut file: NewFile,
    shared: &Shared,
    settings: &Settings,
    header: &Header<'_>,
    snapshot: &mut Snapshot,
    abort: &AtomicBool,
    next: impl FnMut(&mut Snapshot, &mut Vec<u8>) -> Option<usize>,
) -> Result<NewFile, SaveError> {
    let state = &shared.durability;
    let keys = snapshot.keys() as u64;
    state.keys.store(keys, Ordering::Relaxed);
    let mut reported_tenths = 0;
    encode::encode(shared.world, settings, header, snapshot, next, |piece| {
        let written = match piece {
            Piece::Bytes(bytes) => return file.write(bytes),
            Piece::Keys(written) => written as u64,
        };
        state.keys_written.store(written, Ordering::Relaxed);
        if keys >= PROGRESS_MIN_KEYS && written * 10 / keys > reported_tenths {
            reported_tenths = written * 10 / keys;
            log::notice!(
                shared.logger,
                "Saving: {}% ({written} of {keys} keys)",
                reported_tenths * 10
            );
        }
        if abort.load(Ordering::Acquire) {
            return Err(SaveError::Aborted);
        }
        Ok(())
    })?;
    file.sync()?;
    Ok(file)
}

/// A running save. Only one exists at a time; it records the start and the result.
struct Attempt<'s> {
    shared: &'s Shared,
    /// Number of changes of the keyspace at the instant of the snapshot.
    changes: u64,
    began: Moment,
    now: Now,
    /// Position of the snapshot in the replication history.
    position: Option<HistoryPosition>,
}

impl<'s> Attempt<'s> {
    fn begin(shared: &'s Shared, turn: &mut Turn) -> Result<Self, SaveError> {
        let state = &shared.durability;
        if !state.begin_walk() {
            return Err(SaveError::Busy);
        }
        // A FLUSHALL that ran before the locks were taken must not abort this snapshot.
        turn.lock_all();
        state.scheduled.store(false, Ordering::Release);
        state.abort.store(false, Ordering::Release);
        let now = turn.now;
        state.began_ms.store(now.read_ms(), Ordering::Relaxed);
        state.keys_written.store(0, Ordering::Relaxed);
        Ok(Self {
            shared,
            changes: shared.changes() + turn.stats.dirty,
            began: shared.world.stopwatch(),
            now,
            position: shared.history_position(turn),
        })
    }

    fn end(self, background: bool, early_bytes: usize, done: &Result<(), SaveError>) {
        let (shared, state) = (self.shared, &self.shared.durability);
        if background {
            let seconds = self.shared.world.since(self.began).as_secs() as i64;
            state.last_seconds.store(seconds, Ordering::Relaxed);
        }
        state
            .early_bytes
            .store(early_bytes as u64, Ordering::Relaxed);
        match done {
            Ok(()) => {
                state.saved(self.changes, self.now);
                state.saves.fetch_add(1, Ordering::Relaxed);
                log::notice!(
                    shared.logger,
                    "DB saved on disk: {} keys, {:.3} seconds, {} bytes of records copied before concurrent writes",
                    state.keys.load(Ordering::Relaxed),
                    self.shared.world.since(self.began).as_secs_f64(),
                    early_bytes
                );
            }
            Err(SaveError::Aborted) => log::notice!(shared.logger, "Saving was aborted"),
            Err(error) => {
                // As in Redis, only a failed background save makes the server refuse writes.
                if background {
                    state.failed.store(true, Ordering::Release);
                }
                log::warning!(shared.logger, "{error}");
            }
        }
        state.end_walk();
        shared.note_save();
        // Full synchronizations of replicas may wait for the end of the walk.
        if shared.replication.replicas.count() > 0 {
            shared.request_upkeep();
        }
    }
}

/// Saves a snapshot in the calling turn, which keeps every shard locked until the save ends.
pub(crate) fn foreground(shared: &Shared, turn: &mut Turn) -> Result<(), SaveError> {
    let attempt = Attempt::begin(shared, turn)?;
    let settings = shared.settings();
    let libraries = shared.scripting.functions.libraries();
    let mut snapshot = Snapshot::begin(turn, format(&settings));
    let mut header = Header::new(attempt.now, &libraries);
    header.position = attempt.position;
    let done = write_and_rename(shared, &settings, &header, &mut snapshot, |s, out| {
        s.next_held(turn, out)
    });
    if done.is_err() {
        Snapshot::abandon_all(turn);
    }
    attempt.end(false, 0, &done);
    done
}

/// Replaces the file with an empty snapshot. The turn has emptied every database and holds the
/// locks of all shards.
///
/// # Errors
/// The file cannot be written; the old file is unchanged.
pub(super) fn write_empty(shared: &Shared, turn: &mut Turn) -> Result<(), SaveError> {
    let (settings, state) = (shared.settings(), &shared.durability);
    // The thread of an aborted save may still write to the temporary file of saves.
    let file = NewFile::create(&state.disk, path(&settings), &temporary_name("-empty"))?;
    let libraries = shared.scripting.functions.libraries();
    let mut empty = Snapshot::without_keys(turn.store);
    let mut header = Header::new(turn.now, &libraries);
    header.position = shared.history_position(turn);
    let never_aborts = AtomicBool::new(false);
    let file = write_snapshot(
        file,
        shared,
        &settings,
        &header,
        &mut empty,
        &never_aborts,
        |_, _| None,
    )?;
    file.rename()?;
    state.saved(shared.changes() + turn.stats.dirty, turn.now);
    shared.note_save();
    log::notice!(shared.logger, "DB saved on disk: FLUSHALL left no keys");
    Ok(())
}

/// Prepares a shutdown: aborts a running save or full synchronization. Then saves a snapshot if
/// `must_save` is true, or if it is `None` and there are save points, but not during a load.
/// Releases the turn's locks first.
///
/// # Errors
/// The save has failed; the server should keep running.
pub(crate) fn before_exit(
    shared: &Shared,
    turn: &mut Turn,
    must_save: Option<bool>,
) -> Result<(), SaveError> {
    turn.release();
    shared.durability.abort();
    shared.replication.replicas.full_sync.abort();
    if !must_save.unwrap_or(!shared.settings().save.is_empty()) || shared.durability.is_loading() {
        return Ok(());
    }
    log::notice!(
        shared.logger,
        "Saving the final RDB snapshot before exiting."
    );
    if let Some(systemd) = &shared.systemd {
        systemd.saving();
    }
    foreground(shared, turn)
}

/// Begins a snapshot at this instant and writes it on a separate thread.
pub(crate) fn begin_background(shared: &Arc<Shared>, turn: &mut Turn) -> Result<(), SaveError> {
    let attempt = Attempt::begin(shared, turn)?;
    let state = &shared.durability;
    state
        .last_try_ms
        .store(turn.now.read_ms(), Ordering::Release);
    let (changes, began, now) = (attempt.changes, attempt.began, attempt.now);
    let position = attempt.position;
    let settings = shared.settings();
    let libraries = shared.scripting.functions.libraries();
    let mut snapshot = Snapshot::begin(turn, format(&settings));
    // The previous thread has ended its walk, otherwise `Attempt::begin` would have failed.
    state.wait();
    let for_thread = Arc::clone(shared);
    let thread = shared.world.spawn("punctual-save", move || {
        let shared = for_thread;
        let store = &shared.store;
        let mut header = Header::new(now, &libraries);
        header.position = position;
        let done = write_and_rename(&shared, &settings, &header, &mut snapshot, |s, out| {
            s.next(store, out)
        });
        let early_bytes = snapshot.early_bytes();
        if done.is_err() {
            snapshot.abandon(store);
        } else {
            drop(snapshot);
        }
        let attempt = Attempt {
            shared: &shared,
            changes,
            began,
            now,
            position,
        };
        attempt.end(true, early_bytes, &done);
        rounds::report_freed(&shared, 0);
        // Another save may be scheduled or due.
        shared.mailboxes[0].order(Order::Resume);
    });
    match thread {
        Ok(thread) => {
            log::notice!(shared.logger, "Background saving started");
            *state.thread.lock() = Some(thread);
            Ok(())
        }
        Err(error) => {
            // The closure has dropped the snapshot, but its walks still exist in the shards.
            Snapshot::abandon_all(turn);
            let done = Err(SaveError::Thread(error));
            attempt.end(true, 0, &done);
            done
        }
    }
}
