//! Commands that may write, directly or through a script or function, and pauses that delay them.

use std::sync::atomic::Ordering;

use punctual_lua::ScriptFlags;
use punctual_resp::Args;
use punctual_store::spec::Flags;

use crate::client::pause::WritesOnly;
use crate::dispatch::Dispatcher;
use crate::script::Scripting;
use crate::session::Session;
use crate::session::transaction::Transaction;
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Returns whether the command runs a function, or a script with a shebang, that does not
    /// declare `no-writes`.
    pub(super) fn calls_writer(&self, entry: &Entry, args: Args) -> bool {
        self.declares_writes(entry, args) == Some(true)
    }

    /// Returns whether a function, or a script with a shebang, may write; `None` for other scripts
    /// and commands.
    fn declares_writes(&self, entry: &Entry, args: Args) -> Option<bool> {
        let Scripting {
            functions, cache, ..
        } = &self.shared.scripting;
        let declared = match entry.row.flags {
            flags if flags.has(Flags::CALLS_FUNCTION) => functions.declared(args.at(1)),
            flags if flags.has(Flags::EMBEDDER) => None,
            flags if flags.has(Flags::RUNS_SCRIPTS) => cache.declared(args.at(1)),
            _ => None,
        };
        declared.map(|flags| !flags.has(ScriptFlags::NO_WRITES))
    }

    /// Returns whether the command may change the keyspace or publish messages, so that a pause of
    /// writes delays it.
    pub(crate) fn may_write(&self, entry: &Entry, args: Args) -> bool {
        self.declares_writes(entry, args)
            .unwrap_or_else(|| entry.writes())
    }

    /// Returns whether a pause of clients delays this command. Also sets `Turn::frozen`, so that
    /// the command expires nothing if it only reads during a pause, or if it runs on a replica (and
    /// does not write to a writable replica). As in Redis, a pause of all commands includes CLIENT
    /// UNPAUSE and exempts monitors and replicas. CLOCK is exempt because a virtual clock would
    /// otherwise never reach the end of the pause.
    #[cold]
    pub(super) fn apply_pause(&mut self, session: &Session, entry: &Entry, args: Args) -> bool {
        let pause = self.shared.clients.pauses.in_force(self.turn.now);
        let executing = session.executed_by(entry);
        let writes = self.may_write(entry, args) || executing.is_some_and(Transaction::writes);
        // A replica does not expire keys; its primary does.
        let upstream = &self.shared.replication.upstream;
        let follows = self.shared.replication.is_replica()
            && (!writes || upstream.read_only.load(Ordering::Relaxed));
        self.turn.frozen = follows || pause.is_some() && !writes;
        pause.is_some_and(|WritesOnly(writes_only)| !writes_only || writes)
            && !session.monitor
            && session.replica.is_none()
            && !entry.row.flags.has(Flags::UNPAUSED)
    }
}

/// Returns whether the command accesses keys. As in Redis, replicas and monitors may not call such
/// a command.
pub(super) fn touches_data(session: &Session, entry: &Entry) -> bool {
    let queued = session.executed_by(entry);
    entry.writes()
        || entry.row.flags.has(Flags::READONLY)
        || queued.is_some_and(|transaction| transaction.touches_data())
}
