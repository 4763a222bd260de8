//! Eviction policies: the settings `maxmemory-policy` and `maxmemory-samples`.

/// Order in which keys are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// Keys that have not been used for the longest time first, approximated by samples.
    Lru,
    /// Keys that are used least often first, approximated by samples.
    Lfu,
    /// Keys that have not been changed for the longest time first (Redis 8.6), approximated by
    /// samples.
    Lrm,
    /// Random keys.
    Random,
    /// Keys with the earliest deadline first: exactly, unless a thousand fields, timers or queues
    /// of jobs have earlier deadlines.
    Ttl,
}

/// An eviction policy other than `noeviction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The order in which keys are evicted.
    pub order: EvictionOrder,
    /// Only keys with a deadline are evicted.
    pub volatile: bool,
    /// Number of keys that are examined for each evicted key, if the order is LRU, LFU or LRM.
    pub samples: usize,
}

impl Eviction {
    /// Returns the policy with Redis's name, or `None` for `noeviction`.
    ///
    /// ```
    /// use punctual_store::eviction::{Eviction, EvictionOrder};
    /// let policy = Eviction::of_name("volatile-lru", 5).unwrap();
    /// assert_eq!((policy.order, policy.volatile), (EvictionOrder::Lru, true));
    /// assert!(Eviction::of_name("noeviction", 5).is_none());
    /// ```
    pub fn of_name(name: &str, samples: usize) -> Option<Self> {
        let (keys, order) = name.split_once('-')?;
        Some(Self {
            order: match order {
                "lru" => EvictionOrder::Lru,
                "lfu" => EvictionOrder::Lfu,
                "lrm" => EvictionOrder::Lrm,
                "random" => EvictionOrder::Random,
                "ttl" => EvictionOrder::Ttl,
                _ => return None,
            },
            volatile: match keys {
                "volatile" => true,
                "allkeys" => false,
                _ => return None,
            },
            samples: samples.max(1),
        })
    }
}

/// Result of [`Turn::evict`](crate::Turn::evict).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The caller's `enough` has returned true.
    Enough,
    /// A later call may find more keys: a shard was locked by another thread, or a search has not
    /// ended.
    Unfinished,
    /// No evictable key is left.
    Nothing,
}
