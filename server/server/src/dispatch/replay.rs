//! Commands of the primary's stream. Most checks do not apply to them, and the turn holds every
//! shard. This file also has the checks by which a replica refuses commands of clients.

use std::sync::atomic::Ordering;

use punctual_lua::ScriptFlags;
use punctual_resp::Args;
use punctual_store::spec::Flags;
use punctual_store::{Error, READ_ONLY, Source};

use crate::dispatch::admission::Admission;
use crate::dispatch::refusal::{LACKS_REPLICAS, LOADING};
use crate::dispatch::{Dispatcher, Flow};
use crate::follow::apply;
use crate::log;
use crate::session::Session;
use crate::table::Entry;

const MASTER_DOWN: Error = Error::fixed(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
);

impl Dispatcher<'_, '_> {
    /// Runs a command of the primary's stream.
    pub(super) fn replay(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
        out: &mut Vec<u8>,
    ) -> Flow {
        match self.admit(Source::Stream, session, entry, args) {
            Ok(Admission::Run) => {}
            Ok(Admission::Queue) => return self.queue(session, entry, args, out),
            Ok(Admission::Hold) => return Flow::Paused,
            Ok(Admission::Close) => {
                session.closing = true;
                return Flow::Done;
            }
            Err(refusal) => {
                self.refuse_stream(session, &refusal.error, args);
                return Flow::Done;
            }
        }
        let runs_scripts = session.runs_scripts(entry);
        let several = self.shared.mailboxes.len() > 1;
        if several {
            self.wait_for_scripts(session, runs_scripts);
        }
        self.turn.hold_whole();
        // REPLICAOF may have changed the primary before this turn held every shard.
        let generation = session.upstream.as_ref().map(|applied| applied.generation);
        let flow = if generation == Some(self.shared.replication.upstream.generation()) {
            self.turn.may_lock = true;
            self.turn.frozen = false;
            self.turn.now = self.turn.now.replaying();
            let outer = self.turn.enter(Source::Stream);
            let flow = self.execute(session, entry, args, out);
            self.turn.leave(outer);
            flow
        } else {
            session.closing = true;
            Flow::Done
        };
        if several && runs_scripts {
            self.shared.scripting.running.end();
        }
        flow
    }

    /// Returns the error for a client's command that a replica refuses.
    #[cold]
    pub(super) fn refusal_of_replica(&self, session: &Session, entry: &Entry) -> Option<Error> {
        let upstream = &self.shared.replication.upstream;
        let flags = entry.row.flags;
        let executing = session.executed_by(entry);
        let writes =
            flags.has(Flags::WRITE) || executing.is_some_and(|queued| queued.changes_keys());
        if writes && upstream.read_only.load(Ordering::Relaxed) {
            return Some(READ_ONLY);
        }
        if self.is_stale() && session.lacks(entry, Flags::STALE) {
            return Some(MASTER_DOWN);
        }
        // REPLICAOF works during a load, so that a long load does not delay a failover.
        let refused = executing.is_some_and(|queued| queued.has(Flags::NO_ASYNC_LOADING))
            || flags.has(Flags::NO_ASYNC_LOADING) && !flags.has(Flags::CHANGES_ROLE);
        (refused && upstream.is_loading()).then_some(LOADING)
    }

    /// Returns whether the link to the primary is down and `replica-serve-stale-data` is off.
    fn is_stale(&self) -> bool {
        let upstream = &self.shared.replication.upstream;
        self.shared.replication.is_replica()
            && !upstream.is_connected()
            && !upstream.serves_stale.load(Ordering::Relaxed)
    }

    /// Returns the error for a script or function that the server refuses in its current state.
    /// `flags` are the flags that it declares, if any.
    #[cold]
    pub(crate) fn refusal_of_script(&self, flags: Option<ScriptFlags>) -> Option<Error> {
        if self.turn.replays() {
            return None;
        }
        // A script without declared flags is refused when it first writes.
        let writes = flags.is_some_and(|flags| !flags.has(ScriptFlags::NO_WRITES));
        if writes && self.shared.lacks_replicas() {
            return Some(LACKS_REPLICAS);
        }
        if writes
            && self
                .shared
                .replication
                .upstream
                .read_only
                .load(Ordering::Relaxed)
        {
            return Some(READ_ONLY);
        }
        let allows_stale = flags.is_some_and(|flags| flags.has(ScriptFlags::ALLOW_STALE));
        (self.is_stale() && !allows_stale).then_some(MASTER_DOWN)
    }

    /// Handles an error of a command in the primary's stream. As in Redis, the link stays open,
    /// except after SELECT: the next commands would change the wrong database. It also closes after
    /// a deadline that only Valkey accepts: the field would never expire.
    #[cold]
    pub(super) fn replayed_error(
        &mut self,
        session: &mut Session,
        entry: &Entry,
        error: &Error,
        args: Args,
    ) {
        if entry.row.flags.has(Flags::SELECTS) || matches!(error, Error::ExpireTime(_)) {
            self.refuse_stream(session, error, args);
        } else {
            apply::report(self.shared, error, args);
        }
    }

    /// Skips an unknown command of the stream if `import-skip-unknown` is on. Otherwise closes the
    /// link.
    #[cold]
    pub(super) fn skip_or_refuse(&mut self, session: &mut Session, error: &Error, args: Args) {
        /// Number of skipped commands that the log lists.
        const LOGGED_MAX: u64 = 10;
        if !self.shared.settings().import_skip_unknown {
            return self.refuse_stream(session, error, args);
        }
        self.count_error(error);
        if let Some(applied) = &mut session.upstream {
            applied.skipped += 1;
            if applied.skipped <= LOGGED_MAX {
                log::warning!(
                    self.shared.logger,
                    "Skipped a command of the MASTER that is not supported: '{}'",
                    args.at(0).escape_ascii()
                );
            }
        }
    }

    /// Closes the link, because a command of the stream cannot be applied. If the replica skipped
    /// the command, its data would differ from the primary's.
    #[cold]
    pub(super) fn refuse_stream(&mut self, session: &mut Session, error: &Error, args: Args) {
        self.count_error(error);
        apply::report(self.shared, error, args);
        log::warning!(
            self.shared.logger,
            "The command is not applied, and the link to the MASTER is closed. This server requests the same command again until it follows another server"
        );
        session.closing = true;
        if let Some(applied) = &mut session.upstream {
            applied.refused = true;
        }
    }
}
