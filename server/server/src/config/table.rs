//! The table of directives. A row has the directive's kind of value, its default, when it may
//! change, and whether it has an effect.
//!
//! Names, bounds and defaults are Redis 7.2's; differences have a comment. All eviction policies of
//! Redis 8.6 are accepted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::config::directive::{
    Directive, choice, file_name, host_name, integer, memory, optional, special, text, yes_no,
};
use crate::config::ttl_rules;
use crate::config::value::{Kind, TextRule};
use crate::version;

const INT: i64 = i32::MAX as i64;
const LONG: i64 = i64::MAX;
const SIZE: u64 = i64::MAX as u64;
const MB: u64 = 1 << 20;

const LEVELS: &[&str] = &["debug", "verbose", "notice", "warning"];
const PROTECTED_ACTION: &[&str] = &["no", "yes", "local"];
#[rustfmt::skip]
const EVICTION: &[&str] = &[
    "volatile-lru", "volatile-lfu", "volatile-lrm", "volatile-random", "volatile-ttl",
    "allkeys-lru", "allkeys-lfu", "allkeys-lrm", "allkeys-random", "noeviction",
];
const SYSLOG: &[&str] = &[
    "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
const FILE_NAME: &str = "dbfilename can't be a path, just a filename";
const AOF_NAME: Kind = Kind::Text(TextRule::NonEmptyFileName {
    path: "appendfilename can't be a path, just a filename",
    empty: "appendfilename can't be empty",
});
const AOF_DIR: Kind = Kind::Text(TextRule::NonEmptyFileName {
    path: "appenddirname can't be a path, just a dirname",
    empty: "appenddirname can't be empty",
});
const BACKUP_DIR: Kind = Kind::Text(TextRule::NonEmptyFileName {
    path: "backupdirname can't be a path, just a dirname",
    empty: "backupdirname can't be empty",
});
const OUTPUT_LIMITS: &str = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

/// One row per directive, grouped by subject.
#[rustfmt::skip]
pub(crate) static DIRECTIVES: &[Directive] = &[
    // Punctual's own directives.
    integer("threads", 1, 128, "1").at_start().implemented(),
    integer("shards", 0, 16384, "0").at_start().implemented(),
    choice("clock", &["real", "virtual"], "real").at_start().implemented(),
    yes_no("huge-pages", "yes").at_start().implemented(),
    integer("seed", 0, LONG, "0").at_start().sensitive().implemented(),
    yes_no("notify-expired-values", "no").implemented(),
    yes_no("import-skip-unknown", "no").implemented(),
    choice("reported-version", version::COMPATIBLE, "7.2").at_start().implemented(),

    // Defaults and limits of TTL, in seconds.
    integer("default-ttl", 0, ttl_rules::SECONDS_MAX, "0").implemented(),
    integer("max-ttl", 0, ttl_rules::SECONDS_MAX, "0").implemented(),
    special("ttl-rule", Kind::TtlRules, "").implemented(),

    // The HTTP port of the metrics and the page.
    integer("metrics-port", 0, 65535, "0").at_start().implemented(),
    special("metrics-bind", Kind::Addresses, "127.0.0.1 -::1").at_start().implemented(),
    optional("metrics-password").sensitive().implemented(),

    // Network.
    special("bind", Kind::Addresses, "* -::*").implemented(),
    integer("port", 0, 65535, "6379").implemented(),
    yes_no("protected-mode", "yes").implemented(),
    integer("tcp-backlog", 0, INT, "511").at_start().implemented(),
    integer("tcp-keepalive", 0, INT, "300").implemented(),
    integer("timeout", 0, INT, "0").implemented(),
    integer("maxclients", 1, u32::MAX as i64, "10000").implemented(),
    optional("unixsocket").at_start().implemented(),
    special("unixsocketperm", Kind::Octal, "0").at_start().implemented(),
    optional("bind-source-addr"),
    integer("socket-mark-id", 0, u32::MAX as i64, "0").at_start(),

    // TLS.
    integer("tls-port", 0, 65535, "0").implemented(),
    optional("tls-cert-file").reread().implemented(),
    optional("tls-key-file").reread().implemented(),
    // Encrypted key files are refused, so these passwords have no effect.
    optional("tls-key-file-pass").sensitive(),
    optional("tls-client-cert-file").reread().implemented(),
    optional("tls-client-key-file").reread().implemented(),
    optional("tls-client-key-file-pass").sensitive(),
    optional("tls-ca-cert-file").reread().implemented(),
    optional("tls-ca-cert-dir").reread().implemented(),
    choice("tls-auth-clients", &["no", "yes", "optional"], "yes").implemented(),
    optional("tls-protocols").implemented(),
    optional("tls-ciphers").implemented(),
    optional("tls-ciphersuites").implemented(),
    yes_no("tls-prefer-server-ciphers", "no").implemented(),
    yes_no("tls-session-caching", "yes").implemented(),
    integer("tls-session-cache-size", 0, INT, "20480").implemented(),
    integer("tls-session-cache-timeout", 0, INT, "300").implemented(),
    yes_no("tls-replication", "no").implemented(),
    yes_no("tls-cluster", "no").implemented(),
    // Keys are agreed on by elliptic curves, so Diffie-Hellman parameters have no effect.
    optional("tls-dh-params-file"),

    // Limits of a client's input and output.
    special("client-output-buffer-limit", Kind::OutputLimits, OUTPUT_LIMITS).implemented(),
    memory("client-query-buffer-limit", MB, SIZE, "1gb").implemented(),
    memory("proto-max-bulk-len", MB, SIZE, "512mb").implemented(),
    special("maxmemory-clients", Kind::MemoryOrPercent, "0").implemented(),

    // Access.
    optional("requirepass").sensitive().implemented(),
    choice("enable-debug-command", PROTECTED_ACTION, "no").at_start().implemented(),
    choice("enable-protected-configs", PROTECTED_ACTION, "no").at_start().implemented(),
    choice("enable-module-command", PROTECTED_ACTION, "no").at_start().implemented(),
    text("aclfile", "").at_start().implemented(),
    integer("acllog-max-len", 0, LONG, "128").implemented(),
    choice("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels").implemented(),

    // The process and its log.
    choice("loglevel", LEVELS, "notice").implemented(),
    // Valkey's directive; its form `logfmt` is not implemented.
    choice("log-format", &["legacy", "json"], "legacy").implemented(),
    text("logfile", "").at_start().implemented(),
    optional("pidfile").at_start().implemented(),
    special("dir", Kind::Directory, ".").protected().not_while_loading().implemented(),
    yes_no("daemonize", "no").at_start().implemented(),
    // `parent` is our own.
    choice("supervised", &["upstart", "systemd", "parent", "auto", "no"], "no").at_start().implemented(),
    yes_no("always-show-logo", "no").at_start(),
    yes_no("set-proc-title", "yes").at_start(),
    text("proc-title-template", "{title} {listen-addr} {server-mode}"),
    yes_no("syslog-enabled", "no").at_start(),
    text("syslog-ident", "redis").at_start(),
    choice("syslog-facility", SYSLOG, "local0").at_start(),
    yes_no("crash-log-enabled", "yes").implemented(),
    yes_no("crash-memcheck-enabled", "yes"),
    yes_no("use-exit-on-panic", "no").hidden(),
    yes_no("disable-thp", "yes").at_start().implemented(),
    text("ignore-warnings", ""),
    text("locale-collate", ""),
    special("shutdown-on-sigint", Kind::Shutdown, "default").implemented(),
    special("shutdown-on-sigterm", Kind::Shutdown, "default").implemented(),
    integer("shutdown-timeout", 0, INT, "10").implemented(),
    choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no"),
    special("oom-score-adj-values", Kind::OomScores, "0 200 800"),
    optional("server_cpulist").at_start(),
    optional("bio_cpulist").at_start(),
    optional("aof_rewrite_cpulist").at_start(),
    optional("bgsave_cpulist").at_start(),
    integer("watchdog-period", 0, INT, "0").hidden(),

    // The keyspace.
    integer("databases", 1, INT, "16").at_start().implemented(),
    special("notify-keyspace-events", Kind::EventClasses, "").implemented(),
    integer("active-expire-effort", 1, 10, "1"),
    special("hz", Kind::Hertz, "10"),
    yes_no("dynamic-hz", "yes"),
    yes_no("activerehashing", "yes"),
    yes_no("lazyfree-lazy-eviction", "no"),
    yes_no("lazyfree-lazy-expire", "no"),
    yes_no("lazyfree-lazy-server-del", "no"),
    yes_no("lazyfree-lazy-user-del", "no"),
    yes_no("lazyfree-lazy-user-flush", "no"),
    integer("tracking-table-max-keys", 0, LONG, "1000000").implemented(),
    integer("busy-reply-threshold", 0, LONG, "5000")
        .alias("lua-time-limit")
        .implemented(),

    // Memory.
    memory("maxmemory", 0, u64::MAX, "0").implemented(),
    choice("maxmemory-policy", EVICTION, "noeviction").implemented(),
    integer("maxmemory-samples", 1, INT, "5").implemented(),
    integer("maxmemory-eviction-tenacity", 0, 100, "10").implemented(),
    integer("lfu-log-factor", 0, INT, "10").implemented(),
    integer("lfu-decay-time", 0, INT, "1").implemented(),
    yes_no("jemalloc-bg-thread", "yes"),
    yes_no("activedefrag", "no"),
    integer("active-defrag-cycle-min", 1, 99, "1"),
    integer("active-defrag-cycle-max", 1, 99, "25"),
    integer("active-defrag-threshold-lower", 0, 1000, "10"),
    integer("active-defrag-threshold-upper", 0, 1000, "100"),
    integer("active-defrag-max-scan-fields", 1, LONG, "1000"),
    memory("active-defrag-ignore-bytes", 1, SIZE, "100mb"),

    // Encodings of values.
    integer("list-max-listpack-size", i32::MIN as i64, INT, "-2").alias("list-max-ziplist-size").implemented(),
    integer("list-compress-depth", 0, INT, "0"),
    integer("hash-max-listpack-entries", 0, LONG, "512").alias("hash-max-ziplist-entries").implemented(),
    memory("hash-max-listpack-value", 0, SIZE, "64").alias("hash-max-ziplist-value").implemented(),
    integer("set-max-intset-entries", 0, LONG, "512").implemented(),
    integer("set-max-listpack-entries", 0, LONG, "128").implemented(),
    integer("set-max-listpack-value", 0, LONG, "64").implemented(),
    integer("zset-max-listpack-entries", 0, LONG, "128").alias("zset-max-ziplist-entries").implemented(),
    memory("zset-max-listpack-value", 0, SIZE, "64").alias("zset-max-ziplist-value").implemented(),
    memory("hll-sparse-max-bytes", 0, SIZE, "3000").implemented(),
    // Redis 8.6 introduced the two `stream-idmp` directives.
    integer("stream-idmp-duration", 1, 86_400, "100").implemented(),
    integer("stream-idmp-maxsize", 1, 10_000, "100").implemented(),
    memory("stream-node-max-bytes", 0, SIZE, "4096").implemented(),
    integer("stream-node-max-entries", 0, LONG, "100").implemented(),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], "no"),

    // Monitoring.
    integer("slowlog-log-slower-than", -1, LONG, "10000").implemented(),
    integer("slowlog-max-len", 0, LONG, "128").implemented(),
    integer("latency-monitor-threshold", 0, LONG, "0").implemented(),
    yes_no("latency-tracking", "yes").implemented(),
    special("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9").implemented(),

    // Directives of Redis's I/O threads have no effect; Punctual uses `threads`.
    integer("io-threads", 1, 128, "1").at_start(),
    yes_no("io-threads-do-reads", "no").at_start(),

    // Snapshots.
    special("save", Kind::Save, "3600 1 300 100 60 10000").implemented(),
    file_name("dbfilename", "dump.rdb", FILE_NAME).protected().implemented(),
    yes_no("rdbcompression", "yes").implemented(),
    yes_no("rdbchecksum", "yes").at_start().implemented(),
    yes_no("rdb-del-sync-files", "no"),
    yes_no("rdb-save-incremental-fsync", "yes"),
    yes_no("stop-writes-on-bgsave-error", "yes").implemented(),
    integer("rdb-key-save-delay", i32::MIN as i64, INT, "0")
        .hidden()
        .implemented(),
    integer("key-load-delay", i32::MIN as i64, INT, "0")
        .hidden()
        .implemented(),
    integer("loading-process-events-interval-bytes", 1024, INT, "2097152").hidden(),

    // The append-only file.
    yes_no("appendonly", "no").not_while_loading().implemented(),
    special("appendfilename", AOF_NAME, "appendonly.aof").at_start().implemented(),
    special("appenddirname", AOF_DIR, "appendonlydir").at_start().implemented(),
    choice("appendfsync", &["everysec", "always", "no"], "everysec").implemented(),
    yes_no("no-appendfsync-on-rewrite", "no").implemented(),
    integer("auto-aof-rewrite-percentage", 0, INT, "100").implemented(),
    memory("auto-aof-rewrite-min-size", 0, SIZE, "64mb").implemented(),
    yes_no("aof-load-truncated", "yes").implemented(),
    yes_no("aof-use-rdb-preamble", "yes"),
    yes_no("aof-timestamp-enabled", "no").implemented(),
    yes_no("aof-rewrite-incremental-fsync", "yes"),
    yes_no("aof-disable-auto-gc", "no"),
    special("backupdirname", BACKUP_DIR, "backupdir").at_start().implemented(),
    integer("backup-sealed-ttl", 0, INT, "0").implemented(),

    // Replication.
    special("replicaof", Kind::ReplicaOf, "").alias("slaveof").at_start().implemented(),
    optional("masterauth").sensitive().implemented(),
    optional("masteruser").sensitive().implemented(),
    yes_no("replica-serve-stale-data", "yes").alias("slave-serve-stale-data").implemented(),
    yes_no("replica-read-only", "yes").alias("slave-read-only").implemented(),
    yes_no("replica-lazy-flush", "no").alias("slave-lazy-flush"),
    yes_no("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory").implemented(),
    yes_no("replica-ignore-disk-write-errors", "no"),
    yes_no("replica-announced", "yes").implemented(),
    optional("replica-announce-ip").alias("slave-announce-ip").implemented(),
    integer("replica-announce-port", 0, 65535, "0").alias("slave-announce-port").implemented(),
    integer("replica-priority", 0, INT, "100").alias("slave-priority").implemented(),
    integer("min-replicas-to-write", 0, INT, "0").alias("min-slaves-to-write").implemented(),
    integer("min-replicas-max-lag", 0, INT, "10").alias("min-slaves-max-lag").implemented(),
    choice("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore"),
    yes_no("repl-diskless-sync", "yes").implemented(),
    integer("repl-diskless-sync-delay", 0, INT, "5").implemented(),
    integer("repl-diskless-sync-max-replicas", 0, INT, "0").implemented(),
    // All values have the effect of `swapdb`.
    choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled").implemented(),
    yes_no("repl-disable-tcp-nodelay", "no").implemented(),
    integer("repl-ping-replica-period", 1, INT, "10").alias("repl-ping-slave-period").implemented(),
    integer("repl-timeout", 1, INT, "60").implemented(),
    memory("repl-backlog-size", 1, SIZE, "1mb").implemented(),
    integer("repl-backlog-ttl", 0, LONG, "3600").implemented(),

    // Cluster.
    yes_no("cluster-enabled", "no").at_start().implemented(),
    text("cluster-config-file", "nodes.conf").at_start().implemented(),
    integer("cluster-port", 0, 65535, "0").at_start().implemented(),
    integer("cluster-node-timeout", 0, LONG, "15000").implemented(),
    integer("cluster-migration-barrier", 0, INT, "1").implemented(),
    integer("cluster-replica-validity-factor", 0, INT, "10").alias("cluster-slave-validity-factor").implemented(),
    yes_no("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover").implemented(),
    yes_no("cluster-require-full-coverage", "yes").implemented(),
    yes_no("cluster-allow-reads-when-down", "no").implemented(),
    yes_no("cluster-allow-pubsubshard-when-down", "yes").implemented(),
    yes_no("cluster-allow-replica-migration", "yes").implemented(),
    optional("cluster-announce-ip").implemented(),
    host_name("cluster-announce-hostname").implemented(),
    optional("cluster-announce-human-nodename").implemented(),
    integer("cluster-announce-port", 0, 65535, "0").implemented(),
    integer("cluster-announce-tls-port", 0, 65535, "0").implemented(),
    integer("cluster-announce-bus-port", 0, 65535, "0").implemented(),
    choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip").implemented(),
    memory("cluster-link-sendbuf-limit", 0, u64::MAX, "0").implemented(),
    // Redis 8.10 has it: without `no`, a bus without TLS accepts connections from this machine
    // only.
    yes_no("cluster-bus-port-protected-mode", "yes").implemented(),
    // Redis 8.2.
    yes_no("cluster-slot-stats-enabled", "no").implemented(),
];

/// Directives of older Redis versions, which Redis reads and ignores.
pub(crate) const IGNORED: [&str; 3] = [
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
];

/// The row of each name and alias.
static ROWS: LazyLock<BTreeMap<&'static [u8], usize>> = LazyLock::new(|| {
    let rows = DIRECTIVES.iter().enumerate();
    rows.flat_map(|(index, row)| row.names().map(move |name| (name.as_bytes(), index)))
        .collect()
});

/// Returns the row with this name or alias, ignoring case.
pub(crate) fn find(name: &[u8]) -> Option<(usize, &'static Directive)> {
    let index = *ROWS.get(&name.to_ascii_lowercase()[..])?;
    Some((index, &DIRECTIVES[index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_unique_and_lower_case() {
        let mut seen = HashSet::new();
        for name in DIRECTIVES.iter().flat_map(Directive::names) {
            assert!(seen.insert(name), "{name} appears twice");
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(!IGNORED.contains(&name));
        }
    }

    #[test]
    fn every_default_is_a_legal_value() {
        for directive in DIRECTIVES {
            let words: Vec<&[u8]> = if directive.kind.takes_words() {
                directive
                    .default
                    .split(' ')
                    .filter(|word| !word.is_empty())
                    .map(str::as_bytes)
                    .collect()
            } else {
                vec![directive.default.as_bytes()]
            };
            let parsed = directive.kind.parse(&words, None);
            assert!(parsed.is_ok(), "{}: {parsed:?}", directive.name);
        }
    }
}
