//! Connections whose command waits for a key, on their loop: see [`crate::client::waiting`].

use punctual::DeadlineQueue;
use punctual_store::{Now, Turn};

use super::{ClientTimer, EventLoop};
use crate::client::waiting;

impl EventLoop {
    /// A connection's command waits from now on.
    pub(super) fn block(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let deadline = connection
            .session
            .waiter
            .as_ref()
            .and_then(|w| w.deadline_ms());
        connection.wait_timer = deadline.map(|at| self.timers.insert(at, ClientTimer::Wait(slot)));
        if connection.out.is_empty() && connection.out.capacity() > 0 {
            // It may wait for long.
            self.spare.push(std::mem::take(&mut connection.out));
        }
    }

    /// The peer of a connection has closed its end. If a command waits, it and those behind it stay undone.
    pub(super) fn hung_up(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot) {
            connection.hung_up = true;
            if connection.waits() {
                self.close(slot);
            }
        }
    }

    /// A command begins to wait whose client has gone already: the connection ends when its output is written.
    pub(super) fn leave_undone(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot)
            && connection.hung_up
        {
            connection.ended = true;
        }
    }

    /// The command of a connection has waited for long enough.
    pub(super) fn wait_is_over(&mut self, slot: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.wait_timer = None;
        // If somebody else has claimed it, its reply is on its way.
        if let Some(waiter) = &connection.session.waiter
            && waiter.claim()
        {
            if !waiter.id().silent {
                connection
                    .out
                    .extend_from_slice(&waiting::unserved_reply(waiter, None));
            }
            waiting::record_unserved(&self.shared, self.number, now, waiter, None);
            self.mark_dirty(slot);
            self.unblock(slot);
        }
    }

    /// The command of a connection has its reply: what the client has sent since may run.
    pub(super) fn unblock(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Some(waiter) = connection.session.end_waiting() else {
            return;
        };
        if let Some(key) = connection.wait_timer.take() {
            self.timers.remove(key);
        }
        let info = &connection.session.info;
        self.shared.clients.set_waiting(info, false);
        if waiter.is_queued() {
            self.left_waiters.push(waiter);
        }
        self.unblocked.push(slot);
    }

    /// Runs what the clients have sent that have waited.
    pub(super) fn resume_unblocked(&mut self, turn: &mut Turn<'_>) {
        for slot in std::mem::take(&mut self.unblocked) {
            turn.now = self.shared.clock.now();
            self.run_kept(slot, turn);
            self.read_again(slot);
        }
    }
}
