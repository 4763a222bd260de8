//! Periodic work for replicas: PINGs, empty lines to waiting replicas, full synchronizations, and
//! timeouts.
//!
//! The upkeep runs in a turn of loop 0. It runs once a second while there are replicas or
//! `min-replicas-to-write` is set. It also runs when a synchronization or the time limit of a
//! failover is due, when an unused backlog must be freed, and when another thread requests it
//! ([`Shared::request_upkeep`]). The upkeep measures time with the stopwatch (the machine's
//! monotonic clock), also with a virtual clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::config::Settings;
use crate::feed::full_sync;
use crate::log;
use crate::node::Shared;
use crate::replication::replica::{Phase, Replica};

/// Interval of the upkeep. Redis's `replicationCron` has the same interval.
const PERIOD_MS: u64 = 1_000;

/// Delay before the next attempt while a script runs.
const SCRIPT_RETRY_MS: u64 = 10;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Runs the upkeep if it is due. The turn holds no lock.
pub(crate) fn run_if_due(shared: &Arc<Shared>, turn: &mut Turn) {
    let replicas = &shared.replication.replicas;
    let at_ms = replicas.upkeep_ms.load(Ordering::Relaxed);
    if at_ms == u64::MAX {
        return;
    }
    let now_ms = shared.world.stopwatch_ms();
    if now_ms < at_ms {
        return;
    }
    if shared.scripting.running.is_active() {
        // A script may hold shards for long, and the upkeep needs all of them.
        replicas
            .upkeep_ms
            .store(now_ms + SCRIPT_RETRY_MS, Ordering::SeqCst);
        return;
    }
    // The time is reset first, so that a request during the upkeep is not lost.
    replicas.upkeep_ms.store(u64::MAX, Ordering::SeqCst);
    // A change of settings requests upkeep before the loop has updated its own copy.
    let settings = &*shared.settings();
    full_sync::begin_if_due(shared, settings, turn);
    if let Some(end_ms) = shared.advance_failover(turn) {
        replicas.upkeep_ms.fetch_min(end_ms, Ordering::SeqCst);
    }
    let all = replicas.all();
    if all.is_empty() {
        free_unused_backlog(shared, settings, turn);
    } else {
        let period_ms = settings.repl_ping_period_s * 1_000;
        if now_ms >= replicas.pinged_ms.load(Ordering::Relaxed) + period_ms {
            replicas.pinged_ms.store(now_ms, Ordering::Relaxed);
            // A replica passes on its primary's PINGs. A stopping server sends no PING, because its
            // last snapshot names the end of the stream. It locks every shard until it stops, so
            // the upkeep takes the locks before it checks.
            turn.lock_all();
            let paused =
                shared.replication.failover.is_planned() || shared.stopping.load(Ordering::Acquire);
            if !shared.replication.is_replica() && !paused {
                shared.append_to_stream(PING);
            }
            turn.release();
        }
        for replica in &all {
            check_liveness(shared, settings, replica);
        }
        shared.count_good_replicas();
        replicas
            .upkeep_ms
            .fetch_min(now_ms + PERIOD_MS, Ordering::SeqCst);
    }
    if settings.min_replicas_to_write > 0 {
        replicas
            .upkeep_ms
            .fetch_min(now_ms + PERIOD_MS, Ordering::SeqCst);
    }
}

/// Sends an empty line to a waiting replica, and closes the connection of a silent replica.
fn check_liveness(shared: &Shared, settings: &Settings, replica: &Arc<Replica>) {
    match replica.phase() {
        // The loop disconnects a replica whose socket accepts no byte for too long.
        Phase::Waiting | Phase::Receiving => {
            replica.transfer.keep_alive();
            shared.order_feed(replica.client.loop_number);
        }
        Phase::Loading | Phase::Online => {
            let limit_ms = settings.repl_timeout_s * 1_000;
            if !replica.old_protocol && replica.silence_ms() > limit_ms {
                log::warning!(
                    shared.logger,
                    "Disconnecting timedout replica (streaming sync): {replica}"
                );
                shared.close_replica(replica);
            }
        }
    }
}

/// Frees the backlog of a primary that has had no replicas for `repl-backlog-ttl`, or sets the time
/// of the next check.
fn free_unused_backlog(shared: &Shared, settings: &Settings, turn: &mut Turn) {
    if settings.repl_backlog_ttl_s == 0 || shared.replication.is_replica() {
        return;
    }
    let now_ms = shared.world.stopwatch_ms();
    let due_ms = |alone_since_ms: u64| {
        alone_since_ms.saturating_add(settings.repl_backlog_ttl_s.saturating_mul(1_000))
    };
    let at_ms = {
        let stream = shared.replication.replicas.stream();
        match &stream.backlog {
            Some(_) => due_ms(stream.alone_since_ms),
            None => return,
        }
    };
    if now_ms < at_ms {
        shared
            .replication
            .replicas
            .upkeep_ms
            .fetch_min(at_ms, Ordering::SeqCst);
        return;
    }
    turn.lock_all();
    let mut stream = shared.replication.replicas.stream();
    if !stream.replicas.is_empty() {
        return;
    }
    stream.backlog = None;
    // Further changes are in no stream, so the history ends.
    shared.replication.begin_history();
    drop(stream);
    shared.durability.changelog.set_replicas(turn, false);
    turn.release();
    log::notice!(
        shared.logger,
        "Replication backlog freed after {} seconds without connected replicas.",
        settings.repl_backlog_ttl_s
    );
}
