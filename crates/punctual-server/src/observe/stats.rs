//! What the server has counted. Each event loop counts for itself; INFO adds up.
//!
//! Ground rule: a [`Counter`] is written by one thread (its loop) and read by any.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use punctual_store::Now;

use crate::client::registry::RecentPeak;
use crate::observe::command_latency::CommandLatency;

/// A count with one writer: adding costs a load and a store.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning loop calls this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get() + n, Ordering::Relaxed);
    }

    /// The count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Starts again from 0 (CONFIG RESETSTAT). A concurrent `add` may be lost or survive.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What one command has cost.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Times it ran.
    pub calls: Counter,
    /// Nanoseconds it took in all.
    pub nanos: Counter,
    /// Times it was refused before it ran.
    pub rejected: Counter,
    /// Times it ran and answered an error.
    pub failed: Counter,
    /// How long it took each time.
    pub latency: CommandLatency,
}

/// What one event loop has counted.
#[derive(Debug)]
pub struct LoopStats {
    /// Commands that ran.
    pub commands: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections refused at `maxclients`.
    pub rejected_connections: Counter,
    /// Bytes read.
    pub net_in: Counter,
    /// Bytes written.
    pub net_out: Counter,
    /// Reads of keys that were there.
    pub hits: Counter,
    /// Reads of keys that were not.
    pub misses: Counter,
    /// Keys gone at their deadlines.
    pub expired: Counter,
    /// Hash fields gone at their deadlines.
    pub expired_fields: Counter,
    /// Changes to the keyspace.
    pub dirty: Counter,
    /// The client whose commands ran last; 0: none yet. For reports of crashes.
    pub client: AtomicU64,
    /// Nanoseconds spent on letting keys go by themselves.
    pub expiry_nanos: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Reads from sockets.
    pub reads: Counter,
    /// Writes to sockets.
    pub writes: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Most bytes of input of one client.
    pub input_peak: RecentPeak,
    /// Most bytes of output that one client left unread, beyond what fits into Redis's reply buffer.
    pub output_peak: RecentPeak,
    /// Clients cut off for a query that did not end.
    pub input_limit_closed: Counter,
    /// Clients cut off for their unread output.
    pub output_limit_closed: Counter,
    /// Protocol errors.
    pub protocol_errors: Counter,
    /// By the number of the command in the table.
    pub by_command: Box<[CommandStats]>,
    /// Microseconds from a key's or a field's deadline to its end.
    pub lateness_us: Mutex<Histogram<u64>>,
}

impl LoopStats {
    /// Creates the counters of a loop, for `commands` commands and subcommands.
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            commands: Counter::default(),
            connections: Counter::default(),
            rejected_connections: Counter::default(),
            net_in: Counter::default(),
            net_out: Counter::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            expired: Counter::default(),
            expired_fields: Counter::default(),
            dirty: Counter::default(),
            client: AtomicU64::new(0),
            expiry_nanos: Counter::default(),
            errors: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
            turns: Counter::default(),
            input_peak: RecentPeak::default(),
            output_peak: RecentPeak::default(),
            input_limit_closed: Counter::default(),
            output_limit_closed: Counter::default(),
            protocol_errors: Counter::default(),
            by_command: (0..commands).map(|_| CommandStats::default()).collect(),
            lateness_us: Mutex::new(lateness_histogram()),
        }
    }
}

impl LoopStats {
    /// What CONFIG RESETSTAT starts again.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        [
            &self.commands,
            &self.connections,
            &self.rejected_connections,
            &self.net_in,
            &self.net_out,
            &self.hits,
            &self.misses,
            &self.expired,
            &self.expired_fields,
            &self.expiry_nanos,
            &self.errors,
            &self.reads,
            &self.writes,
            &self.turns,
            &self.input_limit_closed,
            &self.output_limit_closed,
            &self.protocol_errors,
        ]
        .into_iter()
        .chain(
            self.by_command
                .iter()
                .flat_map(|c| [&c.calls, &c.nanos, &c.rejected, &c.failed]),
        )
    }
}

/// Figures per second, between two looks at the server.
#[derive(Debug, Default)]
pub struct Rates(Mutex<Look>);

#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at_us: u64,
    totals: [u64; 3],
    rates: [u64; 3],
}

impl Rates {
    /// Commands, bytes in and bytes out per second since the last look; looks within 100 ms answer the same.
    pub(crate) fn since_last(
        &self,
        now: Now,
        commands: u64,
        net_in: u64,
        net_out: u64,
    ) -> (u64, u64, u64) {
        let mut last = self.0.lock();
        let passed_us = now.micros().saturating_sub(last.at_us);
        if passed_us >= 100_000 {
            let totals = [commands, net_in, net_out];
            for (i, total) in totals.into_iter().enumerate() {
                let grown = u128::from(total.saturating_sub(last.totals[i]));
                last.rates[i] = (grown * 1_000_000 / u128::from(passed_us)) as u64;
            }
            last.totals = totals;
            last.at_us = now.micros();
        }
        (last.rates[0], last.rates[1], last.rates[2])
    }
}

/// An empty histogram of lateness: 1 µs to an hour, two significant digits.
pub fn lateness_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("the bounds are in order")
}
