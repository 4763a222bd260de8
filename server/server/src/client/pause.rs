//! Pauses of clients: by CLIENT PAUSE, and by a shutdown or a failover that waits for replicas.
//!
//! As in Redis, each purpose has its own pause, with its own end and mode; a command waits while
//! any pause applies to it. Any thread may begin or end a pause. While there is no pause, a command
//! reads only one atomic.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use punctual_store::Now;

/// Purpose of a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// CLIENT PAUSE.
    Command,
    /// A shutdown that waits for replicas.
    Shutdown,
    /// A failover that waits for a replica.
    Failover,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until_ms: u64,
    writes_only: bool,
}

/// The pauses of a server.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Current pauses, indexed by [`Purpose`].
    running: Mutex<[Option<Pause>; 3]>,
    /// Earliest end of a pause in unix ms; 0 without a pause.
    next_end_ms: AtomicU64,
    /// Counter that grows when a pause ends. The loops then resume their clients.
    ended: AtomicU64,
}

impl Pauses {
    /// Returns true if there is a pause, even if its end has passed and no loop has removed it yet.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.next_end_ms.load(Ordering::Acquire) != 0
    }

    /// Returns the earliest end of a pause in unix ms, or `None` if no pause has a fixed end.
    pub(crate) fn next_end_ms(&self) -> Option<u64> {
        Some(self.next_end_ms.load(Ordering::Acquire)).filter(|end| *end != 0 && *end != u64::MAX)
    }

    /// Returns the latest end of all pauses in unix ms; 0 without a pause.
    pub(crate) fn last_end_ms(&self) -> u64 {
        let running = self.running.lock();
        let ends = running.iter().flatten().map(|pause| pause.until_ms);
        ends.max().unwrap_or(0)
    }

    /// Returns `None` if clients are not paused at `now`, and otherwise whether only writes are
    /// paused.
    #[inline]
    pub(crate) fn in_force(&self, now: Now) -> Option<WritesOnly> {
        if self.any() {
            self.in_force_slow(now)
        } else {
            None
        }
    }

    #[cold]
    fn in_force_slow(&self, now: Now) -> Option<WritesOnly> {
        let running = self.running.lock();
        let pauses = running.iter().flatten();
        let in_force = pauses.filter(|pause| now.read_ms() < pause.until_ms);
        in_force
            .map(|pause| pause.writes_only)
            .reduce(|a, b| a && b)
            .map(WritesOnly)
    }

    /// Begins a pause. A current pause of the same purpose is neither shortened nor weakened.
    pub(crate) fn begin(&self, purpose: Purpose, now: Now, until_ms: u64, writes_only: bool) {
        let mut running = self.running.lock();
        let slot = &mut running[purpose as usize];
        let lasting = slot.filter(|pause| now.read_ms() < pause.until_ms);
        *slot = Some(Pause {
            until_ms: lasting.map_or(until_ms, |pause| until_ms.max(pause.until_ms)),
            writes_only: writes_only && lasting.is_none_or(|pause| pause.writes_only),
        });
        self.update(&*running);
    }

    /// Ends a pause. The caller must send the loops
    /// [`Order::Resume`](crate::node::order::Order::Resume).
    pub(crate) fn end(&self, purpose: Purpose) {
        let mut running = self.running.lock();
        running[purpose as usize] = None;
        self.ended.fetch_add(1, Ordering::AcqRel);
        self.update(&*running);
    }

    /// Removes the pauses whose time is over. Returns a counter that grows when a pause ends.
    pub(crate) fn forget_ended(&self, now: Now) -> u64 {
        if self.any() {
            let mut running = self.running.lock();
            for slot in &mut *running {
                if slot.is_some_and(|pause| now.read_ms() >= pause.until_ms) {
                    *slot = None;
                    self.ended.fetch_add(1, Ordering::AcqRel);
                }
            }
            self.update(&*running);
        }
        self.ended.load(Ordering::Acquire)
    }

    fn update(&self, running: &[Option<Pause>]) {
        let ends = running.iter().flatten().map(|pause| pause.until_ms);
        let next = ends.min().unwrap_or(0);
        self.next_end_ms.store(next, Ordering::Release);
    }
}

/// True if a pause applies only to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WritesOnly(pub(crate) bool);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_have_their_own_ends() {
        let pauses = Pauses::default();
        let at = Now::from_ms;
        assert_eq!(pauses.in_force(at(0)), None);
        pauses.begin(Purpose::Shutdown, at(0), u64::MAX, true);
        pauses.begin(Purpose::Command, at(0), 100, false);
        pauses.begin(Purpose::Command, at(50), 80, true);
        assert_eq!(pauses.in_force(at(99)), Some(WritesOnly(false)));
        assert_eq!(pauses.next_end_ms(), Some(100));
        assert_eq!(pauses.forget_ended(at(99)), 0);
        assert_eq!(pauses.in_force(at(100)), Some(WritesOnly(true)));
        assert_eq!(pauses.forget_ended(at(100)), 1);
        assert_eq!((pauses.next_end_ms(), pauses.any()), (None, true));
        assert_eq!(pauses.last_end_ms(), u64::MAX);
        pauses.end(Purpose::Shutdown);
        assert_eq!(pauses.forget_ended(at(101)), 2);
        assert_eq!((pauses.in_force(at(101)), pauses.any()), (None, false));
    }
}
