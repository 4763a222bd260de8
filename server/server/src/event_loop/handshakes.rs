//! Handshakes of encrypted connections.
//!
//! A handshake needs a private key operation, which may take a millisecond. A turn of the loop does
//! handshakes for [`TURN_BUDGET`] only, so that a crowd of new clients delays the others, and what
//! expires, by little more than one of them. A peer that does not finish in [`TIMEOUT_MS`] is
//! disconnected; until then it costs a socket and the session's state.

use std::io;
use std::time::Duration;

use punctual_store::Turn;

use crate::event_loop::EventLoop;
use crate::event_loop::connections::PROTECTED_MODE;
use crate::log;

/// Time for handshakes in one turn.
const TURN_BUDGET: Duration = Duration::from_micros(250);
/// Longest time from accepting a connection to the end of its handshake.
pub(crate) const TIMEOUT_MS: u64 = 10_000;

impl EventLoop {
    /// Continues a connection's handshake, then reads. Later, if this turn's time for handshakes is
    /// used up.
    pub(crate) fn shake_hands(&mut self, slot: usize, turn: &mut Turn) {
        // A script that keeps the loop from its turns keeps nothing else waiting, and a new client
        // may be the one to end it.
        if self.handshake_time >= TURN_BUDGET && !self.busy.nested {
            return self.read_again(slot);
        }
        let began = self.stopwatch.raw();
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let result = connection.socket.shake_hands();
        let nanos = self.stopwatch.delta_as_nanos(began, self.stopwatch.raw());
        self.handshake_time += Duration::from_nanos(nanos);
        match result {
            Ok(()) => {
                self.arm_idle(slot);
                if self.refuses_unprotected(slot) {
                    return;
                }
                // What is sent behind the handshake has come with it, and replies may wait.
                self.mark_dirty(slot);
                self.read(slot, false, turn);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                let info = &connection.session.info;
                log::warning!(
                    self.shared.logger,
                    "Error accepting a client connection: {} (addr={} laddr={})",
                    match error.kind() {
                        io::ErrorKind::UnexpectedEof => "Connection closed by the peer".to_owned(),
                        _ => error.to_string(),
                    },
                    info.addr,
                    info.laddr
                );
                self.close(slot);
            }
        }
    }

    /// Disconnects a peer that does not finish its handshake.
    pub(crate) fn end_handshake(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot) {
            let info = std::sync::Arc::clone(&connection.session.info);
            log::warning!(
                self.shared.logger,
                "Error accepting a client connection: TLS handshake timed out (addr={} laddr={})",
                info.addr,
                info.laddr
            );
            self.close(slot);
        }
    }

    /// Tells an encrypted client that protected mode refuses it, and returns true, if it does.
    fn refuses_unprotected(&mut self, slot: usize) -> bool {
        let shared = std::sync::Arc::clone(&self.shared);
        let open = self.settings.protected_mode && shared.clients.users.default_user().no_password;
        let Some(connection) = self.connection(slot) else {
            return true;
        };
        if !open || connection.session.info.local {
            return false;
        }
        let text = format!("-{PROTECTED_MODE}\r\n");
        connection.out.extend_from_slice(text.as_bytes());
        connection.session.closing = true;
        self.shared.observed.stats[self.number]
            .rejected_connections
            .add(1);
        self.mark_dirty(slot);
        true
    }
}
