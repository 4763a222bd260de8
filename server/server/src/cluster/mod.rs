//! Cluster mode: this server as a node of a Redis Cluster (docs/cluster.md).
//!
//! The state machine of `punctual-cluster` decides. This module gives it time, keeps `nodes.conf`
//! ([`file`]), and publishes the owners of slots for the admission of commands ([`routes`]). Loop 0
//! carries out the other orders of the machine (`event_loop/cluster.rs`).
//!
//! Ground rules:
//! - Any thread may call [`Cluster::run`]. Its lock is the last in the order of locks: only the
//!   saver's is taken while it is held.
//! - A thread saves the file ([`saver`]). The orders of a call wait until the table is saved, and
//!   so do the replies to CLUSTER commands. Only the routes are published at once.
//! - The machine's time is the unix time at the start plus the stopwatch: neither a virtual clock
//!   nor a step of the system clock affects failure detection.

mod file;
pub(crate) mod queues;
pub(crate) mod routes;
mod saver;
pub(crate) mod usage;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use parking_lot::{Mutex, RwLock};
use punctual_cluster::NodeId;
use punctual_cluster::config::Config as Nodes;
use punctual_cluster::nodes::Address;
use punctual_cluster::state::{Machine, Output, Settings as MachineSettings};

use crate::config::{ClusterSettings, Settings};
use crate::log::{self, Logger};
use crate::world::World;
use crate::world::disk::Disk;
use file::NodesFile;
pub use file::NodesFileError;
use queues::SendQueues;
use routes::{Routes, StableSlots};
use saver::Saver;
use usage::Usage;

/// State of cluster mode.
pub(crate) struct Cluster {
    world: World,
    /// Unix time at the stopwatch's zero.
    epoch_ms: u64,
    node: Mutex<Node>,
    /// Saves the table.
    pub(crate) saver: Saver,
    routes: RwLock<Arc<Routes>>,
    /// Port of the bus.
    pub(crate) bus_port: AtomicU32,
    /// Slots whose commands run here without further checks.
    pub(crate) stable: StableSlots,
    /// What the commands of each slot have used.
    pub(crate) usage: Usage,
    /// Unsent bytes of the bus.
    pub(crate) queues: SendQueues,
}

struct Node {
    machine: Machine,
    /// What loop 0 does, each with the number of the table that must be saved before.
    tasks: VecDeque<(u64, Task)>,
    /// Whether one of the tasks makes this replica a primary. Until then it serves nothing, so the
    /// routes do not change.
    promotes: bool,
}

/// Work for loop 0.
pub(crate) enum Task {
    /// Carry out an order of the machine.
    Order(Output),
    /// Reply to a client whose command has changed the table.
    Reply(Box<dyn FnOnce() + Send>),
}

/// What a call of the machine has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Nothing,
    Routes,
    /// Routes for which clients may have to leave.
    ForClients,
}

impl Cluster {
    /// Reads `nodes.conf` and locks it.
    ///
    /// # Errors
    /// Another server has locked the file, or it cannot be read or created.
    pub(crate) fn open(
        world: World,
        disk: &Disk,
        settings: &Settings,
        logger: &Logger,
    ) -> Result<Self, NodesFileError> {
        let epoch_ms = (world.wall_micros() / 1000).saturating_sub(world.stopwatch_ms());
        let path = settings.dir.join(&settings.cluster.file);
        let (file, nodes) = NodesFile::open(disk, path)?;
        if file.from_copy {
            let name = &settings.cluster.file;
            log::warning!(
                logger,
                "{name} is incomplete or older than its copies, so the newest copy is used. To restore \
                 an older file, remove the copies {name}.save-0, -1 and -2."
            );
        }
        let mut random = move || world.random();
        let nodes = nodes.unwrap_or_else(|| {
            Nodes::of_new_node(NodeId::random(&mut random), NodeId::random(&mut random))
        });
        let now_ms = epoch_ms + world.stopwatch_ms();
        let machine = Machine::new(machine_settings(settings), nodes, Box::new(random), now_ms);
        Ok(Self {
            world,
            epoch_ms,
            node: Mutex::new(Node {
                machine,
                tasks: VecDeque::new(),
                promotes: false,
            }),
            saver: Saver::new(file),
            routes: RwLock::default(),
            bus_port: AtomicU32::new(0),
            stable: StableSlots::default(),
            usage: Usage::default(),
            queues: SendQueues::default(),
        })
    }

    /// Returns the machine's time in unix ms.
    pub(crate) fn now_ms(&self) -> u64 {
        self.epoch_ms + self.world.stopwatch_ms()
    }

    /// Returns the time of the stopwatch, in milliseconds, for a time of the machine.
    pub(crate) fn stopwatch_ms(&self, machine_ms: u64) -> u64 {
        machine_ms.saturating_sub(self.epoch_ms)
    }

    /// Calls the machine, leaves its table to the saver once, and publishes the routes once.
    ///
    /// # Errors
    /// The table cannot be saved: nothing of this call is ordered, and the server must stop.
    pub(crate) fn run<R>(
        &self,
        work: impl FnOnce(&mut Machine, u64) -> R,
    ) -> (R, io::Result<Published>) {
        let mut node = self.node.lock();
        let result = work(&mut node.machine, self.now_ms());
        // Nothing is carried out before this function ends, so one save covers all orders.
        let (mut save, mut published, mut orders) = (None, false, Vec::new());
        while let Some(output) = node.machine.poll() {
            match output {
                Output::View => published = true,
                Output::Save { sync } => save = Some(sync || save == Some(true)),
                order => orders.push(order),
            }
        }
        if let Some(sync) = save
            && let Err(error) = self.saver.leave(node.machine.config(), sync)
        {
            return (result, Err(error));
        }
        node.promotes |= orders.contains(&Output::Promoted);
        let published = match published && !node.promotes {
            true => self.publish(&node.machine),
            false => Published::Nothing,
        };
        let (table, _) = self.saver.numbers();
        let orders = orders.into_iter().map(|order| (table, Task::Order(order)));
        node.tasks.extend(orders);
        (result, Ok(published))
    }

    /// Calls `reply` on loop 0 once the table is saved.
    pub(crate) fn reply_when_saved(&self, reply: impl FnOnce() + Send + 'static) {
        let mut node = self.node.lock();
        let (table, _) = self.saver.numbers();
        node.tasks.push_back((table, Task::Reply(Box::new(reply))));
    }

    /// Reads the machine.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&Machine) -> R) -> R {
        work(&self.node.lock().machine)
    }

    /// Takes the work for loop 0 that waits for no save.
    pub(crate) fn take_tasks(&self) -> Vec<Task> {
        let (_, saved) = self.saver.numbers();
        let mut node = self.node.lock();
        let count = node.tasks.partition_point(|(table, _)| *table <= saved);
        let is_promoted = |(_, task): &(u64, Task)| matches!(task, Task::Order(Output::Promoted));
        node.promotes = node.tasks.iter().skip(count).any(is_promoted);
        node.tasks.drain(..count).map(|(_, task)| task).collect()
    }

    /// Returns the owners of slots.
    pub(crate) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read())
    }

    /// Reads the owners of slots. Meanwhile no thread publishes others.
    pub(crate) fn read_routes<R>(&self, work: impl FnOnce(&Routes) -> R) -> R {
        work(&self.routes.read())
    }

    /// Applies changed directives, and the ports on which the server listens.
    pub(crate) fn configure(machine: &mut Machine, settings: &Settings, ports: Ports) {
        machine.set_settings(machine_settings(settings));
        machine.set_address(own_address(&settings.cluster, ports, settings.tls.cluster));
    }

    /// Applies `cluster-slot-stats-enabled`.
    pub(crate) fn usage_follows(&self, settings: &Settings) {
        self.usage.enable(settings.cluster.slot_stats);
    }

    fn publish(&self, machine: &Machine) -> Published {
        let routes = Arc::new(Routes::of(machine));
        self.stable.set(&routes);
        let old = std::mem::replace(&mut *self.routes.write(), Arc::clone(&routes));
        self.usage
            .reset(|slot| old.serves_channels(slot) != routes.serves_channels(slot));
        match routes.moves_clients_of(&old) {
            true => Published::ForClients,
            false => Published::Routes,
        }
    }
}

/// The ports on which the server listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: u16,
    pub(crate) bus: u16,
}

fn own_address(settings: &ClusterSettings, ports: Ports, tls: bool) -> Address {
    let or = |announced: u16, port: u16| if announced == 0 { port } else { announced };
    let plain = or(settings.announce_port, ports.plain);
    let encrypted = or(settings.announce_tls_port, ports.tls);
    let (port, other_port) = if tls {
        (encrypted, plain)
    } else {
        (plain, encrypted)
    };
    Address {
        host: settings.announce_ip.clone(),
        port,
        other_port,
        bus_port: or(settings.announce_bus_port, ports.bus),
        hostname: settings.announce_hostname.clone(),
        name: settings.announce_name.clone(),
    }
}

fn machine_settings(settings: &Settings) -> MachineSettings {
    let cluster = &settings.cluster;
    MachineSettings {
        node_timeout_ms: cluster.node_timeout_ms,
        require_full_coverage: cluster.require_full_coverage,
        validity_factor: cluster.validity_factor,
        no_failover: cluster.no_failover,
        allow_replica_migration: cluster.allow_replica_migration,
        migration_barrier: cluster.migration_barrier,
        replication_ping_ms: settings.repl_ping_period_s * 1000,
    }
}
