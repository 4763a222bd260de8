//! Which replies wait for the append-only file.
//!
//! A reply waits if it could reveal an unreleased change: the reply of a write, of a read of a key
//! with an unreleased change, and of a command that looks at all keys. A connection's output is
//! held from the first such reply on; other connections go on.

use punctual_resp::Args;
use punctual_store::Turn;
use punctual_store::spec::Flags;

use crate::changelog::ChangeLog;
use crate::table::{Entry, Run};

/// Position of output that waits for the changes of its own turn, which are not appended yet.
pub(crate) const THIS_TURN: u64 = u64::MAX;

/// Position that the replies of a connection wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// Position that was released when the turn began; `None` if replies wait for nothing.
    since: Option<u64>,
    /// Position that must be released before the replies are sent, or [`THIS_TURN`].
    pub(crate) until: u64,
}

impl Hold {
    /// Released position from which on only writes wait.
    pub(super) const WRITES_ONLY: u64 = u64::MAX;

    /// Creates a hold that no reply waits for yet.
    pub(crate) fn new(since: Option<u64>) -> Self {
        Self { since, until: 0 }
    }

    /// Returns whether replies may have to wait.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Notes a command that has just run; its locks are still held.
    #[inline]
    pub(crate) fn note(
        &mut self,
        log: &ChangeLog,
        turn: &mut Turn,
        entry: &Entry,
        db: usize,
        args: Args,
    ) {
        let Some(since) = self.since else {
            return;
        };
        if entry.row.flags.has(Flags::WRITE) {
            self.until = THIS_TURN;
        } else if since < log.file_end() || turn.has_effects() {
            self.note_read(log, turn, since, entry, db, args);
        }
    }

    /// Notes a command that does not write, while there are unreleased changes.
    fn note_read(
        &mut self,
        log: &ChangeLog,
        turn: &mut Turn,
        since: u64,
        entry: &Entry,
        db: usize,
        args: Args,
    ) {
        let Run::Keyspace(command) = entry.run else {
            return;
        };
        if command.reaches_unnamed(args) && since != Self::WRITES_ONLY {
            self.until = THIS_TURN;
        }
        turn.note_changes();
        command.keys.each(args, &mut |at| {
            let changed = args
                .get(at)
                .map_or(0, |key| log.position_of(turn.key_hash(db, key)));
            if changed > since {
                self.until = THIS_TURN;
            }
        });
    }
}
