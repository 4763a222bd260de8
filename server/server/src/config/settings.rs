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

/// A consistent copy of the configuration, rebuilt after each change.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Addresses to listen on.
    pub bind: Vec<BindAddress>,
    /// TCP port; 0 means no TCP.
    pub port: u16,
    /// Settings of encrypted connections.
    pub tls: TlsSettings,
    /// Settings of the HTTP port.
    pub metrics: MetricsSettings,
    /// Path of the unix socket.
    pub unixsocket: Option<PathBuf>,
    /// Permission bits of the unix socket; with 0 the umask decides.
    pub unixsocket_mode: u32,
    /// Maximum number of connections that wait to be accepted, for each TCP listener.
    pub tcp_backlog: u32,
    /// Seconds of silence before the first TCP keep-alive probe; with 0 there are no probes.
    pub tcp_keepalive_s: u32,
    /// Seconds after which an idle client is disconnected; with 0 clients stay connected.
    pub timeout_s: u32,
    /// Maximum number of clients.
    pub max_clients: usize,
    /// Refuses clients from other machines while the default user has no password.
    pub protected_mode: bool,
    /// The password of the default user.
    pub requirepass: Option<Vec<u8>>,
    /// File of users, as configured: a relative path starts at `dir`.
    pub acl_file: Option<PathBuf>,
    /// Maximum number of entries of ACL LOG.
    pub acl_log_max: usize,
    /// New users and selectors start with access to all channels.
    pub acl_all_channels: bool,
    /// Number of good replicas below which writes are refused; 0 disables the check.
    pub min_replicas_to_write: usize,
    /// A replica is good if its last acknowledgement is at most this many seconds old; 0 disables
    /// the check.
    pub min_replicas_max_lag_s: u64,
    /// Stream snapshots to replicas directly, without a temporary file.
    pub repl_diskless_sync: bool,
    /// Seconds for which a full synchronization waits for more replicas before it starts.
    pub repl_diskless_sync_delay_s: u64,
    /// Number of waiting replicas at which a full synchronization starts at once; 0 means that it
    /// waits for the whole delay.
    pub repl_diskless_sync_max_replicas: usize,
    /// Sends replicas fewer, larger packets.
    pub repl_disable_tcp_nodelay: bool,
    /// Seconds between the PINGs that a primary sends to its replicas.
    pub repl_ping_period_s: u64,
    /// Seconds without data after which a replication link is closed.
    pub repl_timeout_s: u64,
    /// Bytes of the replication stream that are kept for replicas that reconnect.
    pub repl_backlog_size: u64,
    /// Seconds without replicas after which the backlog is freed; 0 means never.
    pub repl_backlog_ttl_s: u64,
    /// Limits of unsent output by class of client. The indices are
    /// [`OUTPUT_NORMAL`](Self::OUTPUT_NORMAL) and the two constants after it.
    pub output_limits: [OutputLimit; 3],
    /// Maximum number of bytes of a client's input that has not run, including the commands queued
    /// by MULTI.
    pub query_buffer_limit: usize,
    /// Maximum number of bytes of one argument.
    pub max_bulk_len: usize,
    /// Milliseconds after which a script counts as busy; 0 means never.
    pub busy_reply_threshold_ms: u64,
    /// Settings of a server in its role as a replica.
    pub replica: ReplicaSettings,
    /// Settings of cluster mode.
    pub cluster: ClusterSettings,
    /// Number of databases.
    pub databases: usize,
    /// Classes of keyspace events to publish.
    pub notify: Classes,
    /// Publishes the last value of a string key that expires, on `__keyvalue@<db>__:<key>`.
    pub notify_expired_values: bool,
    /// Commands that take at least this long go to the slow log; `None` disables the log.
    pub slowlog_slower_than_us: Option<u64>,
    /// Maximum number of entries in the slow log.
    pub slowlog_max_len: usize,
    /// Maximum number of keys that are remembered for client-side caches; 0 means no limit.
    pub tracking_table_max_keys: u64,
    /// Minimum duration in milliseconds of an event that is recorded for LATENCY; 0 disables the
    /// recording.
    pub latency_threshold_ms: u64,
    /// Keeps a latency histogram for each command.
    pub latency_tracking: bool,
    /// Percentiles of the commands' latency histograms that INFO shows.
    pub latency_percentiles: Vec<f64>,
    /// Minimum level of the log lines that are written.
    pub log_level: Level,
    /// Form of the log lines.
    pub log_format: Format,
    /// Path of the log file; `None` writes to standard output.
    pub logfile: Option<PathBuf>,
    /// Path of the file with the process id.
    pub pidfile: Option<PathBuf>,
    /// Continue in the background, in a child process.
    pub daemonize: bool,
    /// Supervisor that is notified when the server is ready.
    pub supervised: Supervised,
    /// Options of the shutdown that SIGINT requests.
    pub shutdown_on_sigint: ShutdownOptions,
    /// Options of the shutdown that SIGTERM requests.
    pub shutdown_on_sigterm: ShutdownOptions,
    /// Maximum time for which a shutdown waits for replicas, in seconds; with 0 it does not wait.
    pub shutdown_timeout_s: u64,
    /// Absolute base directory of relative paths.
    pub dir: PathBuf,
    /// Name of the snapshot file in `dir`.
    pub dbfilename: String,
    /// Settings of the keyspace: size limits of compact encodings, usage of keys, and eviction.
    pub limits: Limits,
    /// Defaults and limits of TTL.
    pub ttl_rules: TtlRules,
    /// When to make snapshots.
    pub save: Vec<SavePoint>,
    /// Compress strings in snapshots.
    pub rdb_compression: bool,
    /// Pause after each key that a save writes, in microseconds (`rdb-key-save-delay`). A negative
    /// number -n means one microsecond for n keys.
    pub key_save_delay_us: i64,
    /// Pause after each key that a load reads, in microseconds (`key-load-delay`). A negative
    /// number -n means one microsecond for n keys.
    pub key_load_delay_us: i64,
    /// Write and check a checksum at the end of snapshots.
    pub rdb_checksum: bool,
    /// Load a snapshot without its records of unsupported types, instead of refusing it.
    pub import_skip_unknown: bool,
    /// Refuse writes after a snapshot has failed, if `save` is set.
    pub stop_writes_on_save_error: bool,
    /// Keep an append-only file.
    pub append_only: bool,
    /// Folder of the append-only file in `dir`.
    pub append_dir: String,
    /// Prefix of the names of the append-only file's parts.
    pub append_file: String,
    /// Folder of online backups in `dir`.
    pub backup_dir: String,
    /// Time in seconds after which a sealed backup is removed; 0 keeps it.
    pub backup_sealed_ttl_s: u64,
    /// When the append-only file is synced.
    pub append_sync: AppendSync,
    /// Do not sync while a rewrite or a save runs.
    pub no_sync_on_rewrite: bool,
    /// Growth in percent after which the append-only file is rewritten; with 0 it is rewritten only
    /// on request.
    pub rewrite_percentage: u32,
    /// Minimum size in bytes from which the append-only file is rewritten automatically.
    pub rewrite_min_bytes: u64,
    /// Write the time into the append-only file.
    pub aof_timestamps: bool,
    /// The directive `aof-use-rdb-preamble`. Base files are always snapshots; with `no`, the server
    /// only logs a warning about this.
    pub aof_preamble: bool,
    /// Cut off the torn end of an append-only file when it is loaded.
    pub aof_load_truncated: bool,
    /// Which memory lies in huge pages.
    pub huge_pages: HugePages,
    /// Write a crash report to the log.
    pub crash_log: bool,
    /// Clients that may call DEBUG.
    pub debug_command: Permission,
    /// Clients that may call MODULE LOAD, which always fails because the server has no modules
    /// (`enable-module-command`).
    pub module_command: Permission,
    /// Number of event loops, one per thread.
    pub threads: usize,
    /// Number of shards of the keyspace; 0 lets the server choose it.
    pub shards: usize,
    /// Redis version that the server names to clients.
    pub redis_version: &'static str,
    /// Clock that gives the server's time.
    pub clock: ClockKind,
    /// Seed of the keyspace's random numbers; with 0 the seed is random.
    pub seed: u64,
    /// Limit of the memory in bytes; 0 means no limit.
    pub maxmemory: u64,
    /// Eviction policy as configured, for INFO.
    pub maxmemory_policy: &'static str,
    /// Effort of eviction, from 0 to 100 (`maxmemory-eviction-tenacity`). The time limit of an
    /// eviction step grows with this number; with 100 a step has no limit.
    pub eviction_tenacity: u32,
    /// A replica evicts no keys itself; its primary's evictions reach it.
    pub replica_ignores_maxmemory: bool,
    /// Total bytes of all clients above which the largest clients are disconnected; 0 means no
    /// limit.
    pub maxmemory_clients: u64,
    /// Frequency of periodic tasks as configured (`hz`), shown by INFO.
    pub hz: u32,
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

    pub(crate) fn from_values(values: &[Value]) -> Self {
        let values = Values(values);
        let dir = values.path("dir").unwrap_or_else(|| PathBuf::from("."));
        let policy = values.word("maxmemory-policy");
        let eviction = Eviction::of_name(policy, values.number("maxmemory-samples"));
        Self {
            bind: values.addresses("bind"),
            port: values.number("port"),
            tls: TlsSettings::from_values(&values, &dir),
            metrics: MetricsSettings::from_values(&values),
            unixsocket: values.path("unixsocket").map(|path| dir.join(path)),
            unixsocket_mode: unixsocket_mode(&values),
            tcp_backlog: values.number("tcp-backlog"),
            tcp_keepalive_s: values.number("tcp-keepalive"),
            timeout_s: values.number("timeout"),
            max_clients: values.number("maxclients"),
            protected_mode: values.yes("protected-mode"),
            requirepass: Some(values.text("requirepass").to_vec()).filter(|text| !text.is_empty()),
            acl_file: values.path("aclfile"),
            acl_log_max: values.number("acllog-max-len"),
            acl_all_channels: values.word("acl-pubsub-default") == "allchannels",
            output_limits: match values.get("client-output-buffer-limit") {
                Value::OutputLimits(limits) => *limits,
                _ => Default::default(),
            },
            min_replicas_to_write: values.number("min-replicas-to-write"),
            min_replicas_max_lag_s: values.number("min-replicas-max-lag"),
            repl_diskless_sync: values.yes("repl-diskless-sync"),
            repl_diskless_sync_delay_s: values.number("repl-diskless-sync-delay"),
            repl_diskless_sync_max_replicas: values.number("repl-diskless-sync-max-replicas"),
            repl_disable_tcp_nodelay: values.yes("repl-disable-tcp-nodelay"),
            repl_ping_period_s: values.number("repl-ping-replica-period"),
            repl_timeout_s: values.number("repl-timeout"),
            repl_backlog_size: values.bytes("repl-backlog-size"),
            repl_backlog_ttl_s: values.number("repl-backlog-ttl"),
            query_buffer_limit: values.bytes("client-query-buffer-limit"),
            max_bulk_len: values.bytes("proto-max-bulk-len"),
            busy_reply_threshold_ms: values.number("busy-reply-threshold"),
            replica: ReplicaSettings::from_values(&values),
            cluster: ClusterSettings::from_values(&values),
            databases: values.number("databases"),
            notify: event_classes(&values),
            notify_expired_values: values.yes("notify-expired-values"),
            slowlog_slower_than_us: u64::try_from(values.integer("slowlog-log-slower-than")).ok(),
            slowlog_max_len: values.number("slowlog-max-len"),
            tracking_table_max_keys: values.number("tracking-table-max-keys"),
            latency_threshold_ms: values.number("latency-monitor-threshold"),
            latency_tracking: values.yes("latency-tracking"),
            latency_percentiles: latency_percentiles(&values),
            log_level: log_level(&values),
            log_format: log_format(&values),
            logfile: values.path("logfile").map(|path| dir.join(path)),
            pidfile: values.path("pidfile").map(|path| dir.join(path)),
            daemonize: values.yes("daemonize"),
            supervised: supervised(&values),
            shutdown_on_sigint: values.shutdown("shutdown-on-sigint"),
            shutdown_on_sigterm: values.shutdown("shutdown-on-sigterm"),
            shutdown_timeout_s: values.number("shutdown-timeout"),
            limits: limits(&values, eviction),
            ttl_rules: ttl_rules(&values),
            dbfilename: String::from_utf8_lossy(values.text("dbfilename")).into_owned(),
            save: match values.get("save") {
                Value::Save(points) => points.clone(),
                _ => Vec::new(),
            },
            rdb_compression: values.yes("rdbcompression"),
            key_save_delay_us: values.number("rdb-key-save-delay"),
            key_load_delay_us: values.number("key-load-delay"),
            rdb_checksum: values.yes("rdbchecksum"),
            import_skip_unknown: values.yes("import-skip-unknown"),
            stop_writes_on_save_error: values.yes("stop-writes-on-bgsave-error"),
            append_only: values.yes("appendonly"),
            append_dir: String::from_utf8_lossy(values.text("appenddirname")).into_owned(),
            append_file: String::from_utf8_lossy(values.text("appendfilename")).into_owned(),
            backup_dir: String::from_utf8_lossy(values.text("backupdirname")).into_owned(),
            backup_sealed_ttl_s: values.number("backup-sealed-ttl"),
            append_sync: append_sync(&values),
            no_sync_on_rewrite: values.yes("no-appendfsync-on-rewrite"),
            rewrite_percentage: values.number("auto-aof-rewrite-percentage"),
            rewrite_min_bytes: values.bytes("auto-aof-rewrite-min-size"),
            aof_timestamps: values.yes("aof-timestamp-enabled"),
            aof_preamble: values.yes("aof-use-rdb-preamble"),
            aof_load_truncated: values.yes("aof-load-truncated"),
            huge_pages: huge_pages(&values),
            crash_log: values.yes("crash-log-enabled"),
            debug_command: values.permission("enable-debug-command"),
            module_command: values.permission("enable-module-command"),
            threads: values.number("threads"),
            shards: values.number("shards"),
            redis_version: version::named(values.word("reported-version")),
            clock: clock(&values),
            seed: values.number("seed"),
            maxmemory: values.bytes("maxmemory"),
            maxmemory_policy: values.word("maxmemory-policy"),
            eviction_tenacity: values.number("maxmemory-eviction-tenacity"),
            replica_ignores_maxmemory: values.yes("replica-ignore-maxmemory"),
            maxmemory_clients: maxmemory_clients(&values),
            hz: values.number("hz"),
            dir,
        }
    }
}

fn unixsocket_mode(values: &Values) -> u32 {
    match values.get("unixsocketperm") {
        Value::Octal(bits) => *bits,
        _ => 0,
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

fn clock(values: &Values) -> ClockKind {
    match values.word("clock") {
        "virtual" => ClockKind::Virtual,
        _ => ClockKind::Real,
    }
}

fn latency_percentiles(values: &Values) -> Vec<f64> {
    match values.get("latency-tracking-info-percentiles") {
        Value::Percentiles(values) => values.clone(),
        _ => Vec::new(),
    }
}

fn log_level(values: &Values) -> Level {
    match values.word("loglevel") {
        "debug" => Level::Debug,
        "verbose" => Level::Verbose,
        "warning" => Level::Warning,
        _ => Level::Notice,
    }
}

fn log_format(values: &Values) -> Format {
    match values.word("log-format") {
        "json" => Format::Json,
        _ => Format::Legacy,
    }
}

fn event_classes(values: &Values) -> Classes {
    match values.get("notify-keyspace-events") {
        Value::EventClasses(classes) => *classes,
        _ => Classes::none(),
    }
}

fn supervised(values: &Values) -> Supervised {
    match values.word("supervised") {
        "upstart" => Supervised::Upstart,
        "systemd" => Supervised::Systemd,
        "parent" => Supervised::Parent,
        "auto" => Supervised::Auto,
        _ => Supervised::No,
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

fn huge_pages(values: &Values<'_>) -> HugePages {
    match (values.yes("disable-thp"), values.yes("huge-pages")) {
        (false, _) => HugePages::Kernel,
        (true, true) => HugePages::Merged,
        (true, false) => HugePages::Never,
    }
}

fn append_sync(values: &Values) -> AppendSync {
    match values.word("appendfsync") {
        "always" => AppendSync::Always,
        "no" => AppendSync::No,
        _ => AppendSync::EverySecond,
    }
}

fn maxmemory_clients(values: &Values) -> u64 {
    match values.get("maxmemory-clients") {
        Value::Memory(bytes) => *bytes,
        // A percentage of `maxmemory`. Without `maxmemory` the result is 0, which means no limit.
        Value::Percent(percent) => values.bytes::<u64>("maxmemory") / 100 * percent,
        _ => 0,
    }
}

/// The directives that concern a server in its role as a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// Host and port of the primary.
    pub primary: Option<(String, u16)>,
    /// Password that the replica sends to the primary.
    pub auth: Option<Vec<u8>>,
    /// User name that the replica sends to the primary.
    pub user: Option<Vec<u8>>,
    /// Seconds without data from the primary after which the link counts as lost.
    pub timeout_s: u32,
    /// Refuses writes of clients.
    pub read_only: bool,
    /// Serves clients while the link to the primary is down.
    pub serves_stale: bool,
    /// Rank for Sentinel; 0 excludes the server from promotion.
    pub priority: u32,
    /// Lists the server for Sentinel.
    pub announced: bool,
    /// Address of this replica that the primary reports.
    pub announce_ip: Option<Vec<u8>>,
    /// Port of this replica that the primary reports; with 0 it is the server's own port.
    pub announce_port: u16,
}

impl ReplicaSettings {
    fn from_values(values: &Values<'_>) -> Self {
        let text = |name| Some(values.text(name).to_vec()).filter(|text| !text.is_empty());
        Self {
            primary: match values.words("replicaof") {
                [host, port] => std::str::from_utf8(port)
                    .ok()
                    .and_then(|port| port.parse().ok())
                    .map(|port| (String::from_utf8_lossy(host).into_owned(), port)),
                _ => None,
            },
            auth: text("masterauth"),
            user: text("masteruser"),
            timeout_s: values.number("repl-timeout"),
            read_only: values.yes("replica-read-only"),
            serves_stale: values.yes("replica-serve-stale-data"),
            priority: values.number("replica-priority"),
            announced: values.yes("replica-announced"),
            announce_ip: text("replica-announce-ip"),
            announce_port: values.number("replica-announce-port"),
        }
    }
}
