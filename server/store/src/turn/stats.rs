//! What turns count.

use std::ops::AddAssign;

/// Declares [`Stats`]: each counter once.
macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of commands and expiries, which the caller adds up and resets.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
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
    /// Expired keys that a command met before the wheel did.
    expired_on_touch,
    /// Expired hash fields.
    expired_fields,
    /// Keys evicted for memory.
    evicted,
    /// Entries of streams that have left because of their age or number (XRETAIN).
    retained_out,
    /// Entries of streams that another reader has taken over at the end of a lease, or because of their idle time.
    redelivered,
    /// Entries that have moved to a dead-letter stream.
    dead_letters,
    /// Attempts to move entries to a dead-letter stream that have failed.
    dead_letter_errors,
    /// Commands of timers that have run.
    timers_run,
    /// Those that have ended with an error, and timers that were stopped because their user may not run the command.
    timers_failed,
    /// Jobs whose due time has come, and whose lease has ended.
    jobs_moved,
    /// Jobs that have died.
    jobs_died,
    /// Changes to the keyspace.
    dirty,
}
