//! The threads that write and sync the append-only file.
//!
//! The first thread, `punctual-aof`, writes. With `everysec` a helper syncs, so a slow device does
//! not delay writes. With `always`, replies wait for syncs, and [`HELPERS`] more threads take part:
//! each takes the changes from the log, writes them under the lock of the [`Writer`], and syncs
//! with the lock released. Syncs of several threads overlap, and most devices complete them
//! together. So a reply does not wait for the end of an earlier sync before its own sync begins.
//!
//! Each thread syncs through a file descriptor of its own, which it opens again after a failure.
//! The kernel reports an error once to each descriptor. So each thread learns of lost bytes, even
//! if another thread has already received the error.
//!
//! Replies wait for these threads, so a panic in one of them stops the server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, Scope, Thread};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::config::AppendSync;
use crate::node::{Shared, StopOnPanic};
use crate::persist::aof::rewrite;
use crate::persist::aof::slice;
use crate::persist::aof::writer::{HelperSync, Outcome, Writer};
use crate::world::disk::Output;

/// Number of helper threads.
const HELPERS: usize = 2;
/// Interval at which an idle helper checks whether the server stops after a panic, because nothing
/// wakes the helper then.
const REST: Duration = Duration::from_secs(1);

/// Writes until the file is detached from the log.
pub(super) fn run(shared: &Arc<Shared>, mut writer: Writer) {
    slice::shorten();
    writer.first = Some(std::thread::current());
    let writer = Mutex::new(writer);
    std::thread::scope(|scope| {
        let mut helpers = Helpers::default();
        let _stop = StopOnPanic(shared);
        let mut thread = Syncer::new(shared, &writer);
        let mut helping = false;
        loop {
            let always = shared.settings().append_sync == AppendSync::Always;
            if always && helpers.0.is_empty() {
                helpers.0 = start_helpers(scope, shared, &writer);
            }
            let (closed, due, failing) = {
                let writer = writer.lock();
                let due = writer.next_due(&shared.settings());
                (writer.closed, due, writer.retry_at.is_some())
            };
            if closed {
                break;
            }
            if std::mem::replace(&mut helping, always && !failing) != helping {
                helpers.wake();
            }
            if !thread.found {
                match due {
                    None => std::thread::park(),
                    Some(at) => {
                        std::thread::park_timeout(at.saturating_sub(shared.world.stopwatch()));
                    }
                }
            }
            if thread.step() == Outcome::SyncByHelper {
                if helpers.0.is_empty() {
                    helpers.0 = start_helpers(scope, shared, &writer);
                }
                match helpers.0.first() {
                    Some(helper) => helper.unpark(),
                    None => thread.run_helper_sync(),
                }
            }
        }
    });
}

/// The helper threads. Dropping this value wakes them, so that they end.
#[derive(Default)]
struct Helpers(Vec<Thread>);

impl Helpers {
    fn wake(&self) {
        self.0.iter().for_each(Thread::unpark);
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Starts the helper threads. If a thread cannot be started, fewer threads help.
fn start_helpers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Arc<Shared>,
    writer: &'scope Mutex<Writer>,
) -> Vec<Thread> {
    let start = |number| {
        let name = format!("punctual-aof-{number}");
        let thread = Builder::new()
            .name(name)
            .spawn_scoped(scope, move || help(shared, writer));
        Some(thread.ok()?.thread().clone())
    };
    (1..=HELPERS).map_while(start).collect()
}

/// Writes and syncs with `appendfsync always` while no operation fails, and runs the syncs of
/// `everysec`.
fn help(shared: &Arc<Shared>, writer: &Mutex<Writer>) {
    slice::shorten();
    let _stop = StopOnPanic(shared);
    let mut thread = Syncer::new(shared, writer);
    loop {
        let always = shared.settings().append_sync == AppendSync::Always;
        let (first, helper_sync) = {
            let writer = writer.lock();
            if writer.closed || shared.panicked.load(Ordering::Acquire) {
                return;
            }
            let helps = always && writer.retry_at.is_none();
            (writer.first.clone().filter(|_| !helps), writer.helper_sync)
        };
        if helper_sync == HelperSync::Wanted {
            thread.run_helper_sync();
            continue;
        }
        match first {
            None => {
                thread.step();
                if !thread.found {
                    std::thread::park_timeout(REST);
                }
            }
            Some(first) => {
                // The log may have woken this thread for changes that the first thread must write.
                first.unpark();
                if always {
                    std::thread::park_timeout(REST);
                } else {
                    std::thread::park();
                }
            }
        }
    }
}

/// One of the threads.
struct Syncer<'s> {
    shared: &'s Arc<Shared>,
    writer: &'s Mutex<Writer>,
    /// The writer's file, opened by this thread, and the writer's epoch at that time.
    file: Option<(u64, Box<dyn Output>)>,
    /// Whether the last step found changes in the log.
    found: bool,
}

impl<'s> Syncer<'s> {
    fn new(shared: &'s Arc<Shared>, writer: &'s Mutex<Writer>) -> Self {
        Self {
            shared,
            writer,
            file: None,
            found: false,
        }
    }

    /// Takes the changes from the log, writes them, and syncs if necessary.
    fn step(&mut self) -> Outcome {
        let settings = self.shared.settings();
        let mut writer = self.writer.lock();
        if writer.closed {
            return Outcome::Closed;
        }
        self.found = writer.take_changes();
        let outcome = writer.write_queued(&settings);
        match outcome {
            Outcome::Open | Outcome::SyncByHelper => {}
            Outcome::Sync => self.sync(&mut writer),
            Outcome::Closed => {
                if let Some(first) = &writer.first {
                    first.unpark();
                }
                return outcome;
            }
        }
        drop(writer);
        rewrite::schedule_if_due(self.shared, &settings);
        outcome
    }

    /// Syncs the written bytes, with the lock released if this thread can open the file.
    fn sync(&mut self, writer: &mut MutexGuard<'_, Writer>) {
        let covered = writer.covered();
        let synced = match self.open(writer) {
            Ok(file) => MutexGuard::unlocked(writer, || file.sync()),
            // Without a free file descriptor, for example, this thread cannot open the file. Then
            // the lock stays held during the sync.
            Err(_) => writer.file.output.sync(),
        };
        writer.sync_ended(covered, synced);
    }

    /// Runs the sync that the first thread has requested, unless another thread runs it.
    fn run_helper_sync(&mut self) {
        let mut writer = self.writer.lock();
        if writer.helper_sync != HelperSync::Wanted {
            return;
        }
        writer.helper_sync = HelperSync::Running;
        self.sync(&mut writer);
        writer.helper_sync = HelperSync::None;
        if let Some(first) = &writer.first {
            first.unpark();
        }
    }

    fn open(&mut self, writer: &Writer) -> io::Result<&dyn Output> {
        let is_open = self.file.as_ref().is_some_and(|f| f.0 == writer.epoch);
        if !is_open {
            let disk = &self.shared.durability.disk;
            self.file = Some((writer.epoch, disk.append(&writer.file.path)?));
        }
        let (_, file) = self.file.as_ref().expect("just opened");
        Ok(&**file)
    }
}
