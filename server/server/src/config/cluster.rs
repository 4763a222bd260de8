//! Settings of cluster mode.

use punctual_cluster::nodes::Address;

use crate::config::Settings;
use crate::config::settings::{Values, settings};

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

settings! {
    /// Directives `cluster-*`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ClusterSettings;

    pub(super) fn from_values(values: &Values) {
        let text = |name| String::from_utf8_lossy(values.text(name)).into_owned();
    }

    /// `cluster-enabled`.
    enabled: bool = values.yes("cluster-enabled");
    /// `cluster-config-file`, in `dir`.
    file: String = text("cluster-config-file");
    /// `cluster-port`; 0 stands for the port for clients + 10000.
    port: u16 = values.number("cluster-port");
    /// `cluster-node-timeout`.
    node_timeout_ms: u64 = values.number("cluster-node-timeout");
    /// `cluster-replica-validity-factor`.
    validity_factor: u64 = values.number("cluster-replica-validity-factor");
    /// `cluster-replica-no-failover`.
    no_failover: bool = values.yes("cluster-replica-no-failover");
    /// `cluster-require-full-coverage`.
    require_full_coverage: bool = values.yes("cluster-require-full-coverage");
    /// `cluster-allow-reads-when-down`.
    reads_when_down: bool = values.yes("cluster-allow-reads-when-down");
    /// `cluster-allow-pubsubshard-when-down`.
    channels_when_down: bool = values.yes("cluster-allow-pubsubshard-when-down");
    /// `cluster-allow-replica-migration`.
    allow_replica_migration: bool = values.yes("cluster-allow-replica-migration");
    /// `cluster-migration-barrier`.
    migration_barrier: usize = values.number("cluster-migration-barrier");
    /// `cluster-announce-ip`; empty without one.
    announce_ip: String = text("cluster-announce-ip");
    /// `cluster-announce-hostname`; empty without one.
    announce_hostname: String = text("cluster-announce-hostname");
    /// `cluster-announce-human-nodename`; empty without one.
    announce_name: String = text("cluster-announce-human-nodename");
    /// `cluster-announce-port`; 0 without one.
    announce_port: u16 = values.number("cluster-announce-port");
    /// `cluster-announce-tls-port`; 0 without one.
    announce_tls_port: u16 = values.number("cluster-announce-tls-port");
    /// `cluster-announce-bus-port`; 0 without one.
    announce_bus_port: u16 = values.number("cluster-announce-bus-port");
    /// `cluster-bus-port-protected-mode`: without TLS the bus accepts connections from this machine
    /// only.
    protected_bus: bool = values.yes("cluster-bus-port-protected-mode");
    /// `cluster-slot-stats-enabled`.
    slot_stats: bool = values.yes("cluster-slot-stats-enabled");
    /// `cluster-link-sendbuf-limit` in bytes; 0 without one.
    link_buffer_max: u64 = values.bytes("cluster-link-sendbuf-limit");
    /// `cluster-preferred-endpoint-type`.
    endpoint: Endpoint = match values.word("cluster-preferred-endpoint-type") {
        "hostname" => Endpoint::Hostname,
        "unknown-endpoint" => Endpoint::Unknown,
        _ => Endpoint::Ip,
    };
}
