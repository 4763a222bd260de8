//! Clients in the server's own process.
//!
//! Such a client has a connection like any other client, with a [`Pipe`] in place of a socket. Its
//! thread runs most commands itself: it locks the loop, which sleeps, and does what the loop would
//! do with this input. All other commands go through the pipe, and the loop's thread runs them:
//! commands that may take long, and commands that arrive while the loop is in use.
//!
//! Ground rules: [`EventLoop::run_local`] does not use the poll, which the sleeping thread has, and
//! waits only for locks. It wakes the loop's thread if it leaves work that the thread does not
//! expect.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::event_loop::EventLoop;
use crate::event_loop::sink::LoopSink;
use crate::memory::counters::Borrowed;
use crate::net::local::Pipe;

impl EventLoop {
    /// Returns the slot of a local client, if the loop serves it.
    pub(crate) fn slot_of(&mut self, pipe: &Pipe) -> Option<usize> {
        let (slot, client) = *pipe.client.get()?;
        self.slot_has(slot, client).then_some(slot)
    }

    /// Runs a local client's commands on the client's thread. Returns false, and runs nothing, if
    /// the loop's thread must run them. Puts the replies into `output`, which must be empty.
    /// Replies go through the pipe instead if they are long, if messages may precede them, or if
    /// they must wait for the append-only file.
    pub(crate) fn run_local(&mut self, pipe: &Pipe, input: &[u8], output: &mut Vec<u8>) -> bool {
        let shared = Arc::clone(&self.shared);
        let is_free = !self.stopping
            && !shared.scripting.running.is_active()
            && !shared.durability.is_loading()
            && !shared.durability.changelog.is_full();
        let Some(slot) = self.slot_of(pipe) else {
            return false;
        };
        let Some(connection) = self.connection(slot) else {
            return false;
        };
        let is_ready = !connection.session.closing
            && !connection.holds_input()
            && !connection.session.info.killed.load(Ordering::Acquire);
        if !is_free || !is_ready {
            return false;
        }
        let _counter = self.counter.map(Borrowed::new);
        self.prepare_turn();
        {
            let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
            let (now, classes) = (shared.clock.now(), shared.classes());
            let mut turn = Turn::with_limits(&shared.store, now, &mut sink, classes, self.limits);
            self.received_now(slot, input, &mut turn);
            self.serve_ready(&mut turn);
            self.count(&mut turn);
            self.discard(&mut turn);
        }
        self.end_holding();
        self.take_replies(slot, output);
        self.flush_dirty();
        self.wake_after_local();
        true
    }

    /// Moves a local client's output to `to`, if no earlier output can be in its pipe.
    fn take_replies(&mut self, slot: usize, to: &mut Vec<u8>) {
        let Some(connection) = self.connection(slot) else {
            return;
        };
        if !connection.session.separates_messages() && connection.take_output(to) {
            let sent = to.len() as u64;
            let info = &connection.session.info;
            let net_out = info.net_out.load(Ordering::Relaxed) + sent;
            info.net_out.store(net_out, Ordering::Relaxed);
            self.shared.observed.stats[self.number].net_out.add(sent);
        }
    }

    /// Wakes the loop's thread if it sleeps and there is work for it.
    fn wake_after_local(&self) {
        let mailbox = &self.shared.mailboxes[self.number];
        let has_work = self.has_work() || !self.writing.held.slots.is_empty();
        // Mail wakes the loop by itself.
        mailbox.wake_for(if has_work { 0 } else { self.next_wakeup_ms() });
    }

    /// Schedules a read of a local client's input, and a write of the output for which its pipe has
    /// room now.
    pub(crate) fn serve_local(&mut self, pipe: &Pipe) {
        if let Some(slot) = self.slot_of(pipe) {
            self.read_again(slot);
            self.mark_dirty(slot);
        }
    }
}
