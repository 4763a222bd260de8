//! Sleeping: until the loop's next deadline, which an alarm of the wall clock signals, or until the
//! next time limit on the stopwatch.
//!
//! Ground rules: the loop announces the time at which it will wake, and then checks the deadlines
//! and the mailbox once more. A thread that sets an earlier deadline stores the deadline first, and
//! then reads the announcement. So the loop sees the deadline, or the thread sees the announcement
//! and wakes the loop: no wake-up is lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::event_loop::EventLoop;
use crate::persist;

impl EventLoop {
    /// Returns the next deadline of this loop in Unix milliseconds; `u64::MAX` without a deadline.
    pub(super) fn next_wakeup_ms(&self) -> u64 {
        let loops = self.shared.mailboxes.len();
        let paused = self.shared.durability.is_loading()
            || self.shared.clients.pauses.any() && self.expiry_is_paused(self.shared.clock.now());
        let keys = if paused {
            None
        } else {
            (self.number..self.shared.store.shards())
                .step_by(loops)
                .filter_map(|shard| self.shared.store.next_wakeup(shard))
                .min()
        };
        let pause = self.shared.clients.pauses.next_end_ms();
        let cron = !self.shared.switches.cron_paused.load(Ordering::SeqCst);
        let save = persist::next_check_ms(&self.shared, &self.settings).filter(|_| cron);
        let shutdown = self.shared.shutdown.deadline_ms();
        let shutdown = shutdown.filter(|_| cron && self.number == 0);
        [keys, self.timers.next_wakeup(), pause, save, shutdown]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns true if there is work that no event and no deadline announces.
    pub(super) fn has_work(&self) -> bool {
        self.more_due
            || !self.writing.dirty.is_empty()
            || !self.reading.readable.is_empty()
            || !self.resuming.unblocked.is_empty()
            || self.dials.has_work()
    }

    /// Arms the alarm. Returns the timeout for the poll, which is zero if there is work.
    pub(crate) fn prepare_sleep(&mut self) -> Option<Duration> {
        if self.has_work() {
            return Some(Duration::ZERO);
        }
        let mailbox = &self.shared.mailboxes[self.number];
        let held = !self.writing.held.slots.is_empty();
        if held {
            mailbox.wait_for(self.writing.held.until);
        }
        let wakeup = self.next_wakeup_ms();
        // A thread that sets an earlier deadline, adds mail or releases a position after this line
        // wakes the loop. The checks below see earlier changes.
        mailbox.sleep.announce(wakeup);
        let wakeup = wakeup.min(self.next_wakeup_ms());
        let released = held
            && !self
                .shared
                .durability
                .changelog
                .is_held(self.writing.held.until);
        if released || mailbox.has_mail() || self.shared.stopping.load(Ordering::SeqCst) {
            return Some(Duration::ZERO);
        }
        let timeout = if self.shared.clock.is_virtual() {
            // A virtual clock moves only by an order.
            let due = self.shared.clock.now().is_due(wakeup);
            due.then_some(Duration::ZERO)
        } else {
            self.alarm.set(wakeup)
        };
        [timeout, self.until_by_stopwatch()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the time until the next periodic work for replicas, or until the next time limit of
    /// a conversation with another server. Both follow the stopwatch. It is read here, and not
    /// earlier in the turn: a process that was stopped meanwhile would sleep for a time that has
    /// passed.
    fn until_by_stopwatch(&self) -> Option<Duration> {
        let at_ms = self
            .shared
            .replication
            .replicas
            .upkeep_ms
            .load(Ordering::SeqCst);
        let cron = !self.shared.switches.cron_paused.load(Ordering::SeqCst);
        let upkeep = (cron && self.number == 0 && at_ms != u64::MAX).then_some(at_ms);
        let at_ms = [upkeep, self.dials.next_wakeup()]
            .into_iter()
            .flatten()
            .min()?;
        let now_ms = self.shared.world.stopwatch_ms();
        Some(Duration::from_millis(at_ms.saturating_sub(now_ms)))
    }
}
