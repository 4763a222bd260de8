//! The limit `maxmemory`.
//!
//! A loop compares the bytes in use with the limit when its own counter has grown by its share of what is left, so the other
//! counters are seldom read. In a full store it compares before each command that may need memory, and once a turn.
//!
//! What counts is the bytes in use, without the buffers of the append-only file and of replicas (as in Redis), invalidations that the
//! turn sends (each eviction would cause the next one), evicted values that wait to be dropped, and free places for records. Records lie in pages, so an evicted key returns no memory by itself: its
//! place is for the next key. Free places beyond [`ROOM_PART`] of the limit count as used; then records move together, and
//! whole pages become free.

use std::sync::atomic::Ordering;

use punctual_store::eviction::Evicted;
use punctual_store::{Error, Turn};
use quanta::Clock;

use crate::memory::counters;
use crate::node::Shared;

/// The most bytes that a loop allocates between two looks at the other loops' counters.
const SHARE_MAX: u64 = 64 << 10;
/// Free places for records count as free up to this part of the limit.
const ROOM_PART: u64 = 128;
/// Eviction goes on until this many bytes are free, at most a thousandth of the limit: one by one, the cache misses of keys
/// would not overlap.
const SLACK: u64 = 4 << 10;
/// Bytes that a record's place counts for.
const PLACE: u64 = punctual_store::keyspace::records::RECORD_BYTES as u64;
/// Evictions between two looks at the clock and the counters.
const BETWEEN_LOOKS: u64 = 16;
/// Pages that one step frees by moving records.
const PAGES: usize = 4;

pub(crate) const OUT_OF_MEMORY: Error =
    Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");

/// State of the memory after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Below the limit, or the limit does not hold now.
    Fits,
    /// Above the limit; the next step goes on. Commands run meanwhile, as in Redis.
    Unfinished,
    /// Above the limit, and no key may be evicted.
    Full,
}

impl Shared {
    /// Returns the bytes that do not count for the limit: buffers of the append-only file, and of replicas beyond the
    /// size of the backlog.
    pub(crate) fn memory_not_counted(&self) -> u64 {
        self.durability.changelog.file_buffer_bytes()
            + self
                .replication
                .replicas
                .beyond_backlog
                .load(Ordering::Relaxed)
    }

    /// Returns by how many bytes the memory exceeds the limit, below zero if it does not, and the free places that are not
    /// counted as free.
    fn excess(&self, turn: &mut Turn, used: u64, limit: u64) -> (i64, u64) {
        let passing = self.memory.dropping.load(Ordering::Relaxed)
            + turn.discarded.evicted_bytes() as u64
            + self.memory.invalidations.load(Ordering::Relaxed);
        let room = turn.room();
        let free = room.min(limit / ROOM_PART);
        let counted = used.saturating_sub(self.memory_not_counted() + passing + free);
        (counted as i64 - limit as i64, room - free)
    }
}

/// Brings the memory below the limit, in one bounded step. The turn has pinned nothing.
#[cold]
#[inline(never)]
pub(crate) fn keep(shared: &Shared, loop_number: usize, turn: &mut Turn, clock: &Clock) -> Fit {
    let memory = &shared.memory;
    let limit = memory.limit.load(Ordering::Relaxed);
    let check_at = &memory.check_at[loop_number].0;
    let (own, Some(used)) = (counters::own(), counters::used()) else {
        return Fit::Fits;
    };
    memory.note(used);
    if limit == 0 {
        return Fit::Fits;
    }
    let loops = shared.mailboxes.len() as u64;
    if used <= limit {
        let share = ((limit - used) / loops).min(SHARE_MAX);
        check_at.store(own.saturating_add(share as i64), Ordering::Relaxed);
        memory.set_over(false, turn.now);
        return Fit::Fits;
    }
    check_at.store(i64::MIN, Ordering::Relaxed);
    let settings_ignore =
        shared.replication.is_replica() && memory.replica_ignores.load(Ordering::Relaxed);
    if settings_ignore
        || shared.durability.is_loading()
        || shared.clients.pauses.any() && shared.clients.pauses.in_force(turn.now).is_some()
        || loops > 1 && shared.scripting.running.is_active()
        || !turn.may_lock
    {
        return Fit::Fits;
    }
    let slack = SLACK.min(limit / 1024) as i64;
    let (mut excess, mut scattered) = shared.excess(turn, used, limit);
    if excess <= 0 {
        memory.set_over(false, turn.now);
        return Fit::Fits;
    }
    let began = clock.raw();
    let most_us = memory.step_us.load(Ordering::Relaxed);
    let elapsed_us = || clock.delta_as_nanos(began, clock.raw()) / 1_000;
    let fit = loop {
        let mut pages = 0;
        while scattered > 0 && pages < PAGES && excess > 0 && turn.compact() > 0 {
            pages += 1;
            (excess, scattered) = shared.excess(turn, memory.used(), limit);
        }
        if excess <= 0 {
            break Fit::Fits;
        }
        if pages > 0 {
            if elapsed_us() >= most_us {
                break Fit::Unfinished;
            }
            continue;
        }
        if scattered > 0 && turn.is_walked() {
            // Until the snapshot is complete, free places stay where they are. Evicting more would free no more.
            excess -= scattered as i64;
            if excess <= 0 {
                break Fit::Fits;
            }
        }
        // Flushed databases are on their way out.
        let dropped = shared.worker.pending_objects.load(Ordering::Relaxed) > 0
            || turn.discarded.things() > 0;
        let full = if dropped { Fit::Unfinished } else { Fit::Full };
        let Some(policy) = turn.limits.eviction else {
            break full;
        };
        let own = || counters::own() - memory.invalidations.load(Ordering::Relaxed) as i64;
        let (before, discarded) = (own(), turn.discarded.evicted_bytes());
        let mut evicted = 0;
        let mut late = false;
        let mut enough = |turn: &mut Turn<'_>| {
            let freed = (before - own())
                + (evicted * PLACE) as i64
                + (turn.discarded.evicted_bytes() - discarded) as i64;
            late = evicted > 0 && evicted % BETWEEN_LOOKS == 0 && elapsed_us() >= most_us;
            evicted += 1;
            freed >= excess + slack || late || evicted > 4 * BETWEEN_LOOKS
        };
        let outcome = turn.evict(policy, loop_number, loops as usize, &mut enough);
        (excess, scattered) = shared.excess(turn, memory.used(), limit);
        if excess <= 0 {
            break Fit::Fits;
        }
        match outcome {
            Evicted::Nothing if scattered > 0 && turn.compact() > 0 => {}
            Evicted::Nothing => break full,
            Evicted::Unfinished => break Fit::Unfinished,
            Evicted::Enough if late => break Fit::Unfinished,
            Evicted::Enough => {}
        }
    };
    memory.set_over(fit != Fit::Fits, turn.now);
    fit
}
