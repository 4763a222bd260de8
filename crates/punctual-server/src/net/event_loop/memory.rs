//! A loop's part in keeping the limits of memory; see [`crate::memory`].

use std::sync::atomic::Ordering;

use punctual_store::Turn;

use super::EventLoop;
use crate::memory::counters;
use crate::memory::limit::{self, Fit};

impl EventLoop {
    /// Goes on to evict keys, in one bounded step, while the memory is above the limit. Called once per turn.
    pub(super) fn keep_memory(&mut self, turn: &mut Turn<'_>) {
        let memory = &self.shared.memory;
        if self.number == 0 && memory.limit.load(Ordering::Relaxed) > 0 {
            self.shared.replicas.note_beyond_backlog();
        }
        if counters::own() > memory.check_at[self.number].0.load(Ordering::Relaxed) {
            let fit = limit::keep(&self.shared, self.number, turn, &self.stopwatch);
            // Clients are served before the next step.
            self.more_due |= fit == Fit::Unfinished;
        }
    }
}
