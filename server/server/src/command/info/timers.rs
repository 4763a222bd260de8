//! The section `timers`: deadlines, lateness, timers and jobs.
//!
//! Ground rules: INFO must not delay other commands noticeably, however many timers and queues
//! exist. All shards are locked while timers are counted, in O(shards · databases · log timers).
//! Queues of jobs are counted with one shard locked at a time, and at most 4,000 queues in one
//! call. The next call continues the count; the figures are from the last complete count.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use punctual_store::SPANS_MS;

use crate::command::info::{Page, lateness};
use crate::observe::figures::Figure;

/// Names of the time spans [`SPANS_MS`], as in `timers_due_hour`.
const SPANS: [&str; 3] = ["minute", "hour", "day"];

pub(super) fn timers(page: &mut Page<'_, '_>) {
    // An earlier section may have locked shards, which the count of queues must not keep locked.
    page.turn.release_whole();
    let jobs = page.shared.observed.job_figures.count(page.turn);
    page.turn.lock_all();
    let now_ms = page.turn.now.read_ms();
    let (mut pending, mut entries) = (0, 0);
    let (mut keys, mut armed, mut due) = (0, 0, [0; 3]);
    let (now, mut held) = (page.turn.now, 0);
    let may_wait = page.shared.store.may_have_waiting_timers();
    for db in 0..page.shared.store.databases() {
        for (_, part) in page.turn.held_dbs(db) {
            pending += part.with_deadline() + part.parts_with_deadline();
            entries += part.wheel_entries();
            if part.timer_count() > 0 {
                keys += part.timer_count();
                armed += part.timers_before(u64::MAX);
                if may_wait {
                    held += part.held_timers(now).len();
                }
                for (due, span) in due.iter_mut().zip(SPANS_MS) {
                    *due += part.timers_before(now_ms + span);
                }
            }
        }
    }
    let next = page.turn.next_deadline();
    let late = lateness(page.shared);
    let help = "Deadlines of keys, of fields and of members.";
    page.line("timers_pending", pending)
        .own("deadlines", "", help);
    page.line("timers_entries", entries);
    page.line("timers_next_deadline_ms", next.map_or(-1, |at| at as i64));
    let counted = page.counted();
    page.line("timers_fired", counted.expired + counted.expired_fields);
    page.line("timers_lateness_usec_mean", Figure::fixed(late.mean(), 1));
    for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9)] {
        let late = late.value_at_percentile(percent);
        page.each("timers_lateness_usec_", name, late.into());
    }
    page.line("timers_lateness_usec_max", late.max());
    page.line("timers_lateness_usec_histogram", by_power(&late));
    page.line("timers_keys", keys)
        .own("timers", "", "Keys of the type timer.");
    page.line("timers_paused", keys - armed)
        .own("timers_paused", "", "Timers that are paused.");
    if page.shared.cluster.is_some() {
        page.line("timers_waiting_for_slots", held).own(
            "timers_waiting_for_slots",
            "",
            "Due timers that wait because their slot moves.",
        );
    }
    for (span, due) in SPANS.iter().zip(due) {
        page.each("timers_due_", *span, due.into()).own(
            "timers_due",
            "within",
            "Timers that are due soon.",
        );
    }
    page.line("job_queues", jobs.queues)
        .own("job_queues", "", "Keys of the type jobs.");
    for (name, count) in [
        ("ready", jobs.ready),
        ("delayed", jobs.delayed),
        ("leased", jobs.leased),
        ("dead", jobs.dead),
    ] {
        page.each("jobs_", name, count.into())
            .own("jobs", "state", "Jobs by state.");
    }
    for (span, due) in SPANS.iter().zip(jobs.due) {
        page.each("jobs_due_", *span, due.into()).own(
            "jobs_due",
            "within",
            "Delayed jobs that are due soon.",
        );
    }
}

/// Returns the numbers of values between powers of two. `1=5,2=3` means 5 values of at most 1 µs,
/// and 3 values above 1 µs and at most 2 µs. The difference between the counts of two INFO replies
/// is the distribution of the lateness in the time between them.
fn by_power(late: &Histogram<u64>) -> Figure {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for value in late.iter_recorded() {
        let bound = value.value_iterated_to().max(1).next_power_of_two();
        *counts.entry(bound).or_default() += value.count_at_value();
    }
    let parts = counts
        .iter()
        .map(|(bound, count)| (bound.to_string().into(), (*count).into()));
    Figure::Parts(parts.collect())
}
