//! Execution of the commands in an append-only file, during its load.
//!
//! Keyspace commands go to the turn directly, so they appear in no statistics, slow log or monitor.
//! Transactions, scripts and the server's own commands go through the dispatcher, in a session that
//! is not in the list of clients.

use std::sync::Arc;

use crate::world::Counter;
use punctual_resp::{Args, Protocol, Reply};
use punctual_store::{Error, Source, Turn};

use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::dispatch::Dispatcher;
use crate::dispatch::admission::Admission;
use crate::log;
use crate::node::Shared;
use crate::node::scripts::Scripts;
use crate::observe::stats::LoopStats;
use crate::persist::aof::load::{Refusal, Runner};
use crate::session::Session;
use crate::table::{Entry, Run};

/// Session whose commands come from a file.
pub(crate) struct FromFile<'s> {
    shared: &'s Arc<Shared>,
    session: Session,
    scripts: Scripts,
    clock: Counter,
    stats: LoopStats,
    out: Vec<u8>,
}

impl<'s> FromFile<'s> {
    pub(crate) fn new(shared: &'s Arc<Shared>) -> Self {
        let session = Session::new(Arc::new(ClientInfo::default()), User::internal());
        Self {
            shared,
            session,
            scripts: Scripts::new(shared),
            clock: shared.world.counter(),
            stats: LoopStats::new(shared.commands.table().entries()),
            out: Vec::new(),
        }
    }

    /// Runs a command, or queues it in the open transaction.
    fn run_entry(
        &mut self,
        turn: &mut Turn,
        entry: &'static Entry,
        args: Args,
    ) -> Result<(), Refusal> {
        let mut dispatcher = Dispatcher::new(
            self.shared,
            0,
            turn,
            &mut self.scripts,
            &self.clock,
            usize::MAX,
            None,
        );
        match dispatcher.admit(Source::File, &self.session, entry, args) {
            Err(refusal) => return Err(failed(&refusal.error)),
            Ok(Admission::Queue) => {
                self.session.queue(entry, args, entry.writes());
                return Ok(());
            }
            Ok(_) => {}
        }
        if let Run::Keyspace(command) = entry.run {
            let mut reply = Reply::new(&mut self.out, Protocol::Resp2);
            let done = turn.run(command, self.session.db, true, args, &mut reply);
            return done.map_err(|error| failed(&error));
        }
        let errors = self.stats.errors.get();
        dispatcher.stats = &self.stats;
        dispatcher.execute(&mut self.session, entry, args, &mut self.out);
        let in_scripts = dispatcher.script_errors;
        if let Some(error) = in_scripts.refused {
            return Err(failed(&error));
        }
        let errors = self.stats.errors.get().saturating_sub(errors);
        if errors == 0 {
            return Ok(());
        }
        // As in Redis, errors of scripts and of their commands do not end the load.
        let error = first_error(&self.out);
        if errors > in_scripts.own {
            return Err(Refusal::Failed(error));
        }
        if !error.is_empty() {
            log::warning!(
                self.shared.logger,
                "== CRITICAL == This server is sending an error to its AOF-loading-client: '{error}' after processing the \
                 command '{}'",
                entry.name
            );
        }
        Ok(())
    }
}

impl Runner for FromFile<'_> {
    fn in_transaction(&self) -> bool {
        self.session.multi.is_some()
    }

    fn run(&mut self, turn: &mut Turn, args: Args) -> Result<(), Refusal> {
        let shared = self.shared;
        let entry = match shared.commands.find(args) {
            Ok(entry) => entry,
            Err((Some(_), error)) => return Err(failed(&error)),
            // A command that was renamed later has its original name in the file.
            Err((None, _)) => shared.commands.table().get(args.at(0)).ok_or_else(|| {
                Refusal::Unknown(String::from_utf8_lossy(args.at(0)).into_owned())
            })?,
        };
        self.out.clear();
        let outer = turn.enter(Source::File);
        let done = self.run_entry(turn, entry, args);
        turn.leave(outer);
        done
    }
}

/// Returns the refusal for a command that fails with this error.
fn failed(error: &Error) -> Refusal {
    Refusal::Failed(String::from_utf8_lossy(&error.bytes()).into_owned())
}

/// Returns the first error among the replies, without its `-`.
fn first_error(replies: &[u8]) -> String {
    let mut lines = replies.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"-"));
    String::from_utf8_lossy(line.unwrap_or_default().trim_ascii()).into_owned()
}
