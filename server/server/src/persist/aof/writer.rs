//! Writing the append-only file.
//!
//! The thread `punctual-aof` takes the bytes that the loops have appended to the log, writes them at once, and syncs by `appendfsync`.
//! The bytes that arrive during a write are the next write. No loop waits for the thread, but replies do ([`crate::changelog`]): it *releases*
//! positions of the log when they are written, with `always` when they are synced. With `always` other threads help it
//! ([`crate::persist::aof::syncers`]): what arrives during a sync is written and synced by the next thread at once. The [`Writer`] is behind one
//! lock, which no thread holds while it syncs for waiting replies; so bytes are written in order, and any number of syncs overlap.
//! A thread that holds this lock holds no shard lock and takes none.
//!
//! After a failed write, the file is cut back to the end of the last whole one. After a failed sync, it is cut back to the length
//! that is known to be good, and everything behind that is written again: the bytes are kept until they are synced. A failed sync
//! is never taken for done, even if another one succeeds: results of syncs that began before a failure are ignored. Commands that
//! write are refused meanwhile.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::Thread;
use std::time::Duration;

use crate::changelog::{FileMark, UNSYNCED_MAX};
use crate::config::{AppendSync, Settings};
use crate::durability::files::OpenFile;
use crate::log;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::world::Moment;

/// Time between two looks at a sync that is due and must not begin during a rewrite.
const PAUSE_CHECK: Duration = Duration::from_millis(2);
/// Time between two syncs with `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two attempts after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Capacity in bytes up to which a buffer is used again: fresh memory costs more than a copy.
const BUFFER_KEPT: usize = 4 << 20;
/// The same for all buffers together.
const BUFFERS_KEPT: usize = 32 << 20;

enum Step {
    /// Bytes to write, and the position in the log behind them.
    Write(Vec<u8>, u64),
    NextFile(Sender<Result<(), String>>),
    Close,
}

/// A failed operation.
struct Failure {
    what: &'static str,
    error: io::Error,
    /// Bytes that were written before may be lost.
    loses: bool,
}

/// What is to be done after a step of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing.
    Open,
    /// Sync what is written, with the lock released.
    Sync,
    /// A helper must sync what is written, so that this thread goes on writing.
    SyncAside,
    /// End: the file is detached from the log.
    Closed,
}

/// A sync of `everysec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Aside {
    #[default]
    None,
    Wanted,
    Running,
}

/// Bytes that were written.
struct Written {
    bytes: Vec<u8>,
    /// Position in the log behind them.
    end: u64,
    /// Length of the file behind them.
    file_bytes: u64,
}

/// What a sync that begins now covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    position: u64,
    file_bytes: u64,
    /// See [`Writer::epoch`].
    epoch: u64,
}

/// State of the threads that write the file.
pub(super) struct Writer {
    shared: Arc<Shared>,
    pub(super) file: OpenFile,
    /// Changes with the file and with each failure: what began before that says nothing about the file as it is now.
    pub(super) epoch: u64,
    /// The file is detached, and its threads end.
    pub(super) closed: bool,
    pub(super) aside: Aside,
    /// The thread that waits for deadlines; the others help.
    pub(super) first: Option<Thread>,
    /// Length of the file that is known to be good.
    good_bytes: u64,
    /// What was written behind that, unless nothing is promised (`appendfsync no`).
    kept: VecDeque<Written>,
    queue: VecDeque<Step>,
    /// Position behind the last written byte.
    written: u64,
    /// Position up to which the file is synced.
    synced: u64,
    /// Position up to which the file is synced when all syncs that run have succeeded.
    begun: u64,
    /// Position up to which replies need not wait: what is written, with `always` what is synced.
    released: u64,
    last_sync: Moment,
    /// Set while operations fail.
    pub(super) retry_at: Option<Moment>,
    /// A sync has failed, so what follows `good_bytes` must be written again.
    loses: bool,
    logged_at: Option<Moment>,
    /// Empty buffers, and their capacity.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// Second of the last line with the time.
    last_timestamp: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, file: OpenFile, position: u64) -> Self {
        let began = shared.world.stopwatch();
        let (synced, released) = (
            shared.durability.changelog.synced(),
            shared.durability.changelog.released(),
        );
        Self {
            shared,
            good_bytes: file.bytes,
            file,
            epoch: 0,
            closed: false,
            aside: Aside::None,
            first: None,
            kept: VecDeque::new(),
            queue: VecDeque::new(),
            written: position,
            synced,
            begun: synced,
            released,
            last_sync: began,
            retry_at: None,
            loses: false,
            logged_at: None,
            spare: Vec::new(),
            spare_bytes: 0,
            last_timestamp: 0,
        }
    }

    /// Returns until when to wait for more changes.
    pub(super) fn next_due(&self, settings: &Settings) -> Option<Moment> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        // Whoever ends a sync wakes this thread.
        let unsynced = self.written > self.synced
            && settings.append_sync != AppendSync::No
            && self.aside == Aside::None;
        unsynced.then(|| {
            (self.last_sync + SYNC_INTERVAL).max(self.shared.world.stopwatch() + PAUSE_CHECK)
        })
    }

    /// Takes what the log has. Returns false if that is nothing; the log then wakes this thread for what follows.
    pub(super) fn take(&mut self) -> bool {
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
        // The parts between marks are as long together.
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

    /// Does what is queued, as far as possible.
    pub(super) fn work(&mut self, settings: &Settings) -> Outcome {
        let closes = matches!(self.queue.back(), Some(Step::Close));
        if closes {
            // There is no other attempt.
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

    /// Returns what a sync that begins now covers.
    pub(super) fn covered(&self) -> Covered {
        Covered {
            position: self.written,
            file_bytes: self.file.bytes,
            epoch: self.epoch,
        }
    }

    /// Notes the result of a sync that ran with the lock released.
    pub(super) fn ended(&mut self, covered: Covered, synced: io::Result<()>) {
        if covered.epoch != self.epoch {
            // It was about another file, or another sync has failed since it began.
            return;
        }
        match synced.map_err(failed_sync) {
            Ok(()) => self.synced_to(covered),
            Err(failure) => self.failed(&failure),
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

    /// Forgets what is known to be good.
    fn drop_kept(&mut self) {
        while let Some(first) = self
            .kept
            .pop_front_if(|first| first.file_bytes <= self.good_bytes)
        {
            self.recycle(first.bytes);
        }
        self.set_kept_from();
    }

    /// Tells the log up to where no bytes are kept any more.
    fn set_kept_from(&self) {
        let kept = self.kept.front();
        // A line with the time is not part of the log.
        let begin = |first: &Written| first.end.saturating_sub(first.bytes.len() as u64);
        let from = kept.map_or(self.written, begin);
        self.shared.durability.changelog.set_kept_from(from);
    }

    /// After a failure, cuts the file back to what is whole, and queues again what may be lost.
    fn rewind(&mut self) -> Result<(), Failure> {
        if self.retry_at.is_none() {
            return Ok(());
        }
        let whole = match self.loses {
            true => self.good_bytes,
            false => self.file.bytes,
        };
        let cut = self.file.output.truncate(whole);
        cut.map_err(failure(
            "Could not remove short write from the append-only file",
        ))?;
        if !std::mem::take(&mut self.loses) {
            return Ok(());
        }
        let aof = &self.shared.durability.aof;
        let cut = self.file.bytes - whole;
        // A rewrite may have measured the files meanwhile.
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
                        // Written again with what follows it, if that is necessary.
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
                        // Nothing was promised. The rewrite has failed; its sender may be gone.
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
            // The policy may have changed.
            self.release(self.written);
        }
        let again = self.retry_at.is_some() && policy != AppendSync::No;
        if self.written > self.synced && (due && !paused || again) {
            if again {
                self.sync()?;
            } else if policy != AppendSync::Always {
                if self.aside == Aside::None {
                    self.aside = Aside::Wanted;
                    return Ok(Outcome::SyncAside);
                }
            } else if self.written > self.begun {
                self.begun = self.written;
                return Ok(Outcome::Sync);
            }
        } else if paused {
            // As with `appendfsync no`, nothing is promised, so nothing is kept.
            self.good_bytes = self.file.bytes;
            self.drop_kept();
            self.release(self.written);
        }
        Ok(Outcome::Open)
    }

    /// Returns a line with the time, once a second.
    fn timestamp(&mut self) -> Option<Vec<u8>> {
        let second = self.shared.clock.now().read_ms() / 1000;
        let changed = std::mem::replace(&mut self.last_timestamp, second) != second;
        changed.then(|| timestamp(second))
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

    /// Lets the loops send the replies that wait for this position.
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
        let starting = aof.starting.lock().clone();
        let mut files = aof.files.lock();
        let next = match starting {
            // The first base begins anew: what the file has is older than that.
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
                self.loses = false;
                self.file = file;
                self.epoch += 1;
                self.kept.clear();
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        // The rewrite may have been aborted.
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
            log::warning!(
                shared.logger,
                "{} {}: {}",
                failure.what,
                self.file.path.display(),
                failure.error
            );
        }
        self.retry_at = Some(now + RETRY);
        self.loses |= failure.loses;
        self.epoch += 1;
        self.begun = self.synced;
        if let Some(first) = &self.first {
            first.unpark();
        }
        *aof.error.lock() = reason(&failure.error);
        if !aof.is_failing() {
            aof.set_failing(true);
            shared.gate.set(Reason::FailedFile, true);
        }
        // After the gate is closed, so that no write slips through.
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

/// Returns the line with the time in seconds, for `aof-timestamp-enabled`.
pub(super) fn timestamp(second: u64) -> Vec<u8> {
    format!("#TS:{second}\r\n").into_bytes()
}

fn failed_sync(error: io::Error) -> Failure {
    Failure {
        what: "Fail to fsync the AOF file",
        error,
        loses: true,
    }
}

fn failure(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure {
        what,
        error,
        loses: false,
    }
}

/// Returns the text of an error as Redis shows it, without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
