//! Save points: `save 3600 1 300 100 60 10000`.
//!
//! The server does not poll. Each turn of an event loop calls [`save_if_due`], so a save point that
//! depends on changes is noticed at once. If a save point has enough changes and only its time has
//! not passed, the loops wake up at [`next_check_ms`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;

use crate::config::Settings;
use crate::log;
use crate::node::Shared;
use crate::persist::aof::rewrite;
use crate::persist::backup;
use crate::persist::save;

/// Minimum time from the start of a snapshot that fails to the next attempt.
const RETRY_MS: u64 = 5_000;

/// Returns the time, in Unix milliseconds, at which a save point or a backup needs a turn.
pub(crate) fn next_check_ms(shared: &Shared, settings: &Settings) -> Option<u64> {
    let times = [next_save_ms(shared, settings), backup::removal_ms(shared)];
    times.into_iter().flatten().min()
}

/// Returns the time, in Unix milliseconds, at which the next save point is reached without further
/// changes. Returns `None` if all save points need more changes, or during a walk (for example a
/// save) or a load.
fn next_save_ms(shared: &Shared, settings: &Settings) -> Option<u64> {
    if settings.save.is_empty() {
        return None;
    }
    let changes = shared.unsaved_changes(0);
    let state = &shared.durability;
    if state.is_saving() || state.is_loading() {
        return None;
    }
    let last = state.last_save_ms.load(Ordering::Acquire);
    let retry = if state.failed.load(Ordering::Acquire) {
        state.last_try_ms.load(Ordering::Acquire) + RETRY_MS
    } else {
        0
    };
    let reached = settings.save.iter().filter(|p| changes >= p.changes.max(1));
    let earliest = reached.map(|p| last.saturating_add(p.seconds.saturating_mul(1000)));
    earliest.min().map(|at| at.max(retry))
}

/// Begins a scheduled rewrite or snapshot, or a snapshot if a save point is reached.
pub(crate) fn save_if_due(shared: &Arc<Shared>, settings: &Settings, turn: &mut Turn) {
    rewrite::begin_if_scheduled(shared, turn);
    let state = &shared.durability;
    if state.scheduled.load(Ordering::Relaxed) && !state.is_saving() && !state.is_loading() {
        let _ = save::begin_background(shared, turn);
        return;
    }
    let now_ms = turn.now.read_ms();
    if next_save_ms(shared, settings).is_none_or(|at| now_ms < at) {
        return;
    }
    log::notice!(
        shared.logger,
        "{} changes since the last snapshot. Saving...",
        shared.unsaved_changes(0)
    );
    // The error is in the log, and the save is retried.
    let _ = save::begin_background(shared, turn);
}
