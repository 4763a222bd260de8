//! Migrations whose transfer has ended. See [`crate::migrate`].

use std::sync::Arc;

use punctual_resp::Reply;
use punctual_store::Turn;

use crate::event_loop::EventLoop;
use crate::migrate::moving::Next;
use crate::node::waiting::{self, Completion};

impl EventLoop {
    /// Continues the migrations whose transfer has ended: deletes the moved keys and replies, or
    /// sends keys again that have changed meanwhile. Does nothing during a pause, or while a script
    /// runs, because a script may hold the locks for long.
    pub(crate) fn settle_migrations(&mut self, turn: &mut Turn) {
        let shared = Arc::clone(&self.shared);
        if self.resuming.migrations.is_empty() || shared.clients.pauses.in_force(turn.now).is_some()
        {
            return;
        }
        if shared.scripting.running.is_active() {
            // The end of a busy script wakes the loop. Otherwise the next turn tries again.
            self.more_due = !shared.scripting.running.is_busy();
            return;
        }
        for migration in std::mem::take(&mut self.resuming.migrations) {
            let waiter = migration.waiter().cloned();
            match migration.settle(turn, &shared.clock, shared.replication.is_replica()) {
                Next::Send(migration) => {
                    turn.release();
                    self.migrate(Box::new(migration));
                }
                Next::Done(result) => {
                    turn.release();
                    if let Some(waiter) = waiter.filter(|waiter| waiter.claim()) {
                        let mut bytes = Vec::new();
                        let mut reply = Reply::new(&mut bytes, waiter.protocol());
                        match &result {
                            Ok(()) => reply.ok(),
                            Err(error) => reply.error(error.bytes()),
                        }
                        waiting::answer(&shared, &waiter, &bytes);
                        let error = result.err();
                        Completion { nanos: 0, error }.record(
                            &shared,
                            self.number,
                            turn.now,
                            &waiter,
                        );
                    }
                }
            }
        }
    }
}
