//! State that all event loops of a server share ([`Shared`]).
//!
//! [`Shared`] consists of structs by topic: clients, scripts, durability, replication,
//! measurements. [`order`] has the messages to event loops, and [`waiting`] the replies to clients
//! whose command waits. [`gate`] has the reasons for which commands may be refused, and `users` the
//! effects of changed users. [`scripts`] has the compiled scripts of a loop, and [`call`] the
//! context of a handler of the server's own commands.
//!
//! Ground rules: locks are taken in the order of [`Rank`]: shards, configuration, log of changes,
//! replication stream, subscriptions, client-side caches, mailboxes. Debug builds assert this
//! order. Figures that one loop writes often are on cache lines of their own.

pub(crate) mod call;
mod changes;
mod cluster;
pub(crate) mod gate;
pub(crate) mod order;
pub(crate) mod scripts;
pub(crate) mod shutdown;
mod users;
pub(crate) mod waiting;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use punctual_store::events::Classes;
use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::spec::Flags;
use punctual_store::{Now, Stats, Store, Turn};

use crate::acl::registry::Users;
use crate::client::pause::Pauses;
use crate::client::registry::Clients;
use crate::cluster::Cluster;
use crate::config::{Config, Settings};
use crate::durability::snapshots::Durability;
use crate::log::Logger;
use crate::memory::Memory;
use crate::memory::reclaim::{Reclaim, Worker};
use crate::net::cross_protocol::HttpWarning;
use crate::net::listener::Listener;
use crate::net::mailbox::Mailbox;
use crate::node::call::ServerHandler;
use crate::node::gate::{Gate, Reason};
use crate::node::order::Order;
use crate::node::shutdown::Shutdown;
use crate::observe::Observed;
use crate::observe::latency::{COMMAND, EXPIRE_CYCLE, FAST_COMMAND};
use crate::observe::monitor::Monitors;
use crate::observe::slowlog::Slow;
use crate::pubsub::PubSub;
use crate::replication::state::Replication;
use crate::script::Scripting;
use crate::script::handler::Handler;
use crate::session::trackers::{Destinations, Trackers};
use crate::supervision::Systemd;
use crate::switches::Switches;
use crate::table::names::CommandNames;
use crate::tls::Tls;
use crate::world::World;
use crate::world::clock::{Move, MoveError, Rounds, ServerClock};

/// State that all event loops share.
pub struct Shared {
    /// Clocks, randomness and threads of the machine.
    pub(crate) world: World,
    /// The databases, split into shards.
    pub store: Store,
    /// The clock from which turns get their instant.
    pub clock: ServerClock,
    /// Command names, including renamed commands.
    pub(crate) commands: CommandNames,
    /// Handlers of the server's own commands, by their numbers in the table.
    pub(crate) handlers: &'static [ServerHandler],
    /// Handlers of the embedding program's commands, by name.
    pub(crate) embedder_handlers: BTreeMap<&'static str, Arc<Handler>>,
    /// The configuration that CONFIG reads and changes.
    pub config: OrderedMutex<Config>,
    /// Settings derived from the configuration.
    settings: RwLock<Arc<Settings>>,
    /// Number of changes of the settings, for loops and threads to notice a change.
    settings_version: AtomicU64,
    /// Enabled classes of keyspace events, as bits.
    classes: AtomicU32,
    /// Writes log lines.
    pub logger: Logger,
    /// Warning about clients that send HTTP requests, at most once a minute.
    pub(crate) http: HttpWarning,
    /// Mailboxes by loop number.
    pub(crate) mailboxes: Vec<Mailbox<Order>>,
    /// Start time in unix ms.
    pub started_ms: u64,
    /// Run id: 40 random hexadecimal digits.
    pub run_id: String,
    /// TCP port; 0 if the server does not listen on TCP.
    pub tcp_port: AtomicU32,
    /// Port of encrypted connections; 0 if the server does not listen for them.
    pub tls_port: AtomicU32,
    /// Creates the sessions of encrypted connections.
    pub(crate) tls: Arc<Tls>,
    /// Functions of the allocator that return freed memory to the system, if it has them.
    pub(crate) reclaim: Option<Reclaim>,
    /// Notification socket of systemd, if systemd supervises the server.
    pub(crate) systemd: Option<Systemd>,
    /// State of the thread that drops large values and returns free memory to the system.
    pub(crate) worker: Worker,
    /// Memory and its limits.
    pub(crate) memory: Memory,
    /// Snapshots, the append-only file and the log of changes.
    pub(crate) durability: Durability,
    /// Role, replicas and primary.
    pub(crate) replication: Replication,
    /// State of cluster mode; `None` without cluster mode.
    pub(crate) cluster: Option<Cluster>,
    /// State of a shutdown that waits for replicas.
    pub(crate) shutdown: Shutdown,
    /// Settings of DEBUG.
    pub(crate) switches: Switches,
    /// The server is the whole process, so DEBUG RESTART may restart the process.
    pub(crate) is_program: bool,
    /// Reasons for which commands may be refused.
    pub(crate) gate: Gate,
    /// A stop was requested.
    pub stopping: AtomicBool,
    /// A thread that others wait for has panicked.
    pub(crate) panicked: AtomicBool,
    /// Clients, users and subscriptions.
    pub clients: ClientState,
    /// Scripts and functions.
    pub(crate) scripting: Scripting,
    /// Statistics and logs of commands.
    pub observed: Observed,
}

/// Clients, users and subscriptions.
pub struct ClientState {
    /// All clients.
    pub registry: Clients,
    /// Users, and the log of denials.
    pub(crate) users: Users,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Clients in MONITOR mode.
    pub monitors: Monitors,
    /// Clients with client-side caches.
    pub(crate) trackers: Trackers,
    /// Pauses by CLIENT PAUSE, by a shutdown and by a failover.
    pub(crate) pauses: Pauses,
    /// Counter that assigns new connections to the loops in turn.
    pub(crate) next_loop: AtomicUsize,
}

impl Shared {
    /// Creates the state that the loops share.
    pub(crate) fn new(
        world: World,
        commands: CommandNames,
        handlers: &'static [ServerHandler],
        config: Config,
        store: Store,
        mailboxes: Vec<Mailbox<Order>>,
        logger: Logger,
    ) -> Self {
        let settings = config.settings();
        let users = Users::new(commands.table(), &settings);
        let clock = ServerClock::new(world, settings.clock);
        let started_ms = clock.now().read_ms();
        let (loops, entries) = (mailboxes.len(), commands.table().entries());
        let shared = Self {
            world,
            started_ms,
            clock,
            store,
            commands,
            handlers,
            embedder_handlers: BTreeMap::new(),
            config: OrderedMutex::new(Rank::Config, config),
            settings: RwLock::new(settings),
            settings_version: AtomicU64::new(0),
            classes: AtomicU32::new(0),
            logger,
            http: HttpWarning::default(),
            memory: Memory::new(mailboxes.len()),
            mailboxes,
            run_id: String::from_utf8_lossy(&world.hex_digits::<40>()).into_owned(),
            tcp_port: AtomicU32::new(0),
            tls_port: AtomicU32::new(0),
            tls: Arc::default(),
            reclaim: None,
            systemd: None,
            worker: Worker::default(),
            durability: Durability::new(started_ms),
            replication: Replication::new(world, loops),
            cluster: None,
            clients: ClientState {
                registry: Clients::default(),
                users,
                pubsub: PubSub::default(),
                monitors: Monitors::default(),
                trackers: Trackers::default(),
                pauses: Pauses::default(),
                next_loop: AtomicUsize::new(0),
            },
            scripting: Scripting::default(),
            observed: Observed::new(loops, entries),
            shutdown: Shutdown::default(),
            switches: Switches::default(),
            is_program: false,
            gate: Gate::default(),
            stopping: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        };
        shared.apply_settings();
        shared
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    /// Returns the number of changes of the settings.
    pub(crate) fn settings_version(&self) -> u64 {
        self.settings_version.load(Ordering::Acquire)
    }

    /// Records the ports on which the server listens. `None` leaves the port of that kind
    /// unchanged.
    pub(crate) fn note_ports(&self, plain: Option<&[Listener]>, tls: Option<&[Listener]>) {
        if let Some(listeners) = plain {
            let addr = listeners.iter().find_map(Listener::tcp_addr);
            let port = addr.map_or(0, |addr| addr.port());
            self.tcp_port.store(port.into(), Ordering::Relaxed);
        }
        if let Some(listeners) = tls {
            let addr = listeners.iter().find_map(Listener::tls_addr);
            let port = addr.map_or(0, |addr| addr.port());
            self.tls_port.store(port.into(), Ordering::Relaxed);
        }
    }

    /// Returns the enabled classes of keyspace events.
    #[inline]
    pub fn classes(&self) -> Classes {
        Classes::from_bits(self.classes.load(Ordering::Relaxed))
    }

    /// Sends an order to every loop.
    pub(crate) fn order_all(&self, order: impl Fn() -> Order) {
        for mailbox in &self.mailboxes {
            mailbox.order(order());
        }
    }

    /// Calls `done` once all loops have handled their earlier orders and written the output.
    pub(crate) fn when_settled(&self, done: impl Fn() + Send + Sync + 'static) {
        let pending = Arc::new((AtomicUsize::new(self.mailboxes.len()), done));
        self.order_all(|| {
            let pending = Arc::clone(&pending);
            Order::Settle(Box::new(move || {
                let (left, done) = &*pending;
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    done();
                }
            }))
        });
    }

    /// Requests a stop of the server. Returns at once.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.gate.set(Reason::Stopping, true);
        self.replication.upstream.stop();
        if let Some(cluster) = &self.cluster {
            cluster.saver.close();
        }
        self.order_all(|| Order::Stop);
    }

    /// Moves the virtual clock and `turn`'s instant. Before it returns, due keys have expired in
    /// the order of their deadlines (unless clients are paused), and their events are in the
    /// mailboxes. `fire` is called at each instant with due timers. Locks every shard. O(m + n log
    /// m) for n due keys and m = shards · databases, plus O(m) for each instant with due timers.
    ///
    /// # Errors
    /// Returns the errors of [`ServerClock::destination`], and [`MoveError::Endless`] if timers
    /// keep creating timers that are due at once. The clock then stands at their instant.
    pub(crate) fn move_clock(
        &self,
        turn: &mut Turn,
        to: Move,
        mut fire: impl FnMut(&mut Turn),
    ) -> Result<Now, MoveError> {
        if self.clock.is_virtual() {
            turn.lock_all();
        }
        let to = self.clock.destination(to)?;
        let mut moved = Ok(to);
        // While clients are paused, nothing expires. Due keys expire when the pause ends.
        let paused_until = self.clients.pauses.last_end_ms();
        if to.read_ms() < paused_until {
            turn.now = to;
        } else {
            turn.now = self.clock.now().max(Now::from_ms(paused_until));
            let mut rounds = Rounds::default();
            while moved.is_ok() && !turn.advance(to) {
                self.clock.set(turn.now);
                moved = rounds.begin(turn).map(|()| to);
                if moved.is_ok() {
                    fire(turn);
                }
            }
        }
        self.clock.set(turn.now);
        // Idle timeouts are timers in the loops' wheels, so the loops must check them.
        self.order_all(|| Order::ClockMoved);
        moved
    }

    /// Returns the loop that expires the keys of shard `shard`.
    pub(crate) fn loop_of(&self, shard: usize) -> usize {
        shard % self.mailboxes.len()
    }

    /// Adds a slow command to the slow log and to LATENCY, if it reaches their thresholds.
    #[cold]
    pub(crate) fn record_slow_command(&self, slow: &Slow<'_>) {
        let settings = self.settings();
        if settings
            .slowlog_slower_than_us
            .is_some_and(|us| slow.nanos / 1000 >= us)
        {
            self.observed
                .slowlog
                .add(&self.commands, slow, settings.slowlog_max_len);
        }
        let fast = slow.entry.row.flags.has(Flags::FAST);
        let event = if fast { FAST_COMMAND } else { COMMAND };
        record_latency(self, &settings, event, slow.now, slow.nanos);
    }

    /// Returns the sums of the counters of all turns that have ended.
    pub(crate) fn counted(&self) -> Stats {
        let mut sums = Stats::default();
        self.observed
            .stats
            .iter()
            .for_each(|stats| stats.add_to(&mut sums));
        sums
    }

    /// Records the duration of a batch of expiries.
    #[inline]
    pub(crate) fn record_expiry(&self, loop_number: usize, now: Now, nanos: u64) {
        self.observed.stats[loop_number].expiry_nanos.add(nanos);
        if nanos >= self.observed.slow_ns.load(Ordering::Relaxed) {
            record_latency(self, &self.settings(), EXPIRE_CYCLE, now, nanos);
        }
    }

    /// Returns the destinations of messages for client-side caches.
    pub(crate) fn destinations(&self) -> Destinations<'_, Order> {
        Destinations {
            clients: &self.clients.registry,
            mailboxes: &self.mailboxes,
        }
    }

    /// Publishes a message. Returns the number of subscriptions that match the channel.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        self.clients
            .pubsub
            .publish(&self.mailboxes, channel, message)
    }

    /// Publishes a message on a shard channel. Returns the number of subscriptions.
    pub(crate) fn publish_shard(&self, channel: &[u8], message: &[u8]) -> usize {
        self.clients
            .pubsub
            .publish_shard(&self.mailboxes, channel, message)
    }
}

#[cold]
fn record_latency(shared: &Shared, settings: &Settings, event: &'static str, now: Now, nanos: u64) {
    let (threshold_ms, ms) = (settings.latency_threshold_ms, nanos / 1_000_000);
    if threshold_ms > 0 && ms >= threshold_ms {
        shared.observed.latency.add(event, now, ms);
    }
}

/// Stops the server if the thread that owns this value panics, because other threads wait for that
/// thread.
pub(crate) struct StopOnPanic<S: Borrow<Arc<Shared>>>(pub(crate) S);

impl<S: Borrow<Arc<Shared>>> Drop for StopOnPanic<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shared = self.0.borrow();
            shared.panicked.store(true, Ordering::Release);
            shared.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn slow_expiries_are_latency_events() {
        let server = Server::builder()
            .port(0)
            .option("latency-monitor-threshold", "5")
            .spawn()
            .unwrap();
        let shared = server.shared();
        for nanos in [4_900_000, 5_000_000, 7_999_999] {
            shared.record_expiry(0, Now::from_ms(9_000), nanos);
        }
        let (_, series) = shared
            .observed
            .latency
            .get(EXPIRE_CYCLE.as_bytes())
            .unwrap();
        assert_eq!(
            (series.samples.len(), series.samples[0].ms, series.max_ms),
            (1, 7, 7)
        );
        assert_eq!(shared.observed.stats[0].expiry_nanos.get(), 17_899_999);
    }
}
