//! A replica's connection to its primary, and changes of the server's role.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use punctual_store::keyspace::waiters::Waiter;
use punctual_store::spec::Group;

use crate::event_loop::EventLoop;
use crate::follow::apply;
use crate::log;
use crate::net::listener::Arrival;
use crate::net::socket::Socket;
use crate::replication::attachment::Attachment;
use crate::replication::upstream::Attempt;
use crate::session::Session;

/// Reply to waiting commands when the server becomes a replica.
const UNBLOCKED: &[u8] = b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n";

impl EventLoop {
    /// Makes the primary a client of this loop. The primary's commands are the replication stream.
    /// After a full synchronization, first replaces the keyspace.
    pub(crate) fn attach_primary(&mut self, mut attachment: Attachment) {
        let shared = Arc::clone(&self.shared);
        if let Some(slot) = self.primary {
            self.close(slot);
        }
        self.in_turn(|this, turn| {
            if !apply::begin(&shared, turn, &mut attachment) {
                return;
            }
            let generation = attachment.attempt.generation;
            if let Some(slot) = this.serve_primary(attachment.socket, &attachment.attempt) {
                shared.replication.upstream.attached(generation);
                turn.release();
                if !attachment.rest.is_empty() {
                    this.received(slot, &attachment.rest, turn);
                }
                this.read_again(slot);
                this.acknowledge_primary();
            } else {
                shared.replication.upstream.lost(generation, true);
                this.follow_primary();
            }
        });
    }

    /// Adds the primary's connection to this loop.
    fn serve_primary(&mut self, socket: Socket, attempt: &Attempt) -> Option<usize> {
        let stream = socket.tcp()?;
        let name = |addr: std::io::Result<std::net::SocketAddr>| {
            addr.map(|addr| addr.to_string()).unwrap_or_default()
        };
        let arrival = Arrival {
            addr: name(stream.peer_addr()),
            laddr: name(stream.local_addr()),
            fd: stream.as_raw_fd(),
            unix: false,
            local: false,
            own: false,
            socket,
        };
        arrival.set_keepalive(self.settings.tcp_keepalive_s);
        self.shared.clients.registry.admit(usize::MAX);
        let slot = self.serve(arrival, self.shared.clock.now())?;
        let session = &mut self.connection(slot)?.session;
        session.follow(attempt.generation, attempt.db);
        self.primary = Some(slot);
        Some(slot)
    }

    /// Acknowledges the applied stream to the primary, and closes its connection if it has been
    /// silent for too long.
    pub(crate) fn acknowledge_primary(&mut self) {
        let Some(slot) = self.primary else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let timeout_s = u64::from(self.settings.replica.timeout_s);
        if shared.replication.upstream.silence().as_secs() > timeout_s {
            log::warning!(
                shared.logger,
                "MASTER timeout: no data nor PING received..."
            );
            self.close(slot);
            return;
        }
        if let Some(connection) = self.connection(slot)
            && let Some(applied) = &mut connection.session.upstream
        {
            let offset = applied.offset(&shared);
            apply::acknowledge(&shared, applied, offset, &mut connection.out);
            self.mark_dirty(slot);
        }
        self.plan_acknowledgement();
    }

    /// Processes the answer of the new primary to the PSYNC of a failover.
    pub(crate) fn failover_answered(&mut self, accepted: bool) {
        let shared = Arc::clone(&self.shared);
        self.in_turn(|_, turn| shared.failover_answered(turn, accepted));
    }

    /// Handles the end of the primary's connection.
    pub(crate) fn primary_lost(&mut self, session: &Session) {
        self.primary = None;
        if let Some(applied) = &session.upstream
            && self
                .shared
                .replication
                .upstream
                .lost(applied.generation, applied.refused)
        {
            log::warning!(self.shared.logger, "Connection with master lost.");
            log::notice!(self.shared.logger, "Caching the disconnected master state.");
        }
        self.follow_primary();
    }

    /// Closes the connection to a former primary after a change of the role. If the server is a
    /// replica now, also ends the commands that wait, and closes their connections. Overdue keys of
    /// a promoted replica expire in the next turn.
    pub(crate) fn change_role(&mut self) {
        self.more_due = true;
        let generation = self.shared.replication.upstream.generation();
        let generation_of = |c: &crate::event_loop::connection::Connection| {
            c.session.upstream.as_ref().map(|a| a.generation)
        };
        if let Some(slot) = self.primary
            && self
                .connection(slot)
                .is_some_and(|c| generation_of(c) != Some(generation))
        {
            self.close(slot);
        }
        self.end_outdated_link();
        if self.number == 0 {
            self.follow_primary();
        }
        if !self.shared.replication.is_replica() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let table = shared.commands.table();
        // A CLUSTER command that has changed the role waits until the role is saved.
        let group = |waiter: &Waiter| Some(table.entry(waiter.id().entry)?.row.group);
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connection(slot) else {
                continue;
            };
            if let Some(waiter) = &connection.session.waiter
                && group(waiter) != Some(Group::Cluster)
                && waiter.claim()
            {
                connection.out.extend_from_slice(UNBLOCKED);
                connection.session.closing = true;
                self.mark_dirty(slot);
                self.flush(slot);
            }
        }
    }
}
