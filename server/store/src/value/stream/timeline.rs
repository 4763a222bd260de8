//! The pending entries of a group in the order of their deliveries: which leases end when, and who
//! may claim what.
//!
//! Ground rules: a group has a timeline only if it has a lease, or if a reader has claimed entries
//! by their idle time (XREADGROUP CLAIM). Every change of a pending entry passes
//! [`Group`](super::Group), which keeps the timeline exact, so nothing here is stale and no heap
//! needs cleaning. Deliveries come in the order of time and end in it, so both ends of [`Sorted`]
//! are where the work is: O(1) for an entry that is delivered, O(log n) for one that is
//! acknowledged before older ones.
//!
//! A lease that has ended does not change the entry: it stays pending at its consumer, who may
//! still acknowledge it, until another reader takes it over. Entries on their last delivery are
//! apart: they wait for the dead-letter stream, and no reader is given them. `told_ms` is the time
//! up to which waiting readers were told of entries, so that an entry that nobody takes fires once.

use punctual_rdb::stream::StreamId as Id;
use smallvec::SmallVec;

use super::group::Pending;
use super::sorted::{Identified, Sorted};
use crate::time::Now;

/// Where entries go whose deliveries are used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Number of deliveries after which an entry goes there, at least 1.
    pub deliveries_max: u32,
    /// Key of the stream, in the database of the group's stream.
    pub key: Box<[u8]>,
}

/// The time that a consumer has for an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Milliseconds from the delivery on, at least 1.
    pub ms: u64,
    /// Where entries go in the end; `None`: they are delivered again and again.
    pub dead_letter: Option<DeadLetter>,
}

/// A pending entry in the order of its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivered {
    /// Time of the last delivery, in unix ms.
    pub at_ms: u64,
    /// Its ID.
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
    /// Those that readers may be given.
    open: Sorted<Delivered>,
    /// Those on their last delivery.
    last: Sorted<Delivered>,
    lease: Option<Lease>,
    /// Idle times for which readers wait, in ms.
    pub(crate) claims: SmallVec<[u64; 1]>,
    /// Unix ms up to which waiting readers were told of entries.
    told_ms: u64,
    /// Unix ms before which nothing moves to the dead-letter stream: the last attempt has failed,
    /// or is under way.
    pub(crate) retry_ms: u64,
}

impl Clone for Timeline {
    /// Copies entries and lease. Nobody waits for the copy.
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

    /// Adds an entry. O(1) for the latest, else O(log n).
    pub(super) fn insert(&mut self, entry: &Pending) {
        let delivered = Delivered::from(entry);
        let entries = match self.is_last(entry) {
            true => &mut self.last,
            false => &mut self.open,
        };
        entries.insert(delivered);
        // XCLAIM may set a time in the past, at which nobody was told of this entry.
        if let Some(due) = self
            .waits()
            .map(|ms| delivered.at_ms.saturating_add(ms))
            .min()
            && due <= self.told_ms
        {
            self.told_ms = due - 1;
        }
    }

    /// Removes an entry. O(1) for the earliest, else O(log n).
    pub(super) fn remove(&mut self, entry: &Pending) {
        let delivered = Delivered::from(entry);
        let removed = self
            .open
            .remove(delivered)
            .or_else(|| self.last.remove(delivered));
        debug_assert!(removed.is_some(), "a timeline has all pending entries");
    }

    /// Returns the times from a delivery to the moment at which somebody may be given the entry.
    fn waits(&self) -> impl Iterator<Item = u64> {
        let lease = self.lease.iter().map(|lease| lease.ms);
        lease.chain(self.claims.iter().copied())
    }

    /// Returns the time at which the next entry is due for somebody, in unix ms. O(log n).
    pub fn next_deadline(&self) -> Option<u64> {
        let open = self
            .waits()
            .filter_map(|ms| self.next_untold(&self.open, ms));
        // A reader that claims is given entries on their last delivery too, until their lease ends.
        let claims = self.claims.iter();
        let last = claims.filter_map(|ms| self.next_untold(&self.last, *ms));
        let dead = self.next_dead_ms().map(|at| at.max(self.retry_ms));
        open.chain(last).chain(dead).min()
    }

    /// Returns the time at which the first entry of which nobody was told is due, `ms` after its
    /// delivery.
    fn next_untold(&self, entries: &Sorted<Delivered>, ms: u64) -> Option<u64> {
        let due = |entry: &Delivered| entry.at_ms.saturating_add(ms);
        let first = due(entries.first()?);
        if first > self.told_ms {
            return Some(first);
        }
        let untold = Delivered {
            at_ms: self.told_ms.saturating_sub(ms).saturating_add(1),
            id: Id::MIN,
        };
        entries.from(untold).next().map(due)
    }

    /// Returns the end of the first lease after which an entry goes to the dead-letter stream.
    fn next_dead_ms(&self) -> Option<u64> {
        let lease = self.lease.as_ref()?;
        Some(self.last.first()?.at_ms.saturating_add(lease.ms))
    }

    /// Returns whether entries are due for the dead-letter stream.
    pub(crate) fn has_dead(&self, now: Now) -> bool {
        self.next_dead_ms()
            .is_some_and(|at| now.is_due(at.max(self.retry_ms)))
    }

    /// Returns up to `count` entries that are due for the dead-letter stream, the earliest first.
    pub(crate) fn dead(&self, now: Now, count: usize) -> SmallVec<[Id; 16]> {
        let Some(lease) = &self.lease else {
            return SmallVec::new();
        };
        let due = |entry: &&Delivered| now.is_due(entry.at_ms.saturating_add(lease.ms));
        let due = self.last.iter().take_while(due).take(count);
        due.map(|entry| entry.id).collect()
    }

    /// Notes that waiting readers were told of what is due.
    pub(crate) fn told(&mut self, now: Now) {
        self.told_ms = self.told_ms.max(now.read_ms());
    }

    /// Iterates over the entries that a reader may take over: leases that have ended, and with
    /// `min_idle_ms` entries that have been idle for that long, in the order of their deliveries.
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

    /// Returns the allocated bytes. O(n / 128).
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
