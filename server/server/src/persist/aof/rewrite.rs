//! Rewrites of the append-only file. A snapshot's walk writes a new base, while changes go on into
//! a new incremental file. While the append-only file is off, a rewrite writes only a base.
//!
//! The walk and the incremental file begin in one turn that holds every shard: the turn sets a mark
//! in the log at which the writer continues in the next file. So each change is either in the base
//! or in the new file, and no change is buffered. At the mark, the writer syncs the previous file
//! and adds the new, empty file to the manifest. The base is added when it is complete, synced and
//! renamed. Only then the old files are removed. So a power cut at any moment leaves a manifest
//! whose files are complete. If a rewrite fails, the old base and all incremental files remain.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use punctual_store::events::{Classes, Silent};
use punctual_store::snapshot::Snapshot;
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::durability::aof::Phase;
use crate::durability::files::{AofError, AofFiles};
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::persist::backup;
use crate::persist::encode::{Header, format};
use crate::persist::save::{self, NewFile, SaveError};
use crate::reclaim::rounds;
use crate::script::functions::registry::Libraries;
use crate::world::Moment;

/// Interval of the checks for an abort.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of consecutive failures after which automatic rewrites become less frequent.
const FAILURES_ALLOWED: u64 = 3;

/// Error of a rewrite.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RewriteError {
    /// Another walk is running, or the turn is within a transaction.
    #[error("another background operation is in progress")]
    Busy,
    #[error(transparent)]
    Base(#[from] SaveError),
    #[error(transparent)]
    Files(#[from] AofError),
    #[error("can't begin the new incremental file: {0}")]
    NewFile(String),
}

/// Begins a rewrite at this instant, on a separate thread.
///
/// # Errors
/// Another walk is running, the turn is within a transaction, the manifest cannot be read, or the
/// thread cannot be started.
pub(crate) fn begin(shared: &Arc<Shared>, turn: &mut Turn) -> Result<(), RewriteError> {
    let state = &shared.durability;
    let rewrite = &state.aof.rewrite;
    if !state.backup.allows_rewrite() || !state.begin_walk() {
        return Err(RewriteError::Busy);
    }
    turn.lock_all();
    if !turn.flush_effects() {
        state.end_walk();
        return Err(RewriteError::Busy);
    }
    let settings = shared.settings();
    let phase = state.aof.phase();
    let appends = phase != Phase::Off || state.backup.owns_writer();
    if !appends {
        // The files may have changed while the append-only file was off.
        match AofFiles::read_manifest(&shared.durability.disk, &settings) {
            Ok(files) => *state.aof.files.lock() = files,
            Err(error) => {
                state.end_walk();
                log::warning!(shared.logger, "{error}");
                return Err(error.into());
            }
        }
    }
    rewrite.scheduled.store(false, Ordering::Release);
    rewrite.abort.store(false, Ordering::Release);
    rewrite.active.store(true, Ordering::Release);
    let now = turn.now;
    for at in [&rewrite.began_ms, &rewrite.last_try_ms] {
        at.store(now.read_ms(), Ordering::Relaxed);
    }
    state.keys_written.store(0, Ordering::Relaxed);
    let (done, opened) = mpsc::channel();
    if appends {
        shared.durability.changelog.begin_file(turn, done);
    }
    let run = Run {
        shared: Arc::clone(shared),
        libraries: shared.scripting.functions.libraries(),
        snapshot: Snapshot::begin(turn, format(&settings)),
        settings,
        now,
        phase,
        appends,
        began: shared.world.stopwatch(),
    };
    // The previous thread has ended its walk, otherwise `begin_walk` would have failed.
    wait(shared);
    let thread = shared
        .world
        .spawn("punctual-rewrite", move || run.run(&opened));
    match thread {
        Ok(thread) => {
            log::notice!(
                shared.logger,
                "Background append only file rewriting started"
            );
            *rewrite.thread.lock() = Some(thread);
            Ok(())
        }
        Err(error) => {
            // The closure has dropped the snapshot, but its walks still exist in the shards.
            Snapshot::abandon_all(turn);
            let done = Err(SaveError::Thread(error).into());
            ended(shared, phase, shared.world.stopwatch(), 0, &done);
            done
        }
    }
}

/// Begins the scheduled rewrite, unless another walk or a load is running.
pub(crate) fn begin_if_scheduled(shared: &Arc<Shared>, turn: &mut Turn) {
    let state = &shared.durability;
    if state.aof.rewrite.scheduled.load(Ordering::Relaxed)
        && !state.is_saving()
        && !state.is_loading()
        && state.backup.allows_rewrite()
        && let Err(error) = begin(shared, turn)
    {
        log::warning!(shared.logger, "{error}");
    }
}

/// Schedules a rewrite if the files have grown enough since the last rewrite, or if the rewrite for
/// the first base has failed: until one succeeds, a restart does not find the changes.
pub(super) fn schedule_if_due(shared: &Shared, settings: &Settings) {
    let aof = &shared.durability.aof;
    let rewrite = &aof.rewrite;
    // A rewrite that begins is no longer scheduled after it counts as a save.
    if rewrite.scheduled.load(Ordering::Acquire)
        || shared.durability.is_saving()
        || is_limited(shared)
    {
        return;
    }
    let current = aof.current_bytes.load(Ordering::Relaxed);
    match aof.phase() {
        Phase::Off => return,
        Phase::Starting => return schedule(shared),
        Phase::On => {}
    }
    if settings.rewrite_percentage == 0 || current <= settings.rewrite_min_bytes {
        return;
    }
    let base = aof.base_bytes.load(Ordering::Relaxed).max(1);
    let growth = (u128::from(current) * 100 / u128::from(base)).saturating_sub(100);
    if growth >= u128::from(settings.rewrite_percentage) {
        log::notice!(
            shared.logger,
            "Starting automatic rewriting of AOF on {growth}% growth"
        );
        schedule(shared);
    }
}

fn schedule(shared: &Shared) {
    let rewrite = &shared.durability.aof.rewrite;
    rewrite.scheduled.store(true, Ordering::Release);
    shared.mailboxes[0].order(Order::Resume);
}

/// Returns whether automatic rewrites must wait because several have failed in a row. The wait is
/// one minute after [`FAILURES_ALLOWED`] failures and doubles with each failure, up to an hour, as
/// in Redis.
fn is_limited(shared: &Shared) -> bool {
    let rewrite = &shared.durability.aof.rewrite;
    let failures = rewrite.failures.load(Ordering::Relaxed);
    if failures < FAILURES_ALLOWED {
        return false;
    }
    let minutes = (1u64 << (failures - FAILURES_ALLOWED).min(6)).min(60);
    let last_ms = rewrite.last_try_ms.load(Ordering::Relaxed);
    shared.clock.now().read_ms() < last_ms + minutes * 60_000
}

/// Aborts the running rewrite, if any, and cancels a scheduled one. Blocks until the thread of the
/// rewrite has ended, so the caller must hold no shard.
pub(super) fn abort(shared: &Shared) {
    let rewrite = &shared.durability.aof.rewrite;
    rewrite.scheduled.store(false, Ordering::Release);
    if rewrite.active.load(Ordering::Acquire) {
        log::notice!(shared.logger, "Killing AOF child: the rewrite is aborted");
    }
    rewrite.abort.store(true, Ordering::Release);
    wait(shared);
}

fn wait(shared: &Shared) {
    if let Some(thread) = shared.durability.aof.rewrite.thread.lock().take() {
        // The panic hook has printed the message of a panic.
        let _ = thread.join();
    }
}

/// Writes the first base file when a server without an append-only file starts, before clients run
/// commands.
pub(super) fn write_first_base(shared: &Arc<Shared>, turn: &mut Turn) -> Result<(), RewriteError> {
    let settings = shared.settings();
    let mut run = Run {
        shared: Arc::clone(shared),
        libraries: shared.scripting.functions.libraries(),
        snapshot: Snapshot::begin(turn, format(&settings)),
        settings,
        now: turn.now,
        phase: Phase::Off,
        appends: false,
        began: shared.world.stopwatch(),
    };
    turn.release();
    let (_, opened) = mpsc::channel();
    run.write_base(&opened).inspect_err(|_| {
        std::mem::take(&mut run.snapshot).abandon(&shared.store);
    })
}

/// A rewrite of the append-only file, on its own thread.
struct Run {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    libraries: Arc<Libraries>,
    snapshot: Snapshot,
    now: Now,
    /// Phase of the append-only file when the rewrite began.
    phase: Phase,
    /// Whether the writer appends to a file, either for the append-only file or for a backup.
    appends: bool,
    began: Moment,
}

impl Run {
    fn run(mut self, opened: &Receiver<Result<(), String>>) {
        let done = self.write_base(opened);
        let Self {
            shared,
            snapshot,
            phase,
            began,
            ..
        } = self;
        let early_bytes = snapshot.early_bytes();
        if done.is_err() {
            snapshot.abandon(&shared.store);
        } else {
            drop(snapshot);
        }
        ended(&shared, phase, began, early_bytes, &done);
        rounds::report_freed(&shared, 0);
        // Another walk may be scheduled or due.
        shared.mailboxes[0].order(Order::Resume);
    }

    /// Writes the base, and adds it to the manifest.
    fn write_base(&mut self, opened: &Receiver<Result<(), String>>) -> Result<(), RewriteError> {
        let shared = &self.shared;
        let (disk, aof) = (&shared.durability.disk, &shared.durability.aof);
        let (base, path) = {
            let files = aof.files.lock();
            files.create_folder(disk)?;
            files.next_base(&self.settings)
        };
        let temporary = format!("temp-rewriteaof-bg-{}.aof", std::process::id());
        let file = NewFile::create(disk, path, &temporary)?;
        let mut header = Header::new(self.now, &self.libraries);
        header.aof_base = true;
        let file = save::write_snapshot(
            file,
            shared,
            &self.settings,
            &header,
            &mut self.snapshot,
            &aof.rewrite.abort,
            |snapshot, out| snapshot.next(&shared.store, out),
        )?;
        if self.appends {
            self.wait_for_file(opened)?;
        }
        let mut files = aof.files.lock();
        // A full synchronization may have replaced the keyspace of this base.
        if aof.rewrite.abort.load(Ordering::Acquire) {
            return Err(SaveError::Aborted.into());
        }
        file.rename()?;
        log::notice!(
            shared.logger,
            "Successfully renamed the temporary AOF base file {temporary} into {}",
            base.name
        );
        let starting = aof.starting.lock().take();
        let committed = files.commit_base(
            disk,
            &self.settings,
            base,
            starting.as_deref(),
            self.appends,
        );
        if let Err(error) = committed {
            *aof.starting.lock() = starting;
            return Err(error.into());
        }
        backup::base_written(shared, &files);
        files.remove_history(disk, &shared.logger);
        let bytes = files.bytes(&shared.durability.disk);
        aof.current_bytes.store(bytes, Ordering::Relaxed);
        aof.base_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Blocks until the writer has begun the new incremental file.
    fn wait_for_file(&self, opened: &Receiver<Result<(), String>>) -> Result<(), RewriteError> {
        loop {
            match opened.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => return result.map_err(RewriteError::NewFile),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RewriteError::NewFile("the file is closed".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let abort = &self.shared.durability.aof.rewrite.abort;
                    if abort.load(Ordering::Acquire) {
                        return Err(SaveError::Aborted.into());
                    }
                }
            }
        }
    }
}

/// Records the result of a rewrite.
fn ended(
    shared: &Shared,
    phase: Phase,
    began: Moment,
    early_bytes: usize,
    done: &Result<(), RewriteError>,
) {
    let state = &shared.durability;
    let rewrite = &state.aof.rewrite;
    let seconds = shared.world.since(began).as_secs() as i64;
    rewrite.last_seconds.store(seconds, Ordering::Relaxed);
    rewrite
        .early_bytes
        .store(early_bytes as u64, Ordering::Relaxed);
    match done {
        Ok(()) => {
            rewrite.count.fetch_add(1, Ordering::Relaxed);
            rewrite.failures.store(0, Ordering::Relaxed);
            rewrite.failed.store(false, Ordering::Relaxed);
            if phase == Phase::Starting {
                state.aof.set_phase(Phase::On);
                let mut sink = Silent;
                let now = shared.clock.now();
                shared.update_holds(&mut Turn::new(
                    &shared.store,
                    now,
                    &mut sink,
                    Classes::none(),
                ));
            }
            log::notice!(
                shared.logger,
                "Background AOF rewrite finished successfully: {:.3} seconds, {early_bytes} bytes of records copied before \
                 concurrent writes",
                shared.world.since(began).as_secs_f64()
            );
        }
        Err(error) => {
            let aborted = matches!(error, RewriteError::Base(SaveError::Aborted));
            if !aborted {
                rewrite.failed.store(true, Ordering::Relaxed);
                rewrite.failures.fetch_add(1, Ordering::Relaxed);
            }
            log::warning!(
                shared.logger,
                "Background AOF rewrite terminated by an error: {error}"
            );
        }
    }
    backup::rewrite_ended(shared, done);
    rewrite.active.store(false, Ordering::Release);
    state.end_walk();
    if state.aof.phase() == Phase::Starting {
        schedule_if_due(shared, &shared.settings());
    }
    // The writer may have postponed a sync until the end of the rewrite.
    shared.durability.changelog.wake_file();
}
