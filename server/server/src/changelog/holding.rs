//! Replies that wait for the append-only file.
//!
//! A reply waits if it could reveal an unreleased change, which is a change that a crash of the
//! server could still lose. The replies to three kinds of commands wait:
//!
//! - writes;
//! - reads of a key with an unreleased change;
//! - while there are unreleased changes, commands such as KEYS, whose arguments do not name all
//!   keys that they read.
//!
//! From the first such reply on, the output of the connection is held. Other connections continue.

use punctual_resp::Args;
use punctual_store::Turn;
use punctual_store::planted::Bug;
use punctual_store::spec::Flags;

use crate::changelog::ChangeLog;
use crate::table::{Entry, Run};

/// Value of [`Hold::until`] for output that waits until the log is released up to the end of the
/// current turn. The log's position there is known only after the turn.
pub(crate) const THIS_TURN: u64 = u64::MAX;

/// Log position that the replies of a connection wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// Position that was released when the turn began; `None` if replies do not wait.
    released: Option<u64>,
    /// Position that must be released before the replies are sent, or [`THIS_TURN`]. 0 if no reply
    /// waits.
    pub(crate) until: u64,
}

impl Hold {
    /// Value of `released` while the file cannot be written: only replies of writes wait.
    pub(super) const WRITES_ONLY: u64 = u64::MAX;

    /// Creates a hold with no waiting reply.
    pub(crate) fn new(released: Option<u64>) -> Self {
        Self { released, until: 0 }
    }

    /// Returns true if replies may have to wait. They may begin to in the middle of a turn: a load
    /// that ends, or CONFIG SET, attaches the file while the turn holds no shard. So the caller
    /// asks after a command has run, while its shards are locked.
    #[inline]
    pub(crate) fn is_on(&mut self, log: &ChangeLog) -> bool {
        if self.released.is_none() && log.holds() {
            self.released = log.released_for_turn();
        }
        self.released.is_some()
    }

    /// Updates the hold for a command that has just run; the command's locks are still held.
    #[inline]
    pub(crate) fn note(
        &mut self,
        log: &ChangeLog,
        turn: &mut Turn,
        entry: &Entry,
        db: usize,
        args: Args,
    ) {
        let Some(released) = self.released else {
            return;
        };
        if entry.row.flags.has(Flags::WRITE) {
            if !Bug::WriteNotHeld.is_active() {
                self.until = THIS_TURN;
            }
        } else if (released < log.file_end() || turn.has_effects()) && !Bug::ReadNotHeld.is_active()
        {
            self.note_read(log, turn, released, entry, db, args);
        }
    }

    /// Updates the hold for a command that does not write, while there are unreleased changes.
    fn note_read(
        &mut self,
        log: &ChangeLog,
        turn: &mut Turn,
        released: u64,
        entry: &Entry,
        db: usize,
        args: Args,
    ) {
        let Run::Keyspace(command) = entry.run else {
            return;
        };
        if command.reaches_unnamed(args) && released != Self::WRITES_ONLY {
            self.until = THIS_TURN;
        }
        turn.note_changes();
        command.keys.each(args, &mut |at| {
            let changed = args
                .get(at)
                .map_or(0, |key| log.position_of(turn.key_hash(db, key)));
            if changed > released {
                self.until = THIS_TURN;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::events::{Classes, Silent};
    use punctual_store::{Now, Store, StoreOptions};

    use super::*;

    #[test]
    fn a_turn_that_began_before_the_file_was_attached_holds_replies() {
        let options = StoreOptions {
            shards: 1,
            databases: 1,
            cluster: false,
            seed: 1,
            nap: std::thread::sleep,
        };
        let (store, log) = (Store::new(options), ChangeLog::default());
        let mut hold = Hold::new(log.released_for_turn());
        assert!(!hold.is_on(&log));
        let mut sink = Silent;
        let now = Now::from_ms(1);
        log.set_holds(
            &mut Turn::new(&store, now, &mut sink, Classes::none()),
            true,
        );
        assert!(hold.is_on(&log));
    }
}
