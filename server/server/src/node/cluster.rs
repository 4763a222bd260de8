//! Calls of the cluster's state machine, from any thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_cluster::NodeId;
use punctual_cluster::slot::{SLOTS, SlotSet};
use punctual_cluster::state::{Machine, Replication};
use punctual_store::Turn;

use crate::cluster::{Cluster, Ports, Published};
use crate::log;
use crate::node::order::Order;
use crate::node::{Shared, StopOnPanic};
use crate::replication::upstream::Address;
use crate::world::JoinHandle;

impl Shared {
    /// Returns the mode as clients see it.
    pub(crate) fn mode(&self) -> &'static str {
        match self.cluster {
            Some(_) => "cluster",
            None => "standalone",
        }
    }

    /// Calls the cluster's state machine. Before this returns, the routes are published. Loop 0
    /// does the rest when the table is saved.
    pub(crate) fn in_cluster<R>(
        &self,
        cluster: &Cluster,
        work: impl FnOnce(&mut Machine, u64) -> R,
    ) -> R {
        let (result, saved) = cluster.run(|machine, now_ms| {
            let follows = machine.nodes().own().primary.is_some();
            machine.set_replication(self.own_replication(follows, now_ms));
            work(machine, now_ms)
        });
        match saved {
            Ok(published) => {
                let has_stable = published != Published::Nothing
                    && cluster.read_routes(|routes| {
                        let (migrating, importing) = routes.moving();
                        self.store.set_moving_slots(migrating, importing)
                    });
                if has_stable || published == Published::ForClients {
                    self.order_all(|| Order::RoutesChanged);
                }
                // Loop 0 also reads the machine's next deadline.
                self.mailboxes[0].order(Order::Cluster);
            }
            Err(error) => self.stop_without_table(&error),
        }
        result
    }

    /// Stops the server, because a vote that is not saved could be given twice.
    fn stop_without_table(&self, error: &io::Error) {
        let what = "Fatal: can't update cluster config file";
        log::warning!(self.logger, "{what}: {error}");
        self.stop();
    }

    /// Starts the thread that saves the cluster's table. Returns `None` without cluster mode.
    pub(crate) fn start_saver(self: &Arc<Self>) -> io::Result<Option<JoinHandle<()>>> {
        // A loop that saved the table itself would wait for the disk.
        let cluster = self.cluster.as_ref();
        let Some(file) = cluster.and_then(|cluster| cluster.saver.take_file()) else {
            return Ok(None);
        };
        let shared = Arc::clone(self);
        let thread = self.world.spawn("punctual-nodes", move || {
            let stop = StopOnPanic(shared);
            let shared = &stop.0;
            let saved = || shared.mailboxes[0].order(Order::Cluster);
            if let Some(cluster) = &shared.cluster
                && let Err(error) = cluster.saver.run(file, saved)
            {
                shared.stop_without_table(&error);
            }
        })?;
        Ok(Some(thread))
    }

    /// Makes this primary the owner of slots that have loaded keys and no owner. A slot with loaded
    /// keys and another owner becomes one that arrives, so that the operator can move the keys.
    pub(crate) fn claim_loaded_slots(&self, turn: &mut Turn) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let with_keys: Vec<u16> = (0..SLOTS)
            .filter(|slot| turn.count_keys_in_slot(*slot) > 0)
            .collect();
        self.in_cluster(cluster, |machine, now_ms| {
            let own = machine.nodes().own();
            if own.primary.is_some() {
                return;
            }
            let lost = |slot: &u16| !own.slots.contains(*slot);
            let lost: Vec<u16> = with_keys.into_iter().filter(lost).collect();
            for slot in lost {
                let owner = machine.nodes().owner(slot).map(|node| node.id);
                let (done, what) = match owner {
                    None => (
                        machine.add_slots(&SlotSet::from_iter([slot]), now_ms),
                        "which has no owner: this node owns it now",
                    ),
                    Some(owner) => (
                        machine.import_slot(slot, owner),
                        "which another node owns: it is importing now",
                    ),
                };
                if done.is_ok() {
                    log::warning!(self.logger, "There are keys of slot {slot}, {what}.");
                }
            }
        });
    }

    /// Makes a node of a cluster the replica that its table says, after the load at startup. During
    /// the load the node connects to no primary: a full synchronization would replace a keyspace
    /// that is incomplete, and the append-only file would go on without the data that it brings.
    pub(crate) fn follow_after_load(&self, turn: &mut Turn) {
        turn.lock_all();
        let address = self.primary_in_cluster();
        if let Some(address) = address
            && self.replication.upstream.primary().as_ref() != Some(&address)
        {
            self.follow(turn, address);
        }
    }

    /// Returns the address of the primary that this node of a cluster replicates.
    pub(crate) fn primary_in_cluster(&self) -> Option<Address> {
        self.node_address(self.own_primary()?)
    }

    /// Returns the primary of this node, according to the state machine.
    pub(crate) fn own_primary(&self) -> Option<NodeId> {
        let cluster = self.cluster.as_ref()?;
        cluster.read(|machine| machine.nodes().own().primary)
    }

    /// Returns the address for replication of a node, if it is known.
    pub(crate) fn node_address(&self, node: NodeId) -> Option<Address> {
        let cluster = self.cluster.as_ref()?;
        let address = cluster.read(|machine| {
            let node = machine.nodes().get(node)?;
            Some(node.address.clone())
        });
        let address = address.filter(|address| !address.host.is_empty())?;
        let settings = self.settings();
        // The first port is the encrypted one with `tls-cluster`.
        let port = match settings.tls.replication == settings.tls.cluster {
            true => address.port,
            false => address.other_port,
        };
        Some(Address {
            host: address.host,
            port,
        })
    }

    /// Notes that no write runs any more, since clients are paused for a manual failover.
    pub(crate) fn note_cluster_pause(&self) {
        if let Some(cluster) = &self.cluster {
            self.in_cluster(cluster, |machine, now_ms| machine.paused(now_ms));
        }
    }

    /// Passes changed directives and ports to the state machine.
    pub(crate) fn configure_cluster(&self) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let port = |port: &AtomicU32| u16::try_from(port.load(Ordering::Relaxed)).unwrap_or(0);
        let ports = Ports {
            plain: port(&self.tcp_port),
            tls: port(&self.tls_port),
            bus: port(&cluster.bus_port),
        };
        let settings = self.settings();
        cluster.usage_follows(&settings);
        self.in_cluster(cluster, |machine, _| {
            Cluster::configure(machine, &settings, ports);
        });
    }

    /// Returns the state of this node's replication for the state machine, in whose table this node
    /// `follows` a primary.
    fn own_replication(&self, follows: bool, now_ms: u64) -> Replication {
        let upstream = &self.replication.upstream;
        let replica = self.replication.is_replica();
        let silence_ms = u64::try_from(upstream.silence().as_millis()).unwrap_or(u64::MAX);
        Replication {
            offset: self.replication.offset(),
            last_input_ms: now_ms.saturating_sub(if replica { silence_ms } else { 0 }),
            // Until the end of the load at startup, a node does not follow its primary yet.
            has_data: !follows || replica && upstream.is_synced(),
        }
    }
}
