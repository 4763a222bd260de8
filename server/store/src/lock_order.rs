//! The order of the server's locks, asserted in debug builds.
//!
//! A thread that holds a lock may only wait for locks of a later [`Rank`], so threads cannot
//! deadlock. Shards share one rank. [`Turn`](crate::Turn) locks them in ascending order, except in
//! a script's turn, to which the other turns give way (`turn/locks.rs`). `try_lock` is allowed in
//! any order, because it does not wait.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// The locks that a thread may hold at the same time, in the order in which it must take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// Shards of the keyspace.
    Shard,
    /// The server's configuration.
    Config,
    /// The log of changes.
    Log,
    /// The replication stream.
    Stream,
    /// The pub/sub registry.
    PubSub,
    /// The clients with client-side caches.
    Tracking,
    /// Mailboxes of event loops.
    Mailbox,
}

#[cfg(debug_assertions)]
mod held {
    use std::cell::Cell;

    use crate::lock_order::Rank;

    thread_local! {
        /// Number of locks of each rank that the thread holds.
        static HELD: Cell<[u32; 7]> = const { Cell::new([0; 7]) };
    }

    /// Counts a lock of `rank` as held until it is dropped.
    pub(super) struct Held(Rank);

    impl Held {
        pub(super) fn new(rank: Rank) -> Self {
            let mut counts = HELD.get();
            counts[rank as usize] += 1;
            HELD.set(counts);
            Self(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let mut counts = HELD.get();
            counts[self.0 as usize] -= 1;
            HELD.set(counts);
        }
    }

    /// Panics if the thread holds a lock that must be taken after one of `rank`.
    pub(super) fn assert_order(rank: Rank) {
        // A thread may hold several locks of the rank `Shard`, and one lock of each other rank.
        let first = rank as usize + usize::from(rank == Rank::Shard);
        let later = HELD.get()[first..].iter().sum::<u32>();
        assert!(later == 0, "a lock of rank {rank:?} is taken too late");
    }
}

/// A mutex with a rank in the order of locks. In release builds it is only the mutex.
#[derive(Debug)]
pub struct OrderedMutex<T> {
    mutex: Mutex<T>,
    #[cfg(debug_assertions)]
    rank: Rank,
}

/// Access to the value of a locked [`OrderedMutex`]. Dropping it unlocks the mutex.
pub struct OrderedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    #[cfg(debug_assertions)]
    _held: held::Held,
}

impl<T> OrderedMutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(rank: Rank, value: T) -> Self {
        let _ = rank;
        Self {
            mutex: Mutex::new(value),
            #[cfg(debug_assertions)]
            rank,
        }
    }

    /// Locks the mutex; blocks while another thread holds it.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of the same or a later rank. For shards, only if
    /// it holds a lock of a later rank.
    #[inline]
    pub fn lock(&self) -> OrderedGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::assert_order(self.rank);
        self.guard(self.mutex.lock())
    }

    /// Locks the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<OrderedGuard<'_, T>> {
        self.mutex.try_lock().map(|guard| self.guard(guard))
    }

    /// Same as [`OrderedMutex::lock`], but waits at most this long.
    ///
    /// # Panics
    /// Same as [`OrderedMutex::lock`].
    pub fn try_lock_for(&self, patience: Duration) -> Option<OrderedGuard<'_, T>> {
        #[cfg(debug_assertions)]
        held::assert_order(self.rank);
        self.mutex
            .try_lock_for(patience)
            .map(|guard| self.guard(guard))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.mutex.into_inner()
    }

    #[inline]
    fn guard<'a>(&'a self, guard: MutexGuard<'a, T>) -> OrderedGuard<'a, T> {
        OrderedGuard {
            guard,
            #[cfg(debug_assertions)]
            _held: held::Held::new(self.rank),
        }
    }
}

impl<T> Deref for OrderedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for OrderedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(debug_assertions)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ranks_may_be_added() {
        let (shard, config) = (
            OrderedMutex::new(Rank::Shard, 1),
            OrderedMutex::new(Rank::Config, 2),
        );
        let other_shard = OrderedMutex::new(Rank::Shard, 3);
        let held = (shard.lock(), other_shard.lock(), config.lock());
        assert_eq!((*held.0, *held.1, *held.2), (1, 3, 2));
        drop(held);
        drop((config.lock(), shard.try_lock()));
        drop(config.lock());
        drop(shard.lock());
    }

    #[test]
    #[should_panic(expected = "a lock of rank Shard is taken too late")]
    fn an_earlier_rank_is_refused() {
        let (shard, mailbox) = (
            OrderedMutex::new(Rank::Shard, ()),
            OrderedMutex::new(Rank::Mailbox, ()),
        );
        let _mailbox = mailbox.lock();
        shard.lock();
    }

    #[test]
    #[should_panic(expected = "a lock of rank Mailbox is taken too late")]
    fn one_lock_of_a_rank_at_a_time() {
        let mailboxes = [(); 2].map(|()| OrderedMutex::new(Rank::Mailbox, ()));
        let _first = mailboxes[0].lock();
        mailboxes[1].lock();
    }
}
