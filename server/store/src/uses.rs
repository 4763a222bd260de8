//! Usage of a key in 24 bits: the time of the last access or change, or an approximate access
//! frequency. The eviction policy (`maxmemory-policy`) determines which:
//!
//! - Without an LRU, LRM or LFU policy, the bits are seconds of the clock, as in Redis.
//! - Under an LRU or LRM policy, the bits are units of 128 ms: at half a million commands a second,
//!   most keys of a full store have been used within the same few seconds.
//! - Under an LFU policy, the bits are minutes and a logarithmic counter (Morris, "Counting large
//!   numbers of events in small registers", 1978) that decays while the key is not used, as in
//!   Redis. Redis has 16 bits of minutes. Here the top one of these bits changes with each access.
//!   Without this bit, eviction would not see most uses of a key that it has examined, because the
//!   counter seldom changes. The 15 bits of minutes wrap after 22 days, Redis's 16 bits after 45.

use crate::time::Now;

/// Mask of the 24 bits.
pub const MASK: u32 = 0x00ff_ffff;
/// Counter of a new key. It is above 0 so that eviction does not pick a new key before its first
/// use.
const NEW: u32 = 5;

/// Kind of usage that keys record (`maxmemory-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uses {
    /// Time of the last access, in seconds.
    #[default]
    Last,
    /// Time of the last access, in units of 128 ms.
    Recent,
    /// Time of the last change, in units of 128 ms. Reads do not change it.
    Changed,
    /// Access counter.
    Count {
        /// `lfu-log-factor`: a greater factor makes the counter grow more slowly.
        log_factor: u32,
        /// `lfu-decay-time`: idle minutes per decrement; 0 disables the decay.
        decay_minutes: u32,
    },
}

fn seconds(now: Now) -> u32 {
    (now.read_ms() / 1000) as u32 & MASK
}

/// Binary logarithm of the milliseconds in a unit of [`Uses::Recent`].
const RECENT_SHIFT: u32 = 7;

fn units(now: Now) -> u32 {
    (now.read_ms() >> RECENT_SHIFT) as u32 & MASK
}

/// Mask of the minutes, which are above the 8 bits of a counter.
const MINUTES: u32 = 0x7fff;
/// The bit above a counter's minutes, which changes with each access.
const ACCESS: u32 = 1 << 23;

fn minutes(now: Now) -> u32 {
    (now.read_ms() / 60_000) as u32 & MINUTES
}

impl Uses {
    /// Returns the usage of a new key.
    #[inline]
    pub fn initial(self, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now),
            Self::Recent | Self::Changed => units(now),
            Self::Count { .. } => minutes(now) << 8 | NEW,
        }
    }

    /// Returns the usage of a restored key, from its idle time or its counter. If the value that
    /// this policy records is `None`, returns the usage of a new key.
    pub fn restored(self, idle_s: Option<u64>, count: Option<u8>, now: Now) -> u32 {
        match self {
            Self::Last | Self::Recent | Self::Changed => {
                let idle_ms = idle_s.unwrap_or(0).saturating_mul(1000);
                self.initial(Now::from_ms(now.read_ms().saturating_sub(idle_ms)))
            }
            Self::Count { .. } => minutes(now) << 8 | count.map_or(NEW, u32::from),
        }
    }

    /// Returns the usage of a key after one more access; `before` is its previous usage. Does not
    /// change a counter; see `Uses::incremented`.
    #[inline]
    pub fn after_access(self, before: u32, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now),
            Self::Recent => units(now),
            Self::Changed | Self::Count { .. } => before,
        }
    }

    /// Returns the usage of a key after one more access, if keys record an access counter. `random`
    /// is a random number from 0 up to 1.
    pub(crate) fn incremented(self, before: u32, now: Now, random: f64) -> u32 {
        let Self::Count { log_factor, .. } = self else {
            return before;
        };
        let count = self.count(before, now);
        let odds = f64::from(count.saturating_sub(NEW)) * f64::from(log_factor) + 1.0;
        let more = count < 255 && random * odds < 1.0;
        (before & ACCESS ^ ACCESS) | minutes(now) << 8 | (count + u32::from(more))
    }

    /// Returns the decayed counter of a key with usage `uses`, or 0 if keys record no counter.
    pub fn count(self, uses: u32, now: Now) -> u32 {
        let Self::Count { decay_minutes, .. } = self else {
            return 0;
        };
        let idle = minutes(now).wrapping_sub(uses >> 8) & MINUTES;
        let lost = idle.checked_div(decay_minutes).unwrap_or(0);
        (uses & 0xff).saturating_sub(lost)
    }

    /// Returns the seconds since the last access or change of a key with usage `uses`. Meaningless
    /// for counters, and after the clock was set back. The time wraps after 194 days, after 24 days
    /// under an LRU or LRM policy.
    pub fn idle_s(self, uses: u32, now: Now) -> u32 {
        match self {
            Self::Recent | Self::Changed => {
                ((u64::from(units(now).wrapping_sub(uses) & MASK) << RECENT_SHIFT) / 1000) as u32
            }
            _ => seconds(now).wrapping_sub(uses) & MASK,
        }
    }

    /// Returns the eviction rank of a key with usage `uses`: keys with a greater rank are evicted
    /// first. While two keys are not used, the order of their ranks does not reverse.
    #[inline]
    pub(crate) fn rank(self, uses: u32, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now).wrapping_sub(uses) & MASK,
            Self::Recent | Self::Changed => units(now).wrapping_sub(uses) & MASK,
            Self::Count { .. } => 255 - self.count(uses, now),
        }
    }

    /// Returns the time in the unit of this policy: seconds, units of 128 ms, or minutes. The rank
    /// of an unused key changes only when this time changes.
    #[inline]
    pub(crate) fn tick(self, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now),
            Self::Recent | Self::Changed => units(now),
            Self::Count { .. } => minutes(now),
        }
    }

    /// Returns true if keys record an access counter.
    #[inline]
    pub fn counts(self) -> bool {
        matches!(self, Self::Count { .. })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    #[test]
    fn recent_use_is_known_in_units_of_128_ms() {
        let at = |ms: u64| Now::from_ms(1_700_000_000_000 + ms);
        let uses = Uses::Recent;
        let key = uses.initial(at(0));
        assert_eq!(uses.rank(key, at(127 + 128)), 1);
        assert_eq!(uses.idle_s(key, at(20 * 86_400_000)), 20 * 86_400);
        let restored = uses.restored(Some(3_600), None, at(0));
        assert!(uses.idle_s(restored, at(0)).abs_diff(3_600) <= 1);
    }

    #[test]
    fn a_counter_grows_ever_slower_and_decays() {
        let uses = Uses::Count {
            log_factor: 10,
            decay_minutes: 1,
        };
        let now = Now::from_ms(60_000 * 70_000);
        let mut random = SmallRng::seed_from_u64(1);
        let mut key = uses.initial(now);
        assert_eq!(uses.count(key, now), 5);
        let mut at_hundred = 0;
        for n in 0..100_000 {
            let before = key;
            key = uses.incremented(key, now, random.random());
            assert_ne!(key, before, "an access shows, also if the counter stays");
            if n == 99 {
                at_hundred = uses.count(key, now);
            }
        }
        let at_last = uses.count(key, now);
        assert!((6..=20).contains(&at_hundred), "{at_hundred}");
        assert!((90..=200).contains(&at_last), "{at_last}");
        let later = Now::from_ms(60_000 * 70_010 + 1);
        assert_eq!(uses.count(key, later), at_last - 10);
        let never = Uses::Count {
            log_factor: 10,
            decay_minutes: 0,
        };
        assert_eq!(never.count(key, later), at_last);
    }
}
