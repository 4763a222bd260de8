//! What a key remembers of its uses, in 24 bits: when the last one was, or about how many there were.
//!
//! As in Redis: seconds of the clock, or, under an LFU policy, 16 bits of minutes and a logarithmic counter (Morris,
//! "Counting large numbers of events in small registers", 1978) that loses one for every so many minutes without a use.

use crate::time::Now;

/// The bits that there are.
pub const MASK: u32 = 0x00ff_ffff;
/// A new key's counter: it must live long enough to be used.
const NEW: u32 = 5;

/// Which of the two is kept (`maxmemory-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uses {
    /// Seconds of the clock.
    #[default]
    Last,
    /// A counter.
    Count {
        /// `lfu-log-factor`: the greater, the slower it grows.
        log_factor: u32,
        /// `lfu-decay-time`: minutes without a use that cost it one; 0: it loses nothing.
        decay_minutes: u32,
    },
}

fn seconds(now: Now) -> u32 {
    (now.read_ms() / 1000) as u32 & MASK
}

fn minutes(now: Now) -> u32 {
    (now.read_ms() / 60_000) as u32 & 0xffff
}

impl Uses {
    /// A new key's.
    #[inline]
    pub fn first(self, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now),
            Self::Count { .. } => minutes(now) << 8 | NEW,
        }
    }

    /// Of a key that comes from elsewhere, with what is told of it: seconds since its last use, its counter. What is not told,
    /// or not kept, is as a new key's.
    pub fn told(self, idle_s: Option<u64>, count: Option<u8>, now: Now) -> u32 {
        match self {
            Self::Last => {
                let idle_ms = idle_s.unwrap_or(0).saturating_mul(1000);
                seconds(Now::from_ms(now.read_ms().saturating_sub(idle_ms)))
            }
            Self::Count { .. } => minutes(now) << 8 | count.map_or(NEW, u32::from),
        }
    }

    /// After one more use of a key that had `before`.
    #[inline]
    pub fn again(self, before: u32, now: Now) -> u32 {
        match self {
            Self::Last => seconds(now),
            Self::Count { .. } => self.counted(before, now),
        }
    }

    #[cold]
    fn counted(self, before: u32, now: Now) -> u32 {
        let Self::Count { log_factor, .. } = self else {
            return before;
        };
        let count = self.count(before, now);
        let odds = f64::from(count.saturating_sub(NEW)) * f64::from(log_factor) + 1.0;
        let more = count < 255 && rand::random::<f64>() * odds < 1.0;
        minutes(now) << 8 | (count + u32::from(more))
    }

    /// The counter of a key that has `uses`, less what it lost since. Means nothing where last uses are kept.
    pub fn count(self, uses: u32, now: Now) -> u32 {
        let Self::Count { decay_minutes, .. } = self else {
            return 0;
        };
        let idle = minutes(now).wrapping_sub(uses >> 8) & 0xffff;
        let lost = idle.checked_div(decay_minutes).unwrap_or(0);
        (uses & 0xff).saturating_sub(lost)
    }

    /// Seconds since the last use of a key that has `uses`. Means nothing where counters are kept. The clock wraps after 194
    /// days; one that was set back tells nothing.
    pub fn idle_s(uses: u32, now: Now) -> u32 {
        seconds(now).wrapping_sub(uses) & MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_ever_slower_and_decays() {
        let uses = Uses::Count {
            log_factor: 10,
            decay_minutes: 1,
        };
        let now = Now::from_ms(60_000 * 70_000);
        let mut key = uses.first(now);
        assert_eq!(uses.count(key, now), 5);
        let mut at_hundred = 0;
        for n in 0..100_000 {
            key = uses.again(key, now);
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
