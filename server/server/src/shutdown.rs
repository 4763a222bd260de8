//! The end of a server: SHUTDOWN, SIGTERM and SIGINT.
//!
//! A shutdown waits up to `shutdown-timeout` for replicas that lag. Meanwhile writes are paused,
//! loop 0 checks whether the wait is over, and SHUTDOWN ABORT cancels the shutdown. At most one
//! shutdown waits; a second SHUTDOWN waits for the same end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::events::{Classes, Silent};
use punctual_store::keyspace::waiters::Waiter;
use punctual_store::{Error, Turn};

use crate::client::pause::Purpose;
use crate::config::ShutdownOptions;
use crate::durability::aof::Phase;
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::node::shutdown::Pending;
use crate::node::waiting;
use crate::persist::save;

/// Error reply of a SHUTDOWN that has failed or was aborted.
pub(crate) const FAILED: Error = Error::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// Result of [`begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The server stops.
    Stopping,
    /// The shutdown waits for replicas.
    Waiting,
    /// The server keeps running, because it cannot save its data. The log has the reason.
    Failed,
}

/// Makes a client wait for the end of the shutdown.
pub(crate) fn join(shared: &Shared, loop_number: usize, waiter: Arc<Waiter>) {
    if let Some(waiter) = shared.shutdown.join(waiter)
        // The shutdown ended before the client could join it. If the server stops, the connection
        // closes without a reply.
        && !shared.stopping.load(Ordering::Acquire)
        && waiter.claim()
    {
        waiting::answer_unserved(shared, loop_number, &waiter, Some(&FAILED));
    }
}

/// Begins a shutdown.
pub(crate) fn begin(shared: &Shared, turn: &mut Turn, options: ShutdownOptions) -> Begun {
    if shared.shutdown.deadline_ms().is_some() {
        return Begun::Waiting;
    }
    log::warning!(shared.logger, "User requested shutdown...");
    if let Some(systemd) = &shared.systemd {
        systemd.stopping();
    }
    if !options.now && shared.settings().shutdown_timeout_s > 0 && replicas_lag(shared) {
        postpone(shared, turn, options);
        return Begun::Waiting;
    }
    if finish(shared, turn, options) {
        Begun::Stopping
    } else {
        Begun::Failed
    }
}

/// Begins a shutdown that a signal has requested. The calling thread is not an event loop, so it
/// may wait for locks.
pub(crate) fn begin_by_signal(shared: &Shared, options: ShutdownOptions) {
    let mut sink = Silent;
    let now = shared.clock.now();
    let mut turn = Turn::new(&shared.store, now, &mut sink, Classes::none());
    if shared.switches.cron_paused.load(Ordering::SeqCst) {
        // As in Redis, the shutdown begins when DEBUG PAUSE-CRON 0 resumes the periodic work.
        return shared.shutdown.wait(options, now.base_ms());
    }
    if begin(shared, &mut turn, options) == Begun::Failed {
        shared.shutdown.forget_signal();
    }
}

/// Returns whether a replica has not acknowledged the whole stream.
fn replicas_lag(shared: &Shared) -> bool {
    let offset = shared.replication.offset();
    let replicas = shared.replication.replicas.all();
    replicas.iter().any(|replica| replica.acked() != offset)
}

/// Makes loop 0 check the waiting shutdown, after an acknowledgement.
pub(crate) fn check(shared: &Shared) {
    if shared.shutdown.deadline_ms().is_some() {
        shared.mailboxes[0].order(Order::Resume);
    }
}

/// Makes the shutdown wait for replicas.
fn postpone(shared: &Shared, turn: &Turn, options: ShutdownOptions) {
    let timeout_ms = shared.settings().shutdown_timeout_s * 1000;
    let deadline = turn.now.base_ms().saturating_add(timeout_ms);
    shared.shutdown.wait(options, deadline);
    let pauses = &shared.clients.pauses;
    pauses.begin(Purpose::Shutdown, turn.now, u64::MAX, true);
    log::notice!(shared.logger, "Waiting for replicas before shutting down.");
    shared.replication.replicas.acks.request();
    // Loop 0 sets its alarm in its next turn.
    shared.mailboxes[0].order(Order::Resume);
}

/// Finishes the waiting shutdown if all replicas have caught up or its time is over. Loop 0 calls
/// this once a turn.
pub(crate) fn finish_if_due(shared: &Shared, turn: &mut Turn) {
    let Some(deadline) = shared.shutdown.deadline_ms() else {
        return;
    };
    if !turn.now.is_due(deadline) && replicas_lag(shared) {
        return;
    }
    let Some(pending) = shared.shutdown.take() else {
        return;
    };
    if !finish(shared, turn, pending.options) {
        cancel(shared, 0, &pending);
    }
}

/// Cancels the waiting shutdown. Returns false if no shutdown waits. The caller runs on loop
/// `loop_number`.
pub(crate) fn abort(shared: &Shared, loop_number: usize) -> bool {
    let pending = shared.shutdown.take();
    if let Some(pending) = &pending {
        cancel(shared, loop_number, pending);
        log::notice!(shared.logger, "Shutdown manually aborted.");
    }
    pending.is_some()
}

/// Answers the clients of a shutdown that ended without a stop, and ends its pause.
fn cancel(shared: &Shared, loop_number: usize, pending: &Pending) {
    shared.shutdown.forget_signal();
    for waiter in &pending.waiters {
        if waiter.claim() {
            waiting::answer_unserved(shared, loop_number, waiter, Some(&FAILED));
        }
    }
    shared.clients.pauses.end(Purpose::Shutdown);
    shared.order_all(|| Order::Resume);
}

/// Saves a snapshot if necessary, and requests a stop. Returns false if the server must keep
/// running. After a snapshot, the turn holds every shard until the stop, so the snapshot has every
/// write.
fn finish(shared: &Shared, turn: &mut Turn, options: ShutdownOptions) -> bool {
    let logger = &shared.logger;
    log_replicas(shared);
    // Before the first base is complete, the append-only file lacks most of the data.
    let mut failed = shared.durability.aof.phase() == Phase::Starting;
    if failed && options.force {
        log::warning!(logger, "Writing initial AOF. Exit anyway.");
        failed = false;
    } else if failed {
        log::warning!(logger, "Writing initial AOF, can't exit.");
    }
    if !failed && save::before_exit(shared, turn, options.save).is_err() {
        if options.force {
            log::warning!(logger, "Error trying to save the DB. Exit anyway.");
        } else {
            log::warning!(logger, "Error trying to save the DB, can't exit.");
            if let Some(systemd) = &shared.systemd {
                systemd.save_failed();
            }
            failed = true;
        }
    }
    if failed {
        log::warning!(
            logger,
            "Errors trying to shut down the server. Check the logs for more information."
        );
    } else {
        shared.stop();
    }
    !failed
}

/// Logs the number of replicas that have caught up, and each replica that lags.
fn log_replicas(shared: &Shared) {
    let (offset, replicas) = (
        shared.replication.offset(),
        shared.replication.replicas.all(),
    );
    let mut lagging = 0;
    for replica in replicas.iter().filter(|replica| replica.acked() != offset) {
        lagging += 1;
        let lag_ms = match replica.is_online() {
            true => replica.silence_ms(),
            false => 0,
        };
        log::warning!(
            shared.logger,
            "Lagging replica {replica} reported offset {} behind master, lag={}, state={}.",
            offset.saturating_sub(replica.acked()),
            lag_ms / 1000,
            replica.state_name()
        );
    }
    if !replicas.is_empty() {
        log::notice!(
            shared.logger,
            "{} of {} replicas are in sync when shutting down.",
            replicas.len() - lagging,
            replicas.len()
        );
    }
}
