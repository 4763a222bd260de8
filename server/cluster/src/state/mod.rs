//! The state machine of one node.
//!
//! The caller reports connections, bytes and time to the machine ([`Machine::accepted`],
//! [`Machine::connected`], [`Machine::received`], [`Machine::closed`], [`Machine::tick`]), and
//! the operator's commands ([`Machine::meet`] and others). After each call it carries out the
//! [`Output`]s of [`Machine::poll`] in their order, and calls `tick` again at
//! [`Machine::deadline`].
//!
//! Two rules are not visible in the protocol: a [`Output::Save`] comes before the bytes that reveal
//! the saved state, so that a restarted node never votes twice in an epoch; and all elapsed times
//! saturate, so that a clock that jumps back only delays. All times are Unix times in ms.

mod beat;
mod election;
mod error;
mod failure;
mod gossip;
mod links;
mod manual;
mod operator;
mod orphans;
mod ownership;
mod publish;
mod receive;
mod reset;
mod tick;
mod traffic;

use std::collections::{BTreeMap, VecDeque};

use crate::NodeId;
use crate::config::Config;
use crate::nodes::{Address, Flags, Nodes};
use crate::slot::SlotSet;

use self::election::Election;
pub use self::error::OperatorError;
use self::failure::Health;
use self::links::Links;
pub use self::links::{LinkId, OpenLink};
use self::manual::Manual;
pub use self::manual::Takeover;
use self::traffic::Traffic;

/// Directives of redis.conf.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `cluster-node-timeout`.
    pub node_timeout_ms: u64,
    /// `cluster-require-full-coverage`.
    pub require_full_coverage: bool,
    /// `cluster-replica-validity-factor`; 0 lets replicas with old data be elected.
    pub validity_factor: u64,
    /// `cluster-replica-no-failover`.
    pub no_failover: bool,
    /// `cluster-allow-replica-migration`.
    pub allow_replica_migration: bool,
    /// `cluster-migration-barrier`: a replica leaves its primary only if the primary has more
    /// working replicas than this number.
    pub migration_barrier: usize,
    /// `repl-ping-replica-period`, in ms.
    pub replication_ping_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_timeout_ms: 15_000,
            require_full_coverage: true,
            validity_factor: 10,
            no_failover: false,
            allow_replica_migration: true,
            migration_barrier: 1,
            replication_ping_ms: 10_000,
        }
    }
}

/// The own node's replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// Offset of a primary's stream, or of the applied part of it on a replica.
    pub offset: u64,
    /// Time of the last byte from the primary.
    pub last_input_ms: u64,
    /// Whether the replica has its primary's data, so that it may be elected.
    pub has_data: bool,
}

/// An order to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a bus, and call [`Machine::connected`] or [`Machine::closed`].
    Connect {
        /// The connection's ID.
        link: LinkId,
        /// Host of the node.
        host: String,
        /// Port of the bus.
        port: u16,
    },
    /// Send bytes.
    Send {
        /// ID of the connection.
        link: LinkId,
        /// Bytes of one packet.
        bytes: Vec<u8>,
    },
    /// Close the connection. The machine has forgotten it.
    Close(LinkId),
    /// Save [`Machine::config`]. If `sync` is set, later outputs wait until the file is synced.
    Save {
        /// Whether later outputs reveal the saved state.
        sync: bool,
    },
    /// Owners, roles, addresses or the health of the cluster have changed.
    View,
    /// Replicate this node from now on.
    Follow(NodeId),
    /// The own node has become a primary.
    Promoted,
    /// Another primary has taken these slots from the own node, or from the node that it
    /// replicates. A primary removes their keys. A replica gets the removal from its primary; if it
    /// becomes a primary before, it removes them itself.
    Lost(SlotSet),
    /// Pause writes of clients until this time, for a manual failover. Call [`Machine::paused`]
    /// once no write runs any more.
    Pause(u64),
    /// End the pause.
    Resume,
    /// Deliver a message of PUBLISH or SPUBLISH to the own clients.
    Publish {
        /// Name of the channel.
        channel: Vec<u8>,
        /// Content of the message.
        message: Vec<u8>,
        /// Whether the channel is sharded.
        sharded: bool,
    },
}

/// A source of random numbers.
pub type Random = Box<dyn FnMut() -> u64 + Send>;

/// The state machine of a node.
///
/// ```
/// use punctual_cluster::NodeId;
/// use punctual_cluster::config::Config;
/// use punctual_cluster::state::{Machine, Output, Settings};
///
/// let mut number = 0;
/// let mut machine = Machine::new(
///     Settings::default(),
///     Config::of_new_node(NodeId::new([1; 20]), NodeId::new([2; 20])),
///     Box::new(move || { number += 1; number }),
///     1_000,
/// );
/// machine.meet("10.0.0.2", 6379, 16_379, 1_000).unwrap();
/// machine.tick(1_000);
/// let Some(Output::Connect { port: 16_379, .. }) = machine.poll() else { panic!() };
/// assert!(machine.deadline() > 1_000);
/// ```
pub struct Machine {
    settings: Settings,
    nodes: Nodes,
    current_epoch: u64,
    last_vote_epoch: u64,
    migrating: BTreeMap<u16, NodeId>,
    importing: BTreeMap<u16, NodeId>,
    tls: bool,
    /// The operator announces the own host.
    announces_host: bool,
    /// Slots whose owner has announced that it no longer owns them.
    unclaimed: SlotSet,
    links: Links,
    traffic: Traffic,
    /// Nodes that must not be added again until a time.
    forgotten: BTreeMap<NodeId, u64>,
    health: Health,
    election: Election,
    manual: Manual,
    replication: Replication,
    random: Random,
    now_ms: u64,
    ticked_ms: u64,
    next_ping_ms: u64,
    /// A time before which nothing is due for any node. `None` if it must be computed again.
    next_due: Option<u64>,
    outputs: VecDeque<Output>,
    /// The table differs from the saved one.
    unsaved: bool,
    /// The caller's view is old.
    viewed: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own = self.nodes.own();
        write!(f, "Machine({} of {} nodes)", own.id, self.nodes.len())
    }
}

impl Machine {
    /// Creates a machine from the contents of `nodes.conf`.
    pub fn new(settings: Settings, config: Config, random: Random, now_ms: u64) -> Self {
        let mut nodes = config.nodes;
        let own = &mut nodes.own_mut().flags;
        own.set(Flags::NOFAILOVER, settings.no_failover);
        own.set(Flags::LIGHT, true);
        let mut machine = Self {
            settings,
            nodes,
            current_epoch: config.current_epoch,
            last_vote_epoch: config.last_vote_epoch,
            migrating: config.migrating,
            importing: config.importing,
            tls: config.tls,
            announces_host: false,
            unclaimed: SlotSet::default(),
            links: Links::default(),
            traffic: Traffic::default(),
            forgotten: BTreeMap::new(),
            health: Health::new(now_ms),
            election: Election::default(),
            manual: Manual::default(),
            replication: Replication::default(),
            random,
            now_ms,
            ticked_ms: 0,
            next_ping_ms: now_ms,
            next_due: None,
            outputs: VecDeque::new(),
            unsaved: false,
            viewed: false,
        };
        if let Some(primary) = machine.nodes.own().primary {
            machine.outputs.push_back(Output::Follow(primary));
        }
        machine
    }

    /// Returns the next order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Orders [`Output::View`] again.
    pub fn show(&mut self) {
        self.outputs.push_back(Output::View);
    }

    /// Returns the contents of `nodes.conf`.
    pub fn config(&self) -> Config {
        Config {
            nodes: self.nodes.clone(),
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
            migrating: self.migrating.clone(),
            importing: self.importing.clone(),
            tls: self.tls,
        }
    }

    /// Returns the table of nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns whether this node has an open connection to another node. True for the own node.
    pub fn is_connected(&self, id: NodeId) -> bool {
        id == self.own_id() || self.links.open(id).is_some()
    }

    /// Returns the slots that leave, and those that arrive, each with the other node.
    pub fn moving_slots(&self) -> (&BTreeMap<u16, NodeId>, &BTreeMap<u16, NodeId>) {
        (&self.migrating, &self.importing)
    }

    /// Sets the own node's addresses and names. An empty host keeps the host that other nodes have
    /// told.
    pub fn set_address(&mut self, address: Address) {
        self.announces_host = !address.host.is_empty();
        let own = &mut self.nodes.own_mut().address;
        let host = match address.host.is_empty() {
            true => std::mem::take(&mut own.host),
            false => address.host.clone(),
        };
        *own = Address { host, ..address };
        self.changed();
        self.finish();
    }

    /// Returns the largest epoch that this node knows.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Returns the epoch of this node's last vote.
    pub fn last_vote_epoch(&self) -> u64 {
        self.last_vote_epoch
    }

    /// Returns whether this node sees the cluster as able to serve.
    pub fn is_ok(&self) -> bool {
        self.health.ok
    }

    /// Sets the state of the own node's replication.
    pub fn set_replication(&mut self, replication: Replication) {
        self.replication = replication;
        self.nodes.own_mut().offset = replication.offset;
    }

    fn own_id(&self) -> NodeId {
        self.nodes.own().id
    }

    /// Orders a save before all outputs that follow.
    fn save_now(&mut self) {
        self.unsaved = false;
        self.outputs.push_back(Output::Save { sync: true });
    }

    /// Notes that the table has changed. The caller's view and the file follow at the end of the
    /// call.
    fn changed(&mut self) {
        self.unsaved = true;
        self.viewed = false;
        self.health.stale = true;
        self.next_due = None;
    }

    /// Orders what follows from the changes of a call.
    fn finish(&mut self) {
        self.plan();
        self.update_health();
        if std::mem::take(&mut self.unsaved) {
            self.outputs.push_back(Output::Save { sync: false });
        }
        if !std::mem::replace(&mut self.viewed, true) {
            self.outputs.push_back(Output::View);
        }
    }

    fn random_below(&mut self, end: u64) -> u64 {
        let bits = (self.random)();
        ((u128::from(bits) * u128::from(end)) >> 64) as u64
    }

    fn since(&self, time_ms: u64) -> u64 {
        self.now_ms.saturating_sub(time_ms)
    }
}
