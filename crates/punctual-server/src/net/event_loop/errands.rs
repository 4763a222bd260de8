//! What a thread of the program asks of a loop: [`crate::Server::advance`] and its like. And the end of it all.
//!
//! A loop moves the clock for others, so that moving it is the same path as CLOCK ADVANCE: the counters have one writer
//! and events go through the loop's own sink.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use punctual_store::{Now, Turn};

use super::EventLoop;
use crate::clock::{Move, MoveError};
use crate::net::sink::LoopSink;

impl EventLoop {
    /// Moves the clock. Messages and timeouts that come of it are seen to in the turns that follow.
    pub(super) fn move_clock(&mut self, to: Move) -> Result<Now, MoveError> {
        let shared = Arc::clone(&self.shared);
        let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
        let mut turn = Turn::new(
            &shared.store,
            shared.clock.now(),
            &mut sink,
            shared.classes(),
        );
        let moved = shared.move_clock(&mut turn, to);
        self.count(&mut turn);
        self.discard(turn);
        moved
    }

    /// Sends on `done` after the next turn. The messages in the mailbox are written at the end of this turn; clients
    /// whose wait or pause is over resume in the next one, and may have something to write too.
    pub(super) fn settle(&mut self, done: Sender<()>) {
        self.settling.push(done);
        self.more_due = true;
    }

    /// Ends every connection and stops listening. The sockets are shut down, not only closed: a child of the process
    /// may have inherited them, and would keep clients waiting and the port taken.
    pub(super) fn end_all(mut self) {
        for slot in 0..self.connections.len() {
            self.flush(slot);
            if let Some(connection) = self.connection(slot) {
                connection.socket.shutdown();
            }
            self.close(slot);
        }
        for listener in &self.listeners {
            listener.shutdown();
        }
    }
}
