//! The thread that writes the append-only file.
//!
//! It takes what the loops have appended to the log, writes it, and syncs by `appendfsync`. No loop waits for it, but with `always`
//! replies do. The thread holds no shard lock and takes none.
//!
//! After a write or a sync that failed, the file is cut back to the length that is known to be good, and everything behind it
//! is written again: the thread keeps the bytes until they are synced. A failed sync is never taken for done, even if the
//! next one succeeds. Commands that write are refused meanwhile.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::files::OpenFile;
use super::rewrite;
use crate::changelog::FileMark;
use crate::config::{AppendSync, Settings};
use crate::log;
use crate::net::order::Order;
use crate::shared::Shared;

/// Time for which changes are collected before they are written, unless replies wait for them.
const BATCH: Duration = Duration::from_millis(2);
/// Time between two syncs with `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two attempts after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Capacity in bytes up to which a buffer is used again: fresh memory costs more than a copy.
const BUFFER_KEPT: usize = 4 << 20;
/// As [`BUFFER_KEPT`], for the changes since the last sync.
const UNSYNCED_KEPT: usize = 32 << 20;

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
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Open,
    Closed,
}

/// The thread's state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    file: OpenFile,
    /// Length of the file that is known to be good.
    good_bytes: u64,
    /// What was written behind that, unless nothing is promised (`appendfsync no`).
    kept: Vec<u8>,
    queue: VecDeque<Step>,
    /// Position behind the last written byte.
    written: u64,
    /// Position up to which the file is synced.
    synced: u64,
    last_sync: Instant,
    /// Set while operations fail.
    retry_at: Option<Instant>,
    logged_at: Option<Instant>,
    spare: Vec<u8>,
    /// Second of the last line with the time.
    last_timestamp: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, file: OpenFile, position: u64) -> Self {
        let synced = shared.changelog.synced();
        Self {
            shared,
            good_bytes: file.bytes,
            file,
            kept: Vec::new(),
            queue: VecDeque::new(),
            written: position,
            synced,
            last_sync: Instant::now(),
            retry_at: None,
            logged_at: None,
            spare: Vec::new(),
            last_timestamp: 0,
        }
    }

    /// Writes until the file is detached from the log.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            match self.next_due(&shared.settings()) {
                None => std::thread::park(),
                Some(at) => std::thread::park_timeout(at.saturating_duration_since(Instant::now())),
            }
            if shared.settings().append_sync != AppendSync::Always {
                // Changes of a few milliseconds are one write.
                std::thread::sleep(BATCH);
            }
            self.take();
            let settings = shared.settings();
            if self.work(&settings) == Outcome::Closed {
                return;
            }
            rewrite::schedule_if_due(&shared, &settings);
        }
    }

    /// Returns until when to wait for more changes.
    fn next_due(&self, settings: &Settings) -> Option<Instant> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        let unsynced = self.written > self.synced && settings.append_sync != AppendSync::No;
        unsynced.then(|| (self.last_sync + SYNC_INTERVAL).max(Instant::now() + BATCH))
    }

    /// Takes what the log has.
    fn take(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        let pending = self.shared.changelog.take_file(spare);
        let (bytes, end) = (pending.bytes, pending.end);
        if pending.marks.is_empty() {
            if !bytes.is_empty() {
                self.queue.push_back(Step::Write(bytes, end));
            }
            return;
        }
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
    }

    /// Does what is queued, as far as possible.
    fn work(&mut self, settings: &Settings) -> Outcome {
        let closes = matches!(self.queue.back(), Some(Step::Close));
        if closes {
            // There is no other attempt.
            self.logged_at = None;
        }
        if self.retry_at.is_some_and(|at| Instant::now() < at) && !closes {
            return Outcome::Open;
        }
        let done = self.rewind().and_then(|()| self.steps(settings));
        let queued = self.queue.iter().map(|step| match step {
            Step::Write(bytes, _) => bytes.len() as u64,
            _ => 0,
        });
        let aof = &self.shared.persistence.aof;
        aof.queued_bytes.store(queued.sum(), Ordering::Relaxed);
        match done {
            Ok(outcome) => {
                aof.written.store(self.written, Ordering::Release);
                self.recovered();
                outcome
            }
            Err(failure) => {
                self.failed(&failure);
                if closes {
                    Outcome::Closed
                } else {
                    Outcome::Open
                }
            }
        }
    }

    /// After a failure, cuts the file back to what is good, and queues the rest again.
    fn rewind(&mut self) -> Result<(), Failure> {
        if self.retry_at.is_none() {
            return Ok(());
        }
        let cut = self.file.output.truncate(self.good_bytes);
        cut.map_err(failure(
            "Could not remove short write from the append-only file",
        ))?;
        let aof = &self.shared.persistence.aof;
        let cut = self.file.bytes - self.good_bytes;
        // A rewrite may have measured the files meanwhile.
        let _ = aof
            .current_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bytes| {
                Some(bytes.saturating_sub(cut))
            });
        self.file.bytes = self.good_bytes;
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            self.queue.push_front(Step::Write(kept, self.written));
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
                    if policy == AppendSync::No {
                        self.good_bytes = self.file.bytes;
                        self.kept.clear();
                    } else {
                        self.kept.extend_from_slice(&bytes);
                    }
                    self.recycle(bytes);
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
        let state = &self.shared.persistence;
        let paused = settings.no_sync_on_rewrite
            && (state.is_saving() || state.aof.rewrite.active.load(Ordering::Acquire));
        let due = match policy {
            AppendSync::Always => true,
            AppendSync::EverySecond => self.last_sync.elapsed() >= SYNC_INTERVAL,
            AppendSync::No => false,
        };
        let again = self.retry_at.is_some() && policy != AppendSync::No;
        if self.written > self.synced && (due && !paused || again) {
            self.sync()?;
        } else if paused && policy == AppendSync::Always {
            self.release();
        }
        Ok(Outcome::Open)
    }

    /// Returns a line with the time, once a second.
    fn timestamp(&mut self) -> Option<Vec<u8>> {
        let second = self.shared.clock.now().read_ms() / 1000;
        let changed = std::mem::replace(&mut self.last_timestamp, second) != second;
        changed.then(|| format!("#TS:{second}\r\n").into_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
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
        let aof = &self.shared.persistence.aof;
        aof.current_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let synced = self.file.output.sync();
        synced.map_err(failure("Fail to fsync the AOF file"))?;
        self.good_bytes = self.file.bytes;
        self.synced = self.written;
        self.last_sync = Instant::now();
        self.kept.clear();
        self.kept.shrink_to(UNSYNCED_KEPT);
        self.release();
        Ok(())
    }

    /// Lets the loops send the replies that waited for what is written.
    fn release(&self) {
        let shared = &self.shared;
        shared.changelog.set_synced(self.written);
        let waited_for = shared.replicas.acks.any();
        if waited_for || shared.settings().append_sync == AppendSync::Always {
            shared.order_all(|| Order::Synced);
        }
    }

    /// Continues in the next incremental file.
    fn next_file(&mut self, settings: &Settings, done: &Sender<Result<(), String>>) {
        let aof = &self.shared.persistence.aof;
        let disk = &self.shared.persistence.disk;
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
                self.file = file;
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        // The rewrite may have been aborted.
        let _ = done.send(result);
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= BUFFER_KEPT {
            bytes.clear();
            self.spare = bytes;
        }
    }

    fn failed(&mut self, failure: &Failure) {
        let (shared, now) = (&self.shared, Instant::now());
        let aof = &shared.persistence.aof;
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
        *aof.error.lock() = reason(&failure.error);
        if !aof.is_failing() {
            aof.set_failing(true);
            shared.update_gate();
        }
        // After the gate is closed, so that no write slips through.
        shared.changelog.set_failing(true);
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
            shared.changelog.set_failing(false);
            shared.persistence.aof.set_failing(false);
            shared.update_gate();
        }
    }
}

fn failure(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure { what, error }
}

/// Returns the text of an error as Redis shows it, without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
