//! The pending entries of a group in the order of their last deliveries, to find the leases that
//! end next and the entries that a reader may claim.
//!
//! Ground rules: a group has a timeline only if it has a lease, or if a reader has claimed entries,
//! or waits to claim them, by idle time (XREADGROUP CLAIM). Every change of a pending entry passes
//! [`Group`](super::Group), which keeps the timeline up to date. Adding the latest delivery and
//! removing the earliest one are O(1). Other changes are O(log n), plus the pieces that [`Sorted`]
//! may shift.
//!
//! When a lease ends, the entry stays pending at its consumer, which may still acknowledge it,
//! until another reader takes it over. An entry on its last delivery is in `last`: when its lease
//! ends, the entry moves to the dead-letter stream. Before that, only a reader that claims by idle
//! time may take it over. All other entries are in `open`. `notified_ms` is the time up to which
//! waiting readers were woken for due entries, so that an entry that no reader takes wakes readers
//! once.

use punctual_rdb::stream::StreamId as Id;
use smallvec::SmallVec;

use super::group::Pending;
use super::sorted::{Identified, Sorted};
use crate::check::Check;
use crate::time::Now;

/// The dead-letter stream: entries move to it after their last delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Maximum number of deliveries of an entry, at least 1.
    pub deliveries_max: u32,
    /// Key of the dead-letter stream, in the same database as the group's stream.
    pub key: Box<[u8]>,
}

/// The time that a consumer has for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Duration from the delivery on in ms, at least 1.
    pub ms: u64,
    /// Dead-letter stream; `None` if the number of deliveries is unlimited.
    pub dead_letter: Option<DeadLetter>,
}

/// A pending entry in the order of its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivered {
    /// Time of the last delivery, in Unix ms.
    pub at_ms: u64,
    /// ID of the entry.
    pub id: Id,
}

impl Identified for Delivered {
    type Key = Self;

    fn id(&self) -> Self {
        *self
    }
}

impl From<&Pending> for Delivered {
    fn from(entry: &Pending) -> Self {
        Self {
            at_ms: entry.delivered_ms,
            id: entry.id,
        }
    }
}

/// Pending entries by time.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Entries that may be delivered again.
    open: Sorted<Delivered>,
    /// Entries on their last delivery.
    last: Sorted<Delivered>,
    lease: Option<Lease>,
    /// Minimum idle times in ms of waiting readers that claim.
    pub(crate) claims: SmallVec<[u64; 1]>,
    /// Unix ms up to which waiting readers were woken for due entries.
    notified_ms: u64,
    /// Unix ms before which no entry moves to the dead-letter stream, because the last attempt
    /// failed or is in progress.
    pub(crate) retry_ms: u64,
}

impl Clone for Timeline {
    /// Copies the entries and the lease. No readers wait at the copy.
    fn clone(&self) -> Self {
        Self {
            open: self.open.clone(),
            last: self.last.clone(),
            lease: self.lease.clone(),
            ..Self::default()
        }
    }
}

impl Timeline {
    /// Creates the timeline of these pending entries. O(n log n).
    pub(super) fn new<'p>(
        lease: Option<Lease>,
        claims: SmallVec<[u64; 1]>,
        pending: impl Iterator<Item = &'p Pending>,
    ) -> Self {
        let mut timeline = Self {
            lease,
            claims,
            ..Self::default()
        };
        let mut entries: Vec<&Pending> = pending.collect();
        entries.sort_unstable_by_key(|entry| Delivered::from(*entry));
        entries.into_iter().for_each(|entry| timeline.insert(entry));
        timeline
    }

    /// Returns the lease.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    fn is_last(&self, entry: &Pending) -> bool {
        let lease = self.lease.as_ref();
        let dead_letter = lease.and_then(|lease| lease.dead_letter.as_ref());
        dead_letter.is_some_and(|dead| entry.deliveries >= dead.deliveries_max)
    }

    /// Adds an entry. O(1) for the latest delivery, otherwise O(log n).
    pub(super) fn insert(&mut self, entry: &Pending) {
        let delivered = Delivered::from(entry);
        let entries = match self.is_last(entry) {
            true => &mut self.last,
            false => &mut self.open,
        };
        entries.insert(delivered);
        // XCLAIM may set a time in the past. Readers must still be woken for this entry.
        if let Some(due) = self
            .waits()
            .map(|ms| delivered.at_ms.saturating_add(ms))
            .min()
            && due <= self.notified_ms
        {
            // `due` is 0 after XCLAIM with TIME 0 while a reader waits with CLAIM 0.
            self.notified_ms = due.saturating_sub(1);
        }
    }

    /// Removes an entry. O(1) for the earliest delivery, otherwise O(log n).
    pub(super) fn remove(&mut self, entry: &Pending) {
        let delivered = Delivered::from(entry);
        let removed = self
            .open
            .remove(delivered)
            .or_else(|| self.last.remove(delivered));
        debug_assert!(removed.is_some(), "a timeline has all pending entries");
    }

    /// Returns the durations in ms from a delivery until a reader may take over the entry.
    fn waits(&self) -> impl Iterator<Item = u64> {
        let lease = self.lease.iter().map(|lease| lease.ms);
        lease.chain(self.claims.iter().copied())
    }

    /// Returns the Unix ms at which the next entry is due for a reader or for the dead-letter
    /// stream. O(log n).
    pub fn next_deadline(&self) -> Option<u64> {
        let open = self
            .waits()
            .filter_map(|ms| self.next_due_to_notify(&self.open, ms));
        // A reader that claims also gets entries on their last delivery, until their lease ends.
        let claims = self.claims.iter();
        let last = claims.filter_map(|ms| self.next_due_to_notify(&self.last, *ms));
        let dead = self.next_dead_letter_ms().map(|at| at.max(self.retry_ms));
        open.chain(last).chain(dead).min()
    }

    /// Returns the Unix ms at which the next of `entries` is due, where an entry is due `ms` after
    /// its delivery. Ignores entries that were due at `notified_ms`, for which readers were woken.
    fn next_due_to_notify(&self, entries: &Sorted<Delivered>, ms: u64) -> Option<u64> {
        let due = |entry: &Delivered| entry.at_ms.saturating_add(ms);
        let first = due(entries.first()?);
        if first > self.notified_ms {
            return Some(first);
        }
        let first_to_notify = Delivered {
            at_ms: self.notified_ms.saturating_sub(ms).saturating_add(1),
            id: Id::MIN,
        };
        entries.from(first_to_notify).next().map(due)
    }

    /// Returns the Unix ms at which the first lease of a last delivery ends, so that its entry
    /// moves to the dead-letter stream.
    fn next_dead_letter_ms(&self) -> Option<u64> {
        let lease = self.lease.as_ref()?;
        Some(self.last.first()?.at_ms.saturating_add(lease.ms))
    }

    /// Returns whether entries are due for the dead-letter stream.
    pub(crate) fn has_dead_letters(&self, now: Now) -> bool {
        self.next_dead_letter_ms()
            .is_some_and(|at| now.is_due(at.max(self.retry_ms)))
    }

    /// Returns up to `count` entries that are due for the dead-letter stream, the earliest first.
    pub(crate) fn dead_letters(&self, now: Now, count: usize) -> SmallVec<[Id; 16]> {
        let Some(lease) = &self.lease else {
            return SmallVec::new();
        };
        let due = |entry: &&Delivered| now.is_due(entry.at_ms.saturating_add(lease.ms));
        let due = self.last.iter().take_while(due).take(count);
        due.map(|entry| entry.id).collect()
    }

    /// Records that waiting readers were woken for the entries that are due at `now`.
    pub(crate) fn mark_notified(&mut self, now: Now) {
        self.notified_ms = self.notified_ms.max(now.read_ms());
    }

    /// Iterates over the entries that a reader may take over, in the order of their deliveries:
    /// entries whose lease has ended, and with `min_idle_ms` also entries that have been idle for
    /// that long. Leaves out the entries that are due for the dead-letter stream.
    pub fn claimable(&self, now: Now, min_idle_ms: Option<u64>) -> impl Iterator<Item = Delivered> {
        let lease_ms = self.lease.as_ref().map(|lease| lease.ms);
        let lapsed = move |entry: &Delivered| {
            lease_ms.is_some_and(|ms| now.is_due(entry.at_ms.saturating_add(ms)))
        };
        let idle = move |entry: &Delivered| {
            min_idle_ms.is_some_and(|ms| now.is_due(entry.at_ms.saturating_add(ms)))
        };
        let mut open = self
            .open
            .iter()
            .copied()
            .take_while(move |entry| lapsed(entry) || idle(entry))
            .peekable();
        let mut last = self
            .last
            .iter()
            .copied()
            .skip_while(lapsed)
            .take_while(idle)
            .peekable();
        std::iter::from_fn(move || match (open.peek(), last.peek()) {
            (Some(a), Some(b)) if b < a => last.next(),
            (Some(_), _) => open.next(),
            (None, _) => last.next(),
        })
    }

    /// Checks that the timeline has each pending entry once.
    pub(super) fn check(&self, to: &mut Check, pending: &Sorted<Pending>) {
        self.open.check(to);
        self.last.check(to);
        let len = self.open.len() + self.last.len();
        to.equal("entries of the timeline", len, pending.len());
        let filed = pending.iter().all(|entry| {
            let entries = match self.is_last(entry) {
                true => &self.last,
                false => &self.open,
            };
            entries.get(Delivered::from(entry)).is_some()
        });
        to.holds("the timeline has each pending entry", filed);
    }

    /// Returns the allocated bytes. O(pieces of the entries).
    pub fn bytes(&self) -> usize {
        let dead_letter = self
            .lease
            .as_ref()
            .and_then(|lease| lease.dead_letter.as_ref());
        size_of::<Self>()
            + self.open.heap_bytes()
            + self.last.heap_bytes()
            + dead_letter.map_or(0, |dead| dead.key.len())
    }
}
