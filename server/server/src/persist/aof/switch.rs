//! Starting and ending the append-only file: at startup, by CONFIG SET, after a full
//! synchronization, and at shutdown.
//!
//! In `Phase::Starting` the writer appends to a file that the manifest does not name yet. The
//! manifest names it together with the first base when the base is complete. Until then, a start of
//! the server loads the old files.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use crate::durability::aof::Phase;
use crate::durability::files::{AofError, AofFiles, OpenFile};
use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::persist::aof::load::Loaded;
use crate::persist::aof::rewrite::{self, RewriteError};
use crate::persist::aof::syncers;
use crate::persist::aof::writer::Writer;
use crate::persist::backup;

impl Shared {
    /// Makes replies wait for the append-only file if its phase is `On`. In the phases `Off` and
    /// `Starting`, replies do not wait.
    pub(crate) fn update_holds(&self, turn: &mut Turn) {
        turn.lock_all();
        let on = self.durability.aof.phase() == Phase::On;
        self.durability.changelog.set_holds(turn, on);
        self.durability.changelog.wake_file();
        self.order_all(|| Order::Released);
    }
}

/// Begins to append after the load at startup. `files` may be empty; then the keyspace becomes the
/// first base. No client runs commands yet.
///
/// # Errors
/// The files cannot be written, or a thread cannot be started.
pub(crate) fn start(
    shared: &Arc<Shared>,
    turn: &mut Turn,
    mut files: AofFiles,
    loaded: Loaded,
) -> Result<(), RewriteError> {
    let (disk, settings) = (&shared.durability.disk, shared.settings());
    let aof = &shared.durability.aof;
    files.migrate(disk, &shared.logger)?;
    files.create_folder(disk)?;
    let has_base = !files.manifest.is_empty();
    *aof.files.lock() = files;
    aof.current_bytes
        .store(loaded.total_bytes, Ordering::Relaxed);
    aof.base_bytes.store(loaded.base_bytes, Ordering::Relaxed);
    if !has_base {
        rewrite::write_first_base(shared, turn)?;
        log::notice!(shared.logger, "Creating AOF base file on server start");
    }
    let mut files = aof.files.lock();
    let file = files.open_last(disk, &settings)?;
    files.remove_history(disk, &shared.logger);
    drop(files);
    log::notice!(
        shared.logger,
        "Opening AOF incr file {} on server start",
        file.path.display()
    );
    turn.lock_all();
    attach(shared, turn, file, Phase::On)
}

/// Starts the thread of the writer, and connects the log to it.
pub(in crate::persist) fn attach(
    shared: &Arc<Shared>,
    turn: &mut Turn,
    file: OpenFile,
    phase: Phase,
) -> Result<(), RewriteError> {
    let aof = &shared.durability.aof;
    let writer = Writer::new(
        Arc::clone(shared),
        file,
        shared.durability.changelog.file_end(),
    );
    let thread = shared
        .world
        .spawn("punctual-aof", {
            let shared = Arc::clone(shared);
            move || syncers::run(&shared, writer)
        })
        .map_err(crate::persist::save::SaveError::Thread)?;
    shared
        .durability
        .changelog
        .set_file(turn, Some(thread.thread().clone()));
    *aof.writer.lock() = Some(thread);
    aof.set_phase(phase);
    shared.update_holds(turn);
    Ok(())
}

/// Begins to append, for CONFIG SET. The first base is written in the background. The turn must not
/// be within a transaction.
///
/// # Errors
/// The manifest cannot be read, the files cannot be written, or the writer's thread cannot be
/// started.
pub(crate) fn enable(shared: &Arc<Shared>, turn: &mut Turn) -> Result<(), RewriteError> {
    let (disk, settings) = (&shared.durability.disk, shared.settings());
    let aof = &shared.durability.aof;
    let files = AofFiles::read_manifest(&shared.durability.disk, &settings)?;
    files.create_folder(disk)?;
    let name = files
        .manifest
        .clone()
        .add_incremental(&settings.append_file);
    let file = files.create_file(disk, &name)?;
    *aof.files.lock() = files;
    *aof.starting.lock() = Some(name);
    turn.lock_all();
    attach(shared, turn, file, Phase::Starting)?;
    if let Err(error) = rewrite::begin(shared, turn) {
        log::notice!(
            shared.logger,
            "AOF was enabled but {error}. An AOF background was scheduled to start when possible."
        );
        aof.rewrite.scheduled.store(true, Ordering::Release);
    }
    Ok(())
}

/// Starts the files anew after another keyspace has replaced the old one. The old files stay until
/// the new base is complete, so a start finds the old keyspace or the new one. The turn that has
/// replaced the keyspace holds every shard.
pub(crate) fn restart(shared: &Shared, turn: &mut Turn) {
    backup::fail(shared, "another keyspace has replaced the old one");
    let aof = &shared.durability.aof;
    if aof.phase() == Phase::Off {
        return;
    }
    // A rewrite checks `abort` and renames its base under this lock. So a base of the old keyspace
    // is either already in the manifest, or will never get its final name.
    let files = aof.files.lock();
    aof.rewrite.abort.store(true, Ordering::Release);
    let mut next = files.manifest.clone();
    let name = next.add_incremental(&shared.settings().append_file);
    *aof.starting.lock() = Some(name);
    drop(files);
    aof.set_phase(Phase::Starting);
    shared.update_holds(turn);
    let (done, _) = mpsc::channel();
    shared.durability.changelog.begin_file(turn, done);
    aof.rewrite.scheduled.store(true, Ordering::Release);
    shared.mailboxes[0].order(Order::Resume);
}

/// Ends appending. Blocks until everything is written and synced, as far as the disk allows.
/// Releases the turn's locks.
pub(crate) fn disable(shared: &Shared, turn: &mut Turn) {
    let aof = &shared.durability.aof;
    turn.lock_all();
    shared.durability.changelog.set_file(turn, None);
    aof.set_phase(Phase::Off);
    shared.update_holds(turn);
    turn.release();
    rewrite::abort(shared);
    if let Some(thread) = aof.writer.lock().take() {
        // The panic hook has printed the message of a panic.
        let _ = thread.join();
    }
    *aof.starting.lock() = None;
    shared.durability.changelog.set_failing(false);
    aof.set_failing(false);
    shared.gate.set(Reason::FailedFile, false);
}

/// Ends appending after all loops have ended.
pub(crate) fn finish(shared: &Shared) {
    let aof = &shared.durability.aof;
    let mut sink = Silent;
    let now = shared.clock.now();
    let mut turn = Turn::new(&shared.store, now, &mut sink, Classes::none());
    backup::stop(shared, &mut turn, "the server stops");
    if aof.phase() == Phase::Off {
        return rewrite::abort(shared);
    }
    log::notice!(shared.logger, "Calling fsync() on the AOF file.");
    disable(shared, &mut turn);
}

/// Blocks until the writer has written the whole log or has failed.
pub(crate) fn wait_until_written(shared: &Shared) {
    /// Interval of the checks.
    const CHECK_INTERVAL: Duration = Duration::from_millis(1);
    let aof = &shared.durability.aof;
    let end = shared.durability.changelog.file_end();
    while aof.phase() != Phase::Off
        && !aof.is_failing()
        && aof.written.load(Ordering::Acquire) < end
    {
        shared.world.sleep(CHECK_INTERVAL);
    }
}

/// Error of CONFIG SET appendonly yes.
pub(crate) const REFUSAL: &str = "Unable to turn on AOF. Check server logs.";

impl From<RewriteError> for crate::persist::load::LoadError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::Files(error) => error.into(),
            other => AofError::Begin(other.to_string()).into(),
        }
    }
}
