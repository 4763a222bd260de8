//! An event loop: one thread, its connections, and the shards whose deadlines it keeps.
//!
//! A turn of the loop: read and run what has arrived, expire a bounded batch of what is due, deliver what lies in
//! the mailbox, write each connection's replies once, and sleep exactly until the next deadline. Neither commands nor
//! expiries starve the other: while more is due, the loop looks at its sockets between batches without sleeping.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use punctual::{DeadlineQueue, Wheel};
use punctual_resp::Limits;
use punctual_store::{Now, Turn};

use crate::alarm::Alarm;
use crate::clients::{ClientInfo, ClientNames};
use crate::config::Settings;
use crate::connection::{Connection, Flushed, KEPT_OUTPUT, is_exceeded};
use crate::dispatch::{self, Flow};
use crate::listener::{Arrival, Listener};
use crate::log;
use crate::mailbox::{Mail, Order};
use crate::pubsub::Kind;
use crate::session::Session;
use crate::shared::Shared;
use crate::sink::LoopSink;

/// Bytes read from a socket at a time.
const READ_SIZE: usize = 64 << 10;
/// Reads from one connection before the others have their turn.
const READS_A_TURN: usize = 16;
/// Steps of expiry between two looks at the sockets: well under a millisecond of work.
const EXPIRY_BATCH: usize = 1_000;
/// Connections accepted in one turn.
const ACCEPTS_A_TURN: usize = 256;
/// Output buffers kept for the next replies.
const SPARE_OUTPUTS: usize = 16;

const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Listeners count down from here.
const LISTENERS: usize = usize::MAX - 2;

/// What the token of the mailbox's waker must be.
pub(crate) const WAKER_TOKEN: Token = WAKER;

/// One event loop.
pub(crate) struct EventLoop {
    number: usize,
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    settings_version: u64,
    poll: Poll,
    alarm: Alarm,
    listeners: Vec<Listener>,
    connections: Vec<Option<Connection>>,
    free_slots: Vec<usize>,
    /// Slots with output to write.
    dirty: Vec<usize>,
    /// Slots that may have more to read.
    readable: Vec<usize>,
    /// Slots that wait for CLIENT UNPAUSE.
    paused: Vec<usize>,
    /// Idle timeouts, in unix ms.
    idle: Wheel<usize>,
    mail: Mail,
    buffer: Box<[u8]>,
    spare: Vec<Vec<u8>>,
    /// Measures how long commands take.
    stopwatch: quanta::Clock,
    more_due: bool,
    stopping: bool,
}

impl EventLoop {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        poll: Poll,
        mut listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let mut alarm = Alarm::new()?;
        alarm.register(poll.registry(), ALARM)?;
        for (i, listener) in listeners.iter_mut().enumerate() {
            poll.registry()
                .register(listener.source(), Token(LISTENERS - i), Interest::READABLE)?;
        }
        Ok(Self {
            number,
            settings: shared.settings(),
            settings_version: shared.settings_version(),
            shared,
            poll,
            alarm,
            listeners,
            connections: Vec::new(),
            free_slots: Vec::new(),
            dirty: Vec::new(),
            readable: Vec::new(),
            paused: Vec::new(),
            idle: Wheel::new(),
            mail: Mail::default(),
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            spare: Vec::new(),
            stopwatch: quanta::Clock::new(),
            more_due: false,
            stopping: false,
        })
    }

    /// Serves until the server is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.stopping {
            let timeout = self.prepare_sleep();
            if let Err(e) = self.poll.poll(&mut events, timeout)
                && e.kind() != io::ErrorKind::Interrupted
            {
                log::warning!(self.shared.logger, "Waiting for events failed: {e}");
                self.shared.stop();
                break;
            }
            self.shared.mailboxes[self.number]
                .sleeping_until
                .store(0, Ordering::SeqCst);
            self.turn(&events);
        }
        for slot in 0..self.connections.len() {
            self.flush(slot);
            self.close(slot);
        }
    }

    /// When something must be done by this loop, in unix ms; `u64::MAX`: never.
    fn next_wakeup_ms(&self) -> u64 {
        let loops = self.shared.mailboxes.len();
        let keys = if self.expiry_is_paused(self.shared.clock.now()) {
            None
        } else {
            (self.number..self.shared.store.shards())
                .step_by(loops)
                .filter_map(|shard| self.shared.store.next_wakeup(shard))
                .min()
        };
        let pause = match self.shared.pause_until_ms.load(Ordering::Acquire) {
            0 => None,
            until => Some(until),
        };
        [keys, self.idle.next_wakeup(), pause]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Sets the alarm; zero if there is something to do at once.
    fn prepare_sleep(&mut self) -> Option<Duration> {
        if self.more_due || !self.readable.is_empty() {
            return Some(Duration::ZERO);
        }
        let mailbox = &self.shared.mailboxes[self.number];
        let wakeup = self.next_wakeup_ms();
        // Whoever changes a shard's wake-up or leaves mail after this line sees that the loop may sleep, and rings;
        // what came before it is seen by the second look.
        mailbox.sleeping_until.store(wakeup.max(1), Ordering::SeqCst);
        let wakeup = wakeup.min(self.next_wakeup_ms());
        if mailbox.is_full() || self.shared.stopping.load(Ordering::SeqCst) {
            return Some(Duration::ZERO);
        }
        if self.shared.clock.is_virtual() {
            // Only an order moves this clock.
            let due = self.shared.clock.now().is_due(wakeup);
            return due.then_some(Duration::ZERO);
        }
        self.alarm.set(wakeup)
    }

    fn turn(&mut self, events: &Events) {
        let shared = Arc::clone(&self.shared);
        let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
        let now = shared.clock.now();
        let mut turn = Turn::new(&shared.store, now, &mut sink, shared.classes());
        for event in events {
            match event.token() {
                WAKER => {}
                ALARM => self.alarm.rang(),
                Token(t) if t > LISTENERS - self.listeners.len() => self.accept(LISTENERS - t, now),
                Token(slot) => {
                    if event.is_readable() || event.is_read_closed() {
                        self.read(slot, &mut turn);
                    }
                    if event.is_writable() {
                        self.mark_dirty(slot);
                    }
                }
            }
        }
        for slot in std::mem::take(&mut self.readable) {
            if self.connection(slot).is_some_and(|c| c.readable) {
                self.read(slot, &mut turn);
            }
        }
        self.expire(&mut turn);
        self.resume_paused(&mut turn);
        turn.release();
        self.count(&turn);
        let discarded = std::mem::take(&mut turn.discarded);
        drop(turn);
        dispatch::drop_aside(discarded);
        self.collect_mail();
        self.close_idle();
        for slot in std::mem::take(&mut self.dirty) {
            self.flush(slot);
        }
        self.shared.stats[self.number].turns.add(1);
    }

    /// Adds a turn's counts to the loop's.
    fn count(&self, turn: &Turn<'_>) {
        let (stats, counted) = (&self.shared.stats[self.number], turn.stats);
        stats.hits.add(counted.hits);
        stats.misses.add(counted.misses);
        stats.expired.add(counted.expired);
        stats.dirty.add(counted.dirty);
    }

    /// Expires one batch of what is due in the shards of this loop.
    fn expire(&mut self, turn: &mut Turn<'_>) {
        self.more_due = false;
        let shared = Arc::clone(&self.shared);
        turn.now = shared.clock.now();
        if self.expiry_is_paused(turn.now) {
            return;
        }
        let mut budget = EXPIRY_BATCH;
        for shard in (self.number..shared.store.shards()).step_by(shared.mailboxes.len()) {
            // Deadlines that this very turn has set are not in the shard's wake-up yet: they count after it.
            let due = shared.store.next_wakeup(shard).is_some_and(|at| turn.now.is_due(at));
            if due && !turn.expire(shard, &mut budget) {
                self.more_due = true;
                return;
            }
        }
    }

    /// CLIENT PAUSE also holds back expiry, so that a dataset stands still.
    fn expiry_is_paused(&self, now: Now) -> bool {
        now.read_ms() < self.shared.pause_until_ms.load(Ordering::Acquire)
    }

    fn connection(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.get_mut(slot)?.as_mut()
    }

    fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    fn accept(&mut self, listener: usize, now: Now) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listeners[listener].accept() {
                Ok(arrival) => self.admit(arrival, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    log::warning!(self.shared.logger, "Accepting client connection: {e}");
                    return;
                }
            }
        }
        // More may wait, and readiness is told once: ask again.
        let token = Token(LISTENERS - listener);
        let source = self.listeners[listener].source();
        if let Err(e) = self.poll.registry().reregister(source, token, Interest::READABLE) {
            log::warning!(self.shared.logger, "Listening on: {e}");
        }
    }

    /// Listens on these TCP sockets instead of those before.
    fn listen(&mut self, listeners: Vec<Listener>) {
        let mut all: Vec<Listener> = std::mem::take(&mut self.listeners);
        for listener in &mut all {
            // Registered again below, or closed.
            let _ = self.poll.registry().deregister(listener.source());
        }
        all.retain(|l| l.tcp_addr().is_none());
        all.extend(listeners);
        for (i, listener) in all.iter_mut().enumerate() {
            let token = Token(LISTENERS - i);
            let source = listener.source();
            if let Err(e) = self.poll.registry().register(source, token, Interest::READABLE) {
                log::warning!(self.shared.logger, "Listening on: {e}");
            }
        }
        self.listeners = all;
    }

    /// Lets a connection in, or says why not; gives it to a loop.
    fn admit(&mut self, arrival: Arrival, now: Now) {
        let stats = &self.shared.stats[self.number];
        stats.connections.add(1);
        if !self.shared.clients.admit(self.settings.max_clients) {
            stats.rejected_connections.add(1);
            return arrival.refuse("ERR max number of clients reached");
        }
        if self.settings.protected_mode && self.settings.requirepass.is_none() && !arrival.local {
            self.shared.clients.leave();
            stats.rejected_connections.add(1);
            return arrival.refuse(PROTECTED_MODE);
        }
        arrival.set_keepalive(self.settings.tcp_keepalive_s);
        let next = self.shared.next_loop.fetch_add(1, Ordering::Relaxed) % self.shared.mailboxes.len();
        if next == self.number {
            self.serve(arrival, now);
        } else {
            self.shared.mailboxes[next].order(Order::Serve(arrival));
        }
    }

    /// Makes a connection one of this loop's.
    fn serve(&mut self, mut arrival: Arrival, now: Now) {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let source = arrival.socket.source();
        if let Err(e) = self.poll.registry().register(source, Token(slot), interest) {
            log::warning!(self.shared.logger, "Registering a client connection: {e}");
            self.free_slots.push(slot);
            self.shared.clients.leave();
            return;
        }
        let info = Arc::new(ClientInfo {
            id: self.shared.clients.next_id(),
            addr: arrival.addr,
            laddr: arrival.laddr,
            fd: arrival.fd,
            unix: arrival.unix,
            local: arrival.local,
            loop_number: self.number,
            slot,
            created_ms: now.read_ms(),
            seen_ms: now.read_ms().into(),
            db: 0.into(),
            query_bytes: 0.into(),
            output_bytes: 0.into(),
            last_command: 0.into(),
            resp: 2.into(),
            channels: 0.into(),
            patterns: 0.into(),
            shard_channels: 0.into(),
            monitor: false.into(),
            no_evict: false.into(),
            no_touch: false.into(),
            net_in: 0.into(),
            net_out: 0.into(),
            names: ClientNames::default().into(),
        });
        self.shared.clients.add(Arc::clone(&info));
        let session = Session::new(info, self.settings.requirepass.is_none());
        self.connections[slot] = Some(Connection::new(arrival.socket, session));
        self.arm_idle(slot);
    }

    /// Reads and runs what a connection has sent, up to a fair share.
    fn read(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reads = 0;
        loop {
            let Some(connection) = self.connection(slot) else { break };
            connection.readable = false;
            if connection.session.closing || connection.ended || connection.paused {
                break;
            }
            match connection.socket.read(&mut buffer) {
                Ok(0) => {
                    connection.ended = true;
                    self.mark_dirty(slot);
                    break;
                }
                Ok(n) => {
                    self.received(slot, &buffer[..n], turn);
                    reads += 1;
                    // A read that did not fill the buffer has emptied the socket.
                    if n < buffer.len() {
                        break;
                    }
                    if reads == READS_A_TURN {
                        self.read_again(slot);
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close(slot);
                    break;
                }
            }
        }
        self.buffer = buffer;
        if self.shared.mailboxes.len() > 1 {
            turn.release();
        }
    }

    /// The connection may have more to read: next turn.
    fn read_again(&mut self, slot: usize) {
        if let Some(connection) = self.connection(slot) {
            connection.readable = true;
            self.readable.push(slot);
        }
    }

    fn received(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn<'_>) {
        turn.now = self.shared.clock.now();
        let stats = &self.shared.stats[self.number];
        stats.net_in.add(bytes.len() as u64);
        stats.reads.add(1);
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let info = &connection.session.info;
        info.seen_ms.store(turn.now.read_ms(), Ordering::Relaxed);
        info.net_in.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if connection.out.capacity() == 0 {
            connection.out = self.spare.pop().unwrap_or_default();
        }
        if connection.input.is_empty() {
            let used = self.run_commands(slot, bytes, turn);
            if let Some(connection) = self.connection(slot)
                && used < bytes.len()
                && !connection.session.closing
            {
                connection.keep_input(&bytes[used..]);
            }
        } else {
            connection.keep_input(bytes);
            self.run_kept(slot, turn);
        }
        self.check_input(slot);
    }

    /// Runs the commands that are complete in a connection's kept input.
    fn run_kept(&mut self, slot: usize, turn: &mut Turn<'_>) {
        let Some(connection) = self.connection(slot) else { return };
        let input = std::mem::take(&mut connection.input);
        let used = self.run_commands(slot, &input, turn);
        if let Some(connection) = self.connection(slot) {
            connection.input = input;
            connection.consume_input(used);
        }
    }

    /// Runs the complete commands in `bytes`; how many bytes they took.
    fn run_commands(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn<'_>) -> usize {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return 0;
        };
        let mut limits = Limits {
            bulk_max: self.settings.max_bulk_len,
            ..Limits::default()
        };
        let mut batch = dispatch::Batch::new(&self.shared, self.number, turn, &self.stopwatch);
        let mut used = 0;
        let flow = loop {
            if connection.session.closing {
                break Flow::Go;
            }
            limits.authenticated = connection.session.authenticated;
            match connection.parser.parse(&bytes[used..], &limits) {
                Ok(None) => break Flow::Go,
                Ok(Some(command)) => {
                    if !command.args.is_empty()
                        && batch.run(&mut connection.session, command.args, &mut connection.out)
                            == Flow::Wait
                    {
                        connection.parser.reset();
                        break Flow::Wait;
                    }
                    used += command.consumed;
                }
                Err(e) => {
                    self.shared.stats[self.number].protocol_errors.add(1);
                    e.write_to(&mut connection.out);
                    connection.session.closing = true;
                    break Flow::Go;
                }
            }
        };
        drop(batch);
        if flow == Flow::Wait {
            connection.paused = true;
            self.paused.push(slot);
        }
        self.mark_dirty(slot);
        used
    }

    /// A query that never ends is cut off.
    fn check_input(&mut self, slot: usize) {
        let limit = self.settings.query_buffer_limit;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let len = connection.input.len();
        connection.session.info.query_bytes.store(len as u64, Ordering::Relaxed);
        if len > limit {
            self.shared.stats[self.number].input_limit_closed.add(1);
            log::warning!(self.shared.logger, 
                "Closing client that reached max query buffer length: id={} addr={}",
                connection.session.id, connection.session.info.addr
            );
            self.close(slot);
        }
    }

    /// Lets clients go on whose pause is over.
    fn resume_paused(&mut self, turn: &mut Turn<'_>) {
        if self.paused.is_empty() && self.shared.pause_until_ms.load(Ordering::Relaxed) == 0 {
            return;
        }
        let until = self.shared.pause_until_ms.load(Ordering::Acquire);
        if turn.now.read_ms() < until {
            return;
        }
        // Whoever sees the end first ends it.
        let _ = self.shared.pause_until_ms.compare_exchange(
            until,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        for slot in std::mem::take(&mut self.paused) {
            if let Some(connection) = self.connection(slot)
                && std::mem::take(&mut connection.paused)
            {
                self.run_kept(slot, turn);
                self.read_again(slot);
            }
        }
    }

    /// Does what lies in the mailbox.
    fn collect_mail(&mut self) {
        if !self.shared.mailboxes[self.number].is_full() {
            return;
        }
        let mut mail = std::mem::take(&mut self.mail);
        let shared = Arc::clone(&self.shared);
        shared.mailboxes[self.number].collect(&mut mail);
        for (to, bytes) in mail.deliveries() {
            if let Some(connection) = self.connection(to.slot)
                && connection.session.id == to.client
            {
                connection.out.extend_from_slice(bytes);
                self.mark_dirty(to.slot);
            }
        }
        let now = shared.clock.now();
        for order in mail.orders.drain(..) {
            match order {
                Order::Serve(arrival) => self.serve(arrival, now),
                Order::Listen(listeners) => self.listen(listeners),
                Order::Kill(id) => {
                    let slot = shared.clients.get(id).map(|info| info.slot);
                    if let Some(slot) = slot
                        && self.connection(slot).is_some_and(|c| c.session.id == id)
                    {
                        self.close(slot);
                    }
                }
                Order::Reconfigure => self.reconfigure(),
                // The next turn looks at the pause, or at the clock.
                Order::Resume | Order::ClockMoved => self.more_due = true,
                Order::Stop => self.stopping = true,
            }
        }
        mail.clear();
        self.mail = mail;
    }

    fn reconfigure(&mut self) {
        let version = self.shared.settings_version();
        if version != self.settings_version {
            self.settings_version = version;
            self.settings = self.shared.settings();
            for slot in 0..self.connections.len() {
                self.arm_idle(slot);
            }
        }
    }

    /// Arms or disarms a connection's idle timer, as `timeout` says.
    fn arm_idle(&mut self, slot: usize) {
        let timeout_ms = u64::from(self.settings.timeout_s) * 1000;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if let Some(key) = connection.idle_timer.take() {
            self.idle.remove(key);
        }
        if timeout_ms > 0 {
            let at = connection.session.info.seen_ms.load(Ordering::Relaxed) + timeout_ms;
            connection.idle_timer = Some(self.idle.insert(at, slot));
        }
    }

    /// Closes connections that have been idle for too long. A timer looks when it fires whether its client was
    /// really idle, so a busy client's timer is never touched.
    fn close_idle(&mut self) {
        if self.idle.is_empty() {
            return;
        }
        let now_ms = self.shared.clock.now().read_ms();
        let timeout_ms = u64::from(self.settings.timeout_s) * 1000;
        while let Some(expired) = self.idle.pop_due(now_ms) {
            let slot = expired.value;
            let Some(connection) = self.connection(slot) else { continue };
            connection.idle_timer = None;
            let session = &connection.session;
            let seen_ms = session.info.seen_ms.load(Ordering::Relaxed);
            // Listeners are silent by nature.
            let exempt = session.subscriptions() > 0 || session.monitor || connection.paused;
            if !exempt && now_ms >= seen_ms + timeout_ms {
                log::verbose!(self.shared.logger, "Closing idle client");
                self.close(slot);
            } else {
                let base = if exempt { now_ms } else { seen_ms };
                let key = self.idle.insert(base + timeout_ms, slot);
                if let Some(connection) = self.connection(slot) {
                    connection.idle_timer = Some(key);
                }
            }
        }
    }

    /// Writes a connection's output once; closes it if that was the last.
    fn flush(&mut self, slot: usize) {
        let limits = self.settings.output_limits;
        let now_ms = self.shared.clock.now().read_ms();
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.dirty = false;
        if connection.out.is_empty() && !connection.ended && !connection.session.closing {
            return;
        }
        let mut sent = 0;
        let flushed = connection.flush(&mut sent);
        let stats = &self.shared.stats[self.number];
        stats.net_out.add(sent);
        stats.writes.add(1);
        let left = connection.unwritten() as u64;
        let info = &connection.session.info;
        info.net_out.fetch_add(sent, Ordering::Relaxed);
        info.output_bytes.store(left, Ordering::Relaxed);
        match flushed {
            Flushed::Broken => self.close(slot),
            Flushed::All => {
                connection.over_soft_since = None;
                let out = std::mem::take(&mut connection.out);
                if connection.session.closing || connection.ended {
                    self.close(slot);
                }
                if out.capacity() <= KEPT_OUTPUT && self.spare.len() < SPARE_OUTPUTS {
                    self.spare.push(out);
                }
            }
            Flushed::Blocked => {
                let class = if connection.session.subscriptions() > 0 {
                    Settings::OUTPUT_PUBSUB
                } else {
                    Settings::OUTPUT_NORMAL
                };
                if is_exceeded(limits[class], left, now_ms, &mut connection.over_soft_since) {
                    self.shared.stats[self.number].output_limit_closed.add(1);
                    log::warning!(self.shared.logger, 
                        "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                        connection.session.id, connection.session.info.addr
                    );
                    self.close(slot);
                }
            }
        }
    }

    /// Ends a connection: nothing of it stays.
    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if let Some(key) = connection.idle_timer {
            self.idle.remove(key);
        }
        // The kernel forgets a closed socket by itself; deregistering can only fail for one it has forgotten.
        let _ = self.poll.registry().deregister(connection.socket.source());
        let session = &connection.session;
        let (pubsub, id) = (&self.shared.pubsub, session.id);
        for (kind, topics) in [
            (Kind::Channel, &session.channels),
            (Kind::Pattern, &session.patterns),
            (Kind::Shard, &session.shard_channels),
        ] {
            for topic in topics {
                pubsub.unsubscribe(kind, topic, id);
            }
        }
        self.shared.monitors.remove(session);
        self.shared.clients.remove(id);
        self.free_slots.push(slot);
    }
}

const PROTECTED_MODE: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a default user password. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.";
