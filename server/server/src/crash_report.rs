//! The text of crash reports.
//!
//! The thread of the crash handler calls the methods of a [`CrashReporter`] in order; they allocate
//! and take locks, so a crashed thread must not call them. Parts that are most likely to block on a
//! held lock come last. An embedded server writes no reports, because the signal handlers belong to
//! the embedding program.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use crate::command::info;
use crate::log::{self, Logger};
use crate::node::Shared;
pub use crate::world::system::{thread_id, thread_name};

/// Writes crash reports to a server's log. Clones write for the same server.
#[derive(Clone, Debug)]
pub struct CrashReporter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    logger: Logger,
    /// Value of `crash-log-enabled` at startup.
    enabled_at_start: bool,
    server: OnceLock<Weak<Shared>>,
}

impl CrashReporter {
    /// Creates a reporter. Its reports show no server state until a server is attached.
    pub(crate) fn new(logger: Logger, enabled: bool) -> Self {
        Self(Arc::new(Inner {
            logger,
            enabled_at_start: enabled,
            server: OnceLock::new(),
        }))
    }

    /// Adds the state of this server to further reports.
    pub(crate) fn attach(&self, shared: &Arc<Shared>) {
        // A program attaches only one server.
        let _ = self.0.server.set(Arc::downgrade(shared));
    }

    fn server(&self) -> Option<Arc<Shared>> {
        self.0.server.get().and_then(Weak::upgrade)
    }

    /// Returns whether `crash-log-enabled` is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        let server = self.server();
        server.map_or(self.0.enabled_at_start, |shared| {
            shared.settings().crash_log
        })
    }

    fn write(&self, text: impl fmt::Display) {
        log::warning!(self.0.logger, "{text}");
    }

    /// Writes the head of a report.
    pub fn begin(&self, cause: &str, thread: &str) {
        self.write(format_args!(
            "\n\n=== PUNCTUAL CRASH REPORT BEGINS: please attach all of it to a bug report ===\n\
             Punctual {} on {}, thread {thread}, crashed by {cause}",
            env!("CARGO_PKG_VERSION"),
            crate::world::process::os(),
        ));
    }

    /// Writes the backtrace of the crash.
    pub fn backtrace(&self, calls: &str) {
        self.write(format_args!("\n------ STACK TRACE ------\n{calls}"));
    }

    /// Writes the last command of each event loop, and sections of INFO. Omits the sections that
    /// need shards if a shard is locked.
    pub fn state(&self) {
        let Some(shared) = self.server() else {
            return self.write("The server had not started.");
        };
        let clients = shared.clients.registry.list();
        let mut last = String::from("\n------ LAST COMMANDS ------");
        for (number, stats) in shared.observed.stats.iter().enumerate() {
            let id = stats.client.load(Ordering::Relaxed);
            let text = match clients.iter().find(|client| client.id == id) {
                Some(client) => {
                    let command = client.last_command.load(Ordering::Relaxed) as usize;
                    let name = command
                        .checked_sub(1)
                        .and_then(|id| shared.commands.table().name_of(id));
                    format!(
                        "{} of client id={id} addr={} db={}",
                        name.unwrap_or("none"),
                        client.addr,
                        client.db.load(Ordering::Relaxed)
                    )
                }
                None if id == 0 => "none".to_owned(),
                None => format!("a command of client id={id}, which has disconnected"),
            };
            last.push_str(&format!("\nevent loop {number}: {text}"));
        }
        self.write(last);
        let mut sink = Silent;
        let now = shared.clock.now();
        let mut turn = Turn::new(&shared.store, now, &mut sink, Classes::none());
        let mut info =
            |with_locks| info::for_report(&shared, &mut turn, with_locks).replace('\r', "");
        self.write(format_args!("\n------ INFO ------\n{}", info(false)));
        if shared.store.is_unlocked() {
            self.write(format_args!("\n{}", info(true)));
        }
    }

    /// Writes the end of a report.
    pub fn end(&self) {
        self.write("\n=== PUNCTUAL CRASH REPORT ENDS ===\n");
    }
}
