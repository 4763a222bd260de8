//! The section `persistence`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::command::info::Page;
use crate::durability::aof::Phase;
use crate::observe::figures::Figure;

pub(super) fn persistence(page: &mut Page<'_, '_>) {
    let state = &page.shared.durability;
    let loading = &state.loading;
    let (now_ms, saving) = (page.turn.now.read_ms(), state.is_saving());
    let seconds_since = |at: &AtomicU64| (now_ms.saturating_sub(at.load(Relaxed)) / 1000) as i64;
    page.gauge("loading", state.is_loading())
        .named("loading_dump_file");
    let loads_from_primary = page.shared.replication.upstream.is_loading();
    page.gauge("async_loading", loads_from_primary);
    page.line("current_cow_peak", 0);
    page.line("current_cow_size", 0);
    page.line("current_cow_size_age", 0);
    let of_keys = |count: &AtomicU64| if saving { count.load(Relaxed) } else { 0 };
    let (written, keys) = (of_keys(&state.keys_written), of_keys(&state.keys));
    let percent = written as f64 * 100.0 / keys.max(1) as f64;
    page.line("current_fork_perc", Figure::fixed(percent, 2));
    page.line("current_save_keys_processed", written);
    page.line("current_save_keys_total", keys);
    let changes = page.shared.unsaved_changes(page.turn.stats.dirty);
    page.gauge("rdb_changes_since_last_save", changes);
    let rewriting = state.aof.rewrite.active.load(Relaxed);
    page.gauge("rdb_bgsave_in_progress", saving && !rewriting);
    let last_save_s = state.last_save_ms.load(Relaxed) / 1000;
    page.gauge("rdb_last_save_time", last_save_s)
        .named("rdb_last_save_timestamp_seconds");
    let failed = state.failed.load(Relaxed);
    page.gauge("rdb_last_bgsave_status", Figure::status(failed));
    page.gauge("rdb_last_bgsave_time_sec", state.last_seconds.load(Relaxed))
        .named("rdb_last_bgsave_duration_sec");
    let current = if saving && !rewriting {
        seconds_since(&state.began_ms)
    } else {
        -1
    };
    page.gauge("rdb_current_bgsave_time_sec", current)
        .named("rdb_current_bgsave_duration_sec");
    page.gauge("rdb_saves", state.saves.load(Relaxed))
        .named("rdb_saves_total");
    page.size("rdb_last_cow_size", state.early_bytes.load(Relaxed));
    let expired = loading.keys_expired.load(Relaxed);
    page.gauge("rdb_last_load_keys_expired", expired)
        .named("rdb_last_load_expired_keys");
    let loaded = loading.keys_loaded.load(Relaxed);
    page.gauge("rdb_last_load_keys_loaded", loaded)
        .named("rdb_last_load_loaded_keys");
    append_only_file(page);
    let backup = state.backup.state().is_running();
    page.gauge("backup_in_progress", backup);
    if state.is_loading() {
        let (loaded, total) = (
            loading.loaded_bytes.load(Relaxed),
            loading.total_bytes.load(Relaxed),
        );
        let elapsed_s = seconds_since(&loading.began_ms) as f64;
        let rate = loaded as f64 / elapsed_s.max(1.0);
        page.line("loading_start_time", loading.began_ms.load(Relaxed) / 1000);
        page.line("loading_total_bytes", total);
        page.line("loading_rdb_used_mem", 0);
        page.line("loading_loaded_bytes", loaded);
        let percent = loaded as f64 * 100.0 / total.max(1) as f64;
        page.line("loading_loaded_perc", Figure::fixed(percent, 2));
        let left = total.saturating_sub(loaded) as f64 / rate.max(1.0);
        page.line("loading_eta_seconds", left as u64);
    }
}

fn append_only_file(page: &mut Page<'_, '_>) {
    let (shared, now_ms) = (page.shared, page.turn.now.read_ms());
    let aof = &shared.durability.aof;
    let rewrite = &aof.rewrite;
    let active = rewrite.active.load(Relaxed);
    page.gauge("aof_enabled", aof.phase() != Phase::Off);
    page.gauge("aof_rewrite_in_progress", active);
    let scheduled = rewrite.scheduled.load(Relaxed);
    page.gauge("aof_rewrite_scheduled", scheduled);
    let last = rewrite.last_seconds.load(Relaxed);
    page.gauge("aof_last_rewrite_time_sec", last)
        .named("aof_last_rewrite_duration_sec");
    let current = match active {
        true => (now_ms.saturating_sub(rewrite.began_ms.load(Relaxed)) / 1000) as i64,
        false => -1,
    };
    page.gauge("aof_current_rewrite_time_sec", current)
        .named("aof_current_rewrite_duration_sec");
    let failed = rewrite.failed.load(Relaxed);
    page.gauge("aof_last_bgrewrite_status", Figure::status(failed));
    page.line("aof_rewrites", rewrite.count.load(Relaxed));
    let failures = rewrite.failures.load(Relaxed);
    page.line("aof_rewrites_consecutive_failures", failures);
    page.gauge("aof_last_write_status", Figure::status(aof.is_failing()));
    page.size("aof_last_cow_size", rewrite.early_bytes.load(Relaxed));
    if aof.phase() != Phase::Off {
        page.size("aof_current_size", aof.current_bytes.load(Relaxed));
        page.size("aof_base_size", aof.base_bytes.load(Relaxed));
        page.gauge("aof_pending_rewrite", scheduled);
        page.gauge("aof_buffer_length", aof.queued_bytes.load(Relaxed));
        page.gauge("aof_pending_bio_fsync", 0);
        page.gauge("aof_delayed_fsync", aof.delays.load(Relaxed));
    }
}
