//! CPU time and traffic of each slot, for CLUSTER SLOT-STATS (`cluster-slot-stats-enabled`).
//!
//! The counters exist from the first time on that the directive is `yes`. Without them a command
//! pays one branch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_cluster::slot::SLOTS;

/// Counters of one slot.
#[derive(Debug, Default)]
struct Counters {
    nanos: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// CPU time and traffic of the commands of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) nanos: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Counters of all slots.
#[derive(Debug)]
pub(crate) struct SlotUsage(Box<[Counters]>);

/// The counters, if the directive has been `yes`.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    enabled: AtomicBool,
    counters: OnceLock<SlotUsage>,
}

impl Usage {
    /// Applies the directive. The counters keep their values while it is `no`.
    pub(super) fn enable(&self, enabled: bool) {
        if enabled {
            let create = || SlotUsage((0..SLOTS).map(|_| Counters::default()).collect());
            self.counters.get_or_init(create);
        }
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Returns the counters if the directive is `yes`.
    #[inline]
    pub(crate) fn active(&self) -> Option<&SlotUsage> {
        match self.enabled.load(Ordering::Relaxed) {
            true => self.counters.get(),
            false => None,
        }
    }

    /// Sets the counters of slots to 0.
    pub(crate) fn reset(&self, is_reset: impl Fn(u16) -> bool) {
        let all = self.counters.get().map_or(&[][..], |counters| &counters.0);
        for (slot, counters) in (0..).zip(all) {
            if is_reset(slot) {
                counters.nanos.store(0, Ordering::Relaxed);
                counters.bytes_in.store(0, Ordering::Relaxed);
                counters.bytes_out.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl SlotUsage {
    /// Adds what a command has used.
    pub(crate) fn add(&self, slot: u16, used: Used) {
        let counters = &self.0[usize::from(slot)];
        counters.nanos.fetch_add(used.nanos, Ordering::Relaxed);
        counters
            .bytes_in
            .fetch_add(used.bytes_in, Ordering::Relaxed);
        counters
            .bytes_out
            .fetch_add(used.bytes_out, Ordering::Relaxed);
    }

    /// Returns the figures of a slot.
    pub(crate) fn of(&self, slot: u16) -> Used {
        let counters = &self.0[usize::from(slot)];
        Used {
            nanos: counters.nanos.load(Ordering::Relaxed),
            bytes_in: counters.bytes_in.load(Ordering::Relaxed),
            bytes_out: counters.bytes_out.load(Ordering::Relaxed),
        }
    }
}
