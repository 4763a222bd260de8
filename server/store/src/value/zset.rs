//! Sorted sets: names with scores, ordered by score and then by name.
//!
//! A small sorted set is [packed](crate::value::packed): pairs of names and scores in order. A
//! larger one has a [table by name](crate::value::keyed) and a B+ tree (`tree.rs`) with
//! the order. A sorted set in which a member has, or had, a deadline keeps its
//! form; beside the pairs are then the deadlines by rank. Both forms first map a range of scores or
//! names to a range of ranks, so counting, removal and iteration are the same for all kinds of
//! ranges.

mod content;
mod packed;
mod range;
mod score;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use punctual_rdb::listpack::Element;
use smallvec::SmallVec;

use crate::hash_table::WARM_MAX;
use crate::limits::Limits;
use crate::time::{NEVER, Now};
use crate::unaligned::UnalignedBox;
use crate::value::content::Content as _;
use crate::value::deadlines::Timed;
use crate::value::keyed::{Keyed, WARM_FROM, WARM_NAMES_MAX, WARM_NAMES_MIN};
use crate::value::packed::Packed;
use crate::value::parts::Parts as _;
use crate::value::text::Text;
pub(crate) use packed::compare_names;
use packed::{Pairs, PairsWalk};
pub use range::{LexBound, LexRange, ScoreBound, ScoreRange};
pub use score::parse as parse_score;
pub(crate) use score::parse_bound as parse_score_bound;
pub(crate) use table::Entry;
use table::{Table, TableWalk};

/// Maximum number of scores whose cache lines are loaded together: an old and a new score for each
/// of [`WARM_MAX`] commands.
const WARM_SCORES: usize = 2 * WARM_MAX;

type Scores = SmallVec<[f64; WARM_SCORES]>;

/// A sorted set, in 16 bytes. No score is NaN.
#[derive(Clone)]
pub struct Zset(Form);

#[derive(Clone)]
enum Form {
    Packed(Pairs),
    Boxed(UnalignedBox<Boxed>),
}

#[derive(Clone)]
enum Boxed {
    Table(Table),
    /// The compact form, whose entries have, or had, deadlines.
    Timed(Timed<Pairs>),
}

/// Read access to the form.
enum Ref<'a> {
    Packed(&'a Pairs),
    Table(&'a Table),
}

/// Write access to the form.
enum Mut<'a> {
    Packed(&'a mut Pairs),
    Table(&'a mut Table),
    Timed(&'a mut Timed<Pairs>),
}

const _: () = assert!(size_of::<Zset>() == 16);

/// Read access to the entries in no particular order.
pub(crate) enum View<'a> {
    /// Alternating names and scores.
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
    /// Creates an empty sorted set in the form that suits `entries` entries with names of up to
    /// `name_len` bytes.
    pub fn new(entries: usize, name_len: usize, limits: Limits) -> Self {
        if entries <= limits.zset_entries && name_len <= limits.zset_value {
            Self::default()
        } else {
            Self::table(Table::default())
        }
    }

    fn table(table: Table) -> Self {
        Self(Form::Boxed(Box::new(Boxed::Table(table)).into()))
    }

    #[inline]
    fn form(&self) -> Ref<'_> {
        match &self.0 {
            Form::Packed(pairs) => Ref::Packed(pairs),
            Form::Boxed(boxed) => match &**boxed {
                Boxed::Table(table) => Ref::Table(table),
                Boxed::Timed(timed) => Ref::Packed(&timed.compact),
            },
        }
    }

    #[inline]
    fn form_mut(&mut self) -> Mut<'_> {
        match &mut self.0 {
            Form::Packed(pairs) => Mut::Packed(pairs),
            Form::Boxed(boxed) => match &mut **boxed {
                Boxed::Table(table) => Mut::Table(table),
                Boxed::Timed(timed) => Mut::Timed(timed),
            },
        }
    }

    /// Returns the compact form with deadlines if the sorted set has that form.
    fn timed(&self) -> Option<&Timed<Pairs>> {
        match &self.0 {
            Form::Boxed(boxed) => match &**boxed {
                Boxed::Timed(timed) => Some(timed),
                Boxed::Table(_) => None,
            },
            Form::Packed(_) => None,
        }
    }

    /// Creates a sorted set of names and scores in any order, in the compact form if the limits
    /// allow it. Returns `None` for a duplicate name or a NaN score. O(n log n), O(n) if the pairs
    /// are in ascending or descending order; O(n²) in the compact form.
    pub fn from_pairs(pairs: Vec<(Text, f64)>, limits: Limits) -> Option<Self> {
        if pairs.iter().any(|(_, score)| score.is_nan()) {
            return None;
        }
        let longest = pairs.iter().map(|(name, _)| name.as_bytes().len()).max();
        let mut zset = Self::new(pairs.len(), longest.unwrap_or(0), limits);
        if let Form::Packed(packed) = &mut zset.0 {
            for (name, score) in pairs {
                packed.update(name.as_bytes(), |old| old.is_none().then_some(score))?;
            }
        } else {
            zset = Self::table(Table::from_pairs(pairs)?);
        }
        Some(zset)
    }

    /// Creates a sorted set of entries with distinct names, in the time of [`Zset::from_pairs`].
    ///
    /// # Panics
    /// If two names are equal or a score is NaN.
    pub(crate) fn from_unique<'e>(
        entries: impl Iterator<Item = (Element<'e>, f64)>,
        limits: Limits,
    ) -> Self {
        let pairs = entries.map(|(name, score)| (name.with_text(Text::new), score));
        Self::from_pairs(pairs.collect(), limits).expect("distinct names, and no score is NaN")
    }

    /// Creates a sorted set of alternating names and scores, in the compact form if the limits
    /// allow it. Sorts the pairs if necessary. Returns `None` if the entries are not pairs of names
    /// and scores, or contain a duplicate name. O(n log n); O(n²) for the compact form if the pairs
    /// are not in order.
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

    /// Returns the alternating names and scores of the compact form.
    pub fn packed(&self) -> Option<&Packed> {
        match self.form() {
            Ref::Packed(pairs) => Some(pairs.packed()),
            Ref::Table(_) => None,
        }
    }

    /// Returns the number of entries. O(1).
    pub fn len(&self) -> usize {
        match self.form() {
            Ref::Packed(pairs) => pairs.len(),
            Ref::Table(table) => table.len(),
        }
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries in their form for reading.
    pub(crate) fn view(&self) -> View<'_> {
        match self.form() {
            Ref::Packed(pairs) => View::Packed(pairs.packed()),
            Ref::Table(table) => View::Table(table.entries()),
        }
    }

    /// Returns the entries of a table for a snapshot's walk.
    pub(crate) fn keyed_mut(&mut self) -> Option<&mut Keyed<Entry>> {
        match self.form_mut() {
            Mut::Packed(_) | Mut::Timed(_) => None,
            Mut::Table(table) => Some(table.entries_mut()),
        }
    }

    /// Loads the cache lines of these entries if the sorted set is large. Changes nothing.
    pub(crate) fn warm_names<'a>(&self, names: impl ExactSizeIterator<Item = &'a [u8]>) {
        if let Ref::Table(table) = self.form() {
            table.entries().warm_names(names);
        }
    }

    /// Same as [`Zset::warm_names`], and also loads the parts of the tree that hold the names'
    /// current scores and these new `scores`.
    pub(crate) fn warm_changes<'a>(
        &self,
        mut names: impl ExactSizeIterator<Item = &'a [u8]>,
        scores: &[f64],
    ) {
        let Ref::Table(table) = self.form() else {
            return;
        };
        if table.len() < WARM_FROM || names.len() < WARM_NAMES_MIN {
            return;
        }
        let mut scores = scores.chunks(WARM_MAX);
        for _ in 0..WARM_NAMES_MAX / WARM_MAX {
            let some: SmallVec<[&[u8]; WARM_MAX]> = names.by_ref().take(WARM_MAX).collect();
            if some.is_empty() {
                return;
            }
            let scores = Scores::from_slice(scores.next().unwrap_or_default());
            table.warm(&some, Some(&scores));
        }
    }

    /// Returns the score of a name. O(1), O(n) in the compact form.
    #[inline]
    pub fn score(&self, name: &[u8]) -> Option<f64> {
        match self.form() {
            Ref::Packed(pairs) => pairs.score(name),
            Ref::Table(table) => table.score(name),
        }
    }

    /// Sets the score of a name. Returns the previous score. O(log n), O(n) in the compact form.
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

    /// Sets the score of a name to the result of `decide`, which gets the previous score. Changes
    /// nothing if the result is `None`. Returns the result. O(log n), O(n) in the compact form.
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
            assert!(!new.is_some_and(f64::is_nan), "scores are not NaN");
            new
        };
        let fits = |pairs: &Pairs| {
            pairs.len() < limits.zset_entries && name.len() <= limits.zset_value
                || pairs.score(name).is_some()
        };
        match self.form_mut() {
            Mut::Table(table) => table.update(name, decide),
            Mut::Packed(pairs) if fits(pairs) => pairs.update(name, decide),
            Mut::Timed(timed)
                if fits(&timed.compact) && timed.compact.len() < Timed::<Pairs>::MAX =>
            {
                update_timed(timed, name, decide)
            }
            Mut::Packed(_) | Mut::Timed(_) => match self.score(name) {
                Some(_) => self.unpack().update(name, decide),
                None => {
                    let new = decide(None)?;
                    self.unpack().update(name, |_| Some(new))
                }
            },
        }
    }

    /// Converts the compact form to a table if `entries` entries would exceed its limits.
    pub(crate) fn reserve(&mut self, entries: usize, limits: Limits) {
        if entries > limits.zset_entries {
            self.unpack();
        }
    }

    /// Converts the compact form to a table.
    fn unpack(&mut self) -> &mut Table {
        if let Ref::Packed(pairs) = self.form() {
            let all = pairs.walk(0..pairs.len(), false);
            let all = all.map(|(name, score)| (name.with_text(Text::new), score));
            let mut table = Table::from_pairs(all.collect()).unwrap_or_default();
            debug_assert_eq!(table.len(), pairs.len());
            if let Some(timed) = self.timed() {
                table.entries_mut().adopt_timer(&timed.deadlines);
                let names = timed.compact.walk(0..table.len(), false);
                for ((name, _), deadline) in names.zip(timed.all(table.len())) {
                    name.with_text(|name| table.set_deadline(name, deadline));
                }
            }
            *self = Self::table(table);
        }
        match self.form_mut() {
            Mut::Table(table) => table,
            Mut::Packed(_) | Mut::Timed(_) => unreachable!("converted above"),
        }
    }

    /// Converts the compact form so that entries can get deadlines. O(1), O(n log n) if the sorted
    /// set exceeds the compact form's limit by now.
    fn become_timed(&mut self, limits: &Limits) {
        if let Form::Packed(pairs) = &mut self.0 {
            if pairs.len() <= limits.zset_entries.min(Timed::<Pairs>::MAX) {
                let timed = Timed::new(std::mem::take(pairs));
                self.0 = Form::Boxed(Box::new(Boxed::Timed(timed)).into());
            } else {
                self.unpack();
            }
        }
    }

    /// Creates a sorted set of names, scores and deadlines. Returns `None` for a duplicate name or
    /// a NaN score. O(n log n), O(n) if the pairs are in ascending or descending order.
    pub(crate) fn from_timed(timed: Vec<(Text, f64, u64)>, limits: &Limits) -> Option<Self> {
        if timed.iter().any(|(_, score, _)| score.is_nan()) {
            return None;
        }
        let pairs = timed.iter().map(|(name, score, _)| (name.clone(), *score));
        let mut zset = Self::from_pairs(pairs.collect(), *limits)?;
        for (name, _, deadline) in &timed {
            zset.set_deadline(name.as_bytes(), *deadline, limits);
        }
        Some(zset)
    }

    /// Returns the score of a name, unless the name is due. O(1), O(n) in the compact form.
    #[inline]
    pub(crate) fn live_score(&self, name: &[u8], now: Now) -> Option<f64> {
        let score = self.score(name)?;
        let timed = self.deadlines().is_some();
        let due = timed && now.is_due(self.deadline(name).unwrap_or(NEVER));
        (!due).then_some(score)
    }

    /// Removes a name. Returns its score. O(log n), O(n) in the compact form.
    pub fn remove(&mut self, name: &[u8]) -> Option<f64> {
        match self.form_mut() {
            Mut::Packed(pairs) => pairs.remove(name),
            Mut::Table(table) => table.remove(name),
            Mut::Timed(timed) => {
                let (rank, _) = timed.compact.rank(name)?;
                timed.removed(rank);
                timed.compact.remove(name)
            }
        }
    }

    /// Returns the rank and the score of a name. O(log n), O(n) in the compact form.
    pub fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        match self.form() {
            Ref::Packed(pairs) => pairs.rank(name),
            Ref::Table(table) => table.rank(name),
        }
    }

    /// Returns the ranks of the entries in a range of scores. O(log n), O(n) in the compact form.
    pub fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        match self.form() {
            _ if range.is_empty() => 0..0,
            Ref::Packed(pairs) => pairs.ranks_by_score(range),
            Ref::Table(table) => table.ranks_by_score(range),
        }
    }

    /// Returns the ranks of the entries in a range of names. The result is meaningful only if all
    /// scores are equal; otherwise it may depend on the form and on `backwards`. O(log n), O(n) in
    /// the compact form.
    pub fn ranks_by_lex(&self, range: &LexRange<'_>, backwards: bool) -> Range<usize> {
        match self.form() {
            _ if range.is_empty() => 0..0,
            Ref::Packed(pairs) => pairs.ranks_by_lex(range, backwards),
            Ref::Table(table) => table.ranks_by_lex(range),
        }
    }

    /// Removes the entries of a range of ranks. O(k log n) for k entries, O(n) in the compact form.
    ///
    /// # Panics
    /// If the range exceeds the number of entries.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        assert!(
            ranks.end <= self.len(),
            "ranks within the number of entries"
        );
        match self.form_mut() {
            Mut::Packed(pairs) => pairs.remove_ranks(ranks),
            Mut::Table(table) => table.remove_ranks(ranks),
            Mut::Timed(timed) => {
                ranks.clone().rev().for_each(|rank| timed.removed(rank));
                timed.compact.remove_ranks(ranks);
            }
        }
    }

    /// Returns the entry of a rank. O(log n), O(n) in the compact form.
    pub fn nth(&self, rank: usize) -> Option<(Element<'_>, f64)> {
        match self.form() {
            Ref::Packed(pairs) => pairs.nth(rank),
            Ref::Table(table) => table.nth(rank).map(pair_of),
        }
    }

    /// Iterates over the entries of a range of ranks in order, or in reverse order if `backwards`;
    /// ignores ranks beyond the last entry. O(log n), O(n) in the compact form, then O(1) per
    /// entry.
    pub fn walk(&self, ranks: Range<usize>, backwards: bool) -> Walk<'_> {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        Walk(match self.form() {
            Ref::Packed(pairs) => WalkForm::Packed(pairs.walk(ranks, backwards)),
            Ref::Table(table) => WalkForm::Table(table.walk(ranks, backwards)),
        })
    }

    /// Iterates over all entries in order.
    pub fn iter(&self) -> Walk<'_> {
        self.walk(0..self.len(), false)
    }

    /// Iterates over the entries with scores from `min` to `max`, in order. O(log n), O(n) in the
    /// compact form, then O(1) per entry.
    pub fn range_by_score(&self, min: f64, max: f64) -> Walk<'_> {
        self.walk(self.ranks_by_score(&ScoreRange::inclusive(min, max)), false)
    }
}

/// Same as [`Zset::update`], for the compact form with deadlines.
fn update_timed(
    timed: &mut Timed<Pairs>,
    name: &[u8],
    decide: impl FnOnce(Option<f64>) -> Option<f64>,
) -> Option<f64> {
    let before = timed.compact.rank(name);
    let score = timed.compact.update(name, decide)?;
    if let Some((after, _)) = timed.compact.rank(name) {
        match before {
            Some((before, _)) => timed.moved(before, after),
            None => timed.added(after),
        }
    }
    Some(score)
}

fn pair_of(entry: &Entry) -> (Element<'_>, f64) {
    use crate::value::keyed::Element as _;
    (Element::Bytes(entry.name()), entry.score)
}

/// Iterator over entries of consecutive ranks: name and score.
pub struct Walk<'a>(WalkForm<'a>);

enum WalkForm<'a> {
    Packed(PairsWalk<'a>),
    Table(TableWalk<'a>),
}

impl<'a> Iterator for Walk<'a> {
    type Item = (Element<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            WalkForm::Packed(walk) => walk.next(),
            WalkForm::Table(walk) => walk.next().map(pair_of),
        }
    }
}
