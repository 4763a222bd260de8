//! The cluster's bus, and the orders of its state machine. Only loop 0 runs this.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use punctual_cluster::NodeId;
use punctual_cluster::slot::of_key;
use punctual_cluster::state::{LinkId, Output};
use punctual_resp::Reply;

use crate::client::pause::Purpose;
use crate::cluster::Task;
use crate::config::Shown;
use crate::event_loop::EventLoop;
use crate::event_loop::dials::Peer;
use crate::log;
use crate::net::bus_link::{BusEvents, BusLink};
use crate::net::listener::Arrival;
use crate::node::order::Order;
use crate::node::waiting::answer_unserved;
use crate::pubsub::Kind;

/// Maximum silence of a connection. The state machine closes the connections of dead nodes much
/// earlier; this limit is for strangers.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// Number of keys of a lost slot that one call deletes.
const DELETED_AT_ONCE: usize = 1024;

impl EventLoop {
    /// Adds a connection that another node has opened to this node's bus.
    pub(super) fn join_bus(&mut self, arrival: Arrival) {
        let shared = Arc::clone(&self.shared);
        let Some(cluster) = &shared.cluster else {
            return;
        };
        let encrypted = self.settings.tls.cluster;
        if self.settings.cluster.protected_bus && !encrypted && !arrival.local {
            log::warning!(
                shared.logger,
                "A connection to the cluster's bus from {} was refused: without tls-cluster the bus accepts connections from this machine only, unless cluster-bus-port-protected-mode is no.",
                arrival.addr
            );
            return;
        }
        let host = |text: &str| {
            let addr = text.parse().ok();
            addr.map_or(String::new(), |addr: SocketAddr| {
                addr.ip().to_canonical().to_string()
            })
        };
        let (peer, local) = (host(&arrival.addr), host(&arrival.laddr));
        let id = shared.in_cluster(cluster, |machine, now_ms| {
            machine.accepted(&peer, &local, now_ms)
        });
        let bus = Peer::Bus(BusLink::new(id, true));
        self.serve_dial(arrival.socket, SILENCE_MAX, bus);
    }

    /// Passes the events of a connection to the state machine.
    pub(super) fn handle_bus(&mut self, events: &BusEvents) {
        let shared = Arc::clone(&self.shared);
        if let Some(cluster) = &shared.cluster
            && (events.connected || !events.input.is_empty())
        {
            shared.in_cluster(cluster, |machine, now_ms| {
                if events.connected {
                    machine.connected(events.link, now_ms);
                }
                machine.received(events.link, &events.input, now_ms);
            });
        }
    }

    pub(super) fn bus_closed(&mut self, link: LinkId) {
        let shared = Arc::clone(&self.shared);
        if let Some(cluster) = &shared.cluster {
            shared.in_cluster(cluster, |machine, now_ms| machine.closed(link, now_ms));
        }
    }

    /// Lets the state machine handle what is due.
    pub(super) fn tick_cluster(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Some(cluster) = &shared.cluster {
            shared.in_cluster(cluster, |machine, now_ms| machine.tick(now_ms));
            cluster.saver.publish();
        }
    }

    /// Carries out the orders of the state machine, and sets the timer of its next deadline. Each
    /// call of the machine orders this. The loop must have no turn open.
    pub(super) fn run_cluster(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(cluster) = &shared.cluster else {
            return;
        };
        for task in cluster.take_tasks() {
            let order = match task {
                Task::Order(order) => order,
                Task::Reply(reply) => {
                    reply();
                    continue;
                }
            };
            match order {
                Output::Connect { link, host, port } => self.connect_bus(link, &host, port),
                Output::Send { link, bytes } => self.send_on_bus(link, &bytes),
                Output::Close(link) => self.close_bus(link),
                Output::Follow(primary) => self.follow_node(primary, true),
                Output::Promoted => {
                    self.in_turn(|this, turn| {
                        if this.shared.replication.is_replica() {
                            this.shared.promote(turn);
                        }
                    });
                    // The routes have waited for this.
                    shared.in_cluster(cluster, |machine, _| machine.show());
                }
                Output::Lost(slots) => self.lost_slots.add(&slots),
                Output::Pause(until_ms) => {
                    let now = shared.clock.now();
                    let time_ms = until_ms.saturating_sub(cluster.now_ms());
                    let until_ms = now.read_ms() + time_ms;
                    let pauses = &shared.clients.pauses;
                    pauses.begin(Purpose::Failover, now, until_ms, true);
                    // Writes that were admitted before still change the offset.
                    let node = Arc::clone(&shared);
                    shared.when_settled(move || node.note_cluster_pause());
                }
                Output::Resume => {
                    shared.clients.pauses.end(Purpose::Failover);
                    shared.order_all(|| Order::Resume);
                }
                Output::Publish {
                    channel,
                    message,
                    sharded,
                } => {
                    if sharded {
                        shared.publish_shard(&channel, &message);
                    } else {
                        shared.publish(&channel, &message);
                    }
                }
                // `Cluster::run` carries these out.
                Output::View | Output::Save { .. } => {}
            }
        }
        self.delete_lost_slots();
        let (primary, deadline) =
            cluster.read(|machine| (machine.nodes().own().primary, machine.deadline()));
        // The primary may have another address now.
        if let Some(primary) = primary
            && cluster.saver.is_saved()
        {
            self.follow_node(primary, false);
        }
        self.dials.arm_cluster(cluster.stopwatch_ms(deadline));
    }

    /// Redirects clients that wait for keys of slots that this node has lost, and ends
    /// subscriptions to the channels of these slots.
    pub(super) fn follow_routes(&mut self) {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        let Some(cluster) = &shared.cluster else {
            return;
        };
        let (routes, settings) = (cluster.routes(), Arc::clone(&self.settings));
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connection(slot) else {
                continue;
            };
            let session = &mut connection.session;
            if let Some(waiter) = session.waiter.as_ref().filter(|waiter| waiter.has_keys())
                && let Some(entry) = shared.commands.table().entry(waiter.id().entry)
                && let Some(key) = entry.row.keys.first(waiter.args().as_args())
                && let Err(refused) =
                    routes.check_waiting(of_key(key), entry.writes(), session.reads_replica)
                && waiter.claim()
            {
                let shown = Shown::to_client(&settings, session.info.tls);
                let error = routes.error(refused, of_key(key), shown);
                answer_unserved(&shared, number, waiter, Some(&error));
            }
            let mut lost = session.shard_channels.clone();
            lost.retain(|channel| !routes.serves_channels(of_key(channel)));
            for channel in &lost {
                session.unsubscribe(&shared.clients.pubsub, Kind::Shard, channel);
                let mut reply = Reply::new(&mut connection.out, session.protocol);
                session.confirm_end(Kind::Shard, Some(channel), &mut reply);
            }
            if !lost.is_empty() {
                self.mark_dirty(slot);
            }
        }
    }

    fn connect_bus(&mut self, link: LinkId, host: &str, port: u16) {
        let tls = self
            .settings
            .tls
            .cluster
            .then(|| Arc::clone(&self.shared.tls));
        let bus = Peer::Bus(BusLink::new(link, false));
        self.dial(host, port, tls, SILENCE_MAX, bus);
    }

    fn send_on_bus(&mut self, link: LinkId, bytes: &[u8]) {
        if let Some((number, bus)) = self.dials.bus(link) {
            bus.output.extend_from_slice(bytes);
            self.push(number);
            self.limit_link(link);
        }
    }

    /// Closes a connection with more unsent bytes than `cluster-link-sendbuf-limit`, for example to
    /// a frozen node. The state machine connects again.
    fn limit_link(&mut self, link: LinkId) {
        let shared = Arc::clone(&self.shared);
        let max = self.settings.cluster.link_buffer_max;
        if let Some(cluster) = &shared.cluster
            && let Some((number, bus)) = self.dials.bus(link)
            && max > 0
            && bus.unsent() as u64 > max
        {
            log::notice!(
                shared.logger,
                "Freeing a link of the cluster's bus: {} unsent bytes are more than cluster-link-sendbuf-limit",
                bus.unsent()
            );
            cluster.queues.count_closed();
            self.hang_up(number);
            self.bus_closed(link);
        }
    }

    fn close_bus(&mut self, link: LinkId) {
        if let Some((number, _)) = self.dials.bus(link) {
            self.hang_up(number);
        }
    }

    /// Replicates another node. If this node already follows its address, does so only if `again`
    /// is set. Does nothing during the load at startup, after which
    /// [`follow_after_load`](crate::node::Shared::follow_after_load) follows.
    fn follow_node(&mut self, primary: NodeId, again: bool) {
        let shared = Arc::clone(&self.shared);
        let followed = shared.replication.upstream.primary();
        if !shared.durability.is_loading()
            && let Some(address) = shared.node_address(primary)
            && (again || followed.as_ref() != Some(&address))
        {
            self.in_turn(|this, turn| {
                // CLUSTER RESET may have come first. It changes both roles with all shards locked.
                turn.lock_all();
                if this.shared.own_primary() == Some(primary) {
                    this.shared.follow(turn, address);
                }
            });
        }
    }

    /// Deletes the keys of slots that another primary has taken. During the load at startup this
    /// waits, because the append-only file would not get the deletions. A slot that the load has
    /// marked as arriving keeps its keys for the operator.
    ///
    /// A replica gets the deletions from its primary. If it is elected before they arrive, it
    /// deletes the keys itself: at the new owner they may have changed since.
    fn delete_lost_slots(&mut self) {
        if self.lost_slots.is_empty() || self.shared.durability.is_loading() {
            return;
        }
        let mut slots = std::mem::take(&mut self.lost_slots);
        if let Some(cluster) = &self.shared.cluster {
            cluster.read(|machine| {
                let arriving = machine.moving_slots().1.keys();
                arriving.for_each(|slot| slots.remove(*slot));
                // They may have come back meanwhile.
                let nodes = machine.nodes();
                let served = nodes.own().primary.and_then(|id| nodes.get(id));
                slots.subtract(&served.unwrap_or(nodes.own()).slots);
            });
        }
        if self.shared.replication.is_replica() {
            self.lost_slots = self.in_turn(|_, turn| {
                let with_keys = slots
                    .iter()
                    .filter(|slot| turn.count_keys_in_slot(*slot) > 0);
                with_keys.collect()
            });
            return;
        }
        for slot in slots.iter() {
            while self.in_turn(|_, turn| turn.delete_slot(slot, DELETED_AT_ONCE)) > 0 {}
        }
    }
}
