//! Settings of cluster mode.

use punctual_cluster::nodes::Address;

use crate::config::Settings;
use crate::config::settings::Values;

/// Form of the host in MOVED and ASK (`cluster-preferred-endpoint-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Redirections name the node's IP address.
    #[default]
    Ip,
    /// Redirections name the host name that the node announces.
    Hostname,
    /// Redirections name no host: clients keep the host that they are connected to.
    Unknown,
}

impl Endpoint {
    /// Returns the host of a node in this form. `?` stands for an unknown host name.
    pub(crate) fn of(self, address: &Address) -> &str {
        match self {
            Self::Ip => &address.host,
            Self::Hostname if address.hostname.is_empty() => "?",
            Self::Hostname => &address.hostname,
            Self::Unknown => "",
        }
    }
}

/// How a client sees the addresses of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) endpoint: Endpoint,
    /// The client uses the second port of a node, because its connection is not of the kind of
    /// `tls-cluster`.
    second_port: bool,
}

impl Shown {
    /// Creates the view of a client, whose connection may be encrypted.
    pub(crate) fn to_client(settings: &Settings, encrypted: bool) -> Self {
        Self {
            endpoint: settings.cluster.endpoint,
            second_port: encrypted != settings.tls.cluster,
        }
    }

    /// Returns the port for the client.
    pub(crate) fn port(self, address: &Address) -> u16 {
        match self.second_port {
            true => address.other_port,
            false => address.port,
        }
    }
}

/// Directives `cluster-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `cluster-enabled`.
    pub enabled: bool,
    /// `cluster-config-file`, in `dir`.
    pub file: String,
    /// `cluster-port`; 0 stands for the port for clients + 10000.
    pub port: u16,
    /// `cluster-node-timeout`.
    pub node_timeout_ms: u64,
    /// `cluster-replica-validity-factor`.
    pub validity_factor: u64,
    /// `cluster-replica-no-failover`.
    pub no_failover: bool,
    /// `cluster-require-full-coverage`.
    pub require_full_coverage: bool,
    /// `cluster-allow-reads-when-down`.
    pub reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub channels_when_down: bool,
    /// `cluster-allow-replica-migration`.
    pub allow_replica_migration: bool,
    /// `cluster-migration-barrier`.
    pub migration_barrier: usize,
    /// `cluster-announce-ip`; empty without one.
    pub announce_ip: String,
    /// `cluster-announce-hostname`; empty without one.
    pub announce_hostname: String,
    /// `cluster-announce-human-nodename`; empty without one.
    pub announce_name: String,
    /// `cluster-announce-port`; 0 without one.
    pub announce_port: u16,
    /// `cluster-announce-tls-port`; 0 without one.
    pub announce_tls_port: u16,
    /// `cluster-announce-bus-port`; 0 without one.
    pub announce_bus_port: u16,
    /// `cluster-bus-port-protected-mode`: without TLS the bus accepts connections from this machine
    /// only.
    pub protected_bus: bool,
    /// `cluster-slot-stats-enabled`.
    pub slot_stats: bool,
    /// `cluster-link-sendbuf-limit` in bytes; 0 without one.
    pub link_buffer_max: u64,
    /// `cluster-preferred-endpoint-type`.
    pub endpoint: Endpoint,
}

impl ClusterSettings {
    pub(super) fn from_values(values: &Values) -> Self {
        let text = |name| String::from_utf8_lossy(values.text(name)).into_owned();
        Self {
            enabled: values.yes("cluster-enabled"),
            file: text("cluster-config-file"),
            port: values.number("cluster-port"),
            node_timeout_ms: values.number("cluster-node-timeout"),
            validity_factor: values.number("cluster-replica-validity-factor"),
            no_failover: values.yes("cluster-replica-no-failover"),
            require_full_coverage: values.yes("cluster-require-full-coverage"),
            reads_when_down: values.yes("cluster-allow-reads-when-down"),
            channels_when_down: values.yes("cluster-allow-pubsubshard-when-down"),
            allow_replica_migration: values.yes("cluster-allow-replica-migration"),
            migration_barrier: values.number("cluster-migration-barrier"),
            announce_ip: text("cluster-announce-ip"),
            announce_hostname: text("cluster-announce-hostname"),
            announce_name: text("cluster-announce-human-nodename"),
            announce_port: values.number("cluster-announce-port"),
            announce_tls_port: values.number("cluster-announce-tls-port"),
            announce_bus_port: values.number("cluster-announce-bus-port"),
            protected_bus: values.yes("cluster-bus-port-protected-mode"),
            slot_stats: values.yes("cluster-slot-stats-enabled"),
            link_buffer_max: values.bytes("cluster-link-sendbuf-limit"),
            endpoint: match values.word("cluster-preferred-endpoint-type") {
                "hostname" => Endpoint::Hostname,
                "unknown-endpoint" => Endpoint::Unknown,
                _ => Endpoint::Ip,
            },
        }
    }
}
