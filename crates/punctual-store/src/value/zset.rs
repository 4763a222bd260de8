//! Sorted sets: names with scores, in the order of scores and, where those are equal, of names.
//!
//! A small one is [packed](crate::value::packed), pair by pair in order. A larger one has its entries in a
//! [table by name](crate::value::keyed) and their order in a tree. Ranges of either form are ranges of ranks first, so
//! what counts, removes or walks them is the same for all of them.

mod packed;
mod range;
mod score;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;

use punctual_rdb::listpack::Element;

use crate::limits::Limits;
use crate::value::keyed::Keyed;
use crate::value::packed::Packed;
use crate::value::text::Text;
pub(crate) use packed::compare_names;
use packed::{Pairs, PairsWalk};
pub use range::{LexBound, LexRange, ScoreBound, ScoreRange};
pub use score::parse as parse_score;
pub(crate) use score::{parse_bound as parse_score_bound, write_plain as write_plain_score};
pub(crate) use table::Entry;
use table::{Table, TableWalk};

/// A sorted set, in 16 bytes. No score is NaN.
#[derive(Clone)]
pub struct Zset(Form);

#[derive(Clone)]
enum Form {
    Packed(Pairs),
    Table(Box<Table>),
}

const _: () = assert!(size_of::<Zset>() == 16);

/// Entries as they are kept, for those that go through them in no order.
pub(crate) enum Kept<'a> {
    /// Pairs of name and score.
    Packed(&'a Packed),
    /// Entries by name.
    Table(&'a Keyed<Entry>),
}

impl Default for Zset {
    fn default() -> Self {
        Self(Form::Packed(Pairs::default()))
    }
}

impl std::fmt::Debug for Zset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Zset {
    /// None, in the form that fits so many entries with names up to `name_len` bytes.
    pub fn new(entries: usize, name_len: usize, limits: Limits) -> Self {
        if entries <= limits.zset_entries && name_len <= limits.zset_value {
            Self::default()
        } else {
            Self(Form::Table(Box::default()))
        }
    }

    /// Of names and scores in any order, in the compact form if the limits allow it. `None` if two names are equal or a
    /// score is NaN. O(n log n), O(n) if they are in order, rising or falling.
    pub fn from_pairs(pairs: Vec<(Text, f64)>, limits: Limits) -> Option<Self> {
        if pairs.iter().any(|(_, score)| score.is_nan()) {
            return None;
        }
        let longest = pairs.iter().map(|(name, _)| name.as_bytes().len()).max();
        let mut zset = Self::new(pairs.len(), longest.unwrap_or(0), limits);
        match &mut zset.0 {
            Form::Table(table) => **table = Table::from_pairs(pairs)?,
            Form::Packed(packed) => {
                for (name, score) in pairs {
                    packed.update(name.as_bytes(), |old| old.is_none().then_some(score))?;
                }
            }
        }
        Some(zset)
    }

    /// Of entries whose names differ. O(n log n), O(n) if they are in order.
    ///
    /// # Panics
    /// If two names are equal or a score is NaN.
    pub(crate) fn from_unique<'e>(
        entries: impl Iterator<Item = (Element<'e>, f64)>,
        limits: Limits,
    ) -> Self {
        let pairs = entries.map(|(name, score)| (name.with_text(Text::new), score));
        Self::from_pairs(pairs.collect(), limits).expect("names differ and scores are numbers")
    }

    /// Of entries that are name and score by turns, in the form that the limits ask for. `None` if they are not that, or
    /// two names are equal; entries that are not in order are put in order. O(n log n).
    pub fn from_packed(packed: Packed, limits: Limits) -> Option<Self> {
        if packed.len() / 2 <= limits.zset_entries {
            let longest = packed.iter().step_by(2).map(Element::text_len).max();
            if longest.unwrap_or(0) <= limits.zset_value
                && let Some(pairs) = Pairs::checked(packed.clone())
            {
                return Some(Self(Form::Packed(pairs)));
            }
        }
        if packed.len() % 2 == 1 {
            return None;
        }
        let mut pairs = Vec::with_capacity(packed.len() / 2);
        let mut elements = packed.iter();
        while let Some(name) = elements.next() {
            let name = name.with_text(Text::new);
            pairs.push((name, packed::score_of(elements.next()?)?));
        }
        Self::from_pairs(pairs, limits)
    }

    /// The entries of the compact form, name and score by turns, if that is the form.
    pub fn packed(&self) -> Option<&Packed> {
        match &self.0 {
            Form::Packed(pairs) => Some(pairs.packed()),
            Form::Table(_) => None,
        }
    }

    /// How many entries there are. O(1).
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(pairs) => pairs.len(),
            Form::Table(table) => table.len(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Redis's name for the form.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Packed(_) => "listpack",
            Form::Table(_) => "skiplist",
        }
    }

    /// Bytes outside of the value itself. O(n).
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(pairs) => pairs.packed().heap_bytes(),
            Form::Table(table) => size_of::<Table>() + table.heap_bytes(),
        }
    }

    /// How the entries are kept.
    pub(crate) fn kept(&self) -> Kept<'_> {
        match &self.0 {
            Form::Packed(pairs) => Kept::Packed(pairs.packed()),
            Form::Table(table) => Kept::Table(table.entries()),
        }
    }

    /// The score of a name. O(1), O(n) in the compact form.
    #[inline]
    pub fn score(&self, name: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Packed(pairs) => pairs.score(name),
            Form::Table(table) => table.score(name),
        }
    }

    /// Gives a name a score; the old one, if it was there. O(log n), O(n) in the compact form.
    ///
    /// # Panics
    /// If the score is NaN.
    pub fn insert(&mut self, name: &[u8], score: f64, limits: Limits) -> Option<f64> {
        let mut before = None;
        self.update(name, limits, |old| {
            before = old;
            Some(score)
        });
        before
    }

    /// Gives a name the score that `decide` makes of the old one, if there is one, and gives that back; `None` leaves
    /// all as it is. O(log n), O(n) in the compact form.
    ///
    /// # Panics
    /// If the score is NaN.
    #[inline]
    pub fn update(
        &mut self,
        name: &[u8],
        limits: Limits,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let decide = |old: Option<f64>| {
            let new = decide(old);
            assert!(!new.is_some_and(f64::is_nan), "a score is a number");
            new
        };
        match &mut self.0 {
            Form::Table(table) => table.update(name, decide),
            Form::Packed(pairs)
                if pairs.len() < limits.zset_entries && name.len() <= limits.zset_value =>
            {
                pairs.update(name, decide)
            }
            Form::Packed(pairs) => match pairs.score(name) {
                Some(_) => pairs.update(name, decide),
                None => {
                    let new = decide(None)?;
                    self.unpack().update(name, |_| Some(new))
                }
            },
        }
    }

    /// Takes the form that fits so many entries, if it has the compact one and they are too many for it.
    pub(crate) fn expect(&mut self, entries: usize, limits: Limits) {
        if entries > limits.zset_entries {
            self.unpack();
        }
    }

    /// Goes over to the large form.
    fn unpack(&mut self) -> &mut Table {
        if let Form::Packed(pairs) = &self.0 {
            let all = pairs.walk(0..pairs.len(), false);
            let all = all.map(|(name, score)| (name.with_text(Text::new), score));
            let table = Table::from_pairs(all.collect()).unwrap_or_default();
            debug_assert_eq!(table.len(), pairs.len());
            self.0 = Form::Table(Box::new(table));
        }
        match &mut self.0 {
            Form::Table(table) => table,
            Form::Packed(_) => unreachable!("it was made a table just now"),
        }
    }

    /// Takes a name out; the score that it had. O(log n), O(n) in the compact form.
    pub fn remove(&mut self, name: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Packed(pairs) => pairs.remove(name),
            Form::Table(table) => table.remove(name),
        }
    }

    /// How many entries come before that of a name, and its score. O(log n), O(n) in the compact form.
    pub fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        match &self.0 {
            Form::Packed(pairs) => pairs.rank(name),
            Form::Table(table) => table.rank(name),
        }
    }

    /// The ranks of the entries in a range of scores. O(log n), O(n) in the compact form.
    pub fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        match &self.0 {
            _ if range.is_empty() => 0..0,
            Form::Packed(pairs) => pairs.ranks_by_score(range),
            Form::Table(table) => table.ranks_by_score(range),
        }
    }

    /// The ranks of the entries in a range of names, which means something if all scores are equal. If they are not,
    /// what is found `backwards` may be something else. O(log n), O(n) in the compact form.
    pub fn ranks_by_lex(&self, range: &LexRange<'_>, backwards: bool) -> Range<usize> {
        match &self.0 {
            _ if range.is_empty() => 0..0,
            Form::Packed(pairs) => pairs.ranks_by_lex(range, backwards),
            Form::Table(table) => table.ranks_by_lex(range),
        }
    }

    /// Takes the entries of a range of ranks out. O(k log n) for k of them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        assert!(ranks.end <= self.len(), "ranks of entries that are there");
        match &mut self.0 {
            Form::Packed(pairs) => pairs.remove_ranks(ranks),
            Form::Table(table) => table.remove_ranks(ranks),
        }
    }

    /// The entry of a rank. O(log n), O(n) in the compact form.
    pub fn nth(&self, rank: usize) -> Option<(Element<'_>, f64)> {
        match &self.0 {
            Form::Packed(pairs) => pairs.nth(rank),
            Form::Table(table) => table.nth(rank).map(pair_of),
        }
    }

    /// The entries of a range of ranks in order, or from the last to the first if `backwards`; ranks behind the last
    /// have none. O(log n), then O(1) an entry.
    pub fn walk(&self, ranks: Range<usize>, backwards: bool) -> Walk<'_> {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        Walk(match &self.0 {
            Form::Packed(pairs) => Steps::Packed(pairs.walk(ranks, backwards)),
            Form::Table(table) => Steps::Table(table.walk(ranks, backwards)),
        })
    }

    /// All entries in order.
    pub fn iter(&self) -> Walk<'_> {
        self.walk(0..self.len(), false)
    }

    /// The entries with scores from `min` to `max`, in order. O(log n), then O(1) an entry.
    pub fn range_by_score(&self, min: f64, max: f64) -> Walk<'_> {
        self.walk(self.ranks_by_score(&ScoreRange::inclusive(min, max)), false)
    }
}

fn pair_of(entry: &Entry) -> (Element<'_>, f64) {
    use crate::value::keyed::Element as _;
    (Element::Bytes(entry.name()), entry.score)
}

/// Entries of successive ranks: name and score.
pub struct Walk<'a>(Steps<'a>);

enum Steps<'a> {
    Packed(PairsWalk<'a>),
    Table(TableWalk<'a>),
}

impl<'a> Iterator for Walk<'a> {
    type Item = (Element<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Steps::Packed(walk) => walk.next(),
            Steps::Table(walk) => walk.next().map(pair_of),
        }
    }
}
