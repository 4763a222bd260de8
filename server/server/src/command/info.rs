//! INFO: Redis's sections and field names, and the sections `tls`, which Valkey has, and `timers`
//! with the lateness of expiry. All sections but `keysizes` take a time that does not depend on the
//! number of keys.
//!
//! Each figure is declared once, with its metric ([`crate::observe::figures`]). Fields of features
//! that the server does not have (forks, modules, a cluster) are 0 if tools read them; other such
//! fields are absent. The test of INFO lists the absent fields and the reasons.

mod keysizes;
mod persistence;
pub(crate) mod replication;
pub(crate) mod timers;
mod tls;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Relaxed};

use hdrhistogram::Histogram;
use punctual_resp::{Args, Reply};
use punctual_store::keyspace::db::DbMemory;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Stats, Turn};

use crate::acl::log::Reason;
use crate::client::registry::{ClientInfo, RecentPeak};
use crate::command::latency::durations;
use crate::command::memory::MemoryBreakdown;
use crate::node::Shared;
use crate::node::call::{Call, ServerCommand};
use crate::observe::figures::{Field, Figure, Figures, Kind};
use crate::observe::stats::{CommandStats, Counter, LoopStats, lateness_histogram};
use crate::pubsub;
use crate::world::{alarm, process, system};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "info",
    -1,
    Flags::LOADING.or(Flags::STALE),
    Group::Server,
    info,
)
.categories(&["dangerous"])
.tips(&[
    "nondeterministic_output",
    "request_policy:all_shards",
    "response_policy:special",
])
.history(&[(
    "7.0.0",
    "Added support for taking multiple section arguments.",
)])
.since("1.0.0")
.summary("Returns information and statistics about the server.")
.syntax("[section ...]")];

/// Name of the section that visits all keys. Only a request by this name shows it.
const KEYSIZES: &str = "keysizes";

/// A section: its name, whether plain INFO shows it, whether INFO ALL shows it, and the function
/// that adds its figures.
type Section = (&'static str, bool, bool, fn(&mut Page<'_, '_>));

const SECTIONS: &[Section] = &[
    ("server", true, true, server),
    ("clients", true, true, clients),
    ("memory", true, true, memory),
    ("persistence", true, true, persistence::persistence),
    ("stats", true, true, stats),
    ("replication", true, true, replication),
    ("cpu", true, true, cpu),
    ("modules", true, true, |_| {}),
    ("commandstats", false, true, command_stats),
    ("errorstats", true, true, error_stats),
    ("latencystats", false, true, latency_stats),
    ("cluster", true, true, |page| {
        let enabled = u64::from(page.shared.cluster.is_some());
        page.gauge("cluster_enabled", enabled);
    }),
    ("keyspace", true, true, keyspace),
    (KEYSIZES, false, false, keysizes),
    ("tls", true, true, tls::tls),
    ("timers", true, true, timers::timers),
];

fn info(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let wanted: Vec<String> = args
        .iter()
        .skip(1)
        .map(|a| String::from_utf8_lossy(a).to_ascii_lowercase())
        .collect();
    let requests = |name: &str| wanted.iter().any(|w| w == name);
    let figures = figures(call.shared, call.turn, |(name, by_default, in_all, _)| {
        ((wanted.is_empty() || requests("default")) && *by_default)
            || (requests("all") && *in_all)
            || (requests("everything") && *name != KEYSIZES)
            || requests(name)
    });
    reply.verbatim("txt", figures.to_string().as_bytes());
    Ok(())
}

/// Returns the sections that need shard locks (`with_locks`), or all other sections, for a crash
/// report.
pub(crate) fn for_report(shared: &Arc<Shared>, turn: &mut Turn, with_locks: bool) -> String {
    figures(shared, turn, |(name, ..)| {
        *name != KEYSIZES && matches!(*name, "memory" | "keyspace" | "timers") == with_locks
    })
    .to_string()
}

/// Returns the figures of INFO EVERYTHING.
pub(crate) fn everything(shared: &Arc<Shared>, turn: &mut Turn) -> Figures {
    figures(shared, turn, |(name, ..)| *name != KEYSIZES)
}

/// Returns the figures of the sections that `shown` picks.
fn figures(shared: &Arc<Shared>, turn: &mut Turn, shown: impl Fn(&Section) -> bool) -> Figures {
    let mut page = Page {
        shared,
        turn,
        fields: Vec::new(),
    };
    let sections = SECTIONS.iter().filter(|section| shown(section));
    let collected = sections.map(|(name, .., collect)| {
        collect(&mut page);
        (*name, std::mem::take(&mut page.fields))
    });
    Figures(collected.collect())
}

/// A section under construction, and the sources of its figures.
struct Page<'a, 's> {
    shared: &'a Arc<Shared>,
    turn: &'a mut Turn<'s>,
    fields: Vec<Field>,
}

impl Page<'_, '_> {
    fn add(
        &mut self,
        kind: Kind,
        name: &'static str,
        suffix: Figure,
        figure: Figure,
    ) -> &mut Field {
        let at = self.fields.len();
        self.fields.push(Field {
            name,
            suffix,
            figure,
            kind,
            metric: None,
            own: None,
        });
        &mut self.fields[at]
    }

    /// Adds a field that is no metric.
    fn line(&mut self, name: &'static str, figure: impl Into<Figure>) -> &mut Field {
        self.each(name, "", figure.into())
    }

    /// Adds a field whose name is `name` followed by `suffix`, such as `db0` or `cmdstat_get`.
    fn each(
        &mut self,
        name: &'static str,
        suffix: impl Into<Figure>,
        figure: Figure,
    ) -> &mut Field {
        self.add(Kind::Field, name, suffix.into(), figure)
    }

    fn gauge(&mut self, name: &'static str, figure: impl Into<Figure>) -> &mut Field {
        self.add(Kind::Gauge, name, "".into(), figure.into())
    }

    fn size(&mut self, name: &'static str, bytes: impl Into<Figure>) -> &mut Field {
        self.add(Kind::Size, name, "".into(), bytes.into())
    }

    fn count(&mut self, name: &'static str, figure: impl Into<Figure>) -> &mut Field {
        self.add(Kind::Count, name, "".into(), figure.into())
    }

    fn human(&mut self, name: &'static str, bytes: u64) {
        self.each(name, "_human", human(bytes).into());
    }

    fn bytes(&mut self, name: &'static str, bytes: u64) {
        self.size(name, bytes);
        self.human(name, bytes);
    }

    fn sum(&self, counter: impl Fn(&LoopStats) -> &Counter) -> u64 {
        self.shared
            .observed
            .stats
            .iter()
            .map(|s| counter(s).get())
            .sum()
    }

    /// Returns the counts of all turns, including the current turn.
    fn counted(&self) -> Stats {
        let mut sums = self.shared.counted();
        sums += self.turn.stats;
        sums
    }
}

/// Formats bytes as Redis does: `1.50M`.
pub(crate) fn human(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    match units.iter().find(|(bits, _)| bytes >> bits > 0) {
        Some((bits, letter)) => format!("{:.2}{letter}", bytes as f64 / (1_u64 << bits) as f64),
        None => format!("{bytes}B"),
    }
}

fn server(page: &mut Page<'_, '_>) {
    let shared = page.shared;
    let now = page.turn.now;
    let uptime_s = now.read_ms().saturating_sub(shared.started_ms) / 1000;
    page.line("redis_version", shared.settings().redis_version);
    page.line("punctual_version", env!("CARGO_PKG_VERSION"));
    page.line("redis_git_sha1", "00000000");
    page.line("redis_git_dirty", 0);
    page.line("redis_mode", shared.mode());
    page.line("os", process::os());
    page.line("arch_bits", usize::BITS);
    page.line("monotonic_clock", alarm::NAME);
    page.line("multiplexing_api", system::POLL);
    page.gauge("process_id", std::process::id());
    page.line("process_supervised", "no");
    page.line("run_id", shared.run_id.clone());
    let port = match shared.tcp_port.load(Ordering::Relaxed) {
        0 => shared.tls_port.load(Ordering::Relaxed),
        port => port,
    };
    page.line("tcp_port", port);
    page.line("server_time_usec", now.micros());
    page.gauge("uptime_in_seconds", uptime_s);
    page.line("uptime_in_days", uptime_s / 86_400);
    page.gauge("hz", shared.settings().hz);
    page.gauge("configured_hz", shared.settings().hz);
    page.line("lru_clock", (now.read_ms() / 1000) & 0xff_ffff);
    page.line("executable", process::executable());
    let config = shared.config.lock().file().map(|f| f.display().to_string());
    page.line("config_file", config.unwrap_or_default());
    page.gauge("io_threads_active", 0);
    if let Some(deadline_ms) = shared.shutdown.deadline_ms() {
        let left_ms = deadline_ms.saturating_sub(now.read_ms());
        page.line("shutdown_in_milliseconds", left_ms);
    }
    page.line("event_loops", shared.mailboxes.len())
        .own("event_loops", "", "Event loops.");
    page.line("shards", shared.store.shards());
    let is_virtual = shared.clock.is_virtual();
    page.line("clock", Figure::Either(is_virtual, ["virtual", "real"]));
}

fn clients(page: &mut Page<'_, '_>) {
    let shared = page.shared;
    let now_ms = page.turn.now.read_ms();
    let most = |peak: fn(&LoopStats) -> &RecentPeak| {
        let peaks = shared.observed.stats.iter().map(|s| peak(s).get(now_ms));
        peaks.max().unwrap_or(0)
    };
    let (input, output) = (most(|s| &s.input_peak), most(|s| &s.output_peak));
    let all = shared.clients.registry.list();
    let has_timeout = |client: &&Arc<ClientInfo>| {
        let waiter = client.waiter.lock();
        waiter.as_ref().is_some_and(|w| w.deadline_ms().is_some())
    };
    // As in Redis, `connected_clients` does not count replicas.
    let replicas = shared.replication.replicas.count() as u64;
    let connected = shared.clients.registry.connected().saturating_sub(replicas);
    page.gauge("connected_clients", connected);
    page.gauge("cluster_connections", 0);
    page.gauge("maxclients", shared.settings().max_clients)
        .named("max_clients");
    page.size("client_recent_max_input_buffer", input);
    page.size("client_recent_max_output_buffer", output);
    page.gauge("blocked_clients", shared.clients.registry.waiting());
    page.gauge("tracking_clients", shared.clients.trackers.clients());
    let with_timeout = all.iter().filter(has_timeout).count();
    page.gauge("clients_in_timeout_table", with_timeout);
    page.gauge("total_blocking_keys", shared.store.waiting_keys());
    page.gauge("total_blocking_keys_on_nokey", 0);
}

fn memory(page: &mut Page<'_, '_>) {
    let memory = MemoryBreakdown::new(page.shared, page.turn);
    let settings = page.shared.settings();
    let ratio = |ratio| Figure::fixed(ratio, 2);
    let beyond = |bytes: u64| memory.resident as i64 - bytes as i64;
    page.bytes("used_memory", memory.used);
    page.bytes("used_memory_rss", memory.resident);
    page.bytes("used_memory_peak", memory.peak);
    page.line(
        "used_memory_peak_perc",
        Figure::percent(memory.peak_percent()),
    );
    page.size("used_memory_overhead", memory.overhead());
    page.size("used_memory_startup", memory.startup);
    page.size("used_memory_dataset", memory.dataset());
    page.line(
        "used_memory_dataset_perc",
        Figure::percent(memory.dataset_percent()),
    );
    page.size("allocator_allocated", memory.allocated);
    page.size("allocator_active", memory.pages);
    page.size("allocator_resident", memory.pages);
    page.bytes("total_system_memory", process::total_memory());
    let sum = |bytes: fn(&LoopStats) -> &AtomicU64| -> u64 {
        let loops = page.shared.observed.stats.iter();
        loops.map(|stats| bytes(stats).load(Relaxed)).sum()
    };
    let (eval, functions) = (sum(|s| &s.scripts_bytes), sum(|s| &s.functions_bytes));
    page.size("used_memory_vm_eval", eval);
    page.bytes("used_memory_lua", eval);
    let (scripts, script_bytes) = page.shared.scripting.cache.size();
    page.size("used_memory_scripts_eval", script_bytes);
    page.gauge("number_of_cached_scripts", scripts);
    let libraries = page.shared.scripting.functions.libraries();
    page.gauge("number_of_functions", libraries.functions());
    page.gauge("number_of_libraries", libraries.iter().len());
    page.size("used_memory_vm_functions", functions);
    page.gauge("used_memory_vm_total", eval + functions)
        .named("memory_used_vm_total");
    page.human("used_memory_vm_total", eval + functions);
    page.size("used_memory_functions", libraries.memory());
    let all = script_bytes + libraries.memory();
    page.bytes("used_memory_scripts", all as u64);
    page.gauge("maxmemory", settings.maxmemory)
        .named("memory_max_bytes");
    page.human("maxmemory", settings.maxmemory);
    page.line("maxmemory_policy", settings.maxmemory_policy);
    page.gauge("allocator_frag_ratio", ratio(memory.fragmentation()));
    page.gauge("allocator_frag_bytes", memory.fragmented());
    // Only the resident size of the allocator's pages is known, so this ratio is always 1.
    page.gauge("allocator_rss_ratio", ratio(1.0));
    page.gauge("allocator_rss_bytes", 0);
    page.line("rss_overhead_ratio", ratio(memory.overhead_ratio()));
    page.line("rss_overhead_bytes", beyond(memory.pages));
    page.gauge("mem_fragmentation_ratio", ratio(memory.resident_ratio()));
    page.gauge("mem_fragmentation_bytes", beyond(memory.used));
    let not_counted = page.shared.memory_not_counted();
    page.gauge("mem_not_counted_for_evict", not_counted)
        .named("mem_not_counted_for_eviction_bytes");
    page.size("mem_replication_backlog", memory.backlog);
    page.size("mem_total_replication_buffers", memory.backlog);
    page.gauge("mem_clients_slaves", memory.replicas);
    page.gauge("mem_clients_normal", memory.clients);
    page.size("mem_cluster_links", 0);
    let kept = page.shared.durability.changelog.file_buffer_bytes();
    page.size("mem_aof_buffer", kept);
    page.line("mem_allocator", "mimalloc");
    page.gauge("active_defrag_running", 0);
    let worker = &page.shared.worker;
    let pending = worker.pending_objects.load(Relaxed);
    page.gauge("lazyfree_pending_objects", pending);
    page.gauge("lazyfreed_objects", worker.freed_objects.load(Relaxed));
    let sum =
        |part: fn(&DbMemory) -> usize| memory.dbs.iter().map(|(.., m)| part(m)).sum::<usize>();
    page.line("mem_records", sum(|m| m.records));
    page.line("mem_index", sum(|m| m.index));
    page.line("mem_timers", sum(|m| m.wheel));
}

fn stats(page: &mut Page<'_, '_>) {
    let counts = &page.shared.replication.replicas.counts;
    let topics = &page.shared.clients.pubsub;
    let (channels, patterns, shard_channels) = (
        topics.topic_count(pubsub::Kind::Channel),
        topics.topic_count(pubsub::Kind::Pattern),
        topics.topic_count(pubsub::Kind::Shard),
    );
    let commands = page.sum(|s| &s.commands);
    let (ops, net_in, net_out) = page.shared.observed.rates.since_last(
        page.turn.now,
        commands,
        page.sum(|s| &s.net_in),
        page.sum(|s| &s.net_out),
    );
    page.count("total_connections_received", page.sum(|s| &s.connections));
    page.count("total_commands_processed", commands);
    page.line("instantaneous_ops_per_sec", ops);
    page.count("total_net_input_bytes", page.sum(|s| &s.net_in));
    page.count("total_net_output_bytes", page.sum(|s| &s.net_out));
    let repl_input = page.shared.replication.upstream.input_bytes.load(Relaxed);
    page.count("total_net_repl_input_bytes", repl_input);
    page.count("total_net_repl_output_bytes", counts.bytes.load(Relaxed));
    let kib = |bytes: u64| Figure::fixed(bytes as f64 / 1024.0, 2);
    page.line("instantaneous_input_kbps", kib(net_in));
    page.line("instantaneous_output_kbps", kib(net_out));
    page.line("instantaneous_input_repl_kbps", Figure::fixed(0.0, 2));
    page.line("instantaneous_output_repl_kbps", Figure::fixed(0.0, 2));
    let rejected = page.sum(|s| &s.rejected_connections);
    page.count("rejected_connections", rejected);
    for reason in Reason::ALL {
        let denied = page.shared.clients.users.log.denied(reason);
        page.count(reason.info_field(), denied);
    }
    page.gauge("sync_full", counts.full.load(Relaxed))
        .named("replica_resyncs_full");
    page.gauge("sync_partial_ok", counts.partial_ok.load(Relaxed))
        .named("replica_partial_resync_accepted");
    page.gauge("sync_partial_err", counts.partial_err.load(Relaxed))
        .named("replica_partial_resync_denied");
    let counted = page.counted();
    page.count("expired_subkeys", counted.expired_fields);
    page.count("expired_keys", counted.expired);
    for own in Stats::OWN {
        page.line(own.field, (own.of)(&counted));
    }
    page.gauge("expired_stale_perc", Figure::fixed(0.0, 2))
        .named("expired_stale_percentage");
    page.count("expired_time_cap_reached_count", 0)
        .named("expired_time_cap_reached_total");
    let expiry_ms = page.sum(|s| &s.expiry_nanos) / 1_000_000;
    page.count("expire_cycle_cpu_milliseconds", expiry_ms)
        .named("expire_cycle_cpu_time_ms_total");
    page.count("evicted_keys", counted.evicted);
    let memory = &page.shared.memory;
    page.count("evicted_clients", memory.evicted_clients.load(Relaxed));
    let (total_ms, current_ms) = memory.over_ms(page.turn.now);
    page.count("total_eviction_exceeded_time", total_ms)
        .named("eviction_exceeded_time_ms_total");
    page.gauge("current_eviction_exceeded_time", current_ms)
        .named("current_eviction_exceeded_time_ms");
    page.count("keyspace_hits", counted.hits);
    page.count("keyspace_misses", counted.misses);
    page.gauge("pubsub_channels", channels);
    page.gauge("pubsub_patterns", patterns);
    page.gauge("pubsubshard_channels", shard_channels);
    // The server never forks. INFO shows µs and the metric seconds; 0 is the same in both.
    page.gauge("latest_fork_usec", 0)
        .named("latest_fork_seconds");
    page.line("total_forks", 0);
    page.gauge("migrate_cached_sockets", 0)
        .named("migrate_cached_sockets_total");
    page.gauge("slave_expires_tracked_keys", 0);
    let (tracked_keys, tracked_items) = page.shared.store.tracked();
    page.gauge("tracking_total_keys", tracked_keys);
    page.gauge("tracking_total_items", tracked_items);
    let prefixes = page.shared.clients.trackers.prefix_count();
    page.gauge("tracking_total_prefixes", prefixes);
    page.count("unexpected_error_replies", 0)
        .named("unexpected_error_replies");
    page.count("total_error_replies", page.sum(|s| &s.errors))
        .named("total_error_replies");
    page.count("total_reads_processed", page.sum(|s| &s.reads))
        .named("total_reads_processed");
    page.count("total_writes_processed", page.sum(|s| &s.writes))
        .named("total_writes_processed");
    page.count("eventloop_cycles", page.sum(|s| &s.turns));
    let (input, output) = (
        page.sum(|s| &s.input_limit_closed),
        page.sum(|s| &s.output_limit_closed),
    );
    page.count("client_query_buffer_limit_disconnections", input);
    page.count("client_output_buffer_limit_disconnections", output);
}

fn replication(page: &mut Page<'_, '_>) {
    let replica = page.shared.replication.is_replica();
    page.line("role", Figure::Either(replica, ["slave", "master"]));
    replication::of_replica(page);
    replication::of_primary(page);
}

fn cpu(page: &mut Page<'_, '_>) {
    let (user, system) = process::cpu_seconds();
    page.count("used_cpu_sys", Figure::fixed(system, 6))
        .named("cpu_sys_seconds_total");
    page.count("used_cpu_user", Figure::fixed(user, 6))
        .named("cpu_user_seconds_total");
    page.count("used_cpu_sys_children", Figure::fixed(0.0, 6))
        .named("cpu_sys_children_seconds_total");
    page.count("used_cpu_user_children", Figure::fixed(0.0, 6))
        .named("cpu_user_children_seconds_total");
}

fn command_stats(page: &mut Page<'_, '_>) {
    for entry in page.shared.commands.table().all() {
        let sum = |f: fn(&CommandStats) -> &Counter| -> u64 {
            page.shared
                .observed
                .stats
                .iter()
                .map(|s| f(&s.by_command[entry.id]).get())
                .sum()
        };
        let (calls, nanos) = (sum(|c| &c.calls), sum(|c| &c.nanos));
        let (rejected, failed) = (sum(|c| &c.rejected), sum(|c| &c.failed));
        if calls + rejected > 0 {
            let micros = nanos / 1000;
            let each = micros as f64 / calls.max(1) as f64;
            let figures = Figure::parts([
                ("calls", calls.into()),
                ("usec", micros.into()),
                ("usec_per_call", Figure::fixed(each, 2)),
                ("rejected_calls", rejected.into()),
                ("failed_calls", failed.into()),
            ]);
            page.each("cmdstat_", &*entry.name, figures);
        }
    }
}

fn latency_stats(page: &mut Page<'_, '_>) {
    let settings = page.shared.settings();
    if !settings.latency_tracking {
        return;
    }
    for entry in page.shared.commands.table().all() {
        let durations = durations(page.shared, entry);
        if durations.total == 0 {
            continue;
        }
        let figures = settings.latency_percentiles.iter().map(|percent| {
            let micros = durations.percentile(*percent) as f64 / 1000.0;
            (format!("p{percent}").into(), Figure::fixed(micros, 3))
        });
        let figures = Figure::Parts(figures.collect());
        page.each("latency_percentiles_usec_", &*entry.name, figures);
    }
}

fn error_stats(page: &mut Page<'_, '_>) {
    for (code, count) in page.shared.observed.errors.all() {
        page.each("errorstat_", code, Figure::parts([("count", count.into())]));
    }
}

fn keyspace(page: &mut Page<'_, '_>) {
    page.turn.lock_all();
    let now_ms = page.turn.now.read_ms();
    for db in 0..page.shared.store.databases() {
        let (mut keys, mut expires, mut sampled, mut left_ms) = (0, 0, 0_u64, 0_u64);
        for (_, part) in page.turn.held_dbs(db) {
            keys += part.len();
            expires += part.with_deadline();
            // As in Redis, `avg_ttl` is the mean of a sample.
            for at in part.some_deadlines() {
                sampled += 1;
                left_ms = left_ms.saturating_add(at.saturating_sub(now_ms));
            }
        }
        if keys > 0 {
            let figures = Figure::parts([
                ("keys", keys.into()),
                ("expires", expires.into()),
                ("avg_ttl", (left_ms / sampled.max(1)).into()),
            ]);
            page.each("db", db, figures);
        }
    }
}

/// Returns the lateness of expiry over all loops, in µs.
pub(crate) fn lateness(shared: &Shared) -> Histogram<u64> {
    let mut all = lateness_histogram();
    for stats in &shared.observed.stats {
        // The histograms have equal bounds, so adding cannot fail.
        let _ = all.add(&*stats.lateness_us.lock());
    }
    all
}

fn keysizes(page: &mut Page<'_, '_>) {
    for (suffix, figure) in keysizes::fields(&page.turn.value_sizes()) {
        page.each("db", suffix, figure);
    }
}
