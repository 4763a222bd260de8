//! The section `timers`: deadlines, lateness, timers and jobs.
//!
//! Ground rules: a scrape must not be felt. Timers are counted by their ranks, all shards locked, O(shards · databases · log timers).
//! Queues of jobs are counted one by one, 4,000 in one call and one shard after the other; if there are more, the next
//! call goes on, and the figures are those of the last whole count.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use punctual_store::SPANS_MS;

use crate::command::info::{Page, lateness};

/// Names of [`SPANS_MS`] in fields.
const SPANS: [&str; 3] = ["minute", "hour", "day"];

pub(super) fn timers(page: &mut Page<'_, '_>) {
    // What an earlier section has locked need not be locked while queues are counted.
    page.turn.release_whole();
    let jobs = page.shared.observed.job_figures.count(page.turn);
    page.turn.lock_all();
    let now_ms = page.turn.now.read_ms();
    let (mut pending, mut entries) = (0, 0);
    let (mut keys, mut armed, mut due) = (0, 0, [0; 3]);
    for db in 0..page.shared.store.databases() {
        for (_, part) in page.turn.held_dbs(db) {
            pending += part.with_deadline() + part.fields_with_deadline();
            entries += part.wheel_entries();
            if part.timer_count() > 0 {
                keys += part.timer_count();
                armed += part.timers_before(u64::MAX);
                for (due, span) in due.iter_mut().zip(SPANS_MS) {
                    *due += part.timers_before(now_ms + span);
                }
            }
        }
    }
    let next = page.turn.next_deadline();
    let late = lateness(page.shared);
    page.line("timers_pending", pending);
    page.line("timers_entries", entries);
    page.line("timers_next_deadline_ms", next.map_or(-1, |at| at as i64));
    let counted = page.counted();
    page.line("timers_fired", counted.expired + counted.expired_fields);
    page.line(
        "timers_lateness_usec_mean",
        format_args!("{:.1}", late.mean()),
    );
    for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9)] {
        page.line(
            &format!("timers_lateness_usec_{name}"),
            late.value_at_percentile(percent),
        );
    }
    page.line("timers_lateness_usec_max", late.max());
    page.line("timers_lateness_usec_histogram", by_power(&late));
    page.line("timers_keys", keys);
    page.line("timers_paused", keys - armed);
    for (span, due) in SPANS.iter().zip(due) {
        page.line(&format!("timers_due_{span}"), due);
    }
    page.line("job_queues", jobs.queues);
    for (name, count) in [
        ("ready", jobs.ready),
        ("delayed", jobs.delayed),
        ("leased", jobs.leased),
        ("dead", jobs.dead),
    ] {
        page.line(&format!("jobs_{name}"), count);
    }
    for (span, due) in SPANS.iter().zip(jobs.due) {
        page.line(&format!("jobs_due_{span}"), due);
    }
}

/// Returns the counts between powers of two, by upper bound, as in `1=5,2=1`: the difference of two tells how late expiry was between them.
fn by_power(late: &Histogram<u64>) -> String {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for value in late.iter_recorded() {
        let bound = value.value_iterated_to().max(1).next_power_of_two();
        *counts.entry(bound).or_default() += value.count_at_value();
    }
    let parts = counts
        .iter()
        .map(|(bound, count)| format!("{bound}={count}"));
    parts.collect::<Vec<_>>().join(",")
}
