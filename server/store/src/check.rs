//! Checks that indexes and counters agree with the data, for DEBUG CHECK, the simulation, property
//! tests and fuzz targets.
//!
//! Each structure has a method `check` beside its code, which reports disagreements to a [`Check`].
//! [`Turn::check`] calls all of them. A check changes nothing and visits everything: O(n).

use std::fmt::Debug;
use std::sync::atomic::Ordering;

use crate::turn::Turn;

/// Maximum number of disagreements that are kept.
const MOST: usize = 8;

/// The disagreements that were found.
#[derive(Debug, Default)]
pub struct Check {
    found: Vec<String>,
}

impl Check {
    /// Reports a figure that differs from the figure that the data give.
    pub fn equal<T: PartialEq + Debug>(&mut self, what: &str, kept: T, counted: T) {
        if kept != counted {
            self.report(|| format!("{what}: {kept:?}, but the data give {counted:?}"));
        }
    }

    /// Reports a statement that does not hold.
    pub fn holds(&mut self, what: &str, holds: bool) {
        if !holds {
            self.report(|| format!("not so: {what}"));
        }
    }

    fn report(&mut self, text: impl FnOnce() -> String) {
        if self.found.len() < MOST {
            self.found.push(text());
        }
    }

    /// Runs `check`, and names the place in everything that it reports.
    pub fn within(&mut self, place: impl FnOnce() -> String, check: impl FnOnce(&mut Self)) {
        let before = self.found.len();
        check(self);
        if let new @ [_, ..] = &mut self.found[before..] {
            let place = place();
            new.iter_mut()
                .for_each(|text| *text = format!("{place}: {text}"));
        }
    }

    /// Returns the disagreements, at most eight.
    pub fn into_found(self) -> Vec<String> {
        self.found
    }

    /// Panics with the disagreements, if there are any. For tests.
    ///
    /// # Panics
    /// If something was reported.
    pub fn assert_none(&self) {
        assert!(self.found.is_empty(), "{}", self.found.join("; "));
    }
}

impl Turn<'_> {
    /// Checks that the indexes and counters of the whole keyspace agree with the data. Locks every
    /// shard. O(n) for all keys and their elements.
    pub fn check(&mut self, to: &mut Check) {
        self.lock_all();
        let (store, settled) = (self.store, self.is_untouched());
        let (mut waiting, mut keys, mut items) = (0, 0, 0);
        for (number, shard) in self.held_shards() {
            to.within(
                || format!("shard {number}"),
                |to| shard.check(to, |key| store.shard_of(key) == number),
            );
            if settled {
                let known = store.wakeups[number].load(Ordering::SeqCst);
                to.within(
                    || format!("shard {number}"),
                    |to| shard.check_wakeups(to, known),
                );
            }
            waiting += shard.waiters.queues() as u64;
            let tracked = shard.tracked.totals();
            (keys, items) = (keys + tracked.0 as u64, items + tracked.1 as u64);
        }
        to.equal("keys with waiting clients", store.waiting_keys(), waiting);
        to.equal("tracked keys and readers", store.tracked(), (keys, items));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_place() {
        let mut check = Check::default();
        check.equal("keys", 3, 3);
        check.within(
            || "db 1".to_owned(),
            |to| {
                to.equal("keys", 3, 4);
                to.within(
                    || "key a".to_owned(),
                    |to| to.holds("it has an entry", false),
                );
            },
        );
        let expected = [
            "db 1: keys: 3, but the data give 4",
            "db 1: key a: not so: it has an entry",
        ];
        assert_eq!(check.into_found(), expected);
    }
}
