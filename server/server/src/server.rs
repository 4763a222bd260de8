//! Start and stop of a server, standalone or embedded.

mod announce;
mod builder;
mod sizes;

use crate::world::JoinHandle;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::{Poll, Waker};
use punctual_resp::Value;
use punctual_store::{Now, Store, StoreOptions};

use crate::acl::registry::Users;
use crate::cluster::Cluster;
use crate::command::embedder;
use crate::config::{Config, Settings};
use crate::dispatch::from_file::FromFile;
use crate::embedded::{CallError, Client, IdleClients};
use crate::event_loop::{EventLoop, LoopLock, WAKER_TOKEN};
use crate::http::Http;
use crate::log::{self, Logger, Role};
use crate::net::listener::{Listener, open_tcp};
use crate::net::mailbox::Mailbox;
use crate::node::Shared;
use crate::node::order::Order;
use crate::persist::aof;
use crate::persist::load;
use crate::replication::upstream::Address;
use crate::script::handler::InHandler;
use crate::start_error::StartError;
use crate::table::names::CommandNames;
use crate::tls::{Context, Tls};
use crate::world::World;
use crate::world::clock::Move;
pub use crate::world::clock::MoveError;
use crate::world::process::PidFile;
use announce::{announce, announce_ready};
pub use builder::{Builder, CommandRow};
use sizes::{databases, limit_clients, shard_count};

/// Set when the server's shared state exists, so that signals can stop a server that loads.
pub(crate) type Starting = Arc<OnceLock<Arc<Shared>>>;

/// A running server. Dropping it stops the server.
///
/// ```
/// use std::io::{Read, Write};
/// let server = punctual_server::Server::builder().port(0).spawn()?;
/// let mut client = std::net::TcpStream::connect(server.addr().unwrap())?;
/// client.write_all(b"PING\r\n")?;
/// let mut reply = [0; 7];
/// client.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"+PONG\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    loops: Vec<Arc<LoopLock>>,
    idle_clients: IdleClients,
    http: Option<Http>,
    addr: Option<SocketAddr>,
    unix: Option<PathBuf>,
    _pid_file: Option<PidFile>,
}

impl Server {
    /// Returns a builder of a server with the default configuration, but without automatic
    /// snapshots.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn start(
        mut config: Config,
        loads: bool,
        logger: Logger,
        builder: &Builder,
    ) -> Result<Self, StartError> {
        let (table, handlers) =
            embedder::table_with(&builder.commands).map_err(StartError::CommandName)?;
        let names = CommandNames::new(table, &config)?;
        let users = Users::from_config(table, &config, &builder.disk, &logger)?;
        limit_clients(&mut config, &logger)?;
        let settings = config.settings();
        let world = World::new(settings.seed);
        let mut polls = Vec::new();
        let mut mailboxes = Vec::new();
        for _ in 0..settings.threads.max(1) {
            let poll = Poll::new()?;
            mailboxes.push(Mailbox::new(Waker::new(poll.registry(), WAKER_TOKEN)?));
            polls.push(poll);
        }
        let store = Store::new(StoreOptions {
            shards: shard_count(&settings),
            databases: databases(&settings),
            cluster: settings.cluster.enabled,
            seed: world.seed(),
            nap: World::nap,
        });
        let tls = Arc::new(Tls::default());
        if settings.tls.is_used() || builder.free.tls {
            tls.set(Some(Context::new(world, &settings.tls, &logger)?));
        }
        let mut listeners = Listener::open(&settings, builder.free, &tls)?;
        let metrics = &settings.metrics;
        let (port, free) = (metrics.port, builder.free.metrics);
        let http = open_tcp(&metrics.bind, port, free, settings.tcp_backlog, |l| l)?;
        let addr = listeners.iter().find_map(Listener::tcp_addr);
        let tls_addr = listeners.iter().find_map(Listener::tls_addr);
        let unix = settings.unixsocket.clone();
        // This comes after opening the listeners, because a second server with the same address
        // must not overwrite the first server's file.
        let pid_file = settings
            .pidfile
            .as_ref()
            .filter(|_| builder.writes_pid)
            .and_then(|path| PidFile::write(path, &logger));
        let mut shared = Shared::new(world, names, handlers, config, store, mailboxes, logger);
        shared.clients.users = users;
        shared.tls = tls;
        if settings.cluster.enabled {
            let (cluster, bus) = open_cluster(world, builder, &settings, &shared)?;
            listeners.extend(bus);
            shared.cluster = Some(cluster);
        }
        let shared = builder.share(shared, settings.huge_pages);
        let must_load = if loads {
            load::begin_start(&shared)
                .inspect_err(|error| log::warning!(shared.logger, "{error}"))?
        } else {
            None
        };
        let port = addr.map_or(0, |a| a.port());
        shared.note_ports(Some(&listeners), Some(&listeners));
        shared.configure_cluster();
        shared.logger.set_role(Role::Master);
        follow_from_start(&shared, &settings);
        announce(&shared, &settings, port);
        let mut listeners = Some(listeners);
        let (mut threads, mut loops) = (Vec::new(), Vec::new());
        for (number, poll) in polls.into_iter().enumerate() {
            let mine = listeners.take().unwrap_or_default();
            let event_loop = EventLoop::new(number, Arc::clone(&shared), poll, mine)?;
            let (thread, event_loop) = event_loop.spawn()?;
            threads.push(thread);
            loops.push(event_loop);
        }
        threads.extend(shared.start_saver()?);
        let mut server = Self {
            shared,
            threads,
            loops,
            idle_clients: IdleClients::default(),
            http: None,
            addr,
            unix,
            _pid_file: pid_file,
        };
        server.http = Http::start(&server.shared, http)?;
        let shared = &server.shared;
        if let Some(start) = must_load
            && let Err(error) = load::at_start(shared, start, &mut FromFile::new(shared))
        {
            let logger = shared.logger.clone();
            // The server is dropped first, so that the reason is the last line of the log.
            drop(server);
            log::warning!(logger, "{error}");
            if error.concerns_snapshot() {
                let line = "Terminating server after rdb file reading failure.";
                log::warning!(logger, "{line}");
            }
            return Err(error.into());
        }
        if shared.replication.is_replica() {
            shared.mailboxes[0].order(Order::FollowPrimary);
        }
        let (tcp, tls) = (server.addr.is_some(), tls_addr.is_some());
        announce_ready(&server.shared.logger, tcp, tls, server.unix.as_deref());
        Ok(server)
    }

    /// Returns the first TCP address that the server listens on.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// Returns the TCP port, or 0 if the server has no TCP listener.
    pub fn port(&self) -> u16 {
        self.addr.map_or(0, |a| a.port())
    }

    /// Returns the TLS port, or 0 if the server has no TLS listener.
    pub fn tls_port(&self) -> u16 {
        let port = self.shared.tls_port.load(Ordering::Relaxed);
        u16::try_from(port).unwrap_or(0)
    }

    /// Returns the first address of the metrics and the web page.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Http::addr)
    }

    /// Returns the path of the unix socket.
    pub fn unix_socket(&self) -> Option<&std::path::Path> {
        self.unix.as_deref()
    }

    /// Returns the state that all loops share: statistics, clients, settings.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns false once a stop was requested, for example by SHUTDOWN, a signal or a panic.
    pub fn is_running(&self) -> bool {
        !self.shared.stopping.load(Ordering::Acquire)
    }

    /// Returns the time of the server's clock.
    pub fn now(&self) -> SystemTime {
        instant(self.shared.clock.now())
    }

    /// Moves a virtual clock forward by whole microseconds. Returns the new time.
    ///
    /// Works like CLOCK ADVANCE, without a connection. Before this returns, due keys have expired
    /// in the order of their deadlines, and the resulting events and the replies of blocked
    /// commands that timed out have been written to the clients' sockets. O(m + n log m) for n due
    /// keys and m = shards · databases.
    ///
    /// # Errors
    /// The clock is real, the time is out of range, timers keep creating timers that are due at
    /// once, or the server has stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// let server = punctual_server::Server::builder().port(0).virtual_clock().spawn()?;
    /// let before = server.now();
    /// server.advance(Duration::from_secs(30 * 86_400))?;
    /// assert_eq!(server.now().duration_since(before)?.as_secs(), 30 * 86_400);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) -> Result<SystemTime, MoveError> {
        let micros = u64::try_from(by.as_micros()).map_err(|_| MoveError::OutOfRange)?;
        self.move_clock(Move::By(micros))
    }

    /// Sets a virtual clock to the current or a later time, in whole microseconds. Works like
    /// [`Server::advance`].
    ///
    /// # Errors
    /// The errors of [`Server::advance`], or the time is before the clock's time.
    pub fn set_time(&self, to: SystemTime) -> Result<SystemTime, MoveError> {
        let since = to.duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = u64::try_from(since.as_micros()).map_err(|_| MoveError::OutOfRange)?;
        self.move_clock(Move::To(micros))
    }

    fn move_clock(&self, to: Move) -> Result<SystemTime, MoveError> {
        if InHandler::is_current() {
            return Err(MoveError::InHandler);
        }
        if !self.shared.clock.is_virtual() {
            return Err(MoveError::Real);
        }
        let (answer, moved) = mpsc::channel();
        self.shared.mailboxes[0].order(Order::MoveClock { to, answer });
        let moved = self.receive(&moved)??;
        let (done, settled) = mpsc::channel();
        self.shared.when_settled(move || {
            // The receiver may have been dropped.
            let _ = done.send(());
        });
        self.receive(&settled)?;
        Ok(instant(moved))
    }

    /// Blocks until a loop has answered, or has ended.
    fn receive<T>(&self, answers: &Receiver<T>) -> Result<T, MoveError> {
        /// Interval of the checks for a loop that has ended without an answer.
        const CHECK_INTERVAL: Duration = Duration::from_millis(50);
        loop {
            match answers.recv_timeout(CHECK_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout)
                    if !self.threads.iter().any(JoinHandle::is_finished) => {}
                Err(_) => return Err(MoveError::Stopped),
            }
        }
    }

    /// Connects a client in this process, with all permissions and no socket. Clients are assigned
    /// to the event loops in turn.
    ///
    /// # Errors
    /// The server has stopped, or has reached `maxclients`.
    pub fn client(&self) -> Result<Client, CallError> {
        Client::connect(&self.shared, &self.loops)
    }

    /// Runs one command and returns its reply. Each call has a client of its own: the database is
    /// 0, and the effects of commands such as SELECT and MULTI end with the call. Commands that
    /// depend on each other need a [`Client`].
    ///
    /// # Errors
    /// The errors of [`Server::client`] and of [`Client::call`].
    ///
    /// ```
    /// use punctual_server::Value;
    /// let server = punctual_server::Server::builder().port(0).spawn()?;
    /// server.call(&["SET", "greeting", "hello"])?;
    /// assert_eq!(server.call(&["GET", "greeting"])?, Value::bulk("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Value, CallError> {
        self.idle_clients.call(|| self.client(), args)
    }

    /// Stops the server. Blocks until its threads have ended.
    pub fn shutdown(mut self) {
        self.stop();
    }

    /// Blocks until the server stops (SHUTDOWN, a signal).
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            // A loop that panicked has printed its message, and stops the other loops.
            let _ = thread.join();
        }
        drop(self.http.take());
        self.shared.replication.upstream.join();
    }

    fn stop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        drop(self.http.take());
        self.shared.replication.upstream.join();
        aof::switch::finish(&self.shared);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes the server a replica, if the configuration or the cluster's table names its primary.
fn follow_from_start(shared: &Shared, settings: &Settings) {
    let configured = settings.replica.primary.clone();
    let primary = configured.map(|(host, port)| Address { host, port });
    if let Some(primary) = primary.or_else(|| shared.primary_in_cluster()) {
        shared.follow_from_start(primary);
    }
}

/// Opens the file and the bus of a node of a cluster.
fn open_cluster(
    world: World,
    builder: &Builder,
    settings: &Settings,
    shared: &Shared,
) -> Result<(Cluster, Vec<Listener>), StartError> {
    if settings.replica.primary.is_some() {
        return Err(StartError::ReplicaInCluster);
    }
    let cluster = Cluster::open(world, &builder.disk, settings, &shared.logger)?;
    let port = bus_port(settings, builder.free.plain)?;
    let tls = settings.tls.cluster.then_some(&shared.tls);
    let (bus, port) = Listener::open_bus(settings, port, tls)?;
    cluster.bus_port.store(port.into(), Ordering::Relaxed);
    Ok((cluster, bus))
}

/// Returns the port of the cluster's bus; 0 stands for any free port.
fn bus_port(settings: &Settings, free: bool) -> Result<u16, StartError> {
    /// Distance of the bus from the port for clients.
    const DISTANCE: u16 = 10_000;
    let port = match settings.port {
        0 => settings.tls.port,
        port => port,
    };
    match settings.cluster.port {
        0 if free => Ok(0),
        0 => port.checked_add(DISTANCE).ok_or(StartError::BusPort),
        port => Ok(port),
    }
}

fn instant(now: Now) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(now.micros())
}
