//! A loop's part in *rounds*, which return the allocator's free pages to the system. See
//! [`crate::reclaim::rounds`].

use crate::event_loop::{EventLoop, LoopTimer};
use crate::memory::counters;
use crate::memory::reclaim::{DELAY_MS, Share};
use crate::reclaim::rounds;

impl EventLoop {
    /// Arms the timer of a round if enough has been freed, or allocated, since the last round.
    /// Called once a turn.
    pub(crate) fn arm_round(&mut self) {
        if self.freed.round_timer.is_none()
            && (self.freed_bytes() >= rounds::round_threshold_bytes(&self.shared)
                || counters::own() - self.freed.in_use_bytes
                    >= rounds::growth_threshold_bytes(&self.shared))
        {
            let at = self.turn_ms.saturating_add(DELAY_MS);
            self.freed.round_timer = Some(self.timers.insert(at, LoopTimer::Round));
        }
    }

    /// Begins a round. If another round is in progress, tries again after [`DELAY_MS`], because the
    /// other round may miss bytes that this loop has freed.
    pub(crate) fn begin_round(&mut self) {
        self.freed.round_timer = None;
        if !rounds::begin_round(&self.shared) {
            let at = self.turn_ms.saturating_add(DELAY_MS);
            self.freed.round_timer = Some(self.timers.insert(at, LoopTimer::Round));
        }
    }

    /// Executes this loop's part of a round, which is a bounded step.
    pub(crate) fn collect_pages(&mut self, share: Share) {
        if let Some(reclaim) = self.shared.reclaim {
            (reclaim.collect)();
        }
        self.freed.collected_bytes += self.freed_bytes();
        self.freed.in_use_bytes = counters::own();
        if let Some(timer) = self.freed.round_timer.take() {
            self.timers.remove(timer);
        }
        rounds::end_share(&self.shared, share);
    }

    /// Returns the number of bytes freed since the last round, by this thread and by threads that
    /// report to this loop.
    fn freed_bytes(&self) -> u64 {
        let own = self.shared.reclaim.map_or(0, |r| (r.freed_bytes)());
        own + self.freed.reported_bytes - self.freed.collected_bytes
    }
}
