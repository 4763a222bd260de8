//! Counters of the server. Each event loop has its own counters; INFO sums them.
//!
//! Invariant: only the thread that runs the loop adds to a [`Counter`]; any thread may read or
//! reset it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use punctual_store::{Now, Stats};

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

/// Declares the struct [`Counters`] from a list of fields.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one event loop.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            fn all(&self) -> impl Iterator<Item = &Counter> {
                [$(&self.$name),*].into_iter()
            }
        }
    };
}

counters! {
    /// Number of commands that ran.
    commands,
    /// Number of accepted connections.
    connections,
    /// Number of connections refused because of `maxclients` or protected mode.
    rejected_connections,
    /// Number of bytes read from clients.
    net_in,
    /// Number of bytes written to clients.
    net_out,
    /// Nanoseconds spent on expiry.
    expiry_nanos,
    /// Number of error replies.
    errors,
    /// Number of reads from sockets.
    reads,
    /// Number of writes to sockets.
    writes,
    /// Number of passes of the loop.
    turns,
    /// Number of clients closed because their input that had not run exceeded the limit.
    input_limit_closed,
    /// Number of clients closed because their unsent output exceeded the limit.
    output_limit_closed,
    /// Number of protocol errors.
    protocol_errors,
}

/// Figures of one event loop, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct LoopStats {
    /// Counters that the loop increments directly.
    counters: Counters,
    /// Sums of the counters that the loop's turns return.
    turns: [Counter; Stats::NAMES.len()],
    /// Id of the client whose commands ran last, for crash reports; 0 before the first command.
    pub client: AtomicU64,
    /// Memory of the interpreter for scripts, in bytes.
    pub scripts_bytes: AtomicU64,
    /// Memory of the interpreter for functions, in bytes.
    pub functions_bytes: AtomicU64,
    /// Maximum input of one client in bytes.
    pub input_peak: RecentPeak,
    /// Maximum unsent output of one client in bytes, without the first 16 KiB, which Redis reports
    /// as its reply buffer.
    pub output_peak: RecentPeak,
    /// Counters of the commands, indexed by their number in the table.
    pub by_command: Box<[CommandStats]>,
    /// Time from a deadline to the expiry of its key, field, stream entry or lease, or to the
    /// firing of its timer, in microseconds.
    pub lateness_us: Mutex<Histogram<u64>>,
}

impl Deref for LoopStats {
    type Target = Counters;

    #[inline]
    fn deref(&self) -> &Counters {
        &self.counters
    }
}

impl LoopStats {
    /// Creates the figures of a loop, for `commands` commands and subcommands.
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            counters: Counters::default(),
            turns: Default::default(),
            client: AtomicU64::new(0),
            scripts_bytes: AtomicU64::new(0),
            functions_bytes: AtomicU64::new(0),
            input_peak: RecentPeak::default(),
            output_peak: RecentPeak::default(),
            by_command: (0..commands).map(|_| CommandStats::default()).collect(),
            lateness_us: Mutex::new(lateness_histogram()),
        }
    }

    /// Adds the counters of a turn.
    pub(crate) fn add(&self, mut counted: Stats) {
        for (sum, count) in self.turns.iter().zip(counted.each()) {
            sum.add(*count);
        }
    }

    /// Adds the counters of the loop's turns to `sums`.
    pub(crate) fn add_to(&self, sums: &mut Stats) {
        for (sum, count) in sums.each().into_iter().zip(&self.turns) {
            *sum += count.get();
        }
    }

    /// Records the memory of the loop's interpreter for scripts.
    pub(crate) fn count_scripts(&self, bytes: usize) {
        self.scripts_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Records the memory of the loop's interpreter for functions.
    pub(crate) fn count_functions(&self, bytes: usize) {
        self.functions_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Sets all counts to 0 (CONFIG RESETSTAT), except the count of changes, on which save points
    /// depend.
    pub(crate) fn reset(&self) {
        let turns = self.turns.iter().zip(Stats::NAMES);
        let turns = turns.filter_map(|(count, name)| (*name != "dirty").then_some(count));
        self.counters.all().chain(turns).for_each(Counter::reset);
        for command in &self.by_command {
            let counts = [
                &command.calls,
                &command.nanos,
                &command.rejected,
                &command.failed,
            ];
            counts.into_iter().for_each(Counter::reset);
            command.latency.reset();
        }
        *self.lateness_us.lock() = lateness_histogram();
    }
}

/// Rates per second, measured between two samples.
#[derive(Debug, Default)]
pub struct Rates(Mutex<RateSample>);

#[derive(Clone, Copy, Debug, Default)]
struct RateSample {
    at_us: u64,
    /// Commands, bytes read and bytes written up to this sample.
    totals: [u64; 3],
    /// Rates per second since the sample before this one.
    rates: [u64; 3],
}

impl Rates {
    /// Returns commands, bytes read and bytes written per second since the last sample. Takes a new
    /// sample if the last one is at least 100 ms old; otherwise returns the same rates again.
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

/// Creates an empty histogram of lateness, from 1 µs to an hour, with two significant digits.
pub fn lateness_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("the bounds are in order")
}
