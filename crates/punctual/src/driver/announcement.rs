use super::sync::{AtomicU64, Ordering, fence};

/// The thread is awake: no tick is earlier than 0.
const AWAKE: u64 = 0;

/// A thread's announcement that it sleeps until a tick, so that other threads know whether they
/// must wake it.
///
/// Both sides write first and then read what the other wrote, with a sequentially consistent fence
/// in between: of a thread that falls asleep and one that publishes an earlier deadline at the same
/// time, at least one sees the other. Either the sleeper finds the new deadline in its second look,
/// or the other thread takes the announcement and wakes it. Both sides change the announcement by
/// `swap`, so exactly one thread takes it.
///
/// The announcement neither sleeps nor wakes: a driver has a condition variable for that, an event
/// loop a poller.
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
/// assert_eq!(announcement.take_if_after(400), None); // another thread does so already
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

    /// Announces that the calling thread will sleep until `tick`, at least 1; `u64::MAX` means
    /// forever.
    ///
    /// After this the thread must check for work again before it sleeps. O(1).
    pub fn announce(&self, tick: u64) {
        self.0.swap(tick.max(AWAKE + 1), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement: the calling thread is awake. O(1).
    pub fn withdraw(&self) {
        self.0.swap(AWAKE, Ordering::AcqRel);
    }

    /// Takes the announcement if the thread would sleep beyond `tick`; the caller must then wake
    /// it.
    ///
    /// The caller publishes its deadline or message before this call. Returns the tick until which
    /// the thread would have slept. O(1): one fence and one load if there is nothing to take.
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
