//! Conversations with other servers: the link to the primary until its stream begins, migrations,
//! and the cluster's bus.
//!
//! Their time limits follow the stopwatch (the machine's monotonic clock), also with a virtual
//! clock, because the other servers do not share the virtual clock. The lookup of a host name runs
//! on a thread of its own, because the system's lookup blocks.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use mio::Token;
use punctual::Wheel;
use punctual::queue::TimerKey;

use punctual_cluster::state::LinkId;

use crate::event_loop::EventLoop;
use crate::follow::link::Link;
use crate::log;
use crate::migrate::kept::{Endpoint, KEPT_FOR, KEPT_MAX, Kept};
use crate::migrate::moving::Migration;
use crate::net::bus_link::BusLink;
use crate::net::dial::{Conversation, Dial, DialError, Step};
use crate::net::socket::Socket;
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::attachment::{Attachment, Loaded, Start};
use crate::replication::upstream::{INTERVAL, Next};
use crate::tls::Tls;
use crate::world::Moment;

/// Token of the first conversation. Tokens of connections are smaller.
pub(crate) const DIALS: usize = usize::MAX / 2;

/// Timer of a conversation or of the replica's link, on the stopwatch.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// Check the time limit of the conversation with this number.
    Dial(usize),
    /// Acknowledge the stream to the primary, or connect to it.
    Primary,
    /// Let the cluster's state machine handle what is due.
    Cluster,
}

/// Conversations with other servers.
#[derive(Default)]
pub(crate) struct Dials {
    /// Number of the next conversation.
    next: usize,
    all: BTreeMap<usize, Outgoing>,
    /// Numbers of the connections of the bus.
    links: BTreeMap<LinkId, usize>,
    /// Numbers of the connections that a migration may use again.
    kept: BTreeMap<Endpoint, usize>,
    /// Conversations with more to read.
    again: Vec<usize>,
    /// Deadlines in milliseconds of the stopwatch.
    timers: Wheel<Timer>,
    primary_timer: Option<TimerKey>,
    cluster_timer: Option<TimerKey>,
}

/// A conversation with another server.
pub(super) struct Outgoing {
    peer: Peer,
    /// `None` while the server's name is looked up.
    dial: Option<Dial>,
    tls: Option<Arc<Tls>>,
    /// Maximum time without progress.
    timeout: Duration,
    /// Time of the last progress: the connection was established, or bytes were sent or received.
    /// It also advances while the primary must wait for the thread that loads the snapshot.
    moved: Moment,
    timer: TimerKey,
    /// Whether the connection has ended while the thread that loads the snapshot is still running.
    ended: bool,
}

impl Outgoing {
    /// Updates the unsent bytes of a connection of the bus.
    fn count_unsent(&mut self, shared: &Shared) {
        if let (Peer::Bus(link), Some(dial), Some(cluster)) =
            (&mut self.peer, &self.dial, &shared.cluster)
            && let Some(unsent) = link.set_unsent(dial.unsent())
        {
            cluster.queues.set(link.id, unsent);
        }
    }
}

/// The other server's role, and the state of the conversation.
pub(super) enum Peer {
    Primary(Box<Link>),
    Target(Box<Migration>),
    Kept(Box<Kept>),
    Bus(BusLink),
}

impl Peer {
    fn conversation(&mut self) -> &mut dyn Conversation {
        match self {
            Self::Primary(link) => &mut **link,
            Self::Target(migration) => &mut migration.transfer,
            Self::Kept(kept) => &mut **kept,
            Self::Bus(link) => link,
        }
    }

    /// Returns the time between two checks of the time limit. A check of a link to a primary may
    /// have to send something. A large cluster has many connections of the bus.
    fn check_interval(&self, timeout: Duration) -> Duration {
        match self {
            Self::Primary(_) | Self::Target(_) => timeout.min(INTERVAL),
            Self::Bus(_) | Self::Kept(_) => timeout,
        }
    }
}

impl Dials {
    /// Returns whether a conversation has more to read.
    pub(crate) fn has_work(&self) -> bool {
        !self.again.is_empty()
    }

    /// Returns the next time limit, in milliseconds of the stopwatch.
    pub(crate) fn next_wakeup(&self) -> Option<u64> {
        self.timers.next_wakeup()
    }

    fn arm_primary(&mut self, at: Moment) {
        rearm(
            &mut self.timers,
            &mut self.primary_timer,
            ms(at),
            Timer::Primary,
        );
    }

    /// Sets the time of the next call of the cluster's state machine.
    pub(super) fn arm_cluster(&mut self, at_ms: u64) {
        rearm(
            &mut self.timers,
            &mut self.cluster_timer,
            at_ms,
            Timer::Cluster,
        );
    }

    /// Returns a connection of the bus, and its number.
    pub(super) fn bus(&mut self, id: LinkId) -> Option<(usize, &mut BusLink)> {
        let number = *self.links.get(&id)?;
        match &mut self.all.get_mut(&number)?.peer {
            Peer::Bus(link) => Some((number, link)),
            _ => None,
        }
    }

    /// Gives a kept connection to a migration. Returns its number.
    fn reuse(
        &mut self,
        mut migration: Box<Migration>,
        now: Moment,
    ) -> Result<usize, Box<Migration>> {
        let endpoint = migration.transfer.target.endpoint();
        let Some((number, outgoing)) = (self.kept.remove(&endpoint))
            .and_then(|number| Some((number, self.all.get_mut(&number)?)))
        else {
            return Err(migration);
        };
        if let Peer::Kept(kept) = &outgoing.peer {
            migration.transfer.begin_on_kept(kept.db);
        }
        (outgoing.timeout, outgoing.moved) = (migration.transfer.target.timeout, now);
        self.timers.remove(outgoing.timer);
        let first = ms(now + outgoing.timeout.min(INTERVAL));
        outgoing.timer = self.timers.insert(first, Timer::Dial(number));
        outgoing.peer = Peer::Target(migration);
        Ok(number)
    }

    /// Takes the migration whose transfer has ended from its connection, if the connection is kept.
    fn keep(&mut self, number: usize, now: Moment) -> Option<Box<Migration>> {
        let outgoing = self.all.get_mut(&number)?;
        let Peer::Target(migration) = &outgoing.peer else {
            return None;
        };
        let kept = migration.transfer.kept()?;
        if self.kept.len() == KEPT_MAX || self.kept.contains_key(&kept.endpoint) {
            return None;
        }
        self.kept.insert(kept.endpoint.clone(), number);
        (outgoing.timeout, outgoing.moved) = (KEPT_FOR, now);
        match std::mem::replace(&mut outgoing.peer, Peer::Kept(Box::new(kept))) {
            Peer::Target(migration) => Some(migration),
            _ => None,
        }
    }

    fn link(&self) -> Option<(usize, &Link)> {
        self.all
            .iter()
            .find_map(|(number, outgoing)| match &outgoing.peer {
                Peer::Primary(link) => Some((*number, &**link)),
                Peer::Target(_) | Peer::Kept(_) | Peer::Bus(_) => None,
            })
    }
}

/// Replaces a timer by one at another time.
fn rearm(timers: &mut Wheel<Timer>, armed: &mut Option<TimerKey>, at_ms: u64, timer: Timer) {
    if let Some(old) = armed.take() {
        timers.remove(old);
    }
    *armed = Some(timers.insert(at_ms, timer));
}

/// Returns the first whole millisecond at or after `at`.
fn ms(at: Moment) -> u64 {
    u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl EventLoop {
    /// Connects to the primary, or sets a timer for the next attempt. Does nothing if there is a
    /// link, or if the server is no replica. Only loop 0 calls this.
    pub(crate) fn follow_primary(&mut self) {
        let shared = Arc::clone(&self.shared);
        match shared.replication.upstream.next_attempt() {
            Next::Nothing => {}
            Next::At(at) => self.dials.arm_primary(at),
            Next::Now(attempt) => {
                let settings = shared.settings();
                let timeout = Duration::from_secs(settings.replica.timeout_s.into());
                log::notice!(shared.logger, "Connecting to MASTER {}", attempt.primary);
                log::notice!(shared.logger, "MASTER <-> REPLICA sync started");
                let tls = settings.tls.replication.then(|| Arc::clone(&shared.tls));
                let (host, port) = (attempt.primary.host.clone(), attempt.primary.port);
                let link = Box::new(Link::new(&shared, attempt));
                self.dial(&host, port, tls, timeout, Peer::Primary(link));
            }
        }
    }

    /// Sets the timer of the next acknowledgement to the primary.
    pub(crate) fn plan_acknowledgement(&mut self) {
        let at = self.shared.world.stopwatch() + INTERVAL;
        self.dials.arm_primary(at);
    }

    /// Ends the attempt to connect to a primary that was replaced.
    pub(crate) fn end_outdated_link(&mut self) {
        let upstream = &self.shared.replication.upstream;
        if let Some((number, link)) = self.dials.link()
            && !upstream.is_current(link.attempt.generation)
        {
            self.hang_up(number);
        }
    }

    /// Sends the keys of a migration. After the target's answer, [`EventLoop::settle_migrations`]
    /// deletes the keys and replies.
    pub(crate) fn migrate(&mut self, mut migration: Box<Migration>) {
        migration.begin_transfer();
        match self.dials.reuse(migration, self.shared.world.stopwatch()) {
            Ok(number) => self.step(number),
            Err(migration) => self.dial_target(migration),
        }
    }

    fn dial_target(&mut self, migration: Box<Migration>) {
        let target = &migration.transfer.target;
        let (host, port) = (target.host.clone(), target.port);
        let (tls, timeout) = (target.tls.clone(), target.timeout);
        self.dial(&host, port, tls, timeout, Peer::Target(migration));
    }

    pub(super) fn dial(
        &mut self,
        host: &str,
        port: u16,
        tls: Option<Arc<Tls>>,
        timeout: Duration,
        peer: Peer,
    ) {
        let number = self.add_conversation(peer, tls, timeout);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.resolved(number, Ok(vec![SocketAddr::new(ip, port)]));
        }
        let (shared, loop_number) = (Arc::clone(&self.shared), self.number);
        let host = host.to_owned();
        let lookup = self.shared.world.spawn("punctual-lookup", move || {
            let addresses = (host.as_str(), port).to_socket_addrs();
            shared.mailboxes[loop_number].order(Order::Resolved {
                dial: number,
                addresses: addresses.map(Iterator::collect),
            });
        });
        if let Err(error) = lookup {
            self.resolved(number, Err(error));
        }
    }

    fn add_conversation(&mut self, peer: Peer, tls: Option<Arc<Tls>>, timeout: Duration) -> usize {
        let number = self.dials.next;
        self.dials.next += 1;
        if let Peer::Bus(link) = &peer {
            self.dials.links.insert(link.id, number);
        }
        let now = self.shared.world.stopwatch();
        let first = ms(now + peer.check_interval(timeout));
        let timer = self.dials.timers.insert(first, Timer::Dial(number));
        let outgoing = Outgoing {
            peer,
            dial: None,
            tls,
            timeout,
            moved: now,
            timer,
            ended: false,
        };
        self.dials.all.insert(number, outgoing);
        number
    }

    /// Begins a conversation on a connection that another server has opened.
    pub(super) fn serve_dial(&mut self, socket: Socket, timeout: Duration, peer: Peer) {
        let number = self.add_conversation(peer, None, timeout);
        let token = Token(DIALS + number);
        match Dial::accepted(socket, &self.registry, token) {
            Ok(dial) => {
                if let Some(outgoing) = self.dials.all.get_mut(&number) {
                    outgoing.dial = Some(dial);
                }
            }
            Err(error) => self.broken(number, error),
        }
    }

    /// Begins to connect to a server whose addresses are known now.
    pub(crate) fn resolved(&mut self, number: usize, addresses: io::Result<Vec<SocketAddr>>) {
        let Some(outgoing) = self.dials.all.get_mut(&number) else {
            return;
        };
        let (registry, token) = (&self.registry, Token(DIALS + number));
        let tls = outgoing.tls.take();
        let dial = (addresses.map_err(DialError::Connecting))
            .and_then(|addresses| Dial::begin(addresses, tls, registry, token));
        match dial {
            Ok(dial) => outgoing.dial = Some(dial),
            Err(trouble) => self.broken(number, trouble),
        }
    }

    /// Continues the conversations that have more to read.
    pub(crate) fn step_again(&mut self) {
        for number in std::mem::take(&mut self.dials.again) {
            self.step(number);
        }
    }

    /// Continues the transfer of the primary's snapshot.
    pub(crate) fn read_snapshot(&mut self) {
        if let Some((number, _)) = self.dials.link() {
            self.step(number);
        }
    }

    /// Sends the output of a conversation.
    pub(super) fn push(&mut self, number: usize) {
        let now_ms = self.shared.clock.now().read_ms();
        if let Some(outgoing) = self.dials.all.get_mut(&number)
            && let Some(dial) = &mut outgoing.dial
        {
            let pushed = dial.push(outgoing.peer.conversation(), now_ms);
            if dial.has_moved() {
                outgoing.moved = self.shared.world.stopwatch();
            }
            outgoing.count_unsent(&self.shared);
            if let Err(trouble) = pushed {
                self.broken(number, trouble);
            }
        }
    }

    /// Continues a conversation whose socket has an event.
    pub(crate) fn step(&mut self, number: usize) {
        let Some(outgoing) = self.dials.all.get_mut(&number) else {
            return;
        };
        let Some(dial) = outgoing.dial.as_mut().filter(|_| !outgoing.ended) else {
            return;
        };
        let now_ms = self.shared.clock.now().read_ms();
        let step = dial.step(outgoing.peer.conversation(), &self.registry, now_ms);
        if dial.has_moved() {
            outgoing.moved = self.shared.world.stopwatch();
        }
        let established = dial.is_established();
        outgoing.count_unsent(&self.shared);
        if let Peer::Bus(link) = &mut outgoing.peer {
            let events = link.take_events(established);
            self.handle_bus(&events);
        }
        match step {
            Ok(Step::Wait) => {}
            Ok(Step::Again) => self.dials.again.push(number),
            Ok(Step::Over) => self.conversation_ended(number),
            Err(trouble) => self.broken(number, trouble),
        }
    }

    /// Checks the time limits that are due.
    pub(crate) fn run_dial_timers(&mut self) {
        let Some(at) = self.dials.timers.next_wakeup() else {
            return;
        };
        let now = self.shared.world.stopwatch();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        if now_ms < at {
            return;
        }
        while let Some(expired) = self.dials.timers.pop_due(now_ms) {
            match expired.value {
                Timer::Dial(number) => self.check_liveness(number, now),
                Timer::Primary => {
                    self.dials.primary_timer = None;
                    match self.primary {
                        Some(_) => self.acknowledge_primary(),
                        None => self.follow_primary(),
                    }
                }
                Timer::Cluster => {
                    self.dials.cluster_timer = None;
                    self.tick_cluster();
                }
            }
        }
    }

    /// Ends a conversation that has made no progress for too long. While the primary sends a
    /// snapshot, sends an empty line to the primary, so that the primary does not end the link.
    fn check_liveness(&mut self, number: usize, now: Moment) {
        let Some(outgoing) = self.dials.all.get_mut(&number) else {
            return;
        };
        let snapshot = match &outgoing.peer {
            Peer::Primary(link) => link.snapshot(),
            Peer::Target(_) | Peer::Kept(_) | Peer::Bus(_) => None,
        };
        if snapshot.is_some_and(|incoming| incoming.room() == 0) {
            // The primary waits for the thread that loads the snapshot.
            outgoing.moved = now;
        }
        let limit = outgoing.moved + outgoing.timeout;
        let next = ms(limit.min(now + outgoing.peer.check_interval(outgoing.timeout)));
        outgoing.timer = self.dials.timers.insert(next, Timer::Dial(number));
        if outgoing.ended {
            return;
        }
        if limit <= now {
            let error = io::ErrorKind::TimedOut.into();
            let dial = outgoing.dial.as_ref();
            let trouble = dial.map_or(DialError::Connecting(error), Dial::timed_out);
            return self.broken(number, trouble);
        }
        if let (Some(_), Some(dial)) = (snapshot, &mut outgoing.dial) {
            dial.add(b"\n");
            self.step(number);
        }
    }

    /// Handles a connection that could not be established or has broken.
    fn broken(&mut self, number: usize, trouble: DialError) {
        if let Some(outgoing) = self.dials.all.get_mut(&number)
            && let Peer::Primary(link) = &outgoing.peer
            && let Some(incoming) = link.snapshot()
        {
            // The thread loads the bytes that have arrived, which may be the whole snapshot, and
            // reports the result.
            incoming.end(trouble.into_error().kind());
            outgoing.ended = true;
            return;
        }
        match self.hang_up(number).map(|outgoing| outgoing.peer) {
            None => {}
            Some(Peer::Primary(link)) => {
                link.report_broken(&trouble.into_error());
                self.attempt_failed(&link);
            }
            Some(Peer::Target(mut migration)) if migration.transfer.may_redial(&trouble) => {
                migration.transfer.begin();
                self.dial_target(migration);
            }
            Some(Peer::Target(mut migration)) => {
                migration.transfer.fail(&trouble);
                self.transferred(*migration);
            }
            Some(Peer::Kept(_)) => {}
            Some(Peer::Bus(link)) => self.bus_closed(link.id),
        }
    }

    /// Handles the end of a conversation.
    fn conversation_ended(&mut self, number: usize) {
        if let Some(migration) = self.dials.keep(number, self.shared.world.stopwatch()) {
            return self.transferred(*migration);
        }
        let Some(outgoing) = self.hang_up(number) else {
            return;
        };
        match (outgoing.peer, outgoing.dial) {
            (Peer::Target(migration), _) => self.transferred(*migration),
            (Peer::Kept(_), _) => {}
            (Peer::Primary(link), Some(dial)) if let Some(id) = link.continued() => {
                let (socket, rest) = dial.into_parts(&self.registry);
                let attachment = Attachment {
                    attempt: link.attempt.clone(),
                    socket,
                    rest,
                    start: Start::Continued(id),
                };
                // The running turn may hold shards, so an order attaches the primary later.
                let order = Order::AttachPrimary(Box::new(attachment));
                self.shared.mailboxes[self.number].order(order);
            }
            (Peer::Primary(link), _) => self.attempt_failed(&link),
            (Peer::Bus(link), _) => self.bus_closed(link.id),
        }
    }

    /// Handles the end of the thread that loads a snapshot.
    pub(crate) fn snapshot_loaded(&mut self, loaded: Loaded) {
        let Some((number, _)) = self.dials.link().filter(|(_, link)| {
            (link.snapshot()).is_some_and(|incoming| Arc::ptr_eq(incoming, &loaded.incoming))
        }) else {
            return;
        };
        let Some(outgoing) = self.hang_up(number) else {
            return;
        };
        if let (Peer::Primary(link), Some(dial)) = (outgoing.peer, outgoing.dial) {
            match loaded.result {
                Ok((data, mut rest)) => {
                    rest.append(&mut loaded.incoming.take_rest());
                    let (socket, unread) = dial.into_parts(&self.registry);
                    rest.extend_from_slice(&unread);
                    self.attach_primary(Attachment {
                        attempt: link.attempt.clone(),
                        socket,
                        rest,
                        start: Start::Full(data),
                    });
                }
                Err(failure) => {
                    failure.report(&self.shared);
                    self.attempt_failed(&link);
                }
            }
        }
    }

    fn attempt_failed(&mut self, link: &Link) {
        (self.shared.replication.upstream).failed(link.attempt.generation);
        self.follow_primary();
    }

    /// Adds a migration to the list for [`EventLoop::settle_migrations`].
    fn transferred(&mut self, migration: Migration) {
        self.resuming.migrations.push(migration);
        self.more_due = true;
    }

    /// Removes a conversation. Dropping the result closes its connection.
    pub(super) fn hang_up(&mut self, number: usize) -> Option<Outgoing> {
        let outgoing = self.dials.all.remove(&number)?;
        match &outgoing.peer {
            Peer::Bus(link) => {
                self.dials.links.remove(&link.id);
                if let Some(cluster) = &self.shared.cluster {
                    cluster.queues.set(link.id, 0);
                }
            }
            Peer::Kept(kept) => drop(self.dials.kept.remove(&kept.endpoint)),
            Peer::Primary(_) | Peer::Target(_) => {}
        }
        self.dials.timers.remove(outgoing.timer);
        Some(outgoing)
    }
}
