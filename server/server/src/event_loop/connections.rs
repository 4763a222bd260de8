//! Accepting, serving and closing the connections of an event loop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::{Interest, Token};
use punctual_resp::Protocol;
use punctual_store::Now;

use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::event_loop::connection::Connection;
use crate::event_loop::{EventLoop, LISTENERS, LoopTimer, handshakes};
use crate::log;
use crate::net::listener::{Arrival, Listener};
use crate::net::socket::Socket;
use crate::node::order::Order;
use crate::session::Session;

/// Maximum number of connections that the loop accepts from one listener in one turn.
const ACCEPTS_A_TURN: usize = 256;
/// Delay after accepting has failed, for example at the limit of open files.
const ACCEPT_AGAIN_MS: u64 = 100;

pub(crate) const PROTECTED_MODE: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a default user password. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.";

impl EventLoop {
    pub(crate) fn accept(&mut self, listener: usize, now: Now) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listeners[listener].accept() {
                Ok(arrival) => match self.listeners[listener] {
                    Listener::Bus(..) => self.join_bus(arrival),
                    _ => self.admit(arrival, now),
                },
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    log::warning!(self.shared.logger, "Accepting client connection: {e}");
                    if !std::mem::replace(&mut self.retry_armed, true) {
                        let at = now.read_ms() + ACCEPT_AGAIN_MS;
                        self.timers.insert(at, LoopTimer::RetryAccept);
                    }
                    return;
                }
            }
        }
        // More connections may be pending, but readiness is reported once. Registering again
        // reports it again.
        let token = Token(LISTENERS - listener);
        let source = self.listeners[listener].source();
        if let Err(e) = self.registry.reregister(source, token, Interest::READABLE) {
            log::warning!(
                self.shared.logger,
                "Can't wait for connections of a listener: {e}"
            );
        }
    }

    /// Replaces the listeners of `port`, of `tls-port`, or of both. `None` keeps the old listeners.
    pub(crate) fn listen(&mut self, plain: Option<Vec<Listener>>, tls: Option<Vec<Listener>>) {
        let mut all: Vec<Listener> = std::mem::take(&mut self.listeners);
        for listener in &mut all {
            // The listener is registered again below, or closed.
            let _ = self.registry.deregister(listener.source());
        }
        all.retain(|listener| match listener {
            Listener::Tcp(_) => plain.is_none(),
            Listener::Tls(..) => tls.is_none(),
            Listener::Unix(..) | Listener::Bus(..) => true,
        });
        all.extend(plain.into_iter().chain(tls).flatten());
        for (i, listener) in all.iter_mut().enumerate() {
            let token = Token(LISTENERS - i);
            let source = listener.source();
            if let Err(e) = self.registry.register(source, token, Interest::READABLE) {
                log::warning!(
                    self.shared.logger,
                    "Can't wait for connections of a listener: {e}"
                );
            }
        }
        self.listeners = all;
    }

    /// Assigns a new connection to a loop, or refuses it with an error.
    pub(crate) fn admit(&mut self, arrival: Arrival, now: Now) {
        let stats = &self.shared.observed.stats[self.number];
        stats.connections.add(1);
        if !self
            .shared
            .clients
            .registry
            .admit(self.settings.max_clients)
        {
            stats.rejected_connections.add(1);
            return arrival.refuse("ERR max number of clients reached");
        }
        // An encrypted client gets the error after its handshake.
        if self.settings.protected_mode
            && !arrival.local
            && !arrival.socket.is_handshaking()
            && self.shared.clients.users.default_user().no_password
        {
            self.shared.clients.registry.leave();
            stats.rejected_connections.add(1);
            return arrival.refuse(PROTECTED_MODE);
        }
        arrival.set_keepalive(self.settings.tcp_keepalive_s);
        let next = self
            .shared
            .clients
            .next_loop
            .fetch_add(1, Ordering::Relaxed)
            % self.shared.mailboxes.len();
        if next == self.number {
            self.serve(arrival, now);
        } else {
            self.shared.mailboxes[next].order(Order::Serve(arrival));
        }
    }

    /// Adds a connection to this loop. Returns its slot, or `None` if the system cannot report the
    /// events of its socket.
    pub(crate) fn serve(&mut self, mut arrival: Arrival, now: Now) -> Option<usize> {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        if let Err(e) = arrival.socket.register(&self.registry, Token(slot)) {
            log::warning!(
                self.shared.logger,
                "Can't wait for input of a client connection: {e}"
            );
            self.free_slots.push(slot);
            self.shared.clients.registry.leave();
            return None;
        }
        let info = Arc::new(ClientInfo {
            id: self.shared.clients.registry.next_id(),
            addr: arrival.addr,
            laddr: arrival.laddr,
            fd: arrival.fd,
            unix: arrival.unix,
            local: arrival.local,
            tls: matches!(arrival.socket, Socket::Tls(..)),
            loop_number: self.number,
            slot,
            fixed_bytes: size_of::<Connection>() as u64,
            created_ms: now.read_ms(),
            seen_ms: now.read_ms().into(),
            resp: 2.into(),
            multi: (-1).into(),
            ..ClientInfo::default()
        });
        self.shared.clients.registry.add(Arc::clone(&info));
        if let Socket::Local(end) = &arrival.socket {
            // A pipe is served once.
            let _ = end.client.set((slot, info.id));
            self.shared.observed.stats[self.number].connections.add(1);
        }
        let mut session = match arrival.own {
            true => Session::new(info, User::internal()),
            false => Session::new(info, self.shared.clients.users.default_user()),
        };
        if arrival.own {
            session.set_protocol(&self.shared.clients.pubsub, Protocol::Resp3);
            session.set_no_touch(!arrival.socket.is_local());
            session.set_no_evict(true);
        }
        self.connections[slot] = Some(Box::new(Connection::new(arrival.socket, session)));
        self.arm_idle(slot);
        Some(slot)
    }

    /// Arms a connection's idle timer again, or cancels it if `timeout` is 0. During a handshake,
    /// the timer has the handshake's time limit instead.
    pub(crate) fn arm_idle(&mut self, slot: usize) {
        let mut timeout_ms = u64::from(self.settings.timeout_s) * 1000;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if connection.socket.is_handshaking() {
            timeout_ms = handshakes::TIMEOUT_MS;
        }
        if let Some(key) = connection.idle_timer.take() {
            self.timers.remove(key);
        }
        if timeout_ms > 0 {
            let at = connection.session.info.seen_ms.load(Ordering::Relaxed) + timeout_ms;
            connection.idle_timer = Some(self.timers.insert(at, LoopTimer::Idle(slot)));
        }
    }

    /// Handles timers of the loop that have fired.
    pub(crate) fn run_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.shared.clock.now();
        let now_ms = now.read_ms();
        while let Some(expired) = self.timers.pop_due(now_ms) {
            match expired.value {
                LoopTimer::RetryAccept => {
                    self.retry_armed = false;
                    for listener in 0..self.listeners.len() {
                        self.accept(listener, now);
                    }
                }
                LoopTimer::Round => self.begin_round(),
                LoopTimer::Idle(slot) => self.close_idle(slot, now_ms),
                LoopTimer::Wait(slot) => self.time_out_waiter(slot, now),
                LoopTimer::SoftLimit(slot) => {
                    // The flush checks the limit and closes the connection.
                    if let Some(connection) = self.connection(slot) {
                        connection.soft_timer = None;
                        self.mark_dirty(slot);
                    }
                }
            }
        }
    }

    /// Closes a connection that has been idle for too long, or arms its timer again. Idleness is
    /// checked only when the timer fires, so commands do not change the timer.
    fn close_idle(&mut self, slot: usize, now_ms: u64) {
        let timeout_ms = u64::from(self.settings.timeout_s) * 1000;
        let Some(connection) = self.connection(slot) else {
            return;
        };
        connection.idle_timer = None;
        if connection.socket.is_handshaking() {
            return self.end_handshake(slot);
        }
        let session = &connection.session;
        let seen_ms = session.info.seen_ms.load(Ordering::Relaxed);
        // Subscribers and waiting clients legitimately send nothing.
        let exempt = connection.socket.is_local()
            || session.receives_messages()
            || session.replica.is_some()
            || session.is_primary()
            || connection.waits();
        if !exempt && now_ms >= seen_ms + timeout_ms {
            log::verbose!(self.shared.logger, "Closing idle client");
            self.close(slot);
        } else {
            let base = if exempt { now_ms } else { seen_ms };
            let key = self.timers.insert(base + timeout_ms, LoopTimer::Idle(slot));
            if let Some(connection) = self.connection(slot) {
                connection.idle_timer = Some(key);
            }
        }
    }

    /// Closes a connection that exceeds its output limit.
    pub(crate) fn close_over_limit(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot).and_then(Option::as_ref) {
            let session = &connection.session;
            self.shared.observed.stats[self.number]
                .output_limit_closed
                .add(1);
            log::warning!(
                self.shared.logger,
                "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                session.id,
                session.info.addr
            );
        }
        self.close(slot);
    }

    /// Closes a connection and removes its state.
    pub(crate) fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if let Some(key) = connection.idle_timer {
            self.timers.remove(key);
        }
        if let Some(key) = connection.soft_timer {
            self.timers.remove(key);
        }
        connection.socket.close();
        connection.socket.deregister(&self.registry);
        self.cancel_wait(&mut connection);
        let session = &mut connection.session;
        if session.is_primary() {
            self.primary_lost(session);
        }
        if let Some(replica) = session.replica.take() {
            self.replicas.retain(|other| *other != slot);
            self.shared.detach(&replica);
        }
        self.shared
            .memory
            .count_clients(self.number, -connection.counted);
        let session = &mut connection.session;
        session.unsubscribe_all(&self.shared.clients.pubsub);
        self.shared
            .clients
            .trackers
            .end(&self.shared.store, session);
        if !session.watched.is_empty() {
            // The running turn may hold locks, so the keys are unwatched at the end of the turn.
            let watched = std::mem::take(&mut session.watched);
            self.ended
                .watches
                .push((watched, Arc::clone(&session.info)));
        }
        self.shared.clients.monitors.remove(session);
        self.shared.clients.registry.remove(session.id);
        self.free_slots.push(slot);
    }
}
