//! MEMORY: memory usage of the server. MEMORY USAGE is a keyspace command; the command table merges
//! both containers.
//!
//! The figures come from the allocator's counts, from the kernel's resident sizes, and from the
//! sizes that the parts of the server compute.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use punctual_resp::{Args, Reply};
use punctual_store::command::help;
use punctual_store::keyspace::db::DbMemory;
use punctual_store::keyspace::records::RECORD_BYTES;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Turn};

use crate::client::registry::ClientType;
use crate::command::info::human;
use crate::memory::counters;
use crate::node::Shared;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::reclaim::rounds;
use crate::world::process;

const TIPS: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_shards",
    "response_policy:special",
];
const ALLOCATOR_COST: &str = "Depends on how much memory is allocated, could be slow";

const fn row(name: &'static str, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, 2, Flags::NONE, Group::Server, handler).tips(TIPS)
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "memory",
    Group::Server,
    &[
        row("doctor", doctor).doc("4.0.0", "O(1)", "Outputs a memory problems report."),
        ServerCommand::help(Group::Server, "4.0.0", |_, _, reply| {
            help(reply, "MEMORY", HELP)
        }),
        row("malloc-stats", malloc_stats)
            .since("4.0.0")
            .complexity(ALLOCATOR_COST)
            .summary("Returns the allocator statistics."),
        row("purge", purge)
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
            .since("4.0.0")
            .complexity(ALLOCATOR_COST)
            .summary("Asks the allocator to release memory."),
        row("stats", stats).doc("4.0.0", "O(1)", "Returns details about memory usage."),
    ],
)
.since("4.0.0")
.summary("A container for memory diagnostics commands.")];

/// Memory usage by part, in bytes.
#[derive(Default)]
pub(crate) struct MemoryBreakdown {
    /// Bytes in use: bytes that the allocator counts, or resident bytes if it does not count.
    pub(crate) used: u64,
    /// Peak of the bytes in use.
    pub(crate) peak: u64,
    /// Resident bytes.
    pub(crate) resident: u64,
    /// Bytes in use at the server's start.
    pub(crate) startup: u64,
    /// Bytes that the allocator counts, or anonymous resident bytes if it does not count.
    pub(crate) allocated: u64,
    /// Anonymous resident bytes (the allocator's pages and the stacks), at least the allocated
    /// bytes.
    pub(crate) pages: u64,
    /// Bytes of connections and their buffers, except replicas.
    pub(crate) clients: u64,
    /// Bytes of the connections of replicas.
    pub(crate) replicas: u64,
    /// Bytes of the replication backlog, which is also the output of the replicas.
    pub(crate) backlog: u64,
    /// Bytes that are kept until they are in the append-only file.
    pub(crate) file: u64,
    /// Bytes of the sources of scripts and functions.
    pub(crate) scripts: u64,
    /// Number of the database, number of its keys, and its memory, for each database that has keys
    /// or allocated records.
    pub(crate) dbs: Vec<(usize, usize, DbMemory)>,
}

impl MemoryBreakdown {
    /// Collects all figures. Locks all shards. O(shards · databases + clients).
    pub(crate) fn new(shared: &Shared, turn: &mut Turn) -> Self {
        let (resident, _) = process::memory();
        let all = shared.clients.registry.list();
        let memory_of = |replicas: bool| {
            let clients = all.iter();
            let clients = clients.filter(|c| (c.client_type() == ClientType::Replica) == replicas);
            clients.map(|client| client.memory()).sum()
        };
        let (clients, replicas) = (memory_of(false), memory_of(true));
        turn.lock_all();
        let mut dbs = Vec::new();
        for db in 0..shared.store.databases() {
            let (mut keys, mut sum) = (0, DbMemory::default());
            for (_, part) in turn.held_dbs(db) {
                let memory = part.memory();
                keys += part.len();
                sum.records += memory.records;
                sum.index += memory.index;
                sum.wheel += memory.wheel;
                sum.index_slots += memory.index_slots;
            }
            if keys > 0 || sum.records > 0 {
                dbs.push((db, keys, sum));
            }
        }
        let used = shared.memory.used();
        let anonymous = process::anonymous_memory()
            .unwrap_or(resident)
            .min(resident);
        let allocated = counters::used().unwrap_or(anonymous);
        let stream = shared.replication.replicas.stream();
        let backlog = stream.backlog.as_ref().map_or(0, |b| b.memory() as u64);
        drop(stream);
        let scripts =
            shared.scripting.cache.size().1 + shared.scripting.functions.libraries().memory();
        Self {
            used,
            peak: shared.memory.peak(),
            resident,
            startup: shared.observed.startup_bytes.load(Ordering::Relaxed),
            allocated,
            // Allocated memory that was never written is not resident.
            pages: anonymous.max(allocated),
            clients,
            replicas,
            backlog,
            file: shared.durability.changelog.file_buffer_bytes(),
            scripts: scripts as u64,
            dbs,
        }
    }

    /// Returns the number of keys in all databases.
    pub(crate) fn keys(&self) -> u64 {
        self.dbs.iter().map(|(_, keys, _)| *keys as u64).sum()
    }

    /// Returns the bytes other than data: the process at its start, clients, replication, buffers
    /// of the append-only file, scripts, hash tables and wheels.
    pub(crate) fn overhead(&self) -> u64 {
        let tables: usize = self.dbs.iter().map(|(.., m)| m.index + m.wheel).sum();
        let buffers = self.clients + self.replicas + self.backlog + self.file + self.scripts;
        (self.startup + buffers + tables as u64).min(self.used)
    }

    pub(crate) fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }

    /// Returns the share of data in the memory that was allocated since the start, in percent.
    pub(crate) fn dataset_percent(&self) -> f64 {
        percent(self.dataset(), self.used.saturating_sub(self.startup))
    }

    /// Returns the ratio of resident bytes to the allocator's pages. The difference is code and
    /// libraries.
    pub(crate) fn overhead_ratio(&self) -> f64 {
        ratio(self.resident, self.pages)
    }

    /// Returns the ratio of the allocator's pages to the allocated bytes.
    pub(crate) fn fragmentation(&self) -> f64 {
        ratio(self.pages, self.allocated)
    }

    /// Returns the bytes of the allocator's pages that are not in use.
    pub(crate) fn fragmented(&self) -> u64 {
        self.pages - self.allocated
    }

    /// Returns the ratio of resident bytes to the bytes in use.
    pub(crate) fn resident_ratio(&self) -> f64 {
        ratio(self.resident, self.used)
    }

    /// Returns the bytes in use in percent of the peak.
    pub(crate) fn peak_percent(&self) -> f64 {
        percent(self.used, self.peak)
    }
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator.max(1) as f64
}

fn percent(part: u64, whole: u64) -> f64 {
    (part as f64 * 100.0 / whole.max(1) as f64).min(100.0)
}

fn stats(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let breakdown = MemoryBreakdown::new(call.shared, call.turn);
    let int = |reply: &mut Reply<'_>, name: &str, value: u64| {
        reply.bulk(name.as_bytes());
        reply.int(value as i64);
    };
    let keys = breakdown.keys();
    let data = breakdown.used.saturating_sub(breakdown.startup);
    reply.map(27 + breakdown.dbs.len());
    int(reply, "peak.allocated", breakdown.peak);
    int(reply, "total.allocated", breakdown.used);
    int(reply, "startup.allocated", breakdown.startup);
    int(reply, "replication.backlog", breakdown.backlog);
    int(reply, "clients.slaves", breakdown.replicas);
    int(reply, "clients.normal", breakdown.clients);
    int(reply, "cluster.links", 0);
    int(reply, "aof.buffer", breakdown.file);
    int(
        reply,
        "lua.caches",
        call.shared.scripting.cache.size().1 as u64,
    );
    let libraries = call.shared.scripting.functions.libraries();
    int(reply, "functions.caches", libraries.memory() as u64);
    for (db, _, memory) in &breakdown.dbs {
        reply.bulk(format!("db.{db}").as_bytes());
        reply.map(3);
        int(reply, "overhead.hashtable.main", memory.index as u64);
        int(reply, "overhead.hashtable.expires", memory.wheel as u64);
        int(reply, "overhead.hashtable.slot-to-keys", 0);
    }
    int(reply, "overhead.total", breakdown.overhead());
    int(reply, "keys.count", keys);
    int(
        reply,
        "keys.bytes-per-key",
        data.checked_div(keys).unwrap_or(0),
    );
    int(reply, "dataset.bytes", breakdown.dataset());
    reply.bulk(b"dataset.percentage");
    reply.double(breakdown.dataset_percent());
    reply.bulk(b"peak.percentage");
    reply.double(breakdown.peak_percent());
    int(reply, "allocator.allocated", breakdown.allocated);
    int(reply, "allocator.active", breakdown.pages);
    int(reply, "allocator.resident", breakdown.pages);
    for (ratio, value, bytes, count) in [
        (
            "allocator-fragmentation.ratio",
            breakdown.fragmentation(),
            "allocator-fragmentation.bytes",
            breakdown.fragmented() as i64,
        ),
        ("allocator-rss.ratio", 1.0, "allocator-rss.bytes", 0),
        (
            "rss-overhead.ratio",
            breakdown.overhead_ratio(),
            "rss-overhead.bytes",
            breakdown.resident as i64 - breakdown.pages as i64,
        ),
        (
            "fragmentation",
            breakdown.resident_ratio(),
            "fragmentation.bytes",
            breakdown.resident as i64 - breakdown.used as i64,
        ),
    ] {
        reply.bulk(ratio.as_bytes());
        reply.double(value);
        reply.bulk(bytes.as_bytes());
        reply.int(count);
    }
    Ok(())
}

fn doctor(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let breakdown = MemoryBreakdown::new(call.shared, call.turn);
    let connected = call.shared.clients.registry.connected();
    reply.verbatim("txt", report(&breakdown, connected).as_bytes());
    Ok(())
}

/// Returns a report on unusual memory usage, with advice.
fn report(breakdown: &MemoryBreakdown, connected: u64) -> String {
    /// Minimum number of bytes of data for a report.
    const LITTLE: u64 = 5 << 20;
    /// Minimum number of free bytes in the allocator's pages that the report mentions.
    const FRAGMENTED: u64 = 16 << 20;
    /// Minimum mean size in bytes of a client's buffers that the report mentions.
    const LARGE_BUFFERS: u64 = 200 << 10;
    let mut text = String::new();
    if breakdown.used.saturating_sub(breakdown.startup) < LITTLE
        && breakdown.peak < 2 * breakdown.startup.max(LITTLE)
    {
        return "There is too little data for a report on its memory.\n".to_owned();
    }
    if breakdown.peak > breakdown.used / 2 * 3 {
        let _ = writeln!(
            text,
            "- The peak was {}, and {} are in use now. Free memory goes back to the system; nothing is wrong.",
            human(breakdown.peak),
            human(breakdown.used)
        );
    }
    if breakdown.fragmented() > breakdown.used / 2 && breakdown.fragmented() > FRAGMENTED {
        let _ = writeln!(
            text,
            "- The allocator's pages take {}, of which {} are in use. MEMORY PURGE returns pages without used blocks to the \
             system. A restart also removes the free space between used blocks.",
            human(breakdown.pages),
            human(breakdown.used)
        );
    }
    let each = breakdown.clients / connected.max(1);
    if each > LARGE_BUFFERS {
        let _ = writeln!(
            text,
            "- {connected} clients hold {} of unread replies and incomplete commands. CLIENT LIST shows the bytes of each client \
             (qbuf, omem). The directive client-output-buffer-limit limits the replies.",
            human(breakdown.clients)
        );
    }
    for (db, keys, memory) in &breakdown.dbs {
        let room = memory.records / RECORD_BYTES;
        if *keys > 0 && room > 100_000 && room > keys * 3 {
            let _ = writeln!(
                text,
                "- db{db} has {keys} keys in room for {room}. DEBUG RELOAD or a restart frees the unused room.",
            );
        }
    }
    if text.is_empty() {
        return "Nothing unusual.\n".to_owned();
    }
    text
}

fn malloc_stats(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let statistics = call.shared.reclaim.map(|reclaim| (reclaim.statistics)());
    let text = match &statistics {
        Some(text) => text.as_str(),
        // Redis's reply for an allocator without statistics.
        None => "Stats not supported for the current allocator",
    };
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Returns the free pages that this thread can release to the system, before the reply. Then begins
/// a round, in which each loop returns the pages that only its thread can release.
fn purge(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    if let Some(reclaim) = call.shared.reclaim {
        // A purge takes long, so the locks are released.
        call.turn.release();
        (reclaim.collect)();
        (reclaim.purge)();
        // If a round is already in progress, that round is sufficient.
        rounds::begin_round(call.shared);
    }
    reply.ok();
    Ok(())
}

const HELP: &[&str] = &[
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_breakdown_adds_up_and_the_report_describes_it() {
        let memory = DbMemory {
            records: RECORD_BYTES << 20,
            index: 5 << 20,
            wheel: 1 << 20,
            index_slots: 0,
        };
        let mut breakdown = MemoryBreakdown {
            used: 100 << 20,
            peak: 120 << 20,
            resident: 132 << 20,
            startup: 10 << 20,
            allocated: 100 << 20,
            pages: 110 << 20,
            clients: 3 << 20,
            file: 1 << 20,
            dbs: vec![(0, 1_000_000, memory)],
            ..MemoryBreakdown::default()
        };
        assert_eq!(breakdown.overhead(), 20 << 20);
        assert_eq!(breakdown.dataset(), 80 << 20);
        assert_eq!(breakdown.overhead_ratio(), 1.2);
        assert_eq!(breakdown.fragmentation(), 1.1);
        assert!((88.0..89.0).contains(&breakdown.dataset_percent()));
        assert_eq!(report(&breakdown, 100), "Nothing unusual.\n");
        breakdown.dbs[0].1 = 1000;
        breakdown.peak = 400 << 20;
        let text = report(&breakdown, 2);
        assert!(
            text.contains("400.00M") && text.contains("2 clients hold 3.00M"),
            "{text}"
        );
        assert!(text.contains("1000 keys in room for 1048576"), "{text}");
        breakdown.used = 12 << 20;
        breakdown.peak = breakdown.used;
        assert!(report(&breakdown, 2).starts_with("There is too little data"));
        assert!(breakdown.overhead() <= breakdown.used);
    }
}
