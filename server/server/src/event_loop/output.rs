//! Output of connections: written once a turn, unless it waits for the append-only file.
//!
//! The *file's thread* writes the append-only file. Waking it costs as much as about ten commands.
//! So a loop with held output and more input runs that input first, for at most [`COLLECTING`]; the
//! thread then writes the changes of several turns at once. A loop without more input polls the
//! released position for a short time before it sleeps, because waking the loop would take longer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Events;
use punctual_resp::CHUNK;

use crate::changelog::THIS_TURN;
use crate::client::registry::REPLY_BUFFER;
use crate::config::OutputLimit;
use crate::event_loop::connection::{Flushed, is_exceeded};
use crate::event_loop::{EventLoop, LoopTimer};
use crate::log;
use crate::node::order::Order;
use crate::world::Moment;

/// A written buffer larger than [`SMALL_OUTPUT`] is kept for later replies only if there are fewer
/// spare buffers than this number.
const SPARE_OUTPUTS: usize = 16;
/// The same limit for a small written buffer. It is high, because many clients may have a reply in
/// one turn.
const SPARE_SMALL_OUTPUTS: usize = 1024;
/// Maximum capacity in bytes of a small output buffer.
const SMALL_OUTPUT: usize = 4 << 10;
/// Maximum time for which a loop polls the released position.
const POLL_MAX: Duration = Duration::from_micros(50);
/// First part of [`POLL_MAX`], in which the loop does not yield its processor.
const SPIN: Duration = Duration::from_micros(3);
/// Minimum of the polling time, which halves each time the output is not released within it.
const POLL_MIN: Duration = Duration::from_micros(1);

/// Time for which a loop with more input does not wake the file's thread.
const COLLECTING: Duration = Duration::from_millis(1);

/// Output that waits for the append-only file.
pub(crate) struct Held {
    /// Slots of the connections with held output.
    pub(crate) slots: Vec<usize>,
    /// Lowest position of the log that held output waits for; `u64::MAX` if no output is held.
    pub(crate) until: u64,
    /// Current limit of the time for which the loop polls.
    poll_max: Duration,
    /// Time since which the loop has not woken the file's thread.
    since: Option<Moment>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            until: u64::MAX,
            poll_max: POLL_MAX,
            since: None,
        }
    }
}

impl EventLoop {
    /// Blocks while the disk is too slow, because the unwritten bytes in memory would otherwise
    /// have no limit. All clients wait, as in Redis when a write blocks.
    #[cold]
    pub(crate) fn wait_for_disk(&self) {
        let shared = &self.shared;
        shared.durability.aof.delays.fetch_add(1, Ordering::Relaxed);
        log::notice!(
            shared.logger,
            "Asynchronous AOF fsync is taking too long (disk is busy?). Clients wait until the disk has caught up."
        );
        while shared.durability.changelog.is_full() && !shared.stopping.load(Ordering::SeqCst) {
            shared.durability.changelog.wait_for_room();
        }
    }

    /// Replaces [`THIS_TURN`], the placeholder for the log's position after this turn, in the holds
    /// of this turn's output. Called when all effects of the turn are in the log. Output that was
    /// flushed while a script ran may already be in the list of held output.
    pub(crate) fn end_holding(&mut self) {
        let until = self.shared.durability.changelog.file_end();
        for slot in std::mem::take(&mut self.writing.holding) {
            if let Some(connection) = self.connection(slot)
                && let Some(last) = connection.holds.back_mut()
                && last.1 == THIS_TURN
            {
                last.1 = until;
                if connection.held {
                    self.writing.held.until = self.writing.held.until.min(until);
                }
            }
        }
    }

    /// Writes held output that was released after the turn.
    fn write_released(&mut self) {
        if !self.writing.held.slots.is_empty()
            && !self
                .shared
                .durability
                .changelog
                .is_held(self.writing.held.until)
        {
            self.recheck_held();
            self.flush_dirty();
        }
    }

    /// Writes released output. If output is still held and there is more input, puts its events in
    /// `events` and returns true, so that the input's commands run first. Wakes the file's thread
    /// if there is no more input, or if the loop has not woken the thread for [`COLLECTING`].
    pub(crate) fn has_input_while_held(&mut self, events: &mut Events) -> bool {
        self.write_released();
        if self.writing.held.slots.is_empty() {
            self.writing.held.since = None;
            self.shared.durability.changelog.wake_for_bytes();
            return false;
        }
        let now = self.shared.world.stopwatch();
        if now - *self.writing.held.since.get_or_insert(now) >= COLLECTING {
            self.writing.held.since = Some(now);
            self.shared.durability.changelog.wake_for_bytes();
        }
        let polled = (self.poll.as_mut()).map(|poll| poll.poll(events, Some(Duration::ZERO)));
        if polled.is_some_and(|polled| polled.is_ok()) && !events.is_empty() {
            return true;
        }
        self.writing.held.since = None;
        self.shared.durability.changelog.wake_for_bytes();
        self.poll_until_released();
        false
    }

    /// Polls until held output is released, and writes it. Returns early after some time, or if the
    /// loop has other work.
    fn poll_until_released(&mut self) {
        let has_work = self.more_due
            || !self.reading.readable.is_empty()
            || !self.resuming.unblocked.is_empty();
        if self.writing.held.slots.is_empty() || has_work {
            return;
        }
        let (log, until) = (&self.shared.durability.changelog, self.writing.held.until);
        let mailbox = &self.shared.mailboxes[self.number];
        let began = self.shared.world.stopwatch();
        while log.is_held(until) {
            if mailbox.has_mail() {
                return;
            }
            let waited = self.shared.world.since(began);
            if waited > self.writing.held.poll_max {
                self.writing.held.poll_max = (self.writing.held.poll_max / 2).max(POLL_MIN);
                return;
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                // The file's thread may need this processor.
                self.shared.world.yield_now();
            }
        }
        self.writing.held.poll_max = POLL_MAX;
        self.write_released();
    }

    /// Takes the list of slots with held output. Some of that output may be released already.
    fn take_held(&mut self) -> Vec<usize> {
        self.writing.held.until = u64::MAX;
        let slots = std::mem::take(&mut self.writing.held.slots);
        for slot in &slots {
            if let Some(connection) = self.connection(*slot) {
                connection.held = false;
            }
        }
        slots
    }

    /// Marks the connections with held output, so that the next flush checks them again.
    pub(crate) fn recheck_held(&mut self) {
        for slot in self.take_held() {
            self.mark_dirty(slot);
        }
    }

    /// Closes the connections with held output after a failed write: the changes that the output
    /// reveals may never be in the file.
    pub(crate) fn close_held(&mut self) {
        for slot in self.take_held() {
            let last = self.connection(slot).and_then(|c| c.holds.back().copied());
            match last {
                Some((_, until)) if self.shared.durability.changelog.is_held(until) => {
                    self.close(slot)
                }
                _ => self.mark_dirty(slot),
            }
        }
    }

    /// Moves messages from the mailbox to their clients' output. Orders wait for the end of the
    /// turn.
    pub(crate) fn collect_messages(&mut self) {
        if !self.shared.mailboxes[self.number].has_mail() {
            return;
        }
        let mut mail = std::mem::take(&mut self.inbox.mail);
        self.shared.mailboxes[self.number].collect(&mut mail);
        for (to, bytes) in mail.deliveries() {
            let connection = self.connections.get_mut(to.slot);
            if let Some(connection) = connection.and_then(Option::as_mut)
                && connection.session.id == to.client
            {
                if connection.out.capacity() == 0 {
                    connection.out = self.reading.spare_outputs.pop().unwrap_or_default();
                }
                connection.chunks.take_long(&mut connection.out);
                connection.out.extend_from_slice(bytes);
                self.mark_dirty(to.slot);
            }
        }
        self.inbox.orders.append(&mut mail.orders);
        let cut_off = mail.cut_off.drain(..);
        self.inbox
            .orders
            .extend(cut_off.map(|(client, slot)| Order::CutOff { client, slot }));
        mail.clear(self.shared.memory.is_full(self.number));
        self.inbox.mail = mail;
    }

    /// Writes the output of the turn, or output that was released later.
    pub(crate) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.writing.dirty);
        for slot in dirty.drain(..) {
            self.flush(slot);
            self.count_client(slot);
        }
        self.limit_client_memory();
        if self.writing.dirty.is_empty() {
            self.writing.dirty = dirty;
        }
        self.remove_ended();
    }

    /// Writes a connection's output once, and closes the connection if it has ended.
    pub(crate) fn flush(&mut self, slot: usize) {
        let limits = self.settings.output_limits;
        let now_ms = self.turn_ms;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.dirty = false;
        // Positions that are released after this line are checked before the loop sleeps.
        let log = &self.shared.durability.changelog;
        while connection
            .holds
            .pop_front_if(|hold| !log.is_held(hold.1))
            .is_some()
        {}
        let first = connection.holds.front().copied();
        if let Some((_, until)) = first {
            if !std::mem::replace(&mut connection.held, true) {
                self.writing.held.slots.push(slot);
            }
            self.writing.held.until = self.writing.held.until.min(until);
        }
        let free = first.map_or(connection.output_len(), |hold| hold.0);
        if std::mem::take(&mut connection.session.has_written) {
            connection.session.last_write = self.shared.replication.offset();
            connection.session.last_write_in_file = self.shared.durability.changelog.file_end();
        }
        if connection.session.replica.is_some() {
            return self.flush_replica(slot);
        }
        let idle = connection.output_len() == 0 && !connection.socket.wants_write();
        if idle && !connection.ended && !connection.session.closing {
            return;
        }
        let before = connection.unwritten() as u64;
        let mut sent = 0;
        let flushed = connection.flush(free, &mut sent);
        let stats = &self.shared.observed.stats[self.number];
        stats.net_out.add(sent);
        if sent > 0 || !matches!(flushed, Flushed::Held) {
            stats.writes.add(1);
        }
        let left = connection.unwritten() as u64;
        let info = &connection.session.info;
        // Only this loop writes the counter, so a load and a store are enough.
        let net_out = info.net_out.load(Ordering::Relaxed) + sent;
        info.net_out.store(net_out, Ordering::Relaxed);
        if sent > 0 {
            info.seen_ms.store(now_ms, Ordering::Relaxed);
        }
        info.output_bytes.store(left, Ordering::Relaxed);
        let window_ms = self
            .shared
            .switches
            .output_peak_window_ms
            .load(Ordering::Relaxed);
        info.output_peak.record_within(before, now_ms, window_ms);
        // The loop reuses the buffer if its output is written.
        let capacity = match flushed {
            Flushed::Blocked | Flushed::Held => connection.output_capacity() as u64,
            Flushed::All | Flushed::Broken => 0,
        };
        info.output_capacity.store(capacity, Ordering::Relaxed);
        if left > 0 {
            let beyond = left.saturating_sub(REPLY_BUFFER);
            stats.output_peak.record(beyond, now_ms);
        }
        match flushed {
            Flushed::Broken => self.close(slot),
            Flushed::All => {
                connection.over_soft_since = None;
                let out = std::mem::take(&mut connection.out);
                if connection.session.closing || connection.ended {
                    self.close(slot);
                }
                self.keep_output(out);
            }
            Flushed::Blocked | Flushed::Held => {
                let limit = limits[connection.output_class()];
                self.check_output(slot, limit, left);
            }
        }
    }

    /// Keeps an empty buffer for the next reply.
    pub(crate) fn keep_output(&mut self, out: Vec<u8>) {
        let most = if out.capacity() <= SMALL_OUTPUT {
            SPARE_SMALL_OUTPUTS
        } else if out.capacity() <= CHUNK && !self.shared.memory.is_full(self.number) {
            SPARE_OUTPUTS
        } else {
            0
        };
        if self.reading.spare_outputs.len() < most {
            self.reading.spare_outputs.push(out);
        }
    }

    /// Closes a connection with `left` unwritten bytes of output if they exceed the limit, or arms
    /// the timer that checks the soft limit.
    pub(crate) fn check_output(&mut self, slot: usize, limit: OutputLimit, left: u64) {
        let now_ms = self.turn_ms;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if is_exceeded(limit, left, now_ms, &mut connection.over_soft_since) {
            self.close_over_limit(slot);
        } else if let Some(since) = connection.over_soft_since
            && connection.soft_timer.is_none()
        {
            let at = since.saturating_add(limit.soft_seconds.saturating_mul(1000));
            let timer = LoopTimer::SoftLimit(slot);
            connection.soft_timer = Some(self.timers.insert(at.saturating_add(1), timer));
        }
    }
}
