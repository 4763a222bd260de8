//! Rules for the deadlines of keys: defaults and limits of TTL, which redis.conf sets with
//! `default-ttl`, `max-ttl` and `ttl-rule`. Redis lacks them.
//!
//! The first rule whose pattern matches a key's name decides alone. The pattern-less limits apply
//! to names that no rule matches. `turn/ttl.rs` says which writes a rule applies to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::glob;
use crate::time::Now;

/// A default and a maximum for the TTL of keys, in milliseconds; 0 means none.
///
/// ```
/// use punctual_store::{Now, ttl_rules::TtlLimit};
/// let now = Now::from_ms(1_000);
/// let limit = TtlLimit { default_ms: 50, max_ms: 80 };
/// assert_eq!(limit.deadline(None, false, now), Some(1_050));
/// assert_eq!(limit.deadline(Some(2_000), false, now), Some(1_080));
/// assert_eq!(limit.deadline(Some(1_020), false, now), Some(1_020));
/// assert_eq!(limit.deadline(None, true, now), Some(1_080));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlLimit {
    /// TTL of a key that is written without one.
    pub default_ms: u64,
    /// Maximum TTL. A key without a TTL gets it too.
    pub max_ms: u64,
}

impl TtlLimit {
    /// Returns the deadline of a key in Unix ms. `asked` is the deadline that a command has set; if
    /// it is `None`, the default applies, except if `explicit` is set: the command has asked for no
    /// deadline.
    #[must_use]
    pub fn deadline(self, asked: Option<u64>, explicit: bool, now: Now) -> Option<u64> {
        let after = |ms| now.base_ms().saturating_add(ms);
        let default = (self.default_ms > 0 && !explicit).then(|| after(self.default_ms));
        let max = (self.max_ms > 0).then(|| after(self.max_ms));
        let wanted = asked.or(default);
        wanted.into_iter().chain(max).min()
    }
}

/// A limit for keys whose names match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlRule {
    /// Glob pattern, as in KEYS.
    pub pattern: Box<[u8]>,
    /// The default and the maximum for keys that match.
    pub limit: TtlLimit,
}

/// All rules of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TtlRules {
    /// Rules by pattern; the first match decides.
    pub rules: Vec<TtlRule>,
    /// The limit of other keys.
    pub others: TtlLimit,
}

impl TtlRules {
    /// Returns whether no key has a limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.others == TtlLimit::default()
    }

    /// Returns the limit of a key. O(rules), each with one match of its pattern.
    #[must_use]
    pub fn limit(&self, key: &[u8]) -> TtlLimit {
        let matches = |rule: &&TtlRule| &*rule.pattern == b"*" || glob::matches(&rule.pattern, key);
        let found = self.rules.iter().find(matches);
        found.map_or(self.others, |rule| rule.limit)
    }
}

/// The rules of a keyspace, and whether there are any.
#[derive(Debug, Default)]
pub(crate) struct TtlSetting {
    on: AtomicBool,
    rules: RwLock<Arc<TtlRules>>,
}

impl TtlSetting {
    /// Returns whether there are rules. One load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn rules(&self) -> Arc<TtlRules> {
        Arc::clone(&self.rules.read())
    }

    pub(crate) fn set(&self, rules: TtlRules) {
        let on = !rules.is_empty();
        *self.rules.write() = Arc::new(rules);
        self.on.store(on, Ordering::Relaxed);
    }
}
