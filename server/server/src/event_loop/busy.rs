//! Serving the loop's clients while a script keeps the loop from its work.
//!
//! The connection whose command runs has been taken out of the loop's table. The others are read as ever, but their
//! commands get the error BUSY, except for those that end the script.

use std::time::Duration;

use mio::Events;
use punctual_store::Turn;

use crate::dispatch::Background;
use crate::event_loop::EventLoop;
use crate::event_loop::sink::LoopSink;
use crate::node::order::Order;

/// What the loop needs while a script is busy.
#[derive(Default)]
pub(crate) struct Busy {
    /// The loop serves its clients in the middle of a command.
    pub(crate) nested: bool,
    /// Every connection has been read since the script became busy.
    swept: bool,
    /// The connection whose command runs had an event.
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
        // An error shows again when the loop polls next.
        let _ = self.poll.poll(&mut events, Some(Duration::ZERO));
        self.busy.nested = true;
        // The outer read has the loop's buffer.
        let buffer = std::mem::replace(
            &mut self.reading.buffer,
            vec![0; crate::event_loop::READ_SIZE].into(),
        );
        let shared = self.shared();
        let mut sink = LoopSink::new(&shared, self.number, false);
        let now = shared.clock.now();
        let mut turn = Turn::new(&shared.store, now, &mut sink, shared.classes());
        turn.may_lock = false;
        // Everything else in the mailbox waits until the loop is at its work again.
        let mailbox = &shared.mailboxes[self.number];
        let served = |order: &Order| {
            matches!(
                order,
                Order::Serve(_) | Order::FeedReplicas | Order::Figures(_)
            )
        };
        for order in mailbox.take_orders(served) {
            match order {
                Order::Serve(arrival) => drop(self.serve(arrival, now)),
                Order::Figures(answer) => self.send_figures(answer),
                _ => self.feed_replicas(),
            }
        }
        if !std::mem::replace(&mut self.busy.swept, true) {
            // Events that this turn of the loop has not reached are not reported again.
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
    /// Notes that no script keeps the loop from its work any more.
    pub(crate) fn end_busy(&mut self, slot: usize) {
        self.busy_is_over();
        if std::mem::take(&mut self.busy.missed) {
            self.read_again(slot);
            self.mark_dirty(slot);
        }
    }

    /// As [`EventLoop::end_busy`], for a script that no connection has called.
    pub(crate) fn busy_is_over(&mut self) {
        self.busy.swept = false;
    }
}
