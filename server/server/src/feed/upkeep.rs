//! What replicas need from time to time: PINGs, newlines while they wait, full synchronizations, time limits.
//!
//! Runs in a turn of the first event loop: once a second as long as there are replicas, and when another thread calls for it
//! (`Shared::call_upkeep`). It reads the stopwatch, also with a virtual clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::config::Settings;
use crate::feed::full_sync;
use crate::log;
use crate::node::Shared;
use crate::replication::replica::{Phase, Replica};

/// Time between two calls, as of Redis's `replicationCron`.
const PERIOD_MS: u64 = 1_000;

/// Delay while a script runs.
const SCRIPT_RETRY_MS: u64 = 10;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Looks after the replicas, if it is time. The turn holds no lock.
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
        // A script may hold shards for long, and this turn needs all of them.
        replicas
            .upkeep_ms
            .store(now_ms + SCRIPT_RETRY_MS, Ordering::SeqCst);
        return;
    }
    // Set before anything is looked at, so that no later call is lost.
    replicas.upkeep_ms.store(u64::MAX, Ordering::SeqCst);
    // A change of the settings calls for upkeep before the loop has its copy.
    let settings = &*shared.settings();
    full_sync::begin_if_due(shared, settings, turn);
    if let Some(end_ms) = shared.advance_failover(turn) {
        replicas.upkeep_ms.fetch_min(end_ms, Ordering::SeqCst);
    }
    let all = replicas.all();
    if all.is_empty() {
        forget_if_alone(shared, settings, turn);
    } else {
        let period_ms = settings.repl_ping_period_s * 1_000;
        if now_ms >= replicas.pinged_ms.load(Ordering::Relaxed) + period_ms {
            replicas.pinged_ms.store(now_ms, Ordering::Relaxed);
            // A replica passes on what its primary sends.
            // The last snapshot of a server that stops names the end of the stream: it holds every shard until it stops.
            turn.lock_all();
            let paused =
                shared.replication.failover.is_planned() || shared.stopping.load(Ordering::Acquire);
            if !shared.replication.is_replica() && !paused {
                shared.append_to_stream(PING);
            }
            turn.release();
        }
        for replica in &all {
            look_after(shared, settings, replica);
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

/// Shows a waiting replica that the server lives, and ends one that does not.
fn look_after(shared: &Shared, settings: &Settings, replica: &Arc<Replica>) {
    match replica.phase() {
        // The loop also disconnects a replica whose socket takes no byte for too long.
        Phase::Waiting | Phase::Receiving => {
            replica.transfer.keep_alive();
            shared.tell_loop(replica.client.loop_number);
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

/// Drops the backlog of a primary that has been without replicas for long, or plans the next look.
fn forget_if_alone(shared: &Shared, settings: &Settings, turn: &mut Turn) {
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
    // What the server changes from now on is in no stream, so the history ends.
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
