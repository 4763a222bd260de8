//! Online backups: BACKUP, as in Redis 8.10.
//!
//! A backup is a base, an incremental file and a manifest in a folder of its own, which a server
//! loads like the folder `appenddirname`. It begins with a rewrite of the append-only file, and the
//! rewrite's base and the incremental file after it are the backup's. While changes go on into that
//! file, no other rewrite begins. SEAL makes the writer continue in a new file, as a rewrite does:
//! so the old one is synced and never changes again. The backup gets hard links of both, which
//! survive later rewrites. Its manifest is written last, so a power cut leaves no manifest that
//! names files which are not on the device.
//!
//! With `appendonly no`, writer and rewrite write into the backup's folder, and the folder
//! `appenddirname` stays as it is. Replies do not wait for this file, and a failed write only fails
//! the backup.
//!
//! Commands and loop 0 take their steps one after the other, under the lock `Aof::switching`. The
//! threads of the rewrite and of the writer only report: the base is complete, or the backup fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use parking_lot::MutexGuard;
use punctual_store::Turn;

use crate::durability::aof::Phase;
use crate::durability::backup::{Progress, State};
use crate::durability::files::AofFiles;
use crate::durability::manifest::Manifest;
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::persist::aof::rewrite::{self, RewriteError};
use crate::persist::aof::switch;

/// Interval of the checks whether the disk fails while SEAL waits for the writer.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Result of a step; the error is a text for the client, without `ERR`.
type Done = Result<(), String>;

/// Locks the steps of backups. Releases the turn's locks first, except in a transaction, which must
/// not wait for this lock.
fn steps<'s>(shared: &'s Shared, turn: &mut Turn) -> Result<MutexGuard<'s, ()>, String> {
    let switching = &shared.durability.aof.switching;
    if turn.source().is_nested() {
        let busy = || "The server begins or ends a file, try again".to_owned();
        return switching.try_lock().ok_or_else(busy);
    }
    turn.release();
    Ok(switching.lock())
}

/// BACKUP START. Within a transaction, the backup begins after the transaction.
pub(crate) fn start(shared: &Arc<Shared>, turn: &mut Turn) -> Done {
    let _steps = steps(shared, turn)?;
    let state = &shared.durability;
    let settings = shared.settings();
    let folder = settings.dir.join(&settings.backup_dir);
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let files = AofFiles {
        path: folder.join(format!("{}.manifest", settings.append_file)),
        folder,
        ..AofFiles::default()
    };
    let mut progress = state.backup.progress.lock();
    match progress.state {
        State::Sealed => return Err("A sealed backup exists, CLEANUP it first".to_owned()),
        State::Idle | State::Failed if !progress.owns_writer => {}
        _ => return Err("A backup is already in progress, ABORT it first".to_owned()),
    }
    let shown = files.folder.display().to_string();
    match state.disk.is_empty_folder(&files.folder) {
        Ok(true) => {}
        Ok(false) => return Err(format!("Backup directory '{shown}' is not empty")),
        Err(error) => return Err(format!("Can't read backup directory '{shown}': {error}")),
    }
    files
        .create_folder(&state.disk)
        .map_err(|error| error.to_string())?;
    *progress = Progress {
        state: State::Pending,
        began_s: turn.now.read_ms() / 1000,
        files,
        ..Progress::default()
    };
    drop(progress);
    log::notice!(shared.logger, "Backup into {shown} started");
    state.backup.set_waits(true);
    step_or_resume(shared, turn);
    Ok(())
}

/// Takes the next step now, or after the transaction.
fn step_or_resume(shared: &Arc<Shared>, turn: &mut Turn) {
    if turn.source().is_nested() {
        shared.mailboxes[0].order(Order::Resume);
    } else {
        step(shared, turn);
    }
}

/// Does what the backup waits for: begins it, ends its writer after a failure, or removes a sealed
/// backup after `backup-sealed-ttl`. Loop 0 calls this in each turn, outside of transactions.
pub(crate) fn advance(shared: &Arc<Shared>, turn: &mut Turn) {
    let state = &shared.durability;
    if !state.backup.waits() || state.is_loading() {
        return;
    }
    let Some(_steps) = state.aof.switching.try_lock() else {
        return;
    };
    if removal_ms(shared).is_some_and(|at| turn.now.read_ms() >= at) {
        turn.release();
        log::notice!(
            shared.logger,
            "The sealed backup is removed: its time is over"
        );
        return clear(shared);
    }
    step(shared, turn);
}

/// Begins a pending backup, or ends the writer of a failed one.
fn step(shared: &Arc<Shared>, turn: &mut Turn) {
    let backup = &shared.durability.backup;
    match backup.state() {
        State::Pending => begin(shared, turn),
        State::Failed if backup.owns_writer() => end_writer(shared, turn),
        _ => {}
    }
}

/// Returns the time, in Unix milliseconds, at which a sealed backup is removed.
pub(crate) fn removal_ms(shared: &Shared) -> Option<u64> {
    let backup = &shared.durability.backup;
    if !backup.waits() {
        return None;
    }
    let ttl_s = shared.settings().backup_sealed_ttl_s;
    let progress = backup.progress.lock();
    let sealed = progress.state == State::Sealed && ttl_s > 0;
    sealed.then(|| (progress.sealed_s + ttl_s).saturating_mul(1000))
}

/// Changes the state from `from` to `to`. Returns false if the backup has failed meanwhile.
fn change(shared: &Shared, from: State, to: State) -> bool {
    let backup = &shared.durability.backup;
    let mut progress = backup.progress.lock();
    let holds = progress.state == from;
    if holds {
        progress.state = to;
        backup.set_waits(to == State::Pending);
    }
    holds
}

/// Begins the rewrite that writes the base, or uses the running one. The state stays `Pending` if
/// another walk is running.
fn begin(shared: &Arc<Shared>, turn: &mut Turn) {
    let aof = &shared.durability.aof;
    let appends = aof.phase() != Phase::Off;
    let rewrite = &aof.rewrite;
    if appends && rewrite.active.load(Ordering::Acquire) && !rewrite.abort.load(Ordering::Acquire) {
        change(shared, State::Pending, State::Snapshotting);
        return;
    }
    if shared.durability.is_saving() {
        return;
    }
    let begun = match appends || shared.durability.backup.owns_writer() {
        true => Ok(()),
        false => begin_writer(shared, turn),
    };
    // The state changes first, because the rewrite may end before this turn goes on.
    if !change(shared, State::Pending, State::Snapshotting) {
        // The writer that may have begun ends in the next step.
        let backup = &shared.durability.backup;
        return backup.set_waits(backup.owns_writer());
    }
    match begun.and_then(|()| rewrite::begin(shared, turn)) {
        Ok(()) => {}
        Err(RewriteError::Busy) => {
            change(shared, State::Snapshotting, State::Pending);
        }
        Err(error) => fail(shared, &error.to_string()),
    }
}

/// Attaches the writer of the append-only file, which is off, to a file in the backup's folder.
fn begin_writer(shared: &Arc<Shared>, turn: &mut Turn) -> Result<(), RewriteError> {
    let (disk, settings) = (&shared.durability.disk, shared.settings());
    let (aof, backup) = (&shared.durability.aof, &shared.durability.backup);
    let files = backup.progress.lock().files.clone();
    let name = Manifest::default().add_incremental(&settings.append_file);
    {
        let mut progress = backup.progress.lock();
        progress.owns_writer = true;
        progress.created = vec![files.folder.join(&name), files.path.clone()];
    }
    let file = files.create_file(disk, &name)?;
    *aof.files.lock() = files;
    *aof.starting.lock() = Some(name);
    turn.lock_all();
    switch::attach(shared, turn, file, Phase::Off)
}

/// Ends the writer of a backup without an append-only file, and removes the files if the backup has
/// failed. Blocks until everything is written and synced. Releases the turn's locks.
fn end_writer(shared: &Shared, turn: &mut Turn) {
    let scheduled = &shared.durability.aof.rewrite.scheduled;
    let was_scheduled = scheduled.load(Ordering::Acquire);
    switch::disable(shared, turn);
    scheduled.store(was_scheduled, Ordering::Release);
    let mut progress = shared.durability.backup.progress.lock();
    progress.owns_writer = false;
    if progress.state == State::Failed {
        shared.durability.backup.set_waits(false);
        remove_files(shared, &mut progress);
    }
}

/// Adds the base of a rewrite to the backup that waits for it. The caller has put the base into the
/// manifest and still holds the lock of the files.
pub(super) fn base_written(shared: &Shared, files: &AofFiles) {
    let mut progress = shared.durability.backup.progress.lock();
    let Some(base) = &files.manifest.base else {
        return;
    };
    let pinned = progress.files.folder.join(&base.name);
    let wanted = progress.state == State::Snapshotting;
    if wanted || progress.owns_writer {
        // A backup that has failed meanwhile removes the file too.
        progress.created.push(pinned.clone());
    }
    if !wanted {
        return;
    }
    if !progress.owns_writer {
        let linked = link(shared, &files.folder.join(&base.name), &pinned);
        if let Err(error) = linked {
            drop(progress);
            return fail(shared, &error);
        }
    }
    progress.listed.push(pinned);
    progress.files.manifest.base = Some(base.clone());
    progress.state = State::Incrementing;
    log::notice!(shared.logger, "The base of the backup is complete");
}

fn link(shared: &Shared, from: &Path, to: &Path) -> Done {
    let disk = &shared.durability.disk;
    let parent = to.parent().unwrap_or(Path::new("."));
    let linked = disk.link(from, to).and_then(|()| disk.sync_folder(parent));
    linked.map_err(|error| format!("can't link {} to {}: {error}", from.display(), to.display()))
}

/// Notes the end of a rewrite. One that a backup has joined too late to get its base makes the
/// backup wait for the next rewrite.
pub(super) fn rewrite_ended(shared: &Shared, done: &Result<(), RewriteError>) {
    match done {
        Ok(()) => {
            change(shared, State::Snapshotting, State::Pending);
        }
        Err(error) if shared.durability.backup.state() == State::Snapshotting => {
            fail(shared, &error.to_string());
        }
        Err(_) => {}
    }
}

/// Makes a running backup fail. Any thread may call this.
pub(crate) fn fail(shared: &Shared, reason: &str) {
    let backup = &shared.durability.backup;
    let mut progress = backup.progress.lock();
    if !progress.state.is_running() {
        return;
    }
    log::warning!(shared.logger, "The backup has failed: {reason}");
    progress.state = State::Failed;
    progress.error = reason.to_owned();
    backup.set_waits(progress.owns_writer);
    if !progress.owns_writer {
        return remove_files(shared, &mut progress);
    }
    // Loop 0 ends the writer and removes the files.
    drop(progress);
    shared.mailboxes[0].order(Order::Resume);
}

/// BACKUP SEAL. Blocks until the incremental file is synced. Releases the turn's locks.
pub(crate) fn seal(shared: &Shared, turn: &mut Turn) -> Done {
    if turn.source().is_nested() {
        return Err("BACKUP SEAL can't be used in a transaction".to_owned());
    }
    let _steps = steps(shared, turn)?;
    let backup = &shared.durability.backup;
    let (state, owns_writer) = {
        let progress = backup.progress.lock();
        (progress.state, progress.owns_writer)
    };
    if state != State::Incrementing {
        return Err("No backup ready to seal (must be in the incrementing state)".to_owned());
    }
    if owns_writer {
        end_writer(shared, turn);
    } else if let Err(error) = pin_incremental(shared, turn) {
        fail(shared, &error);
    }
    let mut progress = backup.progress.lock();
    if progress.state != State::Incrementing {
        return Err(format!("The backup has failed: {}", progress.error));
    }
    if owns_writer {
        progress.listed = progress.created.clone();
        progress.listed.rotate_right(1);
    }
    progress.state = State::Sealed;
    progress.sealed_s = turn.now.read_ms() / 1000;
    backup.set_waits(true);
    drop(progress);
    log::notice!(shared.logger, "The backup is sealed");
    // A rewrite may have waited for this.
    shared.mailboxes[0].order(Order::Resume);
    Ok(())
}

/// Makes the writer continue in the next incremental file, links the previous one, and writes the
/// backup's manifest.
fn pin_incremental(shared: &Shared, turn: &mut Turn) -> Done {
    let (disk, aof) = (&shared.durability.disk, &shared.durability.aof);
    let (done, opened) = mpsc::channel();
    turn.lock_all();
    shared.durability.changelog.begin_file(turn, done);
    turn.release();
    loop {
        match opened.recv_timeout(CHECK_INTERVAL) {
            Ok(result) => break result?,
            Err(RecvTimeoutError::Disconnected) => return Err("the file is closed".to_owned()),
            Err(RecvTimeoutError::Timeout) if aof.is_failing() => return Err(aof.error()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let live = aof.files.lock().clone();
    let mut incremental = live.manifest.incremental;
    incremental.pop();
    let mut progress = shared.durability.backup.progress.lock();
    let mut files = progress.files.clone();
    for entry in &incremental {
        let pinned = files.folder.join(&entry.name);
        progress.created.push(pinned.clone());
        link(shared, &live.folder.join(&entry.name), &pinned)?;
    }
    let path = files.path.clone();
    progress.created.push(path);
    let base = files.manifest.base.take();
    let manifest = Manifest {
        base,
        incremental,
        ..Manifest::default()
    };
    let written = files.replace(disk, manifest);
    written.map_err(|error| error.to_string())?;
    progress.listed = progress.created.clone();
    Ok(())
}

/// BACKUP ABORT.
pub(crate) fn abort(shared: &Arc<Shared>, turn: &mut Turn) -> Done {
    let _steps = steps(shared, turn)?;
    if !shared.durability.backup.state().is_running() {
        return Err("No backup in progress".to_owned());
    }
    fail(shared, "aborted by user");
    step_or_resume(shared, turn);
    Ok(())
}

/// BACKUP CLEANUP.
pub(crate) fn cleanup(shared: &Shared, turn: &mut Turn) -> Done {
    let _steps = steps(shared, turn)?;
    let progress = shared.durability.backup.progress.lock();
    if progress.state.is_running() || progress.owns_writer {
        return Err("Backup is in progress".to_owned());
    }
    drop(progress);
    clear(shared);
    Ok(())
}

fn clear(shared: &Shared) {
    let backup = &shared.durability.backup;
    let mut progress = backup.progress.lock();
    remove_files(shared, &mut progress);
    *progress = Progress::default();
    backup.set_waits(false);
}

/// Removes the backup's files. A file that stays behind makes the next START refuse the folder.
fn remove_files(shared: &Shared, progress: &mut Progress) {
    let disk = &shared.durability.disk;
    progress.listed.clear();
    let mut created = std::mem::take(&mut progress.created);
    // The manifest goes first: without it, no server looks for the other files.
    created.sort_by_key(|path| *path != progress.files.path);
    for path in created {
        if disk.exists(&path)
            && let Err(error) = disk.remove(&path)
        {
            log::warning!(shared.logger, "Can't remove {}: {error}", path.display());
        }
    }
}

/// Ends a running backup whose writer must end now: CONFIG SET appendonly yes needs the writer, or
/// the server stops. The caller holds `Aof::switching`, or is the last thread.
pub(crate) fn stop(shared: &Shared, turn: &mut Turn, reason: &str) {
    fail(shared, reason);
    if shared.durability.backup.owns_writer() {
        end_writer(shared, turn);
    }
}
