//! Counters of turns, such as hits and expired keys.

use std::ops::AddAssign;

/// A counter of a feature that Redis does not have.
#[derive(Clone, Copy)]
pub struct OwnCounter {
    /// Name of the field of INFO.
    pub field: &'static str,
    /// Name of the metric.
    pub metric: &'static str,
    /// Description.
    pub help: &'static str,
    /// Returns the count.
    pub of: fn(&Stats) -> u64,
}

/// Declares [`Stats`]. A counter of a feature that Redis does not have is followed by the names of
/// its field in INFO and of its metric.
macro_rules! stats {
    ($(#[doc = $doc:literal] $name:ident $(=> $field:literal, $metric:literal)?,)*) => {
        /// Counts since the last reset. The caller adds them to its totals and resets them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl Stats {
            /// The counters of features that Redis does not have, in the order of INFO.
            pub const OWN: &[OwnCounter] = &[$($(OwnCounter {
                field: $field,
                metric: $metric,
                help: $doc.trim_ascii(),
                of: |stats| stats.$name,
            },)?)*];

            /// The names of the counters.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Returns the counters in the order of their names.
            pub fn each(&mut self) -> [&mut u64; Self::NAMES.len()] {
                [$(&mut self.$name),*]
            }
        }

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

stats! {
    /// Reads of keys that existed.
    hits,
    /// Reads of keys that did not exist.
    misses,
    /// Expired keys.
    expired,
    /// Expired keys that a command looked up before the wheel expired them.
    expired_on_touch,
    /// Expired hash fields.
    expired_fields,
    /// Keys evicted for memory.
    evicted,
    /// Entries of streams that were removed because of their age or number (XRETAIN).
    retained_out => "stream_entries_retained_out", "punctual_stream_entries_retained_out_total",
    /// Entries of streams that another reader has taken over after a lease or an idle time.
    redelivered => "stream_entries_redelivered", "punctual_stream_entries_redelivered_total",
    /// Entries that have moved to a dead-letter stream.
    dead_letters => "stream_dead_letters", "punctual_stream_dead_letters_total",
    /// Attempts to move entries to a dead-letter stream that have failed.
    dead_letter_errors => "stream_dead_letter_errors", "punctual_stream_dead_letter_errors_total",
    /// Commands of timers that have run.
    timers_run => "timer_commands_run", "punctual_timer_commands_total",
    /// Commands of timers that have failed or that the timer's user may no longer run.
    timers_failed => "timer_commands_failed", "punctual_timer_command_failures_total",
    /// Jobs whose due time has come, or whose lease has ended.
    jobs_moved => "jobs_made_ready", "punctual_jobs_made_ready_total",
    /// Jobs that have failed their last attempt.
    jobs_died => "jobs_died", "punctual_jobs_died_total",
    /// Changes to the keyspace.
    dirty,
}
