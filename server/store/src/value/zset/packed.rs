//! The compact form, Redis's listpack: alternating names and scores in order.

use std::cmp::Ordering;
use std::ops::Range;

use punctual_rdb::listpack::Element;
use punctual_resp::decimal;

use super::range::{LexRange, ScoreRange};
use super::score;
use crate::value::packed::Packed;

/// Pairs in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs(Packed);

/// A pair and its offsets: `start` of the name, `middle` where the score starts, and `end`.
#[derive(Clone, Copy)]
struct Pair<'a> {
    name: Element<'a>,
    score: f64,
    start: usize,
    middle: usize,
    end: usize,
}

/// Compares the texts of two names, byte by byte.
pub(crate) fn compare_names(a: Element<'_>, b: Element<'_>) -> Ordering {
    a.with_text(|a| b.with_text(|b| a.cmp(b)))
}

/// Returns the score in an entry, or `None` if it is not a score.
pub(super) fn score_of(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Int(int) => Some(int as f64),
        Element::Bytes(text) => score::parse(text),
    }
}

/// Calls `write` with the entry that encodes a score.
fn with_score<R>(score: f64, write: impl FnOnce(Element<'_>) -> R) -> R {
    match score::as_int(score) {
        Some(int) => write(Element::Int(int)),
        None => {
            let mut text = Vec::with_capacity(25);
            decimal::write_f64(&mut text, score);
            write(Element::Bytes(&text))
        }
    }
}

/// Compares two entries by score, then by name.
fn compare(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    a.0.partial_cmp(&b.0)
        .unwrap_or(Ordering::Equal)
        .then_with(|| a.1.cmp(b.1))
}

impl Pairs {
    /// Wraps entries of a listpack. Returns `None` unless they are pairs of a name and a score, in
    /// order, with distinct names. O(n log n).
    pub(super) fn checked(packed: Packed) -> Option<Self> {
        let pairs = Self(packed);
        if pairs.0.len() % 2 == 1 {
            return None;
        }
        let mut last: Option<(Vec<u8>, f64)> = None;
        let mut names = std::collections::BTreeSet::new();
        let mut at = 0;
        for _ in 0..pairs.len() {
            let (name, middle) = pairs.0.next(at)?;
            let (value, end) = pairs.0.next(middle)?;
            let value = score_of(value)?;
            let mut text = Vec::new();
            name.write_text(&mut text);
            if last.is_some_and(|(name, score)| compare((score, &name), (value, &text)).is_ge())
                || !names.insert(text.clone())
            {
                return None;
            }
            last = Some((text, value));
            at = end;
        }
        Some(pairs)
    }

    pub(super) fn packed(&self) -> &Packed {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len() / 2
    }

    fn next(&self, start: usize) -> Option<Pair<'_>> {
        let (name, middle) = self.0.next(start)?;
        let (score, end) = self.0.next(middle)?;
        Some(Pair {
            name,
            score: score_of(score).unwrap_or_default(),
            start,
            middle,
            end,
        })
    }

    fn prev(&self, end: usize) -> Option<Pair<'_>> {
        let (score, middle) = self.0.prev(end)?;
        let (name, start) = self.0.prev(middle)?;
        Some(Pair {
            name,
            score: score_of(score).unwrap_or_default(),
            start,
            middle,
            end,
        })
    }

    /// Iterates over all pairs in order.
    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        std::iter::successors(self.next(0), |pair| self.next(pair.end))
    }

    /// Returns the pair of a name.
    fn find(&self, name: &[u8]) -> Option<Pair<'_>> {
        self.next(self.0.find(name, 1)?.start)
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        Some(self.find(name)?.score)
    }

    /// Same as [`Zset::update`](super::Zset::update).
    pub(super) fn update(
        &mut self,
        name: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let Some(pair) = self.find(name) else {
            let score = decide(None)?;
            self.insert(name, score);
            return Some(score);
        };
        let score = decide(Some(pair.score))?;
        let (start, middle, end) = (pair.start, pair.middle, pair.end);
        let fits = |other: Option<Pair<'_>>, way: Ordering| {
            other.is_none_or(|other| {
                other
                    .name
                    .with_text(|text| compare((other.score, text), (score, name)) == way)
            })
        };
        if fits(self.prev(start), Ordering::Less) && fits(self.next(end), Ordering::Greater) {
            with_score(score, |element| self.0.replace(middle..end, element));
        } else {
            self.0.remove(start..end, 2);
            self.insert(name, score);
        }
        Some(score)
    }

    /// Adds a name that is not present.
    fn insert(&mut self, name: &[u8], score: f64) {
        let behind = |pair: &Pair<'_>| {
            pair.name
                .with_text(|text| compare((pair.score, text), (score, name)).is_gt())
        };
        let at = self.pairs().find(behind).map(|pair| pair.start);
        let at = at.unwrap_or(self.0.entries().len());
        let middle = self.0.insert(at, Element::of(name));
        with_score(score, |element| self.0.insert(middle, element));
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let pair = self.find(name)?;
        let (score, whole) = (pair.score, pair.start..pair.end);
        self.0.remove(whole, 2);
        Some(score)
    }

    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let wanted = self.find(name)?;
        let rank = self.pairs().take_while(|pair| pair.start < wanted.start);
        Some((rank.count(), wanted.score))
    }

    pub(super) fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        let too_small = |pair: &Pair<'_>| !range.is_after_min(pair.score);
        let start = self.pairs().take_while(too_small).count();
        let small_enough = |pair: &Pair<'_>| range.is_before_max(pair.score);
        let end = self.pairs().take_while(small_enough).count();
        start..end.max(start)
    }

    /// Returns ranks by a search that assumes that all scores are equal. If scores differ, the
    /// result equals Redis's result, which Redis's documentation does not define.
    pub(super) fn ranks_by_lex(&self, range: &LexRange<'_>, backwards: bool) -> Range<usize> {
        let len = self.len();
        let after_min = |pair: &Pair<'_>| pair.name.with_text(|name| range.is_after_min(name));
        let before_max = |pair: &Pair<'_>| pair.name.with_text(|name| range.is_before_max(name));
        let last = self.prev(self.0.entries().len());
        if !last.is_some_and(|pair| after_min(&pair))
            || !self.next(0).is_some_and(|pair| before_max(&pair))
        {
            return 0..0;
        }
        if backwards {
            let from_end = std::iter::successors(last, |pair| self.prev(pair.start));
            let mut rest = from_end.skip_while(|pair| !before_max(pair)).peekable();
            let skipped = rest.clone().count();
            let count = rest.by_ref().take_while(after_min).count();
            skipped - count..skipped
        } else {
            let start = self.pairs().take_while(|pair| !after_min(pair)).count();
            let count = self.pairs().skip(start).take_while(before_max).count();
            start..(start + count).min(len)
        }
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let whole = |rank: usize| self.0.position(rank * 2).map(|range| range.start);
        let end = whole(ranks.end).unwrap_or(self.0.entries().len());
        if let Some(start) = whole(ranks.start)
            && start < end
        {
            self.0.remove(start..end, ranks.len() * 2);
        }
    }

    pub(super) fn nth(&self, rank: usize) -> Option<(Element<'_>, f64)> {
        let pair = self.next(self.0.position(rank * 2)?.start)?;
        Some((pair.name, pair.score))
    }

    /// Iterates over the pairs of a range of ranks; ignores ranks beyond the last pair.
    pub(super) fn walk(&self, ranks: Range<usize>, backwards: bool) -> PairsWalk<'_> {
        let place = |rank: usize| self.0.position(rank * 2).map(|range| range.start);
        let at = place(if backwards { ranks.end } else { ranks.start });
        PairsWalk {
            pairs: self,
            at: at.unwrap_or(self.0.entries().len()),
            left: ranks.len(),
            backwards,
        }
    }
}

/// Iterator over pairs of consecutive ranks.
pub(super) struct PairsWalk<'a> {
    pairs: &'a Pairs,
    at: usize,
    left: usize,
    backwards: bool,
}

impl<'a> Iterator for PairsWalk<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let pair = if self.backwards {
            let pair = self.pairs.prev(self.at)?;
            self.at = pair.start;
            pair
        } else {
            let pair = self.pairs.next(self.at)?;
            self.at = pair.end;
            pair
        };
        Some((pair.name, pair.score))
    }
}
