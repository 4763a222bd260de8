//! INFO: Redis's sections and field names, and the section `timers` with the lateness of expiry.
//!
//! Every figure is measured. Fields of missing features (scripts, replicas) are 0 if tools read them and absent
//! otherwise; the test of INFO lists the absent fields and the reasons.

mod persistence;
pub(crate) mod primary;
pub(crate) mod replica;
pub(crate) mod timers;

use std::fmt::{Display, Write as _};
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
use crate::observe::stats::{CommandStats, Counter, LoopStats, lateness_histogram};
use crate::pubsub::Kind;
use crate::world::process;

/// The family's rows.
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
.doc(
    "1.0.0",
    "O(1)",
    "Returns information and statistics about the server.",
)
.syntax("[section ...]")];

/// A section: its name, whether plain INFO shows it, whether INFO ALL shows it, and the function that writes it.
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
        page.line("cluster_enabled", 0)
    }),
    ("keyspace", true, true, keyspace),
    ("timers", true, true, timers::timers),
];

fn info(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let wanted: Vec<String> = args
        .iter()
        .skip(1)
        .map(|a| String::from_utf8_lossy(a).to_ascii_lowercase())
        .collect();
    let requests = |name: &str| wanted.iter().any(|w| w == name);
    let text = text(call.shared, call.turn, |(name, by_default, in_all, _)| {
        ((wanted.is_empty() || requests("default")) && *by_default)
            || (requests("all") && *in_all)
            || requests("everything")
            || requests(name)
    });
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Returns the sections that need shard locks (`with_locks`), or all others, for a crash report.
pub(crate) fn for_report(shared: &Arc<Shared>, turn: &mut Turn, with_locks: bool) -> String {
    text(shared, turn, |(name, ..)| {
        matches!(*name, "memory" | "keyspace" | "timers") == with_locks
    })
}

fn text(shared: &Arc<Shared>, turn: &mut Turn, shown: impl Fn(&Section) -> bool) -> String {
    let mut page = Page {
        shared,
        turn,
        text: String::new(),
    };
    for section in SECTIONS.iter().filter(|section| shown(section)) {
        let (name, .., write) = section;
        if !page.text.is_empty() {
            page.text.push_str("\r\n");
        }
        let title = match *name {
            "cpu" => "CPU".to_owned(),
            name => name[..1].to_uppercase() + &name[1..],
        };
        // Writing to a String cannot fail.
        let _ = write!(page.text, "# {title}\r\n");
        write(&mut page);
    }
    page.text
}

/// Text of INFO under construction, and the sources of its figures.
struct Page<'a, 's> {
    shared: &'a Arc<Shared>,
    turn: &'a mut Turn<'s>,
    text: String,
}

impl Page<'_, '_> {
    fn line(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(&format!("{name}_human"), human(bytes));
    }

    fn sum(&self, counter: impl Fn(&LoopStats) -> &Counter) -> u64 {
        self.shared
            .observed
            .stats
            .iter()
            .map(|s| counter(s).get())
            .sum()
    }

    /// Returns the counts of all turns, this one included.
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
    page.line("redis_mode", "standalone");
    page.line("os", process::os());
    page.line("arch_bits", usize::BITS);
    page.line("monotonic_clock", "timerfd");
    page.line("multiplexing_api", "epoll");
    page.line("process_id", std::process::id());
    page.line("process_supervised", "no");
    page.line("run_id", &shared.run_id);
    let port = match shared.tcp_port.load(Ordering::Relaxed) {
        0 => shared.tls_port.load(Ordering::Relaxed),
        port => port,
    };
    page.line("tcp_port", port);
    page.line("server_time_usec", now.micros());
    page.line("uptime_in_seconds", uptime_s);
    page.line("uptime_in_days", uptime_s / 86_400);
    page.line("hz", shared.settings().hz);
    page.line("configured_hz", shared.settings().hz);
    page.line("lru_clock", (now.read_ms() / 1000) & 0xff_ffff);
    page.line("executable", process::executable());
    let config = shared.config.lock().file().map(|f| f.display().to_string());
    page.line("config_file", config.unwrap_or_default());
    page.line("io_threads_active", 0);
    if let Some(deadline_ms) = shared.shutdown.deadline_ms() {
        let left_ms = deadline_ms.saturating_sub(now.read_ms());
        page.line("shutdown_in_milliseconds", left_ms);
    }
    page.line("event_loops", shared.mailboxes.len());
    page.line("shards", shared.store.shards());
    page.line(
        "clock",
        if shared.clock.is_virtual() {
            "virtual"
        } else {
            "real"
        },
    );
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
    // As in Redis, replicas are no clients here.
    let replicas = shared.replication.replicas.count() as u64;
    let connected = shared.clients.registry.connected().saturating_sub(replicas);
    page.line("connected_clients", connected);
    page.line("cluster_connections", 0);
    page.line("maxclients", shared.settings().max_clients);
    page.line("client_recent_max_input_buffer", input);
    page.line("client_recent_max_output_buffer", output);
    page.line("blocked_clients", shared.clients.registry.waiting());
    page.line("tracking_clients", shared.clients.trackers.clients());
    page.line(
        "clients_in_timeout_table",
        all.iter().filter(has_timeout).count(),
    );
    page.line("total_blocking_keys", shared.store.waiting_keys());
    page.line("total_blocking_keys_on_nokey", 0);
}

fn memory(page: &mut Page<'_, '_>) {
    let breakdown = MemoryBreakdown::new(page.shared, page.turn);
    let settings = page.shared.settings();
    page.bytes("used_memory", breakdown.used);
    page.bytes("used_memory_rss", breakdown.resident);
    page.bytes("used_memory_peak", breakdown.peak);
    page.line(
        "used_memory_peak_perc",
        format_args!("{:.2}%", breakdown.peak_percent()),
    );
    page.line("used_memory_overhead", breakdown.overhead());
    page.line("used_memory_startup", breakdown.startup);
    page.line("used_memory_dataset", breakdown.dataset());
    page.line(
        "used_memory_dataset_perc",
        format_args!("{:.2}%", breakdown.dataset_percent()),
    );
    page.line("allocator_allocated", breakdown.allocated);
    page.line("allocator_active", breakdown.pages);
    page.line("allocator_resident", breakdown.pages);
    page.bytes("total_system_memory", process::total_memory());
    let sum = |bytes: fn(&LoopStats) -> &AtomicU64| -> u64 {
        let loops = page.shared.observed.stats.iter();
        loops.map(|stats| bytes(stats).load(Relaxed)).sum()
    };
    let (eval, functions) = (sum(|s| &s.scripts_bytes), sum(|s| &s.functions_bytes));
    page.line("used_memory_vm_eval", eval);
    page.bytes("used_memory_lua", eval);
    let (scripts, script_bytes) = page.shared.scripting.cache.size();
    page.line("used_memory_scripts_eval", script_bytes);
    page.line("number_of_cached_scripts", scripts);
    let libraries = page.shared.scripting.functions.libraries();
    page.line("number_of_functions", libraries.functions());
    page.line("number_of_libraries", libraries.iter().len());
    page.line("used_memory_vm_functions", functions);
    page.bytes("used_memory_vm_total", eval + functions);
    page.line("used_memory_functions", libraries.memory());
    let all = script_bytes + libraries.memory();
    page.bytes("used_memory_scripts", all as u64);
    page.bytes("maxmemory", settings.maxmemory);
    page.line("maxmemory_policy", settings.maxmemory_policy);
    page.line(
        "allocator_frag_ratio",
        format_args!("{:.2}", breakdown.fragmentation()),
    );
    page.line("allocator_frag_bytes", breakdown.fragmented());
    // The resident size of the allocator's pages is what is known of them.
    page.line("allocator_rss_ratio", "1.00");
    page.line("allocator_rss_bytes", 0);
    page.line(
        "rss_overhead_ratio",
        format_args!("{:.2}", breakdown.overhead_ratio()),
    );
    page.line(
        "rss_overhead_bytes",
        breakdown.resident as i64 - breakdown.pages as i64,
    );
    page.line(
        "mem_fragmentation_ratio",
        format_args!("{:.2}", breakdown.resident_ratio()),
    );
    page.line(
        "mem_fragmentation_bytes",
        breakdown.resident as i64 - breakdown.used as i64,
    );
    page.line(
        "mem_not_counted_for_evict",
        page.shared.memory_not_counted(),
    );
    page.line("mem_replication_backlog", breakdown.backlog);
    page.line("mem_total_replication_buffers", breakdown.backlog);
    page.line("mem_clients_slaves", breakdown.replicas);
    page.line("mem_clients_normal", breakdown.clients);
    page.line("mem_cluster_links", 0);
    page.line(
        "mem_aof_buffer",
        page.shared.durability.changelog.file_buffer_bytes(),
    );
    page.line("mem_allocator", "mimalloc");
    page.line("active_defrag_running", 0);
    let worker = &page.shared.worker;
    page.line(
        "lazyfree_pending_objects",
        worker.pending_objects.load(Relaxed),
    );
    page.line("lazyfreed_objects", worker.freed_objects.load(Relaxed));
    let sum =
        |part: fn(&DbMemory) -> usize| breakdown.dbs.iter().map(|(.., m)| part(m)).sum::<usize>();
    page.line("mem_records", sum(|m| m.records));
    page.line("mem_index", sum(|m| m.index));
    page.line("mem_timers", sum(|m| m.wheel));
}

fn stats(page: &mut Page<'_, '_>) {
    let counts = &page.shared.replication.replicas.counts;
    let pubsub = &page.shared.clients.pubsub;
    let (channels, patterns, shard_channels) = (
        pubsub.topic_count(Kind::Channel),
        pubsub.topic_count(Kind::Pattern),
        pubsub.topic_count(Kind::Shard),
    );
    let commands = page.sum(|s| &s.commands);
    let (ops, net_in, net_out) = page.shared.observed.rates.since_last(
        page.turn.now,
        commands,
        page.sum(|s| &s.net_in),
        page.sum(|s| &s.net_out),
    );
    page.line("total_connections_received", page.sum(|s| &s.connections));
    page.line("total_commands_processed", commands);
    page.line("instantaneous_ops_per_sec", ops);
    page.line("total_net_input_bytes", page.sum(|s| &s.net_in));
    page.line("total_net_output_bytes", page.sum(|s| &s.net_out));
    let repl_input = page.shared.replication.upstream.input_bytes.load(Relaxed);
    page.line("total_net_repl_input_bytes", repl_input);
    page.line("total_net_repl_output_bytes", counts.bytes.load(Relaxed));
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    page.line("instantaneous_input_kbps", kib(net_in));
    page.line("instantaneous_output_kbps", kib(net_out));
    page.line("instantaneous_input_repl_kbps", "0.00");
    page.line("instantaneous_output_repl_kbps", "0.00");
    page.line(
        "rejected_connections",
        page.sum(|s| &s.rejected_connections),
    );
    for reason in Reason::ALL {
        page.line(
            reason.info_field(),
            page.shared.clients.users.log.denied(reason),
        );
    }
    page.line("sync_full", counts.full.load(Relaxed));
    page.line("sync_partial_ok", counts.partial_ok.load(Relaxed));
    page.line("sync_partial_err", counts.partial_err.load(Relaxed));
    let counted = page.counted();
    page.line("expired_subkeys", counted.expired_fields);
    page.line("expired_keys", counted.expired);
    for own in Stats::OWN {
        page.line(own.field, (own.of)(&counted));
    }
    page.line("expired_stale_perc", "0.00");
    page.line("expired_time_cap_reached_count", 0);
    page.line(
        "expire_cycle_cpu_milliseconds",
        page.sum(|s| &s.expiry_nanos) / 1_000_000,
    );
    page.line("evicted_keys", counted.evicted);
    let memory = &page.shared.memory;
    page.line("evicted_clients", memory.evicted_clients.load(Relaxed));
    let (total_ms, current_ms) = memory.over_ms(page.turn.now);
    page.line("total_eviction_exceeded_time", total_ms);
    page.line("current_eviction_exceeded_time", current_ms);
    page.line("keyspace_hits", counted.hits);
    page.line("keyspace_misses", counted.misses);
    page.line("pubsub_channels", channels);
    page.line("pubsub_patterns", patterns);
    page.line("pubsubshard_channels", shard_channels);
    page.line("latest_fork_usec", 0);
    page.line("total_forks", 0);
    page.line("migrate_cached_sockets", 0);
    page.line("slave_expires_tracked_keys", 0);
    let (tracked_keys, tracked_items) = page.shared.store.tracked();
    page.line("tracking_total_keys", tracked_keys);
    page.line("tracking_total_items", tracked_items);
    page.line(
        "tracking_total_prefixes",
        page.shared.clients.trackers.prefix_count(),
    );
    page.line("unexpected_error_replies", 0);
    page.line("total_error_replies", page.sum(|s| &s.errors));
    page.line("total_reads_processed", page.sum(|s| &s.reads));
    page.line("total_writes_processed", page.sum(|s| &s.writes));
    page.line("eventloop_cycles", page.sum(|s| &s.turns));
    page.line(
        "client_query_buffer_limit_disconnections",
        page.sum(|s| &s.input_limit_closed),
    );
    page.line(
        "client_output_buffer_limit_disconnections",
        page.sum(|s| &s.output_limit_closed),
    );
}

fn replication(page: &mut Page<'_, '_>) {
    let shared = page.shared;
    let replica = shared.replication.is_replica();
    page.line("role", if replica { "slave" } else { "master" });
    replica::info(shared, |name, value| page.line(name, value));
    let settings = shared.settings();
    crate::command::info::primary::fields(shared, &settings, |name, value| page.line(name, value));
}

fn cpu(page: &mut Page<'_, '_>) {
    let (user, system) = process::cpu_seconds();
    page.line("used_cpu_sys", format_args!("{system:.6}"));
    page.line("used_cpu_user", format_args!("{user:.6}"));
    page.line("used_cpu_sys_children", "0.000000");
    page.line("used_cpu_user_children", "0.000000");
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
            page.line(
                &format!("cmdstat_{}", entry.name),
                format_args!(
                    "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
                ),
            );
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
        let mut figures = String::new();
        for percent in &settings.latency_percentiles {
            let comma = if figures.is_empty() { "" } else { "," };
            let micros = durations.percentile(*percent) as f64 / 1000.0;
            let _ = write!(figures, "{comma}p{percent}={micros:.3}");
        }
        page.line(&format!("latency_percentiles_usec_{}", entry.name), figures);
    }
}

fn error_stats(page: &mut Page<'_, '_>) {
    for (code, count) in page.shared.observed.errors.all() {
        page.line(&format!("errorstat_{code}"), format_args!("count={count}"));
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
            // As in Redis, the mean of a sample.
            for at in part.some_deadlines() {
                sampled += 1;
                left_ms = left_ms.saturating_add(at.saturating_sub(now_ms));
            }
        }
        if keys > 0 {
            page.line(
                &format!("db{db}"),
                format_args!(
                    "keys={keys},expires={expires},avg_ttl={}",
                    left_ms / sampled.max(1)
                ),
            );
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
