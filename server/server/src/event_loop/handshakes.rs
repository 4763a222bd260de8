//! TLS handshakes.
//!
//! A handshake needs a private-key operation, which may take a millisecond. In one turn the loop
//! performs handshakes for [`TURN_BUDGET`] only. So a crowd of new clients delays other clients and
//! expiries by little more than one operation. A peer that does not finish within [`TIMEOUT_MS`] is
//! disconnected; until then it costs a socket and the TLS session's state.

use std::io;
use std::time::Duration;

use punctual_store::Turn;

use crate::event_loop::EventLoop;
use crate::event_loop::connections::PROTECTED_MODE;
use crate::log;

/// Time for handshakes in one turn.
const TURN_BUDGET: Duration = Duration::from_micros(250);
/// Maximum time from accepting a connection to the end of its handshake.
pub(crate) const TIMEOUT_MS: u64 = 10_000;

impl EventLoop {
    /// Continues a connection's handshake, then reads. Postpones it to the next turn if this turn's
    /// time for handshakes is used up.
    pub(crate) fn shake_hands(&mut self, slot: usize, turn: &mut Turn) {
        // While a script is busy, handshakes delay no other work of the loop, and the new client
        // may send SCRIPT KILL.
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
                // The first commands may have arrived with the handshake, and replies may be
                // pending.
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

    /// Disconnects a peer that has not finished its handshake in time.
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

    /// If protected mode refuses an encrypted client, sends it the error and returns true.
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
