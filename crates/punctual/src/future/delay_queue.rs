//! [`DelayQueue`]: a queue of values with deadlines, and a stream of the values that are due.
//!
//! The values are in a [`Wheel`]. One [`Sleep`] waits for the earliest deadline. After a removal or
//! a reset to a later deadline, the sleep may still wait for the old deadline and wake the task
//! once spuriously. It never waits for a deadline later than the earliest.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use futures_core::{FusedStream, Stream};

use super::sleep::Sleep;
use crate::queue::TimerKey;
use crate::queue::wheel::Wheel;
use crate::time::timeline::{self, Timeline};

/// A queue of values with deadlines, and a stream that yields them when they are due.
///
/// One task waits for all values with one alarm, so a million values cost only their memory in the
/// queue. Every operation except [`clear`](Self::clear) is O(1), some of them amortised. Only an
/// operation that moves or disarms the alarm, or a poll that waits, takes a lock. The queue yields
/// values in the order of their deadlines, and values with equal deadlines in the order in which
/// they were inserted or reset.
///
/// The stream ends (`None`) whenever the queue is empty, and continues after an insertion: the task
/// that found the queue empty is woken when the value is due. In tokio's `select!`, give the
/// queue's branch the condition that the queue is not empty. The `select!` of the crate `futures`
/// detects an empty queue by itself.
///
/// ```
/// use std::time::Duration;
/// use punctual::future::DelayQueue;
///
/// # smol::block_on(async {
/// let mut sessions = DelayQueue::new();
/// let anna = sessions.insert("anna", Duration::from_millis(2));
/// sessions.insert("bert", Duration::from_millis(1));
/// let carl = sessions.insert("carl", Duration::from_secs(60));
///
/// sessions.reset(anna, Duration::from_millis(3)); // anna was active
/// assert_eq!(sessions.remove(carl), Some("carl")); // carl logged out
///
/// assert_eq!(sessions.next().await.unwrap().value, "bert");
/// assert_eq!(sessions.next().await.unwrap().value, "anna");
/// assert!(sessions.next().await.is_none());
/// # });
/// ```
pub struct DelayQueue<T> {
    /// Values by deadline, in ticks of the timeline's driver.
    queue: Wheel<T>,
    /// Wakes the waiting task at the earliest deadline, or earlier after a removal or a reset.
    sleep: Sleep,
    /// Waker of the task that found the queue empty; `None` after an insertion.
    idle: Option<Waker>,
    /// The last clock reading. Values that are due at this tick are popped without another reading.
    now: u64,
}

/// A value that is due, removed from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The value's handle, which is now stale.
    pub key: TimerKey,
    /// The value's deadline.
    pub deadline: Instant,
    /// The value that was inserted.
    pub value: T,
}

impl<T> DelayQueue<T> {
    /// Returns an empty queue. Allocates nothing. O(1).
    ///
    /// ```
    /// assert!(punctual::future::DelayQueue::<u32>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        DelayQueue {
            queue: Wheel::new(),
            sleep: Sleep::new(Timeline::current(), u64::MAX),
            idle: None,
            now: 0,
        }
    }

    /// Inserts a value that is due `delay` from now, and returns its handle. O(1), and a clock
    /// reading.
    ///
    /// The task that waits for the queue is woken when the value is due, even if the task waited
    /// for a later value or found the queue empty.
    ///
    /// # Panics
    ///
    /// If the queue would hold more than 2^32 - 2 values.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert_eq!(queue.get(key), Some(&"tea"));
    /// ```
    pub fn insert(&mut self, value: T, delay: Duration) -> TimerKey {
        let deadline = self.sleep.timeline().deadline_after(delay);
        self.insert_tick(value, deadline)
    }

    /// Inserts a value that is due at an instant, and returns its handle. O(1).
    ///
    /// # Panics
    ///
    /// In the same case as [`insert`](Self::insert).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let deadline = Instant::now() + Duration::from_secs(180);
    /// let key = queue.insert_at("tea", deadline);
    /// assert_eq!(queue.deadline(key), Some(deadline));
    /// ```
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> TimerKey {
        let deadline = timeline::tick(deadline);
        self.insert_tick(value, deadline)
    }

    fn insert_tick(&mut self, value: T, deadline: u64) -> TimerKey {
        let key = self.queue.insert(deadline, value);
        match self.idle.take() {
            Some(waker) => self.wait_for_first(deadline, waker),
            None => self.wait_no_later_than(deadline),
        }
        key
    }

    /// Removes and returns a value, or `None` if its handle is stale. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert_eq!(queue.remove(key), Some("tea"));
    /// assert_eq!(queue.remove(key), None);
    /// ```
    pub fn remove(&mut self, key: TimerKey) -> Option<T> {
        let value = self.queue.remove(key)?;
        self.wake_if_empty();
        Some(value)
    }

    /// Changes a value's deadline to `delay` from now. Returns false if its handle is stale. O(1),
    /// and a clock reading.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert!(queue.reset(key, Duration::from_secs(240)));
    /// ```
    pub fn reset(&mut self, key: TimerKey, delay: Duration) -> bool {
        let deadline = self.sleep.timeline().deadline_after(delay);
        self.reset_tick(key, deadline)
    }

    /// Changes a value's deadline to an instant. Returns false if its handle is stale. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert!(queue.reset_at(key, Instant::now()));
    /// ```
    pub fn reset_at(&mut self, key: TimerKey, deadline: Instant) -> bool {
        let deadline = timeline::tick(deadline);
        self.reset_tick(key, deadline)
    }

    fn reset_tick(&mut self, key: TimerKey, deadline: u64) -> bool {
        let known = self.queue.reset(key, deadline);
        if known {
            self.wait_no_later_than(deadline);
        }
        known
    }

    /// Returns a value, or `None` if its handle is stale. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert_eq!(queue.get(key), Some(&"tea"));
    /// ```
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.queue.get(key)
    }

    /// Returns a value for modification, or `None` if its handle is stale. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert(1, Duration::from_secs(180));
    /// *queue.get_mut(key).unwrap() += 1;
    /// assert_eq!(queue.remove(key), Some(2));
    /// ```
    pub fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.queue.get_mut(key)
    }

    /// Returns a value's deadline, or `None` if its handle is stale. O(1).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let key = queue.insert("tea", Duration::from_secs(180));
    /// assert!(queue.deadline(key).unwrap() > Instant::now());
    /// ```
    pub fn deadline(&self, key: TimerKey) -> Option<Instant> {
        let deadline = self.queue.deadline(key)?;
        Some(timeline::instant(deadline))
    }

    /// Returns the earliest deadline, or `None` if the queue is empty. O(1) amortised.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let mut queue = punctual::future::DelayQueue::new();
    /// let now = Instant::now();
    /// queue.insert_at("tea", now);
    /// assert_eq!(queue.next_deadline(), Some(now));
    /// ```
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let deadline = self.queue.next_deadline()?;
        Some(timeline::instant(deadline))
    }

    /// Returns the number of values. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// queue.insert("tea", Duration::from_secs(180));
    /// assert_eq!(queue.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns true if the queue is empty. O(1).
    ///
    /// ```
    /// assert!(punctual::future::DelayQueue::<u32>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all values; all handles become stale. O(n).
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut queue = punctual::future::DelayQueue::new();
    /// queue.insert("tea", Duration::from_secs(180));
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    pub fn clear(&mut self) {
        self.queue.clear();
        self.wake_if_empty();
    }

    /// Waits for the next due value, or returns `None` if the queue is empty. O(1) amortised.
    ///
    /// Dropping the future loses no value.
    ///
    /// ```
    /// use std::time::Duration;
    /// # smol::block_on(async {
    /// let mut queue = punctual::future::DelayQueue::new();
    /// queue.insert("tea", Duration::from_millis(1));
    /// assert_eq!(queue.next().await.map(|expired| expired.value), Some("tea"));
    /// # });
    /// ```
    #[expect(
        clippy::should_implement_trait,
        reason = "the name of `StreamExt::next`"
    )]
    pub fn next(&mut self) -> Next<'_, T> {
        Next(self)
    }

    /// Polls for the next due value, like [`next`](Self::next). O(1) amortised; values due together
    /// share one clock reading.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    ///
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut queue = punctual::future::DelayQueue::new();
    /// assert_eq!(queue.poll_expired(&mut cx), Poll::Ready(None));
    /// queue.insert("tea", Duration::from_secs(180));
    /// assert!(queue.poll_expired(&mut cx).is_pending());
    /// ```
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        loop {
            if let Some(expired) = self.queue.pop_due(self.now) {
                return Poll::Ready(Some(Expired {
                    key: expired.key,
                    deadline: timeline::instant(expired.deadline),
                    value: expired.value,
                }));
            }
            let Some(next) = self.queue.next_deadline() else {
                drop(self.sleep.stop_waiting());
                self.store_idle(cx.waker());
                return Poll::Ready(None);
            };
            if self.sleep.is_waiting() && self.sleep.poll_elapsed(cx).is_pending() {
                debug_assert!(self.sleep.tick() <= next);
                return Poll::Pending;
            }
            self.now = self.sleep.timeline().now();
            if next > self.now {
                self.sleep.set_deadline(next);
                if self.sleep.wait(cx.waker()) {
                    return Poll::Pending;
                }
            }
        }
    }

    /// Stores the waker of the task that found the queue empty.
    fn store_idle(&mut self, waker: &Waker) {
        match &mut self.idle {
            Some(known) => known.clone_from(waker),
            None => self.idle = Some(waker.clone()),
        }
    }

    /// Makes the task of `waker` wait for the first value, which is due at `deadline`.
    fn wait_for_first(&mut self, deadline: u64, waker: Waker) {
        self.sleep.set_deadline(deadline);
        if !self.sleep.wait(&waker) {
            waker.wake();
        }
    }

    /// Makes a waiting task wait for `deadline` if that is earlier than the deadline it waits for.
    fn wait_no_later_than(&mut self, deadline: u64) {
        if self.sleep.is_waiting() && deadline < self.sleep.tick() {
            self.sleep.set_deadline(deadline);
        }
    }

    /// Wakes a waiting task if the queue has become empty.
    fn wake_if_empty(&mut self) {
        if self.queue.is_empty()
            && let Some(waker) = self.sleep.stop_waiting()
        {
            waker.wake();
        }
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

// Values are never pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), None)
    }
}

/// The stream is terminated while the queue is empty.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.is_empty()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The future of [`DelayQueue::next`].
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Next<'a, T>(&'a mut DelayQueue<T>);

impl<T> Future for Next<'_, T> {
    type Output = Option<Expired<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll_expired(cx)
    }
}
