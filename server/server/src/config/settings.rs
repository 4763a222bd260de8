//! The directives that the server uses, as plain fields, so that hot paths look up no names.

mod values;

use std::io;
use std::path::PathBuf;

use punctual_store::events::Classes;
use punctual_store::eviction::{Eviction, EvictionOrder};
use punctual_store::limits::Limits;
use punctual_store::ttl_rules::{TtlLimit, TtlRules};
use punctual_store::uses::Uses;

use crate::config::cluster::ClusterSettings;
use crate::config::metrics::MetricsSettings;
use crate::config::tls::TlsSettings;
use crate::config::value::{OutputLimit, SavePoint, Value};
use crate::log::{Format, Level, Logger};
use crate::version;
pub(crate) use values::Values;

/// Declares a struct of settings. Each field has its type and its value from the directives. The
/// function's block defines what the values share.
macro_rules! settings {
    (
        $(#[$meta:meta])* pub struct $name:ident;
        $vis:vis fn $from:ident($($given:ident: $of:ty),*) { $($shared:tt)* }
        $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr;)*
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            $vis fn $from($($given: $of),*) -> Self {
                $($shared)*
                Self { $($field: $value,)* }
            }
        }
    };
}
pub(super) use settings;

settings! {
    /// A consistent copy of the configuration, rebuilt after each change.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Settings;

    pub(crate) fn from_values(values: &[Value]) {
        let values = Values(values);
        let dir = values.path("dir").unwrap_or_else(|| PathBuf::from("."));
        let policy = values.word("maxmemory-policy");
        let eviction = Eviction::of_name(policy, values.number("maxmemory-samples"));
    }

    /// Addresses to listen on.
    bind: Vec<BindAddress> = values.addresses("bind");
    /// TCP port; 0 means no TCP.
    port: u16 = values.number("port");
    /// Settings of encrypted connections.
    tls: TlsSettings = TlsSettings::from_values(&values, &dir);
    /// Settings of the HTTP port.
    metrics: MetricsSettings = MetricsSettings::from_values(&values);
    /// Path of the unix socket.
    unixsocket: Option<PathBuf> = values.path("unixsocket").map(|path| dir.join(path));
    /// Permission bits of the unix socket; with 0 the umask decides.
    unixsocket_mode: u32 = match values.get("unixsocketperm") {
        Value::Octal(bits) => *bits,
        _ => 0,
    };
    /// Maximum number of connections that wait to be accepted, for each TCP listener.
    tcp_backlog: u32 = values.number("tcp-backlog");
    /// Seconds of silence before the first TCP keep-alive probe; with 0 there are no probes.
    tcp_keepalive_s: u32 = values.number("tcp-keepalive");
    /// Seconds after which an idle client is disconnected; with 0 clients stay connected.
    timeout_s: u32 = values.number("timeout");
    /// Maximum number of clients.
    max_clients: usize = values.number("maxclients");
    /// Refuses clients from other machines while the default user has no password.
    protected_mode: bool = values.yes("protected-mode");
    /// The password of the default user.
    requirepass: Option<Vec<u8>> =
        Some(values.text("requirepass").to_vec()).filter(|text| !text.is_empty());
    /// File of users, as configured: a relative path starts at `dir`.
    acl_file: Option<PathBuf> = values.path("aclfile");
    /// Maximum number of entries of ACL LOG.
    acl_log_max: usize = values.number("acllog-max-len");
    /// New users and selectors start with access to all channels.
    acl_all_channels: bool = values.word("acl-pubsub-default") == "allchannels";
    /// Number of good replicas below which writes are refused; 0 disables the check.
    min_replicas_to_write: usize = values.number("min-replicas-to-write");
    /// A replica is good if its last acknowledgement is at most this many seconds old; 0 disables
    /// the check.
    min_replicas_max_lag_s: u64 = values.number("min-replicas-max-lag");
    /// Stream snapshots to replicas directly, without a temporary file.
    repl_diskless_sync: bool = values.yes("repl-diskless-sync");
    /// Seconds for which a full synchronization waits for more replicas before it starts.
    repl_diskless_sync_delay_s: u64 = values.number("repl-diskless-sync-delay");
    /// Number of waiting replicas at which a full synchronization starts at once; 0 means that it
    /// waits for the whole delay.
    repl_diskless_sync_max_replicas: usize = values.number("repl-diskless-sync-max-replicas");
    /// Sends replicas fewer, larger packets.
    repl_disable_tcp_nodelay: bool = values.yes("repl-disable-tcp-nodelay");
    /// Seconds between the PINGs that a primary sends to its replicas.
    repl_ping_period_s: u64 = values.number("repl-ping-replica-period");
    /// Seconds without data after which a replication link is closed.
    repl_timeout_s: u64 = values.number("repl-timeout");
    /// Bytes of the replication stream that are kept for replicas that reconnect.
    repl_backlog_size: u64 = values.bytes("repl-backlog-size");
    /// Seconds without replicas after which the backlog is freed; 0 means never.
    repl_backlog_ttl_s: u64 = values.number("repl-backlog-ttl");
    /// Limits of unsent output by class of client. The indices are
    /// [`OUTPUT_NORMAL`](Self::OUTPUT_NORMAL) and the two constants after it.
    output_limits: [OutputLimit; 3] = match values.get("client-output-buffer-limit") {
        Value::OutputLimits(limits) => *limits,
        _ => Default::default(),
    };
    /// Maximum number of bytes of a client's input that has not run, including the commands queued
    /// by MULTI.
    query_buffer_limit: usize = values.bytes("client-query-buffer-limit");
    /// Maximum number of bytes of one argument.
    max_bulk_len: usize = values.bytes("proto-max-bulk-len");
    /// Milliseconds after which a script counts as busy; 0 means never.
    busy_reply_threshold_ms: u64 = values.number("busy-reply-threshold");
    /// Settings of a server in its role as a replica.
    replica: ReplicaSettings = ReplicaSettings::from_values(&values);
    /// Settings of cluster mode.
    cluster: ClusterSettings = ClusterSettings::from_values(&values);
    /// Number of databases.
    databases: usize = values.number("databases");
    /// Classes of keyspace events to publish.
    notify: Classes = match values.get("notify-keyspace-events") {
        Value::EventClasses(classes) => *classes,
        _ => Classes::none(),
    };
    /// Publishes the last value of a string key that expires, on `__keyvalue@<db>__:<key>`.
    notify_expired_values: bool = values.yes("notify-expired-values");
    /// Commands that take at least this long go to the slow log; `None` disables the log.
    slowlog_slower_than_us: Option<u64> =
        u64::try_from(values.integer("slowlog-log-slower-than")).ok();
    /// Maximum number of entries in the slow log.
    slowlog_max_len: usize = values.number("slowlog-max-len");
    /// Maximum number of keys that are remembered for client-side caches; 0 means no limit.
    tracking_table_max_keys: u64 = values.number("tracking-table-max-keys");
    /// Minimum duration in milliseconds of an event that is recorded for LATENCY; 0 disables the
    /// recording.
    latency_threshold_ms: u64 = values.number("latency-monitor-threshold");
    /// Keeps a latency histogram for each command.
    latency_tracking: bool = values.yes("latency-tracking");
    /// Percentiles of the commands' latency histograms that INFO shows.
    latency_percentiles: Vec<f64> = match values.get("latency-tracking-info-percentiles") {
        Value::Percentiles(values) => values.clone(),
        _ => Vec::new(),
    };
    /// Minimum level of the log lines that are written.
    log_level: Level = match values.word("loglevel") {
        "debug" => Level::Debug,
        "verbose" => Level::Verbose,
        "warning" => Level::Warning,
        _ => Level::Notice,
    };
    /// Form of the log lines.
    log_format: Format = match values.word("log-format") {
        "json" => Format::Json,
        _ => Format::Legacy,
    };
    /// Path of the log file; `None` writes to standard output.
    logfile: Option<PathBuf> = values.path("logfile").map(|path| dir.join(path));
    /// Path of the file with the process id.
    pidfile: Option<PathBuf> = values.path("pidfile").map(|path| dir.join(path));
    /// Continue in the background, in a child process.
    daemonize: bool = values.yes("daemonize");
    /// Supervisor that is notified when the server is ready.
    supervised: Supervised = match values.word("supervised") {
        "upstart" => Supervised::Upstart,
        "systemd" => Supervised::Systemd,
        "parent" => Supervised::Parent,
        "auto" => Supervised::Auto,
        _ => Supervised::No,
    };
    /// Options of the shutdown that SIGINT requests.
    shutdown_on_sigint: ShutdownOptions = values.shutdown("shutdown-on-sigint");
    /// Options of the shutdown that SIGTERM requests.
    shutdown_on_sigterm: ShutdownOptions = values.shutdown("shutdown-on-sigterm");
    /// Maximum time for which a shutdown waits for replicas, in seconds; with 0 it does not wait.
    shutdown_timeout_s: u64 = values.number("shutdown-timeout");
    /// Name of the snapshot file in `dir`.
    dbfilename: String = String::from_utf8_lossy(values.text("dbfilename")).into_owned();
    /// Settings of the keyspace: size limits of compact encodings, usage of keys, and eviction.
    limits: Limits = limits(&values, eviction);
    /// Defaults and limits of TTL.
    ttl_rules: TtlRules = ttl_rules(&values);
    /// When to make snapshots.
    save: Vec<SavePoint> = match values.get("save") {
        Value::Save(points) => points.clone(),
        _ => Vec::new(),
    };
    /// Compress strings in snapshots.
    rdb_compression: bool = values.yes("rdbcompression");
    /// Pause after each key that a save writes, in microseconds (`rdb-key-save-delay`). A negative
    /// number -n means one microsecond for n keys.
    key_save_delay_us: i64 = values.number("rdb-key-save-delay");
    /// Pause after each key that a load reads, in microseconds (`key-load-delay`). A negative
    /// number -n means one microsecond for n keys.
    key_load_delay_us: i64 = values.number("key-load-delay");
    /// Write and check a checksum at the end of snapshots.
    rdb_checksum: bool = values.yes("rdbchecksum");
    /// Load a snapshot without its records of unsupported types, instead of refusing it.
    import_skip_unknown: bool = values.yes("import-skip-unknown");
    /// Refuse writes after a snapshot has failed, if `save` is set.
    stop_writes_on_save_error: bool = values.yes("stop-writes-on-bgsave-error");
    /// Keep an append-only file.
    append_only: bool = values.yes("appendonly");
    /// Folder of the append-only file in `dir`.
    append_dir: String = String::from_utf8_lossy(values.text("appenddirname")).into_owned();
    /// Prefix of the names of the append-only file's parts.
    append_file: String = String::from_utf8_lossy(values.text("appendfilename")).into_owned();
    /// Folder of online backups in `dir`.
    backup_dir: String = String::from_utf8_lossy(values.text("backupdirname")).into_owned();
    /// Time in seconds after which a sealed backup is removed; 0 keeps it.
    backup_sealed_ttl_s: u64 = values.number("backup-sealed-ttl");
    /// When the append-only file is synced.
    append_sync: AppendSync = match values.word("appendfsync") {
        "always" => AppendSync::Always,
        "no" => AppendSync::No,
        _ => AppendSync::EverySecond,
    };
    /// Do not sync while a rewrite or a save runs.
    no_sync_on_rewrite: bool = values.yes("no-appendfsync-on-rewrite");
    /// Growth in percent after which the append-only file is rewritten; with 0 it is rewritten only
    /// on request.
    rewrite_percentage: u32 = values.number("auto-aof-rewrite-percentage");
    /// Minimum size in bytes from which the append-only file is rewritten automatically.
    rewrite_min_bytes: u64 = values.bytes("auto-aof-rewrite-min-size");
    /// Write the time into the append-only file.
    aof_timestamps: bool = values.yes("aof-timestamp-enabled");
    /// The directive `aof-use-rdb-preamble`. Base files are always snapshots; with `no`, the server
    /// only logs a warning about this.
    aof_preamble: bool = values.yes("aof-use-rdb-preamble");
    /// Cut off the torn end of an append-only file when it is loaded.
    aof_load_truncated: bool = values.yes("aof-load-truncated");
    /// Which memory lies in huge pages.
    huge_pages: HugePages = match (values.yes("disable-thp"), values.yes("huge-pages")) {
        (false, _) => HugePages::Kernel,
        (true, true) => HugePages::Merged,
        (true, false) => HugePages::Never,
    };
    /// Write a crash report to the log.
    crash_log: bool = values.yes("crash-log-enabled");
    /// Clients that may call DEBUG.
    debug_command: Permission = values.permission("enable-debug-command");
    /// Clients that may call MODULE LOAD, which always fails because the server has no modules
    /// (`enable-module-command`).
    module_command: Permission = values.permission("enable-module-command");
    /// Number of event loops, one per thread.
    threads: usize = values.number("threads");
    /// Number of shards of the keyspace; 0 lets the server choose it.
    shards: usize = values.number("shards");
    /// Redis version that the server names to clients.
    redis_version: &'static str = version::named(values.word("reported-version"));
    /// Clock that gives the server's time.
    clock: ClockKind = match values.word("clock") {
        "virtual" => ClockKind::Virtual,
        _ => ClockKind::Real,
    };
    /// Seed of the keyspace's random numbers; with 0 the seed is random.
    seed: u64 = values.number("seed");
    /// Limit of the memory in bytes; 0 means no limit.
    maxmemory: u64 = values.bytes("maxmemory");
    /// Eviction policy as configured, for INFO.
    maxmemory_policy: &'static str = values.word("maxmemory-policy");
    /// Effort of eviction, from 0 to 100 (`maxmemory-eviction-tenacity`). The time limit of an
    /// eviction step grows with this number; with 100 a step has no limit.
    eviction_tenacity: u32 = values.number("maxmemory-eviction-tenacity");
    /// A replica evicts no keys itself; its primary's evictions reach it.
    replica_ignores_maxmemory: bool = values.yes("replica-ignore-maxmemory");
    /// Total bytes of all clients above which the largest clients are disconnected; 0 means no
    /// limit.
    maxmemory_clients: u64 = match values.get("maxmemory-clients") {
        Value::Memory(bytes) => *bytes,
        // A percentage of `maxmemory`. Without `maxmemory` the result is 0, which means no limit.
        Value::Percent(percent) => values.bytes::<u64>("maxmemory") / 100 * percent,
        _ => 0,
    };
    /// Frequency of periodic tasks as configured (`hz`), shown by INFO.
    hz: u32 = values.number("hz");
    /// Absolute base directory of relative paths.
    dir: PathBuf = dir;
}

/// An address of `bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAddress {
    /// Address or host name; `*` is stored as `0.0.0.0` and `::*` as `::`.
    pub host: String,
    /// The server starts even if the machine does not have this address; written with a leading
    /// `-`.
    pub optional: bool,
}

/// Which memory of the process lies in huge pages, if the system makes huge pages at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// None.
    Never,
    /// Memory that is in full use. The process becomes at most 1.6 % larger.
    Merged,
    /// The memory that the system chooses.
    Kernel,
}

/// When the append-only file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendSync {
    /// Before a reply reveals a change.
    Always,
    /// Every second.
    EverySecond,
    /// When the operating system chooses to.
    No,
}

/// Clients that may use a dangerous command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// No clients.
    No,
    /// Clients on this machine.
    Local,
    /// All clients.
    Yes,
}

impl Permission {
    /// Returns true if a client may use the command; `local` means that the client is on this
    /// machine.
    #[must_use]
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Local => local,
            Self::Yes => true,
        }
    }
}

/// Source of the server's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The machine's clock.
    Real,
    /// Stands still until the CLOCK command moves it.
    Virtual,
}

/// Configured supervisor of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supervised {
    /// No supervisor.
    No,
    /// Upstart.
    Upstart,
    /// A systemd unit of `Type=notify`.
    Systemd,
    /// The program that started the server and holds its standard input open.
    Parent,
    /// Upstart or systemd, depending on the environment variables.
    Auto,
}

/// Options of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownOptions {
    /// Whether to save a snapshot; `None` saves if there are save points.
    pub save: Option<bool>,
    /// Do not wait for replicas.
    pub now: bool,
    /// Exit even if the snapshot fails.
    pub force: bool,
}

impl Settings {
    /// Index in [`output_limits`](Self::output_limits) for clients that send commands.
    pub const OUTPUT_NORMAL: usize = 0;
    /// Index in [`output_limits`](Self::output_limits) for replicas.
    pub const OUTPUT_REPLICA: usize = 1;
    /// Index in [`output_limits`](Self::output_limits) for subscribers.
    pub const OUTPUT_PUBSUB: usize = 2;

    /// Creates the logger that `loglevel`, `log-format` and `logfile` configure.
    ///
    /// # Errors
    /// Returns the error of [`Logger::file`].
    pub fn logger(&self) -> io::Result<Logger> {
        let logger = match &self.logfile {
            Some(path) => Logger::file(self.log_level, path)?,
            None => Logger::stdout(self.log_level),
        };
        logger.set_format(self.log_format);
        Ok(logger)
    }
}

fn limits(values: &Values, eviction: Option<Eviction>) -> Limits {
    Limits {
        list_piece: values.integer("list-max-listpack-size"),
        hash_entries: values.number("hash-max-listpack-entries"),
        hash_value: values.bytes("hash-max-listpack-value"),
        set_ints: values.number("set-max-intset-entries"),
        set_entries: values.number("set-max-listpack-entries"),
        set_value: values.number("set-max-listpack-value"),
        zset_entries: values.number("zset-max-listpack-entries"),
        zset_value: values.bytes("zset-max-listpack-value"),
        hll_sparse_bytes: values.bytes("hll-sparse-max-bytes"),
        stream_bytes: values.bytes("stream-node-max-bytes"),
        stream_entries: values.number("stream-node-max-entries"),
        idmp_duration_s: values.number("stream-idmp-duration"),
        idmp_size_max: values.number("stream-idmp-maxsize"),
        uses: match eviction.map(|policy| policy.order) {
            Some(EvictionOrder::Lfu) => Uses::Count {
                log_factor: values.number("lfu-log-factor"),
                decay_minutes: values.number("lfu-decay-time"),
            },
            Some(EvictionOrder::Lru) => Uses::Recent,
            Some(EvictionOrder::Lrm) => Uses::Changed,
            _ => Uses::Last,
        },
        eviction,
    }
}

fn ttl_rules(values: &Values) -> TtlRules {
    let ms = |name| values.number::<u64>(name) * 1000;
    TtlRules {
        rules: match values.get("ttl-rule") {
            Value::TtlRules(rules) => rules.clone(),
            _ => Vec::new(),
        },
        others: TtlLimit {
            default_ms: ms("default-ttl"),
            max_ms: ms("max-ttl"),
        },
    }
}

settings! {
    /// The directives that concern a server in its role as a replica.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReplicaSettings;

    fn from_values(values: &Values<'_>) {
        let text = |name| Some(values.text(name).to_vec()).filter(|text| !text.is_empty());
    }

    /// Host and port of the primary.
    primary: Option<(String, u16)> = match values.words("replicaof") {
        [host, port] => std::str::from_utf8(port)
            .ok()
            .and_then(|port| port.parse().ok())
            .map(|port| (String::from_utf8_lossy(host).into_owned(), port)),
        _ => None,
    };
    /// Password that the replica sends to the primary.
    auth: Option<Vec<u8>> = text("masterauth");
    /// User name that the replica sends to the primary.
    user: Option<Vec<u8>> = text("masteruser");
    /// Seconds without data from the primary after which the link counts as lost.
    timeout_s: u32 = values.number("repl-timeout");
    /// Refuses writes of clients.
    read_only: bool = values.yes("replica-read-only");
    /// Serves clients while the link to the primary is down.
    serves_stale: bool = values.yes("replica-serve-stale-data");
    /// Rank for Sentinel; 0 excludes the server from promotion.
    priority: u32 = values.number("replica-priority");
    /// Lists the server for Sentinel.
    announced: bool = values.yes("replica-announced");
    /// Address of this replica that the primary reports.
    announce_ip: Option<Vec<u8>> = text("replica-announce-ip");
    /// Port of this replica that the primary reports; with 0 it is the server's own port.
    announce_port: u16 = values.number("replica-announce-port");
}
