//! GET /metrics: INFO and the server's statistics as samples.
//!
//! Names that begin with `redis_` are those of redis_exporter, and mean the same; `names.rs` has those without labels. Names that
//! begin with `punctual_` are of what Redis does not have. If INFO cannot be had, `redis_up` is 0 and the statistics follow
//! nevertheless.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use punctual_resp::Value;
use punctual_store::Stats;

use crate::command;
use crate::command::info::lateness;
use crate::command::latency::durations;
use crate::http::exposition::{Exposition, Format, Kind};
use crate::http::link::{LinkError, Links, words};
use crate::http::names::{COUNTERS, GAUGES, OWN_GAUGES};
use crate::node::Shared;

/// Bounds of the lateness in µs.
const LATENESS_US: [u64; 21] = [
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
];

/// Number of databases that are shown although they are empty, as by redis_exporter.
const DATABASES_SHOWN: usize = 16;

/// The metrics of a server.
#[derive(Default)]
pub(super) struct Metrics {
    scrapes: AtomicU64,
}

impl Metrics {
    /// Returns all metrics.
    pub(super) async fn scrape(&self, shared: &Shared, links: &Links, format: Format) -> String {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let begun = shared.world.stopwatch();
        let info = info(links).await;
        let mut page = Exposition::new(format);
        let error = info.as_ref().err().map(ToString::to_string);
        page.single(
            "redis_up",
            Kind::Gauge,
            "1 if the server answers INFO.",
            f64::from(u8::from(error.is_none())),
        );
        page.family(
            "redis_exporter_last_scrape_error",
            Kind::Gauge,
            "1 if it did not, and why.",
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
        if let Ok(text) = &info {
            let info = Info::of(text);
            info.plain(&mut page);
            info.instance(shared, &mut page);
            info.databases(shared, &mut page);
            info.commands(&mut page);
            info.errors(&mut page);
            info.replication(&mut page);
            info.own(&mut page);
        }
        statistics(shared, &mut page);
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

/// Returns the text of INFO EVERYTHING.
pub(super) async fn info(links: &Links) -> Result<String, LinkError> {
    let replies = links.ask(0, &[words(["INFO", "EVERYTHING"])]).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match replies.first() {
        Some(Value::Verbatim { text: bytes, .. }) => Ok(text(bytes)),
        other => Err(LinkError::Refused(
            other
                .and_then(Value::as_bytes)
                .map(text)
                .unwrap_or_default(),
        )),
    }
}

/// Fields of INFO.
pub(super) struct Info<'a> {
    in_order: Vec<(&'a str, &'a str)>,
    by_name: HashMap<&'a str, &'a str>,
}

impl<'a> Info<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let in_order: Vec<_> = text.lines().filter_map(|l| l.split_once(':')).collect();
        Self {
            by_name: in_order.iter().copied().collect(),
            in_order,
        }
    }

    pub(super) fn get(&self, name: &str) -> &'a str {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// Returns a number, or 1 for `ok` and 0 for `err`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match *self.by_name.get(name)? {
            "ok" => Some(1.0),
            "err" | "fail" => Some(0.0),
            text => text.parse().ok(),
        }
    }

    /// Returns the fields whose names begin with `prefix`, without it.
    fn with_prefix(&self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.in_order
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, *value)))
    }

    fn plain(&self, page: &mut Exposition) {
        for (kind, table) in [(Kind::Gauge, GAUGES), (Kind::Counter, COUNTERS)] {
            for (field, metric) in table {
                if let Some(value) = self.number(field) {
                    let help = format!("The field {field} of INFO.");
                    page.single(&format!("redis_{metric}"), kind, &help, value);
                }
            }
        }
        if let Some(micros) = self.number("latest_fork_usec") {
            page.single(
                "redis_latest_fork_seconds",
                Kind::Gauge,
                "The field latest_fork_usec of INFO.",
                micros / 1e6,
            );
        }
    }

    fn instance(&self, shared: &Shared, page: &mut Exposition) {
        let name = "redis_instance_info";
        page.family(name, Kind::Gauge, "What the server is, in labels.");
        let labels = [
            "role",
            "redis_version",
            "redis_build_id",
            "redis_mode",
            "os",
            "maxmemory_policy",
            "tcp_port",
            "run_id",
            "process_id",
            "master_replid",
            "punctual_version",
        ];
        page.sample(name, &labels.map(|label| (label, self.get(label))), 1.0);
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

    fn databases(&self, shared: &Shared, page: &mut Exposition) {
        let mut shown: Vec<(usize, [f64; 3])> = (0..shared.store.databases().min(DATABASES_SHOWN))
            .map(|db| (db, [0.0; 3]))
            .collect();
        for (number, value) in self.with_prefix("db") {
            let Ok(db) = number.parse::<usize>() else {
                continue;
            };
            let figures = ["keys", "expires", "avg_ttl"].map(|of| figure(value, of));
            match shown.get_mut(db) {
                Some(place) => place.1 = figures,
                None => shown.push((db, figures)),
            }
        }
        for (i, name, factor, help) in [
            (0, "redis_db_keys", 1.0, "Keys of a database."),
            (
                1,
                "redis_db_keys_expiring",
                1.0,
                "Keys of a database with a deadline.",
            ),
            (
                2,
                "redis_db_avg_ttl_seconds",
                1e-3,
                "Mean time to live in a database, of a sample of its keys.",
            ),
        ] {
            page.family(name, Kind::Gauge, help);
            for (db, figures) in &shown {
                page.sample(name, &[("db", &format!("db{db}"))], figures[i] * factor);
            }
        }
    }

    fn commands(&self, page: &mut Exposition) {
        for (of, name, factor, help) in [
            ("calls", "redis_commands_total", 1.0, "Calls of a command."),
            (
                "usec",
                "redis_commands_duration_seconds_total",
                1e-6,
                "Time that a command has taken.",
            ),
            (
                "rejected_calls",
                "redis_commands_rejected_calls_total",
                1.0,
                "Calls that were refused before they ran.",
            ),
            (
                "failed_calls",
                "redis_commands_failed_calls_total",
                1.0,
                "Calls that replied with an error.",
            ),
        ] {
            page.family(name, Kind::Counter, help);
            for (command, value) in self.with_prefix("cmdstat_") {
                page.sample(name, &[("cmd", command)], figure(value, of) * factor);
            }
        }
        let name = "redis_latency_percentiles_usec";
        page.family(
            name,
            Kind::Gauge,
            "Percentiles of a command's duration since the start.",
        );
        for (command, value) in self.with_prefix("latency_percentiles_usec_") {
            for (percent, micros) in value.split(',').filter_map(|pair| pair.split_once('=')) {
                if let (Some(percent), Ok(micros)) = (percent.strip_prefix('p'), micros.parse()) {
                    page.sample(name, &[("cmd", command), ("quantile", percent)], micros);
                }
            }
        }
    }

    fn errors(&self, page: &mut Exposition) {
        let name = "redis_errors_total";
        page.family(name, Kind::Counter, "Error replies by their first word.");
        for (error, value) in self.with_prefix("errorstat_") {
            page.sample(name, &[("err", error)], figure(value, "count"));
        }
    }

    fn replication(&self, page: &mut Exposition) {
        let replicas: Vec<_> = self
            .with_prefix("slave")
            .filter(|(number, _)| number.bytes().all(|b| b.is_ascii_digit()))
            .map(|(_, value)| value)
            .collect();
        for (of, name, help) in [
            (
                "offset",
                "redis_connected_slave_offset_bytes",
                "Offset that a replica has acknowledged.",
            ),
            (
                "lag",
                "redis_connected_slave_lag_seconds",
                "Time since a replica's last acknowledgement.",
            ),
        ] {
            if !replicas.is_empty() {
                page.family(name, Kind::Gauge, help);
            }
            for value in &replicas {
                let labels = [
                    ("slave_ip", text(value, "ip")),
                    ("slave_port", text(value, "port")),
                    ("slave_state", text(value, "state")),
                ];
                page.sample(name, &labels, figure(value, of));
            }
        }
        if self.get("role") != "slave" {
            return;
        }
        let primary = [
            ("master_host", self.get("master_host")),
            ("master_port", self.get("master_port")),
        ];
        let up = f64::from(u8::from(self.get("master_link_status") == "up"));
        for (name, value, help) in [
            (
                "redis_master_link_up",
                Some(up),
                "1 if the link to the primary is up.",
            ),
            (
                "redis_master_last_io_seconds_ago",
                self.number("master_last_io_seconds_ago"),
                "Time since the primary was last heard.",
            ),
            (
                "redis_master_sync_in_progress",
                self.number("master_sync_in_progress"),
                "1 during a full synchronization.",
            ),
            (
                "redis_slave_repl_offset",
                self.number("slave_repl_offset"),
                "Offset of this replica.",
            ),
        ] {
            if let Some(value) = value {
                page.family(name, Kind::Gauge, help);
                page.sample(name, &primary, value);
            }
        }
        let [host, port] = primary;
        page.family(
            "redis_slave_info",
            Kind::Gauge,
            "What the replica follows, in labels.",
        );
        let labels = [host, port, ("read_only", self.get("slave_read_only"))];
        page.sample("redis_slave_info", &labels, 1.0);
    }

    fn own(&self, page: &mut Exposition) {
        let mut last = "";
        for (field, metric, label, help) in OWN_GAUGES {
            let Some(value) = self.number(field) else {
                continue;
            };
            if *metric != last {
                page.family(metric, Kind::Gauge, help);
                last = metric;
            }
            page.sample(metric, label.as_slice(), value);
        }
    }
}

/// Returns the value of `name` in `a=1,b=2`.
fn text<'a>(pairs: &'a str, name: &str) -> &'a str {
    pairs
        .split(',')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_default()
}

fn figure(pairs: &str, name: &str) -> f64 {
    text(pairs, name).parse().unwrap_or_default()
}

/// Adds what is not in INFO: durations of commands, the slow log, slow events.
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
        "Time from the deadline of a key, field or timer to its end.",
    );
    let (mut at, mut up_to) = (0, 0);
    let mut sum_us = 0.0;
    let mut counts = [0; LATENESS_US.len()];
    for step in late.iter_recorded() {
        let (us, count) = (step.value_iterated_to(), step.count_at_value());
        while at < LATENESS_US.len() && us > LATENESS_US[at] {
            counts[at] = up_to;
            at += 1;
        }
        up_to += count;
        sum_us += us as f64 * count as f64;
    }
    counts[at..].fill(up_to);
    let bounds = LATENESS_US.map(|us| us as f64 / 1e6);
    let buckets = bounds.into_iter().zip(counts);
    page.histogram(name, &[], buckets, up_to, sum_us / 1e6);
}
