//! Writing the append-only file.
//!
//! The writer takes the bytes that loops have appended to the log, writes them, and syncs as
//! `appendfsync` says. Bytes that arrive during a write are the next write. The writer *releases* a
//! position in the log when everything before the position is written (with `always`: synced).
//! Replies wait for the release ([`crate::changelog`]). One lock guards the [`Writer`]. Usual syncs
//! run with this lock released, so they overlap ([`super::syncers`]); a sync after a failure or at
//! the end of a file holds it. A thread that holds this lock holds no shard's lock.
//!
//! After a failed write, the file is cut back to its last complete write. After a failed sync, it
//! is cut back to the length of the last successful sync, and the bytes after that are written
//! again. Later successful syncs prove nothing about lost bytes, so the success of a sync that
//! began before a failure is ignored. Until an attempt succeeds, commands that write are refused.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::Thread;
use std::time::Duration;

use punctual_store::planted::Bug;

use crate::changelog::{FileMark, UNSYNCED_MAX};
use crate::config::{AppendSync, Settings};
use crate::durability::files::OpenFile;
use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::persist::aof::failure::{Failure, failed_sync, failure, reason};
use crate::persist::backup;
use crate::world::Moment;

/// Check interval of a due sync that `no-appendfsync-on-rewrite` postpones.
const PAUSE_CHECK: Duration = Duration::from_millis(2);
/// Maximum time between syncs with `everysec`; [`UNSYNCED_MAX`] unsynced bytes begin one earlier.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Delay between a failure and the next attempt.
const RETRY: Duration = Duration::from_secs(1);
/// Minimum time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum capacity in bytes of a buffer that is kept for a later write. Its memory is already
/// mapped, so the later write causes no page faults.
const BUFFER_KEPT: usize = 4 << 20;
/// Maximum total capacity in bytes of all buffers that are kept for reuse.
const BUFFERS_KEPT: usize = 32 << 20;

enum Step {
    /// Bytes to write, and the position in the log after them.
    Write(Vec<u8>, u64),
    /// Continue in the next incremental file, and send the result to the rewrite.
    NextFile(Sender<Result<(), String>>),
    /// Sync the file and end: the file is detached from the log.
    Close,
}

/// Action that the caller of [`Writer::write_queued`] must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No action: the file stays open.
    Open,
    /// Sync the written bytes, with the lock released.
    Sync,
    /// Have a helper sync the written bytes, so that this thread can continue to write.
    SyncByHelper,
    /// End the thread: the file is detached from the log.
    Closed,
}

/// State of the sync that a helper runs beside the writes, with `everysec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HelperSync {
    /// No sync is requested.
    #[default]
    None,
    /// The first thread has requested a sync.
    Wanted,
    /// A thread runs the sync.
    Running,
}

/// Bytes that are written and kept until they are synced.
struct Written {
    bytes: Vec<u8>,
    /// Position in the log after these bytes.
    end: u64,
    /// Length of the file after these bytes.
    file_bytes: u64,
}

/// State of the file at the start of a sync, which becomes durable if the sync succeeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    /// Position in the log after the last written byte.
    position: u64,
    file_bytes: u64,
    /// See [`Writer::epoch`].
    epoch: u64,
}

/// State that the writing threads share.
pub(super) struct Writer {
    shared: Arc<Shared>,
    pub(super) file: OpenFile,
    /// Number that changes with the file and with each failure.
    pub(super) epoch: u64,
    /// The first epoch of the present file.
    file_epoch: u64,
    /// Whether the file is detached, so that the threads end.
    pub(super) closed: bool,
    pub(super) helper_sync: HelperSync,
    /// The thread `punctual-aof`; the others are helpers.
    pub(super) first: Option<Thread>,
    /// Length of the file at its last successful sync. The whole length while no durability is
    /// promised: with `appendfsync no`, and while a save or rewrite postpones syncs.
    good_bytes: u64,
    /// Writes after `good_bytes`.
    kept: VecDeque<Written>,
    queue: VecDeque<Step>,
    /// Position in the log after the last written byte.
    written: u64,
    /// Position in the log up to which the file is synced.
    synced: u64,
    /// Position in the log that the running syncs cover.
    begun: u64,
    /// Position in the log up to which replies may be sent: written, with `always` synced.
    released: u64,
    last_sync: Moment,
    /// Time of the next attempt after a failure.
    pub(super) retry_at: Option<Moment>,
    /// Whether a sync has failed, so that the bytes after `good_bytes` must be written again.
    loses_writes: bool,
    logged_at: Option<Moment>,
    /// Empty buffers for reuse, and their total capacity.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// Second of the last `#TS:` line.
    last_timestamp: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, file: OpenFile, position: u64) -> Self {
        let began = shared.world.stopwatch();
        let log = &shared.durability.changelog;
        let (synced, released) = (log.synced(), log.released());
        Self {
            shared,
            good_bytes: file.bytes,
            file,
            epoch: 0,
            file_epoch: 0,
            closed: false,
            helper_sync: HelperSync::None,
            first: None,
            kept: VecDeque::new(),
            queue: VecDeque::new(),
            written: position,
            synced,
            begun: synced,
            released,
            last_sync: began,
            retry_at: None,
            loses_writes: false,
            logged_at: None,
            spare: Vec::new(),
            spare_bytes: 0,
            last_timestamp: 0,
        }
    }

    /// Returns the time at which the thread must act even if no changes arrive.
    pub(super) fn next_due(&self, settings: &Settings) -> Option<Moment> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        // The thread that ends the running sync wakes this thread.
        let unsynced = self.written > self.synced
            && settings.append_sync != AppendSync::No
            && self.helper_sync == HelperSync::None;
        unsynced.then(|| {
            (self.last_sync + SYNC_INTERVAL).max(self.shared.world.stopwatch() + PAUSE_CHECK)
        })
    }

    /// Takes the changes from the log. Returns false if the log is empty; the log then wakes this
    /// thread at the next change.
    pub(super) fn take_changes(&mut self) -> bool {
        let spare = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= spare.capacity();
        let pending = self.shared.durability.changelog.take_file(spare);
        let (bytes, end) = (pending.bytes, pending.end);
        if pending.marks.is_empty() {
            let found = !bytes.is_empty();
            if found {
                self.queue.push_back(Step::Write(bytes, end));
            } else {
                self.recycle(bytes);
            }
            return found;
        }
        // The copies below have the same total length, so only the unused capacity is freed.
        self.shared
            .durability
            .changelog
            .file_buffer_freed(bytes.capacity() - bytes.len());
        let mut start = 0;
        let mut write = |queue: &mut VecDeque<Step>, to: usize| {
            if to > start {
                let position = end - (bytes.len() - to) as u64;
                let part = bytes[start..to].to_vec();
                queue.push_back(Step::Write(part, position));
                start = to;
            }
        };
        for (at, mark) in pending.marks {
            write(&mut self.queue, at);
            self.queue.push_back(match mark {
                FileMark::NextFile(done) => Step::NextFile(done),
                FileMark::Close => Step::Close,
            });
        }
        write(&mut self.queue, bytes.len());
        true
    }

    /// Runs the queued steps until one fails.
    pub(super) fn write_queued(&mut self, settings: &Settings) -> Outcome {
        let closes = matches!(self.queue.back(), Some(Step::Close));
        if closes {
            // No attempt follows a close, so a failure is logged even within `LOG_INTERVAL`.
            self.logged_at = None;
        }
        if self
            .retry_at
            .is_some_and(|at| self.shared.world.stopwatch() < at)
            && !closes
        {
            return Outcome::Open;
        }
        let done = self.rewind().and_then(|()| self.steps(settings));
        let queued = self.queue.iter().map(|step| match step {
            Step::Write(bytes, _) => bytes.len() as u64,
            _ => 0,
        });
        let aof = &self.shared.durability.aof;
        aof.queued_bytes.store(queued.sum(), Ordering::Relaxed);
        match done {
            Ok(outcome) => {
                aof.written.store(self.written, Ordering::Release);
                self.recovered();
                self.closed = outcome == Outcome::Closed;
                self.set_kept_from();
                outcome
            }
            Err(failure) => {
                self.failed(&failure);
                self.closed = closes;
                if closes {
                    Outcome::Closed
                } else {
                    Outcome::Open
                }
            }
        }
    }

    /// Returns the state of the file that a sync from now on makes durable.
    pub(super) fn covered(&self) -> Covered {
        Covered {
            position: self.written,
            file_bytes: self.file.bytes,
            epoch: self.epoch,
        }
    }

    /// Processes the result of a sync that ran with the lock released.
    pub(super) fn sync_ended(&mut self, covered: Covered, synced: io::Result<()>) {
        match synced.map_err(failed_sync) {
            Ok(()) if covered.epoch == self.epoch => self.synced_to(covered),
            Err(_) if covered.epoch != self.epoch && Bug::FailedSyncIgnored.is_active() => {}
            Err(failure) if covered.epoch >= self.file_epoch => self.failed(&failure),
            // The sync was for another file, or another operation has failed since it began.
            _ => {}
        }
    }

    fn synced_to(&mut self, covered: Covered) {
        self.good_bytes = self.good_bytes.max(covered.file_bytes);
        self.synced = self.synced.max(covered.position);
        self.last_sync = self.shared.world.stopwatch();
        self.drop_kept();
        let shared = &self.shared;
        shared.durability.changelog.set_synced(self.synced);
        if shared.replication.replicas.acks.any() {
            shared.mailboxes[0].order(Order::Released);
        }
        self.release(self.synced);
    }

    /// Drops the kept writes that are durable.
    fn drop_kept(&mut self) {
        while let Some(first) = self
            .kept
            .pop_front_if(|first| first.file_bytes <= self.good_bytes)
        {
            self.recycle(first.bytes);
        }
        self.set_kept_from();
    }

    /// Reports to the log the position before which the writer keeps no bytes.
    fn set_kept_from(&self) {
        let kept = self.kept.front();
        // A `#TS:` line has bytes but no positions in the log, so the difference may be too low.
        let begin = |first: &Written| first.end.saturating_sub(first.bytes.len() as u64);
        let from = kept.map_or(self.written, begin);
        self.shared.durability.changelog.set_kept_from(from);
    }

    /// After a failure, cuts the file back to its valid part, and queues lost writes again.
    fn rewind(&mut self) -> Result<(), Failure> {
        if self.retry_at.is_none() {
            return Ok(());
        }
        let whole = match self.loses_writes {
            true if Bug::RewindKeepsLost.is_active() => self.file.bytes,
            true => self.good_bytes,
            false => self.file.bytes,
        };
        let cut = self.file.output.truncate(whole);
        cut.map_err(failure(
            "Could not remove short write from the append-only file",
        ))?;
        if !std::mem::take(&mut self.loses_writes) {
            return Ok(());
        }
        let aof = &self.shared.durability.aof;
        let cut = self.file.bytes - whole;
        // A rewrite may have measured the files meanwhile, so the sum may be smaller.
        let _ = aof
            .current_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bytes| {
                Some(bytes.saturating_sub(cut))
            });
        self.file.bytes = whole;
        while let Some(last) = self.kept.pop_back() {
            self.queue.push_front(Step::Write(last.bytes, last.end));
        }
        Ok(())
    }

    fn steps(&mut self, settings: &Settings) -> Result<Outcome, Failure> {
        let policy = settings.append_sync;
        while let Some(step) = self.queue.pop_front() {
            match step {
                Step::Write(bytes, end) => {
                    if settings.aof_timestamps
                        && let Some(note) = self.timestamp()
                    {
                        // If these bytes must be written again, they follow the `#TS:` line again.
                        self.queue.push_front(Step::Write(bytes, end));
                        self.queue.push_front(Step::Write(note, self.written));
                        continue;
                    }
                    if let Err(failure) = self.write(&bytes) {
                        self.queue.push_front(Step::Write(bytes, end));
                        return Err(failure);
                    }
                    self.written = end;
                    if policy != AppendSync::Always {
                        self.release(end);
                    }
                    self.kept.push_back(Written {
                        bytes,
                        end,
                        file_bytes: self.file.bytes,
                    });
                    if policy == AppendSync::No {
                        self.good_bytes = self.file.bytes;
                        self.drop_kept();
                    }
                }
                Step::NextFile(done) => match self.sync() {
                    Ok(()) => self.next_file(settings, &done),
                    Err(failure) if policy == AppendSync::No => {
                        // `appendfsync no` promises no sync, so the writer continues in this file.
                        // The rewrite fails. It may have ended, so sending may fail.
                        let _ = done.send(Err(failure.error.to_string()));
                    }
                    Err(failure) => {
                        self.queue.push_front(Step::NextFile(done));
                        return Err(failure);
                    }
                },
                Step::Close => {
                    self.sync()?;
                    return Ok(Outcome::Closed);
                }
            }
        }
        let state = &self.shared.durability;
        let paused = settings.no_sync_on_rewrite
            && (state.is_saving() || state.aof.rewrite.active.load(Ordering::Acquire));
        let due = match policy {
            AppendSync::Always => true,
            AppendSync::EverySecond => {
                let kept = self.file.bytes - self.good_bytes;
                kept >= UNSYNCED_MAX || self.shared.world.since(self.last_sync) >= SYNC_INTERVAL
            }
            AppendSync::No => false,
        };
        if policy != AppendSync::Always {
            // `appendfsync` may have changed from `always`.
            self.release(self.written);
        }
        let again = self.retry_at.is_some() && policy != AppendSync::No;
        if self.written > self.synced && (due && !paused || again) {
            if again {
                self.sync()?;
            } else if policy != AppendSync::Always {
                if self.helper_sync == HelperSync::None {
                    self.helper_sync = HelperSync::Wanted;
                    return Ok(Outcome::SyncByHelper);
                }
            } else if self.written > self.begun {
                self.begun = self.written;
                return Ok(Outcome::Sync);
            }
        } else if paused {
            // As with `appendfsync no`, no durability is promised, so no bytes are kept.
            self.good_bytes = self.file.bytes;
            self.drop_kept();
            self.release(self.written);
        }
        Ok(Outcome::Open)
    }

    /// Returns a `#TS:` line, once a second.
    fn timestamp(&mut self) -> Option<Vec<u8>> {
        let second = self.shared.clock.now().read_ms() / 1000;
        let changed = std::mem::replace(&mut self.last_timestamp, second) != second;
        changed.then(|| format!("#TS:{second}\r\n").into_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sleep_us = &self.shared.switches.aof_flush_sleep_us;
        self.shared
            .world
            .sleep(Duration::from_micros(sleep_us.load(Ordering::Relaxed)));
        let mut rest = bytes;
        while !rest.is_empty() {
            let error = match self.file.output.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    rest = &rest[count..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(failure("Error writing to the AOF file")(error));
        }
        self.file.bytes += bytes.len() as u64;
        let aof = &self.shared.durability.aof;
        aof.current_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let synced = self.file.output.sync();
        synced.map_err(failed_sync)?;
        self.synced_to(self.covered());
        Ok(())
    }

    /// Releases a position: loops may send the replies that wait for it.
    fn release(&mut self, position: u64) {
        if position <= self.released {
            return;
        }
        self.released = position;
        self.shared.durability.changelog.set_released(position);
        for mailbox in &self.shared.mailboxes {
            mailbox.release(position, || Order::Released);
        }
    }

    /// Continues in the next incremental file.
    fn next_file(&mut self, settings: &Settings, done: &Sender<Result<(), String>>) {
        let aof = &self.shared.durability.aof;
        let disk = &self.shared.durability.disk;
        // `switch::restart` sets both under the lock of the files: with the old name and the new
        // manifest, this file would get two entries.
        let early = Bug::EntryWithoutFile.is_active();
        let early = early.then(|| aof.starting.lock().clone());
        let mut files = aof.files.lock();
        let starting = early.unwrap_or_else(|| aof.starting.lock().clone());
        let next = match starting {
            // The append-only file starts with this rewrite, whose base has all data so far.
            Some(name) => files.create_file(disk, &name),
            None => files.add_incremental(disk, settings),
        };
        drop(files);
        let result = match next {
            Ok(file) => {
                log::notice!(
                    self.shared.logger,
                    "Creating AOF incr file {} on background rewrite",
                    file.path.display()
                );
                self.good_bytes = file.bytes;
                self.loses_writes = false;
                self.file = file;
                self.epoch += 1;
                self.file_epoch = self.epoch;
                self.kept.clear();
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        let _ = done.send(result);
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        let capacity = bytes.capacity();
        if capacity <= BUFFER_KEPT && self.spare_bytes + capacity <= BUFFERS_KEPT {
            bytes.clear();
            self.spare.push(bytes);
            self.spare_bytes += capacity;
        } else {
            self.shared.durability.changelog.file_buffer_freed(capacity);
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let (shared, now) = (&self.shared, self.shared.world.stopwatch());
        let aof = &shared.durability.aof;
        if self.logged_at.is_none_or(|at| now - at >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            let path = self.file.path.display();
            log::warning!(shared.logger, "{} {path}: {}", failure.what, failure.error);
        }
        self.retry_at = Some(now + RETRY);
        self.loses_writes |= failure.loses_writes;
        self.epoch += 1;
        self.begun = self.synced;
        if let Some(first) = &self.first {
            first.unpark();
        }
        if shared.durability.backup.owns_writer() {
            return backup::fail(shared, &reason(&failure.error));
        }
        *aof.error.lock() = reason(&failure.error);
        if !aof.is_failing() {
            aof.set_failing(true);
            shared.gate.set(Reason::FailedFile, true);
        }
        // The gate is closed first, so that no write passes between the two steps.
        shared.durability.changelog.set_failing(true);
        shared.order_all(|| Order::SyncFailed);
    }

    fn recovered(&mut self) {
        if self.retry_at.take().is_some() {
            self.logged_at = None;
            let shared = &self.shared;
            log::warning!(
                shared.logger,
                "AOF write error looks solved, Redis can write again."
            );
            shared.durability.changelog.set_failing(false);
            shared.durability.aof.set_failing(false);
            shared.gate.set(Reason::FailedFile, false);
        }
    }
}
