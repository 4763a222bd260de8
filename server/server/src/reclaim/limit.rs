//! The limit `maxmemory`.
//!
//! Each loop counts the bytes that it allocates in a counter of its own. It sums the counters of
//! all loops only when its counter has grown by the loop's share of the bytes that are left below
//! the limit. In a full store it sums them before each command that may need memory, and once a
//! turn. Eviction is one bounded step between two commands, which locks one shard after the other.
//!
//! Some bytes in use do not count: buffers of the append-only file and of replicas (as in Redis),
//! messages by which the turn invalidates clients' caches (otherwise each eviction would cause the
//! next one), evicted values that wait to be dropped, and free places for records. Records lie in
//! pages, so an evicted key returns no memory by itself: the next key takes its place. Free places
//! beyond a small part of the limit ([`ROOM_PART`]) count as used. Then the step moves records
//! together, so that whole pages become free.

use std::sync::atomic::Ordering;

use crate::world::Counter;
use punctual_store::eviction::Evicted;
use punctual_store::{Error, Turn};

use crate::memory::counters;
use crate::node::Shared;

/// Maximum number of bytes that a loop allocates between two sums of the counters.
const SHARE_MAX: u64 = 64 << 10;
/// Divisor of the limit: free places for records, up to `limit / ROOM_PART` bytes of them, do not
/// count as used.
const ROOM_PART: u64 = 128;
/// Eviction stops this many bytes below the limit (but at most 1/1024 of the limit), so that
/// several keys are evicted in one step and their cache misses overlap.
const SLACK: u64 = 4 << 10;
/// Bytes that a record takes in its page.
const RECORD: u64 = punctual_store::keyspace::records::RECORD_BYTES as u64;
/// Number of evictions between two readings of the clock. After about four times as many, the step
/// sums the counters of all loops again.
const EVICTIONS_PER_CHECK: u64 = 16;
/// Maximum number of pages that a step frees by moving records between two readings of the clock.
const PAGES_PER_STEP: usize = 4;

pub(crate) const OUT_OF_MEMORY: Error =
    Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");

/// Result of a step of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The memory is below the limit, or the limit does not apply now.
    Fits,
    /// The memory is above the limit; the next step continues. Commands run meanwhile, as in Redis.
    Unfinished,
    /// The memory is above the limit, and no key can be evicted.
    Full,
}

impl Shared {
    /// Returns the number of bytes that do not count for the limit: buffers of the append-only
    /// file, and buffers of replicas beyond the size of the backlog.
    pub(crate) fn memory_not_counted(&self) -> u64 {
        self.durability.changelog.file_buffer_bytes()
            + self
                .replication
                .replicas
                .beyond_backlog
                .load(Ordering::Relaxed)
    }

    /// Returns the number of bytes above the limit (negative if the memory is below it), and the
    /// bytes of free places that count as used.
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

/// Brings the memory below the limit, in one bounded step. The turn must have pinned no shard.
#[cold]
#[inline(never)]
pub(crate) fn enforce(
    shared: &Shared,
    loop_number: usize,
    turn: &mut Turn,
    clock: &Counter,
) -> Fit {
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
    let ignores_limit =
        shared.replication.is_replica() && memory.replica_ignores.load(Ordering::Relaxed);
    if ignores_limit
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
    let step_us = memory.step_us.load(Ordering::Relaxed);
    let elapsed_us = || clock.delta_as_nanos(began, clock.raw()) / 1_000;
    let fit = loop {
        let mut pages = 0;
        while scattered > 0 && pages < PAGES_PER_STEP && excess > 0 && turn.compact() > 0 {
            pages += 1;
            (excess, scattered) = shared.excess(turn, memory.used(), limit);
        }
        if excess <= 0 {
            break Fit::Fits;
        }
        if pages > 0 {
            if elapsed_us() >= step_us {
                break Fit::Unfinished;
            }
            continue;
        }
        if scattered > 0 && turn.is_walked() {
            // While a snapshot's walk is running, records cannot move, so further evictions would
            // free no page.
            excess -= scattered as i64;
            if excess <= 0 {
                break Fit::Fits;
            }
        }
        // Memory of flushed databases and large values becomes free soon.
        let dropped = shared.worker.pending_objects.load(Ordering::Relaxed) > 0
            || turn.discarded.elements_to_free() > 0;
        let full = if dropped { Fit::Unfinished } else { Fit::Full };
        let Some(policy) = turn.limits.eviction else {
            break full;
        };
        let own = || counters::own() - memory.invalidations.load(Ordering::Relaxed) as i64;
        let (before, discarded) = (own(), turn.discarded.evicted_bytes());
        let evicted_before = turn.stats.evicted;
        let mut late = false;
        // A shard without keys to evict asks too, so the calls do not count evictions.
        let mut enough = |turn: &mut Turn<'_>| {
            let evicted = turn.stats.evicted - evicted_before;
            let freed = (before - own())
                + (evicted * RECORD) as i64
                + (turn.discarded.evicted_bytes() - discarded) as i64;
            late = evicted > 0
                && evicted.is_multiple_of(EVICTIONS_PER_CHECK)
                && elapsed_us() >= step_us;
            freed >= excess + slack || late || evicted > 4 * EVICTIONS_PER_CHECK
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
