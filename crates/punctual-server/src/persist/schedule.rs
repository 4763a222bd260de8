//! Save points: `save 3600 1 300 100 60 10000`.
//!
//! Nothing is polled. A turn that has changed something asks [`save_if_due`]; if that waits for time to pass, the
//! first loop's wheel has a timer at [`next_check_ms`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;

use super::save;
use crate::config::Settings;
use crate::log;
use crate::shared::Shared;

/// After a snapshot has failed, until the next is tried.
const RETRY_MS: u64 = 5_000;

/// When the next save point will be reached without any further change, unix ms; `None` if it takes more changes.
pub(crate) fn next_check_ms(shared: &Shared, settings: &Settings) -> Option<u64> {
    if settings.save.is_empty() {
        return None;
    }
    let changes = shared.unsaved_changes(0);
    let state = &shared.persistence;
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

/// Begins a snapshot if a save point is reached.
pub(crate) fn save_if_due(shared: &Arc<Shared>, settings: &Settings, turn: &mut Turn<'_>) {
    let state = &shared.persistence;
    if state.scheduled.load(Ordering::Relaxed) && !state.is_saving() && !state.is_loading() {
        let _ = save::begin_background(shared, turn);
        return;
    }
    let now_ms = turn.now.read_ms();
    if next_check_ms(shared, settings).is_none_or(|at| now_ms < at) {
        return;
    }
    log::notice!(
        shared.logger,
        "{} changes since the last snapshot. Saving...",
        shared.unsaved_changes(0)
    );
    // Whatever goes wrong is in the log and tried again.
    let _ = save::begin_background(shared, turn);
}
