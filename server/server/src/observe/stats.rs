//! Counters of the server. Each event loop has its own; INFO sums them.
//!
//! Invariant: one thread (the loop) writes a [`Counter`]; any thread may read it.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use punctual_store::Now;

use crate::client::registry::RecentPeak;
use crate::observe::command_latency::CommandLatency;

/// A counter with one writer: an addition costs a load and a store.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning loop calls this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get() + n, Ordering::Relaxed);
    }

    /// Returns the count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count to 0 (CONFIG RESETSTAT). A concurrent `add` may be lost.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Counters of one command.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Number of calls.
    pub calls: Counter,
    /// Total duration in nanoseconds.
    pub nanos: Counter,
    /// Number of calls refused before they ran.
    pub rejected: Counter,
    /// Number of calls that replied with an error.
    pub failed: Counter,
    /// Distribution of the durations.
    pub latency: CommandLatency,
}

/// Counters of one event loop, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
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
    /// Reads of existing keys.
    pub hits: Counter,
    /// Reads of missing keys.
    pub misses: Counter,
    /// Expired keys.
    pub expired: Counter,
    /// Expired hash fields.
    pub expired_fields: Counter,
    /// Keys evicted for memory.
    pub evicted: Counter,
    /// Entries that have left streams by their retention.
    pub retained_out: Counter,
    /// Entries of streams that another reader has taken over.
    pub redelivered: Counter,
    /// Entries that have moved to dead-letter streams.
    pub dead_letters: Counter,
    /// Failed attempts to move entries to a dead-letter stream.
    pub dead_letter_errors: Counter,
    /// Commands of timers that have run.
    pub timers_run: Counter,
    /// Commands of timers that have failed.
    pub timers_failed: Counter,
    /// Jobs whose due time has come, or whose lease has ended.
    pub jobs_moved: Counter,
    /// Jobs that have died.
    pub jobs_died: Counter,
    /// Changes to the keyspace.
    pub dirty: Counter,
    /// Id of the client whose commands ran last, for crash reports; 0 if there was none.
    pub client: AtomicU64,
    /// Nanoseconds spent on expiry.
    pub expiry_nanos: Counter,
    /// Bytes of the interpreter of scripts.
    pub scripts_bytes: AtomicU64,
    /// Bytes of the interpreter of functions.
    pub functions_bytes: AtomicU64,
    /// Error replies.
    pub errors: Counter,
    /// Reads from sockets.
    pub reads: Counter,
    /// Writes to sockets.
    pub writes: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Largest input of one client, in bytes.
    pub input_peak: RecentPeak,
    /// Largest unread output of one client, in bytes beyond the size of Redis's reply buffer.
    pub output_peak: RecentPeak,
    /// Clients closed because an incomplete command exceeded the limit.
    pub input_limit_closed: Counter,
    /// Clients closed because their unread output exceeded the limit.
    pub output_limit_closed: Counter,
    /// Protocol errors.
    pub protocol_errors: Counter,
    /// Counters of the commands, indexed by their number in the table.
    pub by_command: Box<[CommandStats]>,
    /// Time from a key's or field's deadline to its expiry, in microseconds.
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
            evicted: Counter::default(),
            retained_out: Counter::default(),
            redelivered: Counter::default(),
            dead_letters: Counter::default(),
            dead_letter_errors: Counter::default(),
            timers_run: Counter::default(),
            timers_failed: Counter::default(),
            jobs_moved: Counter::default(),
            jobs_died: Counter::default(),
            dirty: Counter::default(),
            client: AtomicU64::new(0),
            expiry_nanos: Counter::default(),
            scripts_bytes: AtomicU64::new(0),
            functions_bytes: AtomicU64::new(0),
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
    /// Adds the counts of a turn.
    pub(crate) fn add(&self, counted: &punctual_store::Stats) {
        self.hits.add(counted.hits);
        self.misses.add(counted.misses);
        self.expired.add(counted.expired);
        self.expired_fields.add(counted.expired_fields);
        self.evicted.add(counted.evicted);
        self.retained_out.add(counted.retained_out);
        self.redelivered.add(counted.redelivered);
        self.dead_letters.add(counted.dead_letters);
        self.dead_letter_errors.add(counted.dead_letter_errors);
        self.timers_run.add(counted.timers_run);
        self.timers_failed.add(counted.timers_failed);
        self.jobs_moved.add(counted.jobs_moved);
        self.jobs_died.add(counted.jobs_died);
        self.dirty.add(counted.dirty);
    }

    /// Records the memory of the loop's scripts.
    pub(crate) fn count_scripts(&self, bytes: usize) {
        self.scripts_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Records the memory of the loop's functions.
    pub(crate) fn count_functions(&self, bytes: usize) {
        self.functions_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the counters that CONFIG RESETSTAT resets.
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
            &self.evicted,
            &self.retained_out,
            &self.redelivered,
            &self.dead_letters,
            &self.dead_letter_errors,
            &self.timers_run,
            &self.timers_failed,
            &self.jobs_moved,
            &self.jobs_died,
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

/// Rates per second between two samples.
#[derive(Debug, Default)]
pub struct Rates(Mutex<RateSample>);

#[derive(Clone, Copy, Debug, Default)]
struct RateSample {
    at_us: u64,
    totals: [u64; 3],
    rates: [u64; 3],
}

impl Rates {
    /// Returns commands, bytes in and bytes out per second since the last sample. Calls within 100 ms return the same rates.
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

/// Creates an empty histogram of lateness: 1 µs to an hour, two significant digits.
pub fn lateness_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("the bounds are in order")
}
