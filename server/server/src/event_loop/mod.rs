//! An event loop: one thread, with its connections and the shards whose deadlines it keeps.
//!
//! A *turn* of the loop is one pass, which uses one [`Turn`] of the keyspace: it reads and runs
//! commands, expires a bounded batch of due entries, delivers the messages in the mailbox, and
//! writes the output of each connection once. The loop then sleeps until the next deadline of its
//! shards or until an event. Commands and expiry share the time: while more entries are due, the
//! loop polls its sockets between batches without sleeping.
//!
//! A loop runs the commands of its connections on all shards, under their locks. It sleeps with an
//! alarm set to the next deadline of its own shards. Before it sleeps, it announces the time at
//! which it will wake ([`sleep`]); a thread that sets an earlier deadline wakes it. Other threads
//! send *orders* to the mailbox of the loop.

mod busy;
mod cluster;
pub(crate) mod connection;
mod connections;
mod control;
mod dials;
mod gather;
mod handshakes;
mod input;
pub(crate) mod local;
mod lookahead;
mod memory;
mod migrations;
mod output;
mod reclaiming;
mod replicas;
mod sink;
mod sleep;
mod state;
mod subkeys;
mod timers;
mod tracked;
mod upstream;
mod waiting;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Interest, Poll, Registry, Token};
use parking_lot::{Mutex, MutexGuard};
use punctual::Wheel;
use punctual_cluster::slot::SlotSet;
use punctual_store::limits::Limits;
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::event_loop::connection::Connection;
use crate::event_loop::lookahead::Lookahead;
use crate::event_loop::sink::LoopSink;
use crate::feed::upkeep;
use crate::log;
use crate::memory::counters::OwnCounter;
use crate::net::listener::Listener;
use crate::node::order::Order;
use crate::node::scripts::Scripts;
use crate::node::{Shared, StopOnPanic};
use crate::persist;
use crate::reclaim::rounds;
use crate::shutdown;
use crate::world::JoinHandle;
use crate::world::alarm::Alarm;
use busy::Busy;
use dials::{DIALS, Dials};
use state::{Ended, Freed, Inbox, LoopTimer, Reading, Resuming, SharedOfLoop, Writing};

/// Maximum number of bytes of a read from a socket.
const READ_SIZE: usize = 64 << 10;
/// Maximum number of steps of expiry, such as the removal of one key, between two polls of the
/// sockets. They take well under a millisecond.
const EXPIRY_BATCH: usize = 1_000;
/// Maximum wait for the lock of a shard with due entries.
const LOCK_PATIENCE: Duration = Duration::from_millis(1);

const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Token of the first listener. Further listeners count down from it.
const LISTENERS: usize = usize::MAX - 2;

/// Token of the mailbox's waker.
pub(crate) const WAKER_TOKEN: Token = WAKER;

/// An event loop, which its own thread holds except while it sleeps. `None` once it has ended.
pub(crate) type LoopLock = Mutex<Option<EventLoop>>;

/// Drops the event loop when its thread ends, also by a panic, so that no client waits for it.
struct EndLoop(Arc<LoopLock>);

impl Drop for EndLoop {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// State of an event loop.
pub(crate) struct EventLoop {
    number: usize,
    shared: Arc<SharedOfLoop>,
    settings: Arc<Settings>,
    settings_version: u64,
    /// The store's limits, and their version.
    limits: Limits,
    limits_version: u64,
    /// `None` while the loop sleeps in it.
    poll: Option<Poll>,
    registry: Registry,
    /// Number of the memory counter of the loop's thread.
    counter: Option<u32>,
    alarm: Alarm,
    listeners: Vec<Listener>,
    /// Connections by slot. A connection is taken out while its commands run.
    connections: Vec<Option<Box<Connection>>>,
    free_slots: Vec<usize>,
    /// Timers of the loop and its connections, in Unix milliseconds.
    timers: Wheel<LoopTimer>,
    /// Measures durations of commands, expiry and handshakes.
    stopwatch: crate::world::Counter,
    /// Reading of the clock at the last batch of expiries, in Unix milliseconds.
    turn_ms: u64,
    /// Whether more work is due, so that the next turn follows without sleep.
    more_due: bool,
    /// Whether the timer [`LoopTimer::RetryAccept`] is armed.
    retry_armed: bool,
    /// The next batch of expiries begins with the first shard of this loop that has this number or
    /// a higher one.
    next_shard: usize,
    stopping: bool,
    /// Scripts that this loop has compiled. `None` while commands or timers run, which borrow them.
    scripts: Option<Box<Scripts>>,
    busy: Busy,
    /// Time that this turn has spent on handshakes.
    handshake_time: Duration,
    /// Slots of connections that are replicas.
    replicas: Vec<usize>,
    /// Slot of the connection to the primary.
    primary: Option<usize>,
    dials: Dials,
    /// Slots that another primary has taken, from this node or from the one that it replicates, and
    /// whose keys are not deleted yet.
    lost_slots: SlotSet,
    writing: Writing,
    reading: Reading,
    resuming: Resuming,
    freed: Freed,
    ended: Ended,
    inbox: Inbox,
}

impl EventLoop {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        poll: Poll,
        mut listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let alarm = Alarm::new(shared.world, poll.registry(), ALARM)?;
        for (i, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(
                listener.source(),
                Token(LISTENERS - i),
                Interest::READABLE,
            )?;
        }
        let counter = shared.world.counter();
        Ok(Self {
            number,
            settings: shared.settings(),
            settings_version: shared.settings_version(),
            scripts: Some(Box::new(Scripts::new(&shared))),
            shared: Arc::new(SharedOfLoop(shared)),
            registry: poll.registry().try_clone()?,
            poll: Some(poll),
            counter: None,
            alarm,
            listeners,
            limits: Limits::default(),
            limits_version: 0,
            connections: Vec::new(),
            free_slots: Vec::new(),
            timers: Wheel::new(),
            stopwatch: counter,
            turn_ms: 0,
            more_due: false,
            retry_armed: false,
            next_shard: 0,
            stopping: false,
            busy: Busy::default(),
            handshake_time: Duration::ZERO,
            replicas: Vec::new(),
            primary: None,
            dials: Dials::default(),
            lost_slots: SlotSet::default(),
            writing: Writing::default(),
            reading: Reading {
                buffer: vec![0; READ_SIZE].into_boxed_slice(),
                lookahead: Lookahead::new(),
                ..Reading::default()
            },
            resuming: Resuming::default(),
            freed: Freed::default(),
            ended: Ended::default(),
            inbox: Inbox::default(),
        })
    }

    pub(crate) fn shared(&self) -> Arc<SharedOfLoop> {
        Arc::clone(&self.shared)
    }

    /// Runs the loop on a thread of its own until the server stops. Between its turns, other
    /// threads can use the loop ([`local`]).
    pub(crate) fn spawn(self) -> io::Result<(JoinHandle<()>, Arc<LoopLock>)> {
        let (world, name) = (self.shared.world, format!("punctual-{}", self.number));
        let shared = Arc::clone(&self.shared.0);
        let event_loop = Arc::new(Mutex::new(Some(self)));
        let lock = Arc::clone(&event_loop);
        let thread = world.spawn(&name, move || {
            // If this thread panics, the server stops: nothing else would serve the loop's
            // connections.
            let shared = StopOnPanic(shared);
            let _end = EndLoop(Arc::clone(&lock));
            let counter = OwnCounter::take();
            Self::run(&lock, counter.as_ref().map(OwnCounter::number));
            drop(counter);
            shared.0.stop();
        })?;
        Ok((thread, event_loop))
    }

    fn run(lock: &LoopLock, counter: Option<u32>) {
        let mut events = Events::with_capacity(1024);
        let mut guard = lock.lock();
        let Some(this) = &mut *guard else { return };
        this.counter = counter;
        while let Some(this) = &mut *guard
            && !this.stopping
        {
            if !this.has_input_while_held(&mut events) {
                let timeout = this.prepare_sleep();
                let polled = Self::poll(&mut guard, &mut events, timeout);
                let Some(this) = &mut *guard else { return };
                if let Err(e) = polled
                    && e.kind() != io::ErrorKind::Interrupted
                {
                    log::warning!(this.shared.logger, "Waiting for events failed: {e}");
                    this.shared.stop();
                    break;
                }
                this.shared.mailboxes[this.number].sleep.withdraw();
            }
            let Some(this) = &mut *guard else { return };
            if this.shared.durability.changelog.is_full() {
                this.wait_for_disk();
            }
            this.turn(&events);
            MutexGuard::bump(&mut guard);
        }
        if let Some(this) = guard.take() {
            this.shut_down();
        }
    }

    /// Waits for events. Meanwhile other threads can use the loop.
    fn poll(
        guard: &mut MutexGuard<'_, Option<Self>>,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let poll = guard.as_mut().and_then(|this| this.poll.take());
        let Some(mut poll) = poll else { return Ok(()) };
        let polled = match timeout {
            Some(Duration::ZERO) => poll.poll(events, timeout),
            _ => MutexGuard::unlocked(guard, || poll.poll(events, timeout)),
        };
        if let Some(this) = &mut **guard {
            this.poll = Some(poll);
        }
        polled
    }

    fn handle(&mut self, event: &Event, now: Now, turn: &mut Turn) {
        match event.token() {
            WAKER => {}
            ALARM => self.alarm.fired(),
            Token(t) if t > LISTENERS - self.listeners.len() => self.accept(LISTENERS - t, now),
            Token(t) if t >= DIALS => self.step(t - DIALS),
            Token(slot) if self.connection(slot).is_none() => self.busy.missed |= self.busy.nested,
            Token(slot) => {
                // If a command of the client waits, the end of the connection cancels it.
                if event.is_read_closed() {
                    self.hung_up(slot);
                }
                if event.is_read_closed() || event.is_readable() && self.busy.nested {
                    self.read(slot, event.is_read_closed(), turn);
                } else if event.is_readable() {
                    self.gather(slot, turn);
                }
                if event.is_writable() {
                    self.mark_dirty(slot);
                }
            }
        }
    }

    /// Reads the state of the server on which the commands of a turn depend.
    fn prepare_turn(&mut self) {
        let shared = &self.shared;
        self.writing.released = shared.durability.changelog.released_for_turn();
        if let Some(limits) = shared.store.changed_limits(&mut self.limits_version) {
            self.limits = limits;
        }
        shared.check_good_replicas();
    }

    fn turn(&mut self, events: &Events) {
        let shared = Arc::clone(&self.shared);
        let settling = std::mem::take(&mut self.inbox.settling);
        self.handshake_time = Duration::ZERO;
        self.reading.held_reads = 0;
        self.prepare_turn();
        let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
        let now = shared.clock.now();
        let classes = shared.classes();
        let mut turn = Turn::with_limits(&shared.store, now, &mut sink, classes, self.limits);
        for event in events {
            self.handle(event, now, &mut turn);
        }
        self.run_gathered(&mut turn);
        self.resume_unblocked(&mut turn);
        for slot in std::mem::take(&mut self.reading.readable) {
            let connection = self.connection(slot);
            if connection.is_some_and(|c| std::mem::take(&mut c.readable)) {
                self.read(slot, true, &mut turn);
            }
        }
        self.step_again();
        self.expire(&mut turn);
        self.limit_memory(&mut turn);
        self.serve_ready(&mut turn);
        self.resume_paused(&mut turn);
        self.settle_migrations(&mut turn);
        turn.release();
        self.count(&mut turn);
        if !shared.switches.cron_paused.load(Ordering::SeqCst) {
            self.run_cron(&mut turn);
        }
        self.limit_tracked(&mut turn);
        self.discard(&mut turn);
        drop(turn);
        drop(sink);
        self.end_holding();
        shared.ask_for_acks();
        self.collect_mail();
        self.run_timers();
        self.run_dial_timers();
        self.flush_dirty();
        self.arm_round();
        self.shared.observed.stats[self.number].turns.add(1);
        for done in settling {
            done();
        }
    }

    /// Runs the work of Redis's cron: save points, the periodic work for replicas (`upkeep`), and
    /// shutdowns that wait.
    fn run_cron(&self, turn: &mut Turn) {
        if self.number == 0 {
            persist::backup::advance(&self.shared, turn);
        }
        persist::save_if_due(&self.shared, &self.settings, turn);
        if self.number == 0 {
            upkeep::run_if_due(&self.shared, turn);
            shutdown::finish_if_due(&self.shared, turn);
        }
    }

    /// Removes watches and waiters of ended clients from the keyspace.
    fn remove_ended(&mut self) {
        if self.ended.watches.is_empty() && self.ended.waiters.is_empty() {
            return;
        }
        if self.shared.scripting.running.is_active() {
            // The removal needs locks that a script may hold for long, so a later turn tries again.
            return;
        }
        self.in_turn(|this, turn| {
            for (watched, info) in this.ended.watches.drain(..) {
                if let Some(flag) = info.watch.get() {
                    turn.unwatch(watched.iter(), flag);
                }
            }
            for waiter in this.ended.waiters.drain(..) {
                turn.stop_waiting(&waiter);
            }
        });
    }

    /// Runs `work` in its own turn of the keyspace. The loop must have no other turn open.
    fn in_turn<R>(&mut self, work: impl FnOnce(&mut Self, &mut Turn) -> R) -> R {
        let shared = Arc::clone(&self.shared);
        let mut sink = LoopSink::new(&shared, self.number, self.settings.notify_expired_values);
        let now = shared.clock.now();
        let mut turn = Turn::new(&shared.store, now, &mut sink, shared.classes());
        let result = work(self, &mut turn);
        self.count(&mut turn);
        self.discard(&mut turn);
        result
    }

    /// Adds the turn's counts to the loop's statistics.
    fn count(&mut self, turn: &mut Turn) {
        // `take` leaves zeros in the turn, so that no count is added twice.
        let counted = std::mem::take(&mut turn.stats);
        self.shared.observed.stats[self.number].add(counted);
    }

    /// Releases the turn's locks, and frees the values that it has removed from the keyspace.
    fn discard(&mut self, turn: &mut Turn) {
        turn.release();
        rounds::discard(&self.shared, std::mem::take(&mut turn.discarded));
    }

    /// Expires one batch of due entries in the shards of this loop.
    fn expire(&mut self, turn: &mut Turn) {
        self.more_due = false;
        turn.frozen = false;
        let shared = Arc::clone(&self.shared);
        turn.now = shared.clock.now();
        self.turn_ms = turn.now.read_ms();
        shared.check_good_replicas();
        if self.expiry_is_paused(turn.now) {
            return;
        }
        let mut budget = EXPIRY_BATCH;
        let (mut began, mut firing_since) = (None, None);
        let mut patience = LOCK_PATIENCE;
        let several = shared.mailboxes.len() > 1;
        let number = self.number;
        let own = || (number..shared.store.shards()).step_by(shared.mailboxes.len());
        // A shard that uses up the batch comes last in the next turn, so it delays other shards by
        // at most one batch.
        let split = self.next_shard;
        let (wrapped, from) = (own().filter(|s| *s < split), own().filter(|s| *s >= split));
        'shards: for shard in from.chain(wrapped) {
            // A deadline that this turn sets counts once the turn releases the shard, which stores
            // the shard's next wake-up.
            let due = shared
                .store
                .next_wakeup(shard)
                .is_some_and(|at| turn.now.is_due(at));
            if !due {
                continue;
            }
            began.get_or_insert_with(|| self.stopwatch.raw());
            let done = loop {
                if several && !turn.try_lock_one(shard, patience) {
                    // A script may hold the shard for long, so the other shards come first. If the
                    // script is not yet busy, the next turn tries this shard again.
                    self.more_due |= !shared.scripting.running.is_busy();
                    patience = Duration::ZERO;
                    continue 'shards;
                }
                let done = turn.expire(shard, &mut budget);
                if !turn.has_due_timers() {
                    break done;
                }
                let since = *firing_since.get_or_insert_with(|| shared.world.stopwatch());
                if !self.fire_timers(turn, since) {
                    break false;
                }
            };
            if !done {
                self.next_shard = shard + 1;
                self.more_due |= !shared.scripting.running.is_busy();
                break;
            }
        }
        if let Some(began) = began {
            let nanos = self.stopwatch.delta_as_nanos(began, self.stopwatch.raw());
            shared.record_expiry(self.number, turn.now, nanos);
        }
    }

    /// Returns whether keys must not expire, because clients are paused or the server loads data.
    fn expiry_is_paused(&self, now: Now) -> bool {
        self.shared.durability.is_loading() || self.shared.clients.pauses.in_force(now).is_some()
    }

    fn connection(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.get_mut(slot)?.as_deref_mut()
    }

    /// Returns whether the connection in this slot belongs to the client.
    fn slot_has(&mut self, slot: usize, client: u64) -> bool {
        self.connection(slot)
            .is_some_and(|connection| connection.session.id == client)
    }

    fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut)
            && !connection.dirty
        {
            connection.dirty = true;
            self.writing.dirty.push(slot);
        }
    }

    /// Handles the messages and orders in the mailbox.
    fn collect_mail(&mut self) {
        self.collect_messages();
        if self.inbox.orders.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        for order in std::mem::take(&mut self.inbox.orders) {
            match order {
                Order::Serve(arrival) => {
                    self.serve(arrival, now);
                }
                Order::Listen { plain, tls } => self.listen(plain, tls),
                Order::Kill { client, slot } if self.slot_has(slot, client) => self.close(slot),
                Order::Local(pipe) => self.serve_local(&pipe),
                Order::CutOff { client, slot } if self.slot_has(slot, client) => {
                    self.close_over_limit(slot)
                }
                Order::Kill { .. } | Order::CutOff { .. } => {}
                Order::Unblocked {
                    client,
                    slot,
                    until,
                } => {
                    if let Some(connection) = self.connection(slot)
                        && connection.session.id == client
                    {
                        // The reply is somewhere after the start of the last held part, so all
                        // output from that start on waits until `until` is released.
                        let from = connection.holds.back().map_or(0, |hold| hold.0);
                        connection.hold(from, until);
                        self.unblock(slot);
                    }
                }
                Order::Released => {
                    if self.number == 0 {
                        self.shared.answer_acked(0);
                    }
                    self.recheck_held();
                }
                Order::FeedReplicas => self.feed_replicas(),
                Order::SyncFailed => self.close_held(),
                Order::Reconfigure => self.reconfigure(),
                Order::Freed(bytes) => self.freed.reported_bytes += bytes,
                Order::Collect(share) => self.collect_pages(share),
                // The next turn checks the pause and the clock.
                Order::Resume | Order::ClockMoved => self.more_due = true,
                Order::MoveClock { to, answer } => {
                    // The receiver may have been dropped.
                    let _ = answer.send(self.move_clock(to));
                }
                Order::Settle(done) => self.settle(done),
                Order::AttachPrimary(attachment) => self.attach_primary(*attachment),
                Order::Figures(answer) => self.send_figures(answer),
                Order::FollowPrimary => self.follow_primary(),
                Order::Resolved { dial, addresses } => self.resolved(dial, addresses),
                Order::SnapshotHasRoom => self.read_snapshot(),
                Order::SnapshotLoaded(loaded) => self.snapshot_loaded(loaded),
                Order::FailoverAnswered(accepted) => self.failover_answered(accepted),
                Order::CheckUser(user) => self.check_user(&user),
                Order::RoleChanged => self.change_role(),
                Order::Cluster => self.run_cluster(),
                Order::RoutesChanged => {
                    self.follow_routes();
                    self.resume_timers();
                }
                Order::Migrate(migration) => self.migrate(migration),
                Order::Stop => self.stopping = true,
            }
        }
    }
}
