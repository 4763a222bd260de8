//! Options of SORT.

use std::ops::Range;

use punctual_resp::Args;
use smallvec::SmallVec;

use super::Order;
use super::pattern::Pattern;
use crate::arguments::{int, is};
use crate::error::Error;

/// Parsed options of SORT.
pub(super) struct Options<'a> {
    pub(super) descending: bool,
    alpha: bool,
    /// LIMIT: the first element and the number of elements. A negative number means all elements.
    limit: (i64, i64),
    by: Option<Pattern<'a>>,
    /// The BY pattern has no asterisk, so the elements keep their order (see [`Options::order`]).
    pub(super) constant: bool,
    pub(super) get: SmallVec<[Pattern<'a>; 2]>,
    pub(super) store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Parses the options; STORE only if `may_store`.
    pub(super) fn parse(args: Args<'a>, may_store: bool) -> Result<Self, Error> {
        let mut options = Self {
            descending: false,
            alpha: false,
            limit: (0, -1),
            by: None,
            constant: false,
            get: SmallVec::new(),
            store: None,
        };
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let more = args.len() - at - 1;
            at += 1;
            match () {
                () if is(word, "ASC") => options.descending = false,
                () if is(word, "DESC") => options.descending = true,
                () if is(word, "ALPHA") => options.alpha = true,
                () if is(word, "LIMIT") && more >= 2 => {
                    options.limit = (int(args.at(at))?, int(args.at(at + 1))?);
                    at += 2;
                }
                () if is(word, "STORE") && may_store && more >= 1 => {
                    options.store = Some(args.at(at));
                    at += 1;
                }
                () if is(word, "BY") && more >= 1 => {
                    let pattern = args.at(at);
                    options.constant |= !pattern.contains(&b'*');
                    options.by = Some(Pattern::new(pattern));
                    at += 1;
                }
                () if is(word, "GET") && more >= 1 => {
                    options.get.push(Pattern::new(args.at(at)));
                    at += 1;
                }
                () => return Err(Error::Syntax),
            }
        }
        Ok(options)
    }

    /// Checks that the keys of BY and GET have the slot of the sorted key, as a cluster requires.
    ///
    /// # Errors
    /// Returns Redis's error.
    pub(super) fn check_slots(&self, slot: u16) -> Result<(), Error> {
        let by = self.by.as_ref().filter(|_| !self.constant);
        if by.is_some_and(|by| !by.has_slot(slot)) {
            return Err(Error::fixed(
                "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
            ));
        }
        if !self.get.iter().all(|get| get.has_slot(slot)) {
            return Err(Error::fixed(
                "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
            ));
        }
        Ok(())
    }

    /// Returns the range of `len` elements that LIMIT selects.
    pub(super) fn part(&self, len: usize) -> Range<usize> {
        let within = |number: i64| usize::try_from(number).unwrap_or(0).min(len);
        let (start, count) = self.limit;
        let start = within(start);
        let end = if count < 0 {
            len
        } else {
            start.saturating_add(within(count)).min(len)
        };
        start..end
    }

    /// Returns the order of the results. A set has no order of its own, so with STORE and in
    /// scripts it is always sorted.
    pub(super) fn order(&self, is_set: bool, in_script: bool) -> Order<'_> {
        match () {
            () if self.constant && is_set && (in_script || self.store.is_some()) => Order::Sorted {
                by: None,
                alpha: true,
            },
            () if self.constant => Order::Unsorted,
            () => Order::Sorted {
                by: self.by.as_ref(),
                alpha: self.alpha,
            },
        }
    }
}
