use super::sync::{AtomicU64, Ordering, fence};

/// The value while the thread is awake. `take_if_after` leaves it alone, because no tick is before
/// 0.
const AWAKE: u64 = 0;

/// A thread's announcement that it sleeps until a tick. Other threads read it to decide whether
/// they must wake the thread.
///
/// No wake-up is lost. The sleeper announces its sleep and then checks for work again. Another
/// thread publishes an earlier deadline and then reads the announcement. Each side has a
/// sequentially consistent fence between its write and its read, so at least one of them sees the
/// other's write. If the sleeper sees the new deadline, it does not sleep. If the other thread sees
/// the announcement, it *takes* it: a `swap` replaces the announcement by the value of a thread
/// that is awake. Only one thread gets the announcement from its `swap`, and only that thread wakes
/// the sleeper.
///
/// An announcement does not put a thread to sleep or wake it. A driver does that with a condition
/// variable, an event loop with its poller.
///
/// ```
/// use punctual::driver::Announcement;
///
/// let announcement = Announcement::new();
/// // The sleeper: announce, then check for work again, then sleep.
/// announcement.announce(1_000);
/// // Another thread, after it has published a deadline:
/// assert_eq!(announcement.take_if_after(2_000), None); // the sleeper wakes in time
/// assert_eq!(announcement.take_if_after(500), Some(1_000)); // the caller must wake the sleeper
/// assert_eq!(announcement.take_if_after(400), None); // taken: the sleeper is being woken
/// announcement.withdraw();
/// ```
#[derive(Debug)]
pub struct Announcement(AtomicU64);

impl Announcement {
    /// Returns the announcement of a thread that is awake.
    #[must_use]
    pub fn new() -> Self {
        Announcement(AtomicU64::new(AWAKE))
    }

    /// Announces that the calling thread sleeps until `tick`. `u64::MAX` means that it sleeps until
    /// it is woken. A tick of 0 counts as 1.
    ///
    /// The thread must check for work after this call, and before it sleeps. O(1).
    pub fn announce(&self, tick: u64) {
        self.0.swap(tick.max(AWAKE + 1), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement: the calling thread is awake. O(1).
    pub fn withdraw(&self) {
        self.0.swap(AWAKE, Ordering::AcqRel);
    }

    /// Takes the announcement if the sleeper would sleep beyond `tick`. The caller must then wake
    /// the sleeper.
    ///
    /// The caller must publish its deadline or message before this call. Returns the tick until
    /// which the sleeper would have slept. O(1): one fence and one load if there is nothing to
    /// take.
    #[inline]
    pub fn take_if_after(&self, tick: u64) -> Option<u64> {
        fence(Ordering::SeqCst);
        if tick < self.0.load(Ordering::Relaxed) {
            self.take()
        } else {
            None
        }
    }

    #[cold]
    #[inline(never)]
    fn take(&self) -> Option<u64> {
        let until = self.0.swap(AWAKE, Ordering::AcqRel);
        (until != AWAKE).then_some(until)
    }
}

impl Default for Announcement {
    fn default() -> Self {
        Self::new()
    }
}
