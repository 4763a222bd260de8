//! Refuses commands while the server loads data, cannot save, has too few replicas, or is a
//! replica.

use punctual_resp::Args;
use punctual_store::Error;
use punctual_store::spec::Flags;

use crate::dispatch::Dispatcher;
use crate::session::Session;
use crate::table::Entry;

pub(super) const LACKS_REPLICAS: Error =
    Error::fixed("NOREPLICAS Not enough good replicas to write.");
pub(super) const LOADING: Error = Error::fixed("LOADING Redis is loading the dataset in memory");

impl Dispatcher<'_, '_> {
    /// Returns the error for a client's or script's command that one of these states refuses.
    #[cold]
    pub(crate) fn refusal(&self, session: &Session, entry: &Entry, args: Args) -> Option<Error> {
        let state = &self.shared.durability;
        // As in Redis, EXEC is refused for the commands in its queue, because the state may have
        // changed since they were queued.
        if state.is_loading() && session.lacks(entry, Flags::LOADING) {
            return Some(LOADING);
        }
        let executing = session.executed_by(entry);
        let changes = entry.row.flags.has(Flags::WRITE)
            || executing.is_some_and(|queued| queued.changes_keys())
            || self.calls_writer(entry, args);
        if changes && self.shared.lacks_replicas() {
            return Some(LACKS_REPLICAS);
        }
        // As in Redis, this includes PING, so that health checks detect the failure.
        let writes = changes || entry.row.flags.has(Flags::NEEDS_SAVES);
        if writes && let Some(error) = self.refusal_to_persist() {
            return Some(error);
        }
        if self.shared.replication.is_replica() {
            return self.refusal_of_replica(session, entry);
        }
        None
    }

    /// Returns the error for any change of the keyspace, for example by a timer that fires.
    #[cold]
    pub(crate) fn refusal_of_changes(&self) -> Option<Error> {
        if self.shared.lacks_replicas() {
            return Some(LACKS_REPLICAS);
        }
        self.refusal_to_persist()
    }

    /// Returns the error for a change that the server cannot persist.
    fn refusal_to_persist(&self) -> Option<Error> {
        let state = &self.shared.durability;
        if state.refuses_writes(&self.shared.settings()) {
            return Some(Error::fixed(
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
                 Commands that may modify the data set are disabled, because this instance is configured to report \
                 errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check \
                 the Redis logs for details about the RDB error.",
            ));
        }
        if state.aof.is_failing() {
            let reason = state.aof.error();
            let text = format!("MISCONF Errors writing to the AOF file: {reason}");
            return Some(Error::Text(text.into()));
        }
        None
    }
}
