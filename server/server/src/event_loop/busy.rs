//! Serving the loop's clients while a script runs for long.
//!
//! The connection that called the script is taken out of the loop's table meanwhile. The loop reads
//! the other connections as usual, but their commands get the error BUSY, except commands such as
//! SCRIPT KILL.

use std::time::Duration;

use mio::Events;
use punctual_store::Turn;

use crate::dispatch::Background;
use crate::event_loop::EventLoop;
use crate::event_loop::sink::LoopSink;
use crate::node::order::Order;

/// State of the loop while a script is busy.
#[derive(Default)]
pub(crate) struct Busy {
    /// Whether the loop serves its clients now, while a command runs.
    pub(crate) nested: bool,
    /// Whether every connection has been read since the script became busy.
    swept: bool,
    /// Whether the connection that called the script had an event meanwhile.
    pub(crate) missed: bool,
    events: Option<Events>,
}

impl Background for EventLoop {
    fn serve_clients(&mut self) {
        let mut events = self
            .busy
            .events
            .take()
            .unwrap_or_else(|| Events::with_capacity(256));
        if let Some(poll) = &mut self.poll {
            // An error appears again at the next poll.
            let _ = poll.poll(&mut events, Some(Duration::ZERO));
        }
        self.busy.nested = true;
        // The read that called the script uses the loop's buffer, so other reads get a new one.
        let buffer = std::mem::replace(
            &mut self.reading.buffer,
            vec![0; crate::event_loop::READ_SIZE].into(),
        );
        let shared = self.shared();
        let mut sink = LoopSink::new(&shared, self.number, false);
        let now = shared.clock.now();
        let mut turn = Turn::new(&shared.store, now, &mut sink, shared.classes());
        turn.may_lock = false;
        // The loop handles only these orders now. All other mail waits until the script has ended.
        let mailbox = &shared.mailboxes[self.number];
        let served = |order: &Order| {
            matches!(
                order,
                Order::Serve(_) | Order::FeedReplicas | Order::Figures(_) | Order::Local(_)
            )
        };
        for order in mailbox.take_orders(served) {
            match order {
                Order::Serve(arrival) => drop(self.serve(arrival, now)),
                Order::Figures(answer) => self.send_figures(answer),
                Order::Local(pipe) => {
                    if let Some(slot) = self.slot_of(&pipe) {
                        self.read(slot, false, &mut turn);
                        self.mark_dirty(slot);
                    }
                }
                _ => self.feed_replicas(),
            }
        }
        if !std::mem::replace(&mut self.busy.swept, true) {
            // The poll never repeats events that the interrupted turn has not handled, so the loop
            // tries all listeners and connections once.
            for listener in 0..self.listeners.len() {
                self.accept(listener, now);
            }
            self.run_gathered(&mut turn);
            for slot in 0..self.connections.len() {
                self.read(slot, false, &mut turn);
            }
        }
        for event in &events {
            self.handle(event, now, &mut turn);
        }
        drop(turn);
        for slot in std::mem::take(&mut self.writing.dirty) {
            if self.connection(slot).is_some() {
                self.flush(slot);
            } else {
                self.writing.dirty.push(slot);
            }
        }
        self.reading.buffer = buffer;
        self.busy.nested = false;
        self.busy.events = Some(events);
    }
}

impl EventLoop {
    /// Resets the state of a busy script after a connection's command. Reads the connection again
    /// if it had an event meanwhile.
    pub(crate) fn end_busy(&mut self, slot: usize) {
        self.busy_is_over();
        if std::mem::take(&mut self.busy.missed) {
            self.read_again(slot);
            self.mark_dirty(slot);
        }
    }

    /// Resets the state of a busy script that no connection has called, such as a timer's script.
    pub(crate) fn busy_is_over(&mut self) {
        self.busy.swept = false;
    }
}
