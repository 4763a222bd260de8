//! Requests from threads of the embedding program, such as [`crate::Server::advance`], and the end
//! of the loop.
//!
//! A loop moves the clock for other threads, as for the command CLOCK ADVANCE. So only a thread
//! that holds the loop's lock writes the loop's counters, and events go through the loop's sink.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::{Error, Now, Turn};
use tokio::sync::oneshot;

use crate::acl::user::User;
use crate::command::info;
use crate::dispatch::timers;
use crate::event_loop::EventLoop;
use crate::event_loop::sink::LoopSink;
use crate::node::order::Order;
use crate::node::scripts::Scripts;
use crate::observe::figures::Figures;
use crate::world::clock::{Move, MoveError};

impl EventLoop {
    /// Moves a virtual clock. The next turns handle the resulting messages and timeouts.
    pub(crate) fn move_clock(&mut self, to: Move) -> Result<Now, MoveError> {
        let shared = Arc::clone(&self.shared);
        let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
        let mut turn = Turn::new(
            &shared.store,
            shared.clock.now(),
            &mut sink,
            shared.classes(),
        );
        let mut scripts = self
            .scripts
            .take()
            .unwrap_or_else(|| Scripts::new(&shared).into());
        let number = self.number;
        let moved = shared.move_clock(&mut turn, to, |turn| {
            timers::fire_due(&shared, number, turn, &mut scripts);
        });
        self.scripts = Some(scripts);
        self.serve_ready(&mut turn);
        self.count(&mut turn);
        self.discard(&mut turn);
        moved
    }

    /// Sends the figures of INFO on `answer`. First waits for the end of a script on another loop.
    /// If the script runs for so long that it is busy, sends the error BUSY.
    pub(crate) fn send_figures(&mut self, answer: oneshot::Sender<Result<Figures, Error>>) {
        let shared = Arc::clone(&self.shared);
        let running = &shared.scripting.running;
        let mut place = None;
        loop {
            if answer.is_closed() || shared.stopping.load(Ordering::Acquire) {
                return;
            }
            if self.busy.nested || running.is_busy() {
                // The receiver may have been dropped.
                let _ = answer.send(Err(running.refusal()));
                return;
            }
            if !running.is_active() {
                break;
            }
            running.wait_in_line(&mut place, false);
        }
        drop(place);
        let figures = self.in_turn(|_, turn| info::everything(&shared, turn));
        let _ = answer.send(Ok(figures));
    }

    /// Closes subscribers and ends waits that the changed rules of their user no longer allow.
    pub(crate) fn check_user(&mut self, user: &User) {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connection(slot) else {
                continue;
            };
            let session = &connection.session;
            if session.closing || session.user.identity.id != user.identity.id {
                continue;
            }
            if !session.may_listen_on(user) {
                self.close(slot);
            } else if session.waiter.is_some() {
                shared.end_denied_wait(&session.info, number, user);
            }
        }
    }

    /// Calls `done` after the next turn. At the end of this turn, the loop writes the messages
    /// that came before this order. Clients whose wait or pause has ended resume in the next turn,
    /// which may cause more output.
    pub(crate) fn settle(&mut self, done: Box<dyn FnOnce() + Send>) {
        self.inbox.settling.push(done);
        self.more_due = true;
    }

    /// Applies the configuration after a change.
    pub(crate) fn reconfigure(&mut self) {
        let version = self.shared.settings_version();
        if version != self.settings_version {
            self.settings_version = version;
            self.settings = self.shared.settings();
            for slot in 0..self.connections.len() {
                self.arm_idle(slot);
                self.count_client(slot);
            }
        }
    }

    /// Closes all connections and listeners. Sockets are shut down before they are closed, because
    /// a child process may have inherited them and would keep the connections and the port open.
    pub(crate) fn shut_down(mut self) {
        for slot in 0..self.connections.len() {
            self.flush(slot);
            if let Some(connection) = self.connection(slot) {
                connection.socket.close();
                connection.socket.shutdown();
            }
            self.close(slot);
        }
        // Clients of this process must not wait for a loop that has ended.
        drop(self.shared.mailboxes[self.number].take_orders(
            |order| matches!(order, Order::Serve(arrival) if arrival.socket.is_local()),
        ));
        for listener in &self.listeners {
            listener.shutdown();
        }
    }
}
