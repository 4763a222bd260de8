//! GET /metrics: INFO's figures and the server's statistics as samples.
//!
//! A metric whose name begins with `redis_` means the same as in redis_exporter. A name that begins
//! with `punctual_` is a metric that Redis does not have. Metrics that are whole fields of INFO are
//! declared with the fields, in `command/info.rs`. If the request for INFO's figures fails,
//! `redis_up` is 0, and only the statistics follow, which any thread may read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use punctual_store::Stats;

use crate::command;
use crate::command::info::lateness;
use crate::command::latency::durations;
use crate::http::exposition::{Exposition, Format, Kind};
use crate::http::link::Links;
use crate::http::sizes::ValueSizes;
use crate::node::Shared;
use crate::observe::figures::{self, Field, Figure, Figures};

/// Upper bounds of the buckets of the lateness (the time from a deadline to the expiry), in s.
const LATENESS_S: [f64; 21] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 60.0, 600.0,
];

/// Metrics that are parts of a field of INFO, such as `keys` in `db0:keys=1,expires=0`: kind,
/// metric, field, label, part, factor, help. A replica's labels (its address and state) are other
/// parts of its field.
#[rustfmt::skip]
const PARTS: &[(Kind, &str, &str, &str, &str, f64, &str)] = &[
    (Kind::Gauge, "redis_db_keys", "db", "db", "keys", 1.0, "Keys of a database."),
    (Kind::Gauge, "redis_db_keys_expiring", "db", "db", "expires", 1.0, "Keys of a database with a deadline."),
    (Kind::Gauge, "redis_db_avg_ttl_seconds", "db", "db", "avg_ttl", 1e-3, "Mean time to live in a database, of a sample of its keys."),
    (Kind::Counter, "redis_commands_total", "cmdstat_", "cmd", "calls", 1.0, "Calls of a command."),
    (Kind::Counter, "redis_commands_duration_seconds_total", "cmdstat_", "cmd", "usec", 1e-6, "Total time of the calls of a command."),
    (Kind::Counter, "redis_commands_rejected_calls_total", "cmdstat_", "cmd", "rejected_calls", 1.0, "Calls that were refused before they ran."),
    (Kind::Counter, "redis_commands_failed_calls_total", "cmdstat_", "cmd", "failed_calls", 1.0, "Calls that replied with an error."),
    (Kind::Counter, "redis_errors_total", "errorstat_", "err", "count", 1.0, "Error replies by their first word."),
    (Kind::Gauge, "redis_connected_slave_offset_bytes", "slave", "", "offset", 1.0, "Offset that a replica has acknowledged."),
    (Kind::Gauge, "redis_connected_slave_lag_seconds", "slave", "", "lag", 1.0, "Time since a replica's last acknowledgement."),
];

/// Metrics of a replica's link to its primary: field, metric, help.
#[rustfmt::skip]
const LINK: &[(&str, &str, &str)] = &[
    ("master_link_status", "redis_master_link_up", "1 if the link to the primary is up."),
    ("master_last_io_seconds_ago", "redis_master_last_io_seconds_ago", "Time since the last input from the primary."),
    ("master_sync_in_progress", "redis_master_sync_in_progress", "1 during a full synchronization."),
    ("slave_repl_offset", "redis_slave_repl_offset", "Offset of this replica."),
];

/// Fields of INFO that are labels of `redis_instance_info`.
#[rustfmt::skip]
const INSTANCE: [&str; 11] = [
    "role", "redis_version", "redis_build_id", "redis_mode", "os", "maxmemory_policy", "tcp_port", "run_id", "process_id",
    "master_replid", "punctual_version",
];

/// Number of databases that are shown even if they are empty, as in redis_exporter.
const DATABASES_SHOWN: usize = 16;

/// The source of a server's metrics, which counts its scrapes.
#[derive(Default)]
pub(super) struct Metrics {
    scrapes: AtomicU64,
    sizes: ValueSizes,
}

impl Metrics {
    /// Returns all metrics.
    pub(super) async fn scrape(&self, shared: &Shared, links: &Links, format: Format) -> String {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let begun = shared.world.stopwatch();
        let figures = links.figures().await;
        let mut page = Exposition::new(format);
        let error = figures.as_ref().err().map(ToString::to_string);
        page.single(
            "redis_up",
            Kind::Gauge,
            "1 if the server answers INFO.",
            f64::from(u8::from(error.is_none())),
        );
        page.family(
            "redis_exporter_last_scrape_error",
            Kind::Gauge,
            "1 if the server did not answer INFO. The label err has the reason.",
        );
        page.sample(
            "redis_exporter_last_scrape_error",
            &[("err", error.as_deref().unwrap_or_default())],
            f64::from(u8::from(error.is_some())),
        );
        page.single(
            "redis_exporter_scrapes_total",
            Kind::Counter,
            "Scrapes since the start.",
            scrapes as f64,
        );
        if let Ok(figures) = &figures {
            plain(figures, &mut page);
            instance(figures, shared, &mut page);
            parts(figures, shared, &mut page);
            primary(figures, &mut page);
        }
        statistics(shared, &mut page);
        self.sizes.add_to(shared, &mut page);
        lateness_histogram(&lateness(shared), &mut page);
        page.single(
            "redis_exporter_last_scrape_duration_seconds",
            Kind::Gauge,
            "Duration of this scrape.",
            shared.world.since(begun).as_secs_f64(),
        );
        page.finish()
    }
}

/// Returns the name of a field's metric. If the field declares no name, the name is derived from
/// the field's name in the style of redis_exporter.
fn name_of(field: &Field) -> String {
    let name = field.name;
    let metric = match (field.metric, field.kind) {
        (Some(metric), _) => metric.to_owned(),
        (None, figures::Kind::Size) => match name.strip_prefix("used_memory") {
            Some(part) => format!("memory_used{part}_bytes"),
            None => format!("{name}_bytes"),
        },
        (None, figures::Kind::Count) => {
            format!("{}_total", name.strip_prefix("total_").unwrap_or(name))
        }
        (None, _) => name.to_owned(),
    };
    match field.own {
        Some(_) => format!("punctual_{metric}"),
        None => format!("redis_{metric}"),
    }
}

/// Adds the figures that are declared as metrics.
fn plain(figures: &Figures, page: &mut Exposition) {
    let mut last = String::new();
    for field in figures.fields() {
        let kind = match field.kind {
            figures::Kind::Field => continue,
            figures::Kind::Gauge | figures::Kind::Size => Kind::Gauge,
            figures::Kind::Count => Kind::Counter,
        };
        let (name, suffix) = (name_of(field), field.suffix.to_string());
        let (label, help) = match field.own {
            Some((label, help)) => (label, help.to_owned()),
            None => ("", format!("The field {} of INFO.", field.name)),
        };
        // All samples of a metric are adjacent, so another name begins another family.
        if name != last {
            page.family(&name, kind, &help);
        }
        let label = Some((label, &*suffix)).filter(|(label, _)| !label.is_empty());
        let value = field.figure.number().unwrap_or_default();
        page.sample(&name, label.as_slice(), value);
        last = name;
    }
}

fn instance(figures: &Figures, shared: &Shared, page: &mut Exposition) {
    let name = "redis_instance_info";
    page.family(name, Kind::Gauge, "Properties of the server, as labels.");
    let values = INSTANCE.map(|label| figures.text(label));
    let labels: Vec<_> = INSTANCE
        .into_iter()
        .zip(values.each_ref().map(|v| &**v))
        .collect();
    page.sample(name, &labels, 1.0);
    page.single(
        "redis_start_time_seconds",
        Kind::Gauge,
        "Start of the server, unix time.",
        shared.started_ms as f64 / 1e3,
    );
    let settings = shared.settings();
    page.single(
        "redis_config_maxclients",
        Kind::Gauge,
        "The directive maxclients.",
        settings.max_clients as f64,
    );
    page.single(
        "redis_config_maxmemory",
        Kind::Gauge,
        "The directive maxmemory.",
        settings.maxmemory as f64,
    );
}

fn parts(figures: &Figures, shared: &Shared, page: &mut Exposition) {
    let shown = shared.store.databases().min(DATABASES_SHOWN);
    let empty = Figure::parts([]);
    let mut databases: BTreeMap<_, _> = (0..shown).map(|db| (db as i128, &empty)).collect();
    databases.extend(figures.each("db").filter_map(|(db, figure)| match db {
        Figure::Whole(db) => Some((*db, figure)),
        _ => None,
    }));
    for (kind, name, field, label, part, factor, help) in PARTS {
        if *field == "slave" && figures.each(field).next().is_none() {
            continue;
        }
        page.family(name, *kind, help);
        let mut sample = |labels: &[(&str, &str)], figure: &Figure| {
            let value = figure.part(part).and_then(Figure::number);
            page.sample(name, labels, value.unwrap_or_default() * factor);
        };
        match *field {
            "db" => {
                for (db, figure) in &databases {
                    sample(&[(label, &format!("db{db}"))], figure);
                }
            }
            "slave" => {
                for (_, replica) in figures.each(field) {
                    let text = |part| replica.part(part).map(ToString::to_string);
                    let labels = ["ip", "port", "state"].map(|part| text(part).unwrap_or_default());
                    let [ip, port, state] = labels.each_ref().map(|label| &**label);
                    let labels = [
                        ("slave_ip", ip),
                        ("slave_port", port),
                        ("slave_state", state),
                    ];
                    sample(&labels, replica);
                }
            }
            _ => {
                for (suffix, figure) in figures.each(field) {
                    sample(&[(label, &suffix.to_string())], figure);
                }
            }
        }
    }
    let name = "redis_latency_percentiles_usec";
    page.family(
        name,
        Kind::Gauge,
        "Percentiles of a command's duration since the start.",
    );
    for (command, figure) in figures.each("latency_percentiles_usec_") {
        let command = command.to_string();
        for (percent, micros) in figure.all_parts() {
            let labels = [
                ("cmd", &*command),
                ("quantile", percent.trim_start_matches('p')),
            ];
            page.sample(name, &labels, micros.number().unwrap_or_default());
        }
    }
}

fn primary(figures: &Figures, page: &mut Exposition) {
    let labels = ["master_host", "master_port", "slave_read_only"];
    let [host, port, read_only] = labels.map(|field| figures.text(field));
    // Only a replica has this field.
    if host.is_empty() {
        return;
    }
    let labels = [
        ("master_host", &*host),
        ("master_port", &port),
        ("read_only", &read_only),
    ];
    for (field, name, help) in LINK {
        page.family(name, Kind::Gauge, help);
        page.sample(
            name,
            &labels[..2],
            figures.number(field).unwrap_or_default(),
        );
    }
    let name = "redis_slave_info";
    page.family(name, Kind::Gauge, "Primary of this replica, as labels.");
    page.sample(name, &labels, 1.0);
}

/// Adds the statistics that need no request to an event loop: histograms of the durations of
/// commands, Punctual's own counters, the slow log, slow events.
fn statistics(shared: &Shared, page: &mut Exposition) {
    let name = "redis_commands_latencies_usec";
    page.family(name, Kind::Histogram, "Durations of a command in µs.");
    for entry in command::table().all() {
        let durations = durations(shared, entry);
        if durations.total > 0 {
            let nanos: u64 = shared
                .observed
                .stats
                .iter()
                .map(|s| s.by_command[entry.id].nanos.get())
                .sum();
            let pairs = durations.cumulative();
            page.histogram(
                name,
                &[("cmd", &entry.name)],
                pairs.iter().map(|(us, count)| (*us as f64, *count)),
                durations.total,
                nanos as f64 / 1e3,
            );
        }
    }
    let counted = shared.counted();
    for own in Stats::OWN {
        let count = (own.of)(&counted) as f64;
        page.single(own.metric, Kind::Counter, own.help, count);
    }
    page.single(
        "redis_slowlog_length",
        Kind::Gauge,
        "Entries of the slow log.",
        shared.observed.slowlog.len() as f64,
    );
    let newest = shared.observed.slowlog.newest(1);
    let newest = newest.first();
    page.single(
        "redis_slowlog_last_id",
        Kind::Gauge,
        "Number of the newest entry of the slow log.",
        newest.map_or(0.0, |entry| entry.id as f64),
    );
    page.single(
        "redis_last_slow_execution_duration_seconds",
        Kind::Gauge,
        "Duration of the newest entry of the slow log.",
        newest.map_or(0.0, |entry| entry.micros as f64 / 1e6),
    );
    let spikes = shared.observed.latency.all();
    let last = |series: &crate::observe::latency::Series| series.samples.back().copied();
    if !spikes.is_empty() {
        let name = "redis_latency_spike_last";
        page.family(name, Kind::Gauge, "Time of the last slow event, unix time.");
        for (event, series) in &spikes {
            let at = last(series).map_or(0.0, |sample| sample.at_s as f64);
            page.sample(name, &[("event_name", event)], at);
        }
        let name = "redis_latency_spike_duration_seconds";
        page.family(name, Kind::Gauge, "Duration of the last slow event.");
        for (event, series) in &spikes {
            let ms = last(series).map_or(0.0, |sample| sample.ms as f64);
            page.sample(name, &[("event_name", event)], ms / 1e3);
        }
    }
}

fn lateness_histogram(late: &Histogram<u64>, page: &mut Exposition) {
    let name = "punctual_lateness_seconds";
    page.family(
        name,
        Kind::Histogram,
        "Time from the deadline of a key, field or timer until it expires or fires.",
    );
    let (mut at, mut up_to) = (0, 0);
    let mut sum_us = 0.0;
    let mut counts = [0; LATENESS_S.len()];
    for step in late.iter_recorded() {
        let (us, count) = (step.value_iterated_to(), step.count_at_value());
        while at < LATENESS_S.len() && us as f64 / 1e6 > LATENESS_S[at] {
            counts[at] = up_to;
            at += 1;
        }
        up_to += count;
        sum_us += us as f64 * count as f64;
    }
    counts[at..].fill(up_to);
    let buckets = LATENESS_S.into_iter().zip(counts);
    page.histogram(name, &[], buckets, up_to, sum_us / 1e6);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_field_or_are_declared() {
        use figures::Kind::{Count, Gauge, Size};
        let name = |kind, name, metric, own| {
            name_of(&Field {
                name,
                suffix: "".into(),
                figure: 0.into(),
                kind,
                metric,
                own,
            })
        };
        for (kind, field, metric) in [
            (Gauge, "total_blocking_keys", "redis_total_blocking_keys"),
            (Size, "used_memory", "redis_memory_used_bytes"),
            (Size, "used_memory_rss", "redis_memory_used_rss_bytes"),
            (Size, "aof_base_size", "redis_aof_base_size_bytes"),
            (Count, "evicted_keys", "redis_evicted_keys_total"),
            (
                Count,
                "total_net_input_bytes",
                "redis_net_input_bytes_total",
            ),
        ] {
            assert_eq!(name(kind, field, None, None), metric);
        }
        let declared = Some("max_clients");
        assert_eq!(
            name(Gauge, "maxclients", declared, None),
            "redis_max_clients"
        );
        let (declared, own) = (Some("deadlines"), Some(("", "Deadlines.")));
        let own = name(Gauge, "timers_pending", declared, own);
        assert_eq!(own, "punctual_deadlines");
    }
}
