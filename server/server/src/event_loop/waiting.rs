//! Connections whose command waits. See [`crate::node::waiting`].
//!
//! A waiter ends once, by an atomic claim, for example when it is served, when it times out, or
//! when its client disconnects. The thread that claims the waiter answers the client; from another
//! loop, it does so through the mailbox of the client's loop.

use punctual_store::planted::Bug;
use punctual_store::{Now, Turn};

use crate::dispatch::blocking::serve_ready;
use crate::event_loop::connection::Connection;
use crate::event_loop::{EventLoop, LoopTimer};
use crate::node::waiting;

impl EventLoop {
    /// Arms the timeout of a connection's command that begins to wait.
    pub(crate) fn block(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let deadline = connection
            .session
            .waiter
            .as_ref()
            .and_then(|w| w.deadline_ms());
        connection.wait_timer = deadline.map(|at| self.timers.insert(at, LoopTimer::Wait(slot)));
        if connection.out.is_empty() && connection.out.capacity() > 0 {
            // The wait may be long, so the buffer is given to other connections.
            let out = std::mem::take(&mut connection.out);
            self.keep_output(out);
        }
    }

    /// Serves the waiters of keys that became ready without a command of a client, for example
    /// because the lease of a job has ended or a key has expired.
    pub(crate) fn serve_ready(&self, turn: &mut Turn) {
        if turn.has_ready() {
            serve_ready(&self.shared, turn, self.number, &self.stopwatch);
        }
    }

    /// Records that the peer has closed its end. Commands that it sent earlier still run, unless a
    /// command waits: then the stream ends at once.
    pub(crate) fn hung_up(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot) {
            connection.hung_up = true;
            if connection.waits() {
                self.end_stream(slot);
            }
        }
    }

    /// Handles the end of the peer's stream: closes the connection when its output is written.
    /// Cancels a command that waits, so that no element is popped for it. The commands after it
    /// never run.
    pub(crate) fn end_stream(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return;
        };
        connection.ended = true;
        if connection.waits() {
            connection.paused = false;
            connection.session.closing = true;
            self.cancel_wait(&mut connection);
        }
        self.connections[slot] = Some(connection);
        self.mark_dirty(slot);
    }

    /// Cancels a connection's command that waits.
    pub(crate) fn cancel_wait(&mut self, connection: &mut Connection) {
        if let Some(key) = connection.wait_timer.take() {
            self.timers.remove(key);
        }
        if let Some(waiter) = connection.session.end_waiting()
            && !Bug::GoneClientServed.is_active()
        {
            // If another thread has already claimed the waiter, the popped element is lost with the
            // connection.
            waiter.claim();
            self.ended.waiters.push(waiter);
        }
        let info = &connection.session.info;
        self.shared.clients.registry.set_waiting(info, false);
    }

    /// Ends the wait of a connection's command at its timeout.
    pub(crate) fn time_out_waiter(&mut self, slot: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.wait_timer = None;
        // If another thread has claimed the waiter, the reply is in the mailbox, or will be.
        if let Some(waiter) = &connection.session.waiter
            && waiter.claim()
        {
            if !waiter.id().silent {
                connection.out.extend_from_slice(&waiting::unserved_reply(
                    &self.shared,
                    waiter,
                    None,
                ));
            }
            waiting::record_unserved(&self.shared, self.number, now, waiter, None);
            self.mark_dirty(slot);
            self.unblock(slot);
        }
    }

    /// Ends the wait of a connection whose command has its reply, so that the next commands may
    /// run.
    pub(crate) fn unblock(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Some(waiter) = connection.session.end_waiting() else {
            return;
        };
        if let Some(key) = connection.wait_timer.take() {
            self.timers.remove(key);
        }
        // A command such as BLPOP has changed its key, so a later WAIT must cover this change.
        connection.session.has_written = true;
        let info = &connection.session.info;
        self.shared.clients.registry.set_waiting(info, false);
        if waiter.is_queued() {
            self.ended.waiters.push(waiter);
        }
        self.resuming.unblocked.push(slot);
    }

    /// Runs the commands that clients have sent during their waits.
    pub(crate) fn resume_unblocked(&mut self, turn: &mut Turn) {
        for slot in std::mem::take(&mut self.resuming.unblocked) {
            // The connection may already wait in another command.
            if self.connection(slot).is_some_and(|c| c.waits()) {
                continue;
            }
            turn.now = self.shared.clock.now();
            self.resume(slot, turn);
        }
    }
}
