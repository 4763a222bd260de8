//! What all event loops share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use punctual_store::events::Classes;
use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::spec::Flags;
use punctual_store::{Now, Store, Turn};

use crate::client::registry::Clients;
use crate::clock::{Move, MoveError, ServerClock};
use crate::config::{Changes, Config, SetError, Settings};
use crate::dispatch::names::CommandNames;
use crate::log::Logger;
use crate::net::cross_protocol::HttpWarning;
use crate::net::listener::Listener;
use crate::net::mailbox::Mailbox;
use crate::net::order::Order;
use crate::observe::latency::{COMMAND, EXPIRE_CYCLE, FAST_COMMAND, LatencyMonitor};
use crate::observe::monitor::Monitors;
use crate::observe::slowlog::{Slow, SlowLog};
use crate::observe::stats::{LoopStats, Rates};
use crate::persist::state::Persistence;
use crate::program::open_files::make_room_for;
use crate::program::supervision::Systemd;
use crate::pubsub::PubSub;
use crate::reclaim::{Reclaim, Worker};

/// What all event loops share. Lock order: shards, then `config`, then the pub/sub registry, then mailboxes.
pub struct Shared {
    /// The keyspace.
    pub store: Store,
    /// The clock.
    pub clock: ServerClock,
    /// Which names call which commands.
    pub(crate) commands: CommandNames,
    /// The configuration as its commands see it.
    pub config: OrderedMutex<Config>,
    /// The configuration as everything else sees it.
    settings: RwLock<Arc<Settings>>,
    /// Grows with each change of the settings.
    settings_version: AtomicU64,
    classes: AtomicU32,
    /// Commands that take longer than this many ns are looked at by the slow log; `u64::MAX`: none.
    pub(crate) slow_ns: AtomicU64,
    /// All clients.
    pub clients: Clients,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Clients that receive every command.
    pub monitors: Monitors,
    /// The slow log.
    pub slowlog: SlowLog,
    /// What was slow, for LATENCY.
    pub latency: LatencyMonitor,
    /// `latency-tracking`.
    pub(crate) latency_tracking: AtomicBool,
    /// Resident bytes of the process when the server started.
    pub(crate) startup_bytes: AtomicU64,
    /// Error replies by code word.
    pub errors: ErrorCounts,
    /// Where log lines go.
    pub logger: Logger,
    /// What the log is told about clients that speak HTTP.
    pub(crate) http: HttpWarning,
    /// CLIENT PAUSE: until when, unix ms; 0: not paused.
    pub(crate) pause_until_ms: AtomicU64,
    /// CLIENT PAUSE holds back writes only.
    pub(crate) pause_writes_only: AtomicBool,
    /// By loop number.
    pub(crate) mailboxes: Vec<Mailbox<Order>>,
    /// By loop number.
    pub stats: Vec<LoopStats>,
    /// When the server started.
    pub started_ms: u64,
    /// Commands and bytes per second.
    pub rates: Rates,
    /// 40 hexadecimal digits, new in each process.
    pub run_id: String,
    /// Where it receives_messages on TCP.
    pub tcp_port: AtomicU32,
    /// The loop that opens connections; it goes round.
    pub(crate) next_loop: AtomicUsize,
    /// How freed memory goes back to the system, if it must be asked for.
    pub(crate) reclaim: Option<Reclaim>,
    /// Who waits to hear of the start and the stop.
    pub(crate) systemd: Option<Systemd>,
    /// Drops what takes long to drop.
    pub(crate) worker: Worker,
    /// Snapshots.
    pub(crate) persistence: Persistence,
    /// Something keeps commands out: a look at [`Shared::persistence`] tells what.
    pub(crate) gate_closed: AtomicBool,
    /// Somebody asked for the end.
    pub stopping: AtomicBool,
    /// An event loop has ended by a panic.
    pub(crate) panicked: AtomicBool,
}

impl Shared {
    /// Everything but the loops.
    pub(crate) fn new(
        commands: CommandNames,
        config: Config,
        store: Store,
        mailboxes: Vec<Mailbox<Order>>,
        logger: Logger,
        reclaim: Option<Reclaim>,
        systemd: Option<Systemd>,
    ) -> Self {
        let settings = config.settings();
        let clock = ServerClock::new(settings.clock);
        let started_ms = clock.now().read_ms();
        let shared = Self {
            stats: mailboxes
                .iter()
                .map(|_| LoopStats::new(commands.table().entries()))
                .collect(),
            started_ms,
            clock,
            store,
            commands,
            config: OrderedMutex::new(Rank::Config, config),
            settings: RwLock::new(settings),
            settings_version: AtomicU64::new(0),
            classes: AtomicU32::new(0),
            slow_ns: AtomicU64::new(u64::MAX),
            clients: Clients::default(),
            pubsub: PubSub::default(),
            monitors: Monitors::default(),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            latency_tracking: AtomicBool::new(true),
            startup_bytes: AtomicU64::new(0),
            errors: ErrorCounts::default(),
            logger,
            http: HttpWarning::default(),
            pause_until_ms: AtomicU64::new(0),
            pause_writes_only: AtomicBool::new(false),
            mailboxes,
            rates: Rates::default(),
            run_id: (0..40)
                .map(|_| char::from_digit(rand::random_range(0..16), 16).unwrap_or('0'))
                .collect(),
            tcp_port: AtomicU32::new(0),
            next_loop: AtomicUsize::new(0),
            reclaim,
            systemd,
            worker: Worker::default(),
            persistence: Persistence::new(started_ms),
            gate_closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        };
        shared.apply_settings();
        shared
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    /// Grows with each change of the settings.
    pub(crate) fn settings_version(&self) -> u64 {
        self.settings_version.load(Ordering::Acquire)
    }

    /// Does what some changes need besides the settings.
    ///
    /// # Errors
    /// What cannot be done; the caller takes the changes back.
    pub(crate) fn apply_changes(
        &self,
        changes: &Changes,
        settings: &Settings,
    ) -> Result<(), SetError> {
        let refusals = [
            ("port", "Unable to listen on this port. Check server logs."),
            ("bind", "Failed to bind to specified addresses."),
        ];
        // As in Redis, the first of the two in the call is the one to blame.
        let first = changes
            .names
            .iter()
            .find_map(|changed| refusals.iter().find(|(name, _)| changed == name));
        if let Some(&(name, reason)) = first {
            let listeners = Listener::open_tcp(settings, false).map_err(|e| {
                self.logger
                    .write(crate::log::Level::Warning, format_args!("{e}"));
                SetError::refused(name, reason)
            })?;
            let port = listeners
                .iter()
                .find_map(Listener::tcp_addr)
                .map_or(0, |a| a.port());
            self.tcp_port.store(port.into(), Ordering::Relaxed);
            self.mailboxes[0].order(Order::Listen(listeners));
        }
        if changes.contains("maxclients") {
            let possible = make_room_for(settings.max_clients, &self.logger).unwrap_or(0);
            if possible < settings.max_clients {
                let reason = format!(
                    "The operating system is not able to handle the specified number of clients, try with {possible}"
                );
                return Err(SetError::refused("maxclients", reason));
            }
        }
        self.logger.set_level(settings.log_level);
        Ok(())
    }

    /// Takes over what the configuration says now, and tells the loops.
    pub fn reconfigure(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
        self.apply_settings();
        self.settings_version.fetch_add(1, Ordering::AcqRel);
        self.order_all(|| Order::Reconfigure);
    }

    fn apply_settings(&self) {
        let settings = self.settings();
        self.classes
            .store(settings.notify.bits(), Ordering::Relaxed);
        let slow = settings
            .slowlog_slower_than_us
            .map_or(u64::MAX, |us| us.saturating_mul(1000));
        let latency = match settings.latency_threshold_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.slow_ns.store(slow.min(latency), Ordering::Relaxed);
        self.latency_tracking
            .store(settings.latency_tracking, Ordering::Relaxed);
        self.store.set_string_max(settings.max_bulk_len as u64);
        self.store.set_limits(settings.limits);
        self.update_gate();
    }

    /// Which keyspace events are wanted.
    #[inline]
    pub fn classes(&self) -> Classes {
        Classes::from_bits(self.classes.load(Ordering::Relaxed))
    }

    /// Leaves an order for every loop.
    pub(crate) fn order_all(&self, order: impl Fn() -> Order) {
        for mailbox in &self.mailboxes {
            mailbox.order(order());
        }
    }

    /// Asks the server to stop. Returns at once.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.gate_closed.store(true, Ordering::SeqCst);
        self.order_all(|| Order::Stop);
    }

    /// Moves the virtual clock, and `turn` with it. Keys that fall due by then have expired in the order of deadlines, and
    /// their events lie in the mailboxes, when this returns. Locks every shard. O(n log shards) for n keys that fall due.
    ///
    /// # Errors
    /// As [`ServerClock::destination`].
    pub(crate) fn move_clock(&self, turn: &mut Turn<'_>, to: Move) -> Result<Now, MoveError> {
        if self.clock.is_virtual() {
            turn.lock_all();
        }
        let to = self.clock.destination(to)?;
        // While clients are paused nothing expires; keys that fell due meanwhile expire when the pause ends.
        let paused_until = self.pause_until_ms.load(Ordering::Acquire);
        if to.read_ms() < paused_until {
            turn.now = to;
        } else {
            turn.now = self.clock.now().max(Now::from_ms(paused_until));
            turn.advance(to);
        }
        self.clock.set(to);
        // Idle timeouts are timers of the loops' own wheels.
        self.order_all(|| Order::ClockMoved);
        Ok(to)
    }

    /// The loop that looks after shard `shard`.
    pub(crate) fn loop_of(&self, shard: usize) -> usize {
        shard % self.mailboxes.len()
    }

    /// A command took longer than the slow log or LATENCY allow.
    #[cold]
    pub(crate) fn record_slow_command(&self, slow: &Slow<'_>) {
        let settings = self.settings();
        if settings
            .slowlog_slower_than_us
            .is_some_and(|us| slow.nanos / 1000 >= us)
        {
            self.slowlog.add(slow, settings.slowlog_max_len);
        }
        let fast = slow.entry.row.flags.has(Flags::FAST);
        let event = if fast { FAST_COMMAND } else { COMMAND };
        record_latency(self, &settings, event, slow.now, slow.nanos);
    }

    /// A batch of expiries took so long.
    #[inline]
    pub(crate) fn record_expiry(&self, loop_number: usize, now: Now, nanos: u64) {
        self.stats[loop_number].expiry_nanos.add(nanos);
        if nanos >= self.slow_ns.load(Ordering::Relaxed) {
            record_latency(self, &self.settings(), EXPIRE_CYCLE, now, nanos);
        }
    }

    /// Publishes a message; how many clients get it.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        self.pubsub.publish(&self.mailboxes, channel, message)
    }
}

#[cold]
fn record_latency(shared: &Shared, settings: &Settings, event: &'static str, now: Now, nanos: u64) {
    let (threshold_ms, ms) = (settings.latency_threshold_ms, nanos / 1_000_000);
    if threshold_ms > 0 && ms >= threshold_ms {
        shared.latency.add(event, now, ms);
    }
}

/// Error replies by their first word (INFO errorstats).
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// Counts an error.
    pub fn count(&self, error: &punctual_store::Error) {
        /// Codes are few, unless somebody makes them up (DEBUG ERROR).
        const CODES_MAX: usize = 128;
        const OTHERS: &str = "ERRORSTATS_OVERFLOW";
        let is_name = |code: &str| {
            code.bytes()
                .all(|b| b.is_ascii_graphic() && !b":#=".contains(&b))
                && !code.is_empty()
        };
        let text = error.bytes();
        let text = String::from_utf8_lossy(&text);
        // As in Redis, a text without a short first word counts as a plain error.
        let code = match text.split_once(' ') {
            Some((code, _)) if code.len() < 32 && is_name(code) => code,
            _ => "ERR",
        };
        let mut counts = self.0.lock();
        match counts.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                let code = if counts.len() < CODES_MAX {
                    code
                } else {
                    OTHERS
                };
                *counts.entry(code.to_owned()).or_default() += 1;
            }
        }
    }

    /// All counts, by code word.
    pub fn all(&self) -> Vec<(String, u64)> {
        self.0.lock().iter().map(|(k, v)| (k.clone(), *v)).collect()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.0.lock().clear();
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
        let (_, series) = shared.latency.get(EXPIRE_CYCLE.as_bytes()).unwrap();
        assert_eq!(
            (series.samples.len(), series.samples[0].ms, series.max_ms),
            (1, 7, 7)
        );
        assert_eq!(shared.stats[0].expiry_nanos.get(), 17_899_999);
    }

    #[test]
    fn error_codes_fit_into_info() {
        let counts = ErrorCounts::default();
        for text in [
            "WRONGTYPE x",
            "A:B x",
            "A\r\nB x",
            "\u{e9} x",
            "alone",
            " x",
        ] {
            counts.count(&punctual_store::Error::Text(text.into()));
        }
        let all = counts.all();
        assert_eq!(all, [("ERR".to_owned(), 5), ("WRONGTYPE".to_owned(), 1)]);
    }
}
