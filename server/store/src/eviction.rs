//! Rules by which keys are evicted when memory is short: `maxmemory-policy` and
//! `maxmemory-samples`.

/// EvictionOrder in which keys are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// Keys that have not been used for the longest time first, approximated by samples.
    Lru,
    /// Keys that are used least often first, approximated by samples.
    Lfu,
    /// Keys that have not been changed for the longest time first, approximated by samples (Redis
    /// 8.6).
    Lrm,
    /// Random keys.
    Random,
    /// Keys with the earliest deadline first, exactly.
    Ttl,
}

/// A policy that evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Which keys go first.
    pub order: EvictionOrder,
    /// Only keys with a deadline are evicted.
    pub volatile: bool,
    /// Number of keys that are examined for each evicted key.
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
    /// Enough has been evicted.
    Enough,
    /// Work is left, for a later call.
    Unfinished,
    /// No key is left that may be evicted.
    Nothing,
}
