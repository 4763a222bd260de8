//! The end of a server: SHUTDOWN, SIGTERM and SIGINT.
//!
//! A shutdown waits up to `shutdown-timeout` for replicas that lag. Writes are paused meanwhile, event loop 0 checks
//! whether the wait is over, and SHUTDOWN ABORT cancels it. At most one shutdown waits; a second one joins it.

pub(crate) mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::events::{Classes, Silent};
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::{Error, Turn};

use crate::client::pause::Purpose;
use crate::client::waiting;
use crate::config::ShutdownOptions;
use crate::log;
use crate::net::order::Order;
use crate::persist::save;
use crate::shared::Shared;
use state::Pending;

/// Error reply of a SHUTDOWN that has failed or was aborted.
pub(crate) const FAILED: Error = Error::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// Result of the beginning of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The server stops.
    Stopping,
    /// The shutdown waits for replicas.
    Waiting,
    /// The snapshot failed, and the server keeps running. The log has the reason.
    Failed,
}

/// Makes a client wait for the end of the shutdown.
pub(crate) fn join(shared: &Shared, loop_number: usize, waiter: Arc<Waiter>) {
    if let Some(waiter) = shared.shutdown.join(waiter)
        // It has ended meanwhile. If the server stops, the connection closes without a reply.
        && !shared.stopping.load(Ordering::Acquire)
        && waiter.claim()
    {
        waiting::answer_unserved(shared, loop_number, &waiter, Some(&FAILED));
    }
}

/// Begins a shutdown.
pub(crate) fn begin(shared: &Shared, turn: &mut Turn<'_>, options: ShutdownOptions) -> Begun {
    if shared.shutdown.deadline_ms().is_some() {
        return Begun::Waiting;
    }
    log::warning!(shared.logger, "User requested shutdown...");
    if let Some(systemd) = &shared.systemd {
        systemd.stopping();
    }
    if !options.now
        && shared.settings().shutdown_timeout_s > 0
        && shared.shutdown.replicas_lag.load(Ordering::Acquire)
    {
        postpone(shared, turn, options);
        return Begun::Waiting;
    }
    if finish(shared, turn, options) {
        Begun::Stopping
    } else {
        Begun::Failed
    }
}

/// Begins a shutdown that a signal has requested. Called by a thread of its own, which may wait for locks.
pub(crate) fn begin_by_signal(shared: &Shared, options: ShutdownOptions) {
    let mut sink = Silent;
    let now = shared.clock.now();
    let mut turn = Turn::new(&shared.store, now, &mut sink, Classes::none());
    if begin(shared, &mut turn, options) == Begun::Failed {
        shared.shutdown.forget_signal();
    }
}

/// Makes a shutdown wait for replicas.
fn postpone(shared: &Shared, turn: &Turn<'_>, options: ShutdownOptions) {
    let timeout_ms = shared.settings().shutdown_timeout_s * 1000;
    let deadline = turn.now.base_ms().saturating_add(timeout_ms);
    shared.shutdown.wait(options, deadline);
    let pauses = &shared.pauses;
    pauses.begin(Purpose::Shutdown, turn.now, u64::MAX, true);
    log::notice!(shared.logger, "Waiting for replicas before shutting down.");
    // Loop 0 sets its alarm.
    shared.mailboxes[0].order(Order::Resume);
}

/// Finishes the shutdown that waits if all replicas are in sync or its time is over. Event loop 0 calls it once a turn.
pub(crate) fn finish_if_due(shared: &Shared, turn: &mut Turn<'_>) {
    let Some(deadline) = shared.shutdown.deadline_ms() else {
        return;
    };
    if !turn.now.is_due(deadline) && shared.shutdown.replicas_lag.load(Ordering::Acquire) {
        return;
    }
    let Some(pending) = shared.shutdown.take() else {
        return;
    };
    if !finish(shared, turn, pending.options) {
        cancel(shared, 0, &pending);
    }
}

/// Cancels the shutdown that waits. Returns false if there is none. `loop_number` is the caller's.
pub(crate) fn abort(shared: &Shared, loop_number: usize) -> bool {
    let pending = shared.shutdown.take();
    if let Some(pending) = &pending {
        cancel(shared, loop_number, pending);
        log::notice!(shared.logger, "Shutdown manually aborted.");
    }
    pending.is_some()
}

/// Answers the clients of a shutdown that has ended without a stop, and ends its pause.
fn cancel(shared: &Shared, loop_number: usize, pending: &Pending) {
    shared.shutdown.forget_signal();
    for waiter in &pending.waiters {
        if waiter.claim() {
            waiting::answer_unserved(shared, loop_number, waiter, Some(&FAILED));
        }
    }
    shared.pauses.end(Purpose::Shutdown);
    shared.order_all(|| Order::Resume);
}

/// Saves a snapshot if need be, and requests a stop. Returns false if the server must keep running. After a snapshot the
/// turn holds every shard, so no write comes between it and the stop.
fn finish(shared: &Shared, turn: &mut Turn<'_>, options: ShutdownOptions) -> bool {
    let logger = &shared.logger;
    if save::before_exit(shared, turn, options.save).is_err() {
        if options.force {
            log::warning!(logger, "Error trying to save the DB. Exit anyway.");
        } else {
            log::warning!(logger, "Error trying to save the DB, can't exit.");
            if let Some(systemd) = &shared.systemd {
                systemd.save_failed();
            }
            log::warning!(
                logger,
                "Errors trying to shut down the server. Check the logs for more information."
            );
            return false;
        }
    }
    shared.stop();
    true
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::Server;

    struct Client(TcpStream);

    impl Client {
        fn open(server: &Server) -> Self {
            let stream = TcpStream::connect(server.addr().unwrap()).unwrap();
            let patience = Some(Duration::from_secs(20));
            stream.set_read_timeout(patience).unwrap();
            Self(stream)
        }

        fn send(&mut self, line: &str) {
            self.0.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        }

        #[track_caller]
        fn expect(&mut self, reply: &str) {
            let mut got = vec![0; reply.len()];
            self.0.read_exact(&mut got).unwrap();
            assert_eq!(String::from_utf8_lossy(&got), reply);
        }

        fn ends(&mut self) {
            assert_eq!(self.0.read(&mut [0]).unwrap_or(0), 0);
        }
    }

    /// Starts a server with a replica that lags, and a client whose SHUTDOWN waits for it.
    fn waiting(threads: usize) -> (Server, Client) {
        let builder = Server::builder().port(0).threads(threads);
        let server = builder.virtual_clock().spawn().unwrap();
        let shutdown = &server.shared().shutdown;
        shutdown.replicas_lag.store(true, Ordering::Release);
        let mut client = Client::open(&server);
        client.send("SET k v\r\nSHUTDOWN");
        client.expect("+OK\r\n");
        while shutdown.clients() == 0 {
            std::thread::yield_now();
        }
        (server, client)
    }

    #[test]
    fn a_waiting_shutdown_pauses_writes_and_can_be_aborted() {
        for threads in [1, 2] {
            let (server, mut client) = waiting(threads);
            let (mut writer, mut other) = (Client::open(&server), Client::open(&server));
            writer.send("SET k w");
            other.send("GET k\r\nSHUTDOWN ABORT\r\nSHUTDOWN ABORT");
            other.expect("$1\r\nv\r\n+OK\r\n-ERR No shutdown in progress.\r\n");
            client.expect("-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
            writer.expect("+OK\r\n");
            client.send("GET k\r\nSHUTDOWN NOW");
            client.expect("$1\r\nw\r\n");
            client.ends();
            server.join();
        }
    }

    #[test]
    fn a_shutdown_waits_until_replicas_are_in_sync_or_the_time_is_over() {
        let (server, mut client) = waiting(1);
        // A second SHUTDOWN joins the first one, as in Redis.
        let mut second = Client::open(&server);
        second.send("SHUTDOWN NOW");
        server.advance(Duration::from_millis(9_999)).unwrap();
        assert!(server.is_running());
        // The server may stop before it has answered.
        let _ = server.advance(Duration::from_millis(1));
        client.ends();
        second.ends();
        server.join();

        let (server, mut client) = waiting(2);
        let shared = server.shared();
        shared.shutdown.replicas_lag.store(false, Ordering::Release);
        shared.mailboxes[0].order(Order::Resume);
        client.ends();
        server.join();
    }
}
