//! Checks that indexes and counters agree with the data, for DEBUG CHECK, the simulation, property
//! tests and fuzz targets.
//!
//! Each structure has a method `check` beside its code, which reports disagreements to a [`Check`].
//! [`Turn::check`](crate::Turn::check) calls all of them. A check changes nothing and visits
//! everything: O(n).

use std::fmt::Debug;

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
