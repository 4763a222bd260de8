//! The value type `set` in Redis's three forms: sorted integers, a listpack, a table.
//!
//! A set converts to a larger form under the same conditions as in Redis 7.2. It does not convert
//! back, except by [`Set::become_ints`] and [`Set::take_some`]. To add or remove a member, look it
//! up ([`Set::vacancy`], [`Set::find`]) and pass the result to [`Set::insert_at`] or
//! [`Set::remove_at`]. So a command looks a member up once, and needs no mutable set if it changes
//! nothing.
//!
//! Members may have deadlines, beside a listpack or in a table; the first
//! deadline converts integers. A member whose deadline has passed stays until the set's timer or a
//! command removes it (`turn/parts.rs`).

mod content;
mod ints;
mod sample;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use punctual_rdb::listpack::{Element, Entries};
use punctual_resp::decimal::parse_i64;

pub use ints::{Ascending, Ints};
pub use table::{Member, Table};

use crate::hash_table::Hash;
use crate::limits::Limits;
use crate::time::{NEVER, Now};
use crate::unaligned::UnalignedBox;
use crate::value::deadlines::Timed;
use crate::value::keyed::{Element as _, Keyed, hash_of};
use crate::value::packed::Packed;
use crate::value::parts::Parts as _;

/// Size limit of Redis's listpacks in bytes.
const PACKED_MAX: usize = 1 << 30;
/// Maximum number of integers in an intset, as in Redis, even if the configured limit is higher.
const INTS_MAX: usize = 1 << 30;

/// A set, in 16 bytes.
#[derive(Clone, Debug)]
pub struct Set(Form);

/// The form of a set. The packed form is inline; the other forms are behind a pointer.
#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Boxed(UnalignedBox<Boxed>),
}

#[derive(Clone, Debug)]
enum Boxed {
    Ints(Ints),
    Other(Box<Other>),
}

/// The forms that are neither integers nor a plain listpack.
#[derive(Clone, Debug)]
enum Other {
    Table(Table),
    /// A listpack whose members have, or had, deadlines.
    Timed(Timed<Packed>),
}

const _: () = assert!(size_of::<Set>() == 16 && size_of::<Boxed>() == 16);

/// Read access to a set's form.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    /// Sorted integers.
    Ints(&'a Ints),
    /// A listpack.
    Packed(&'a Packed),
    /// A table.
    Table(&'a Table),
}

/// Write access to a set's form.
enum ViewMut<'a> {
    Ints(&'a mut Ints),
    Packed(&'a mut Packed),
    Table(&'a mut Table),
    Timed(&'a mut Timed<Packed>),
}

/// Position of a member, valid until the set changes.
#[derive(Clone, Debug)]
pub enum Spot {
    /// Position among the integers.
    Int(usize),
    /// Range of the member's entry in the listpack.
    Entry(Range<usize>),
    /// Index of the member in the table.
    Id(u32),
}

/// Position at which an absent member would be inserted, valid until the set changes.
#[derive(Clone, Copy, Debug)]
pub enum Vacancy {
    /// The member as an integer, and its position among the integers.
    Int(i64, usize),
    /// The set has only integers, and the member is not an integer.
    NotInt,
    /// At the end of the listpack.
    Entry,
    /// The member's hash in the table.
    Hash(Hash),
}

impl Default for Set {
    fn default() -> Self {
        Self::packed(Packed::new())
    }
}

impl Set {
    fn packed(entries: Packed) -> Self {
        Self(Form::Packed(entries))
    }

    fn ints(ints: Ints) -> Self {
        Self(Form::Boxed(Boxed::Ints(ints).into()))
    }

    fn table(table: Table) -> Self {
        Self::other(Other::Table(table))
    }

    fn other(other: Other) -> Self {
        Self(Form::Boxed(Boxed::Other(Box::new(other)).into()))
    }

    /// Creates an empty set in the form of integers, for results whose members may all be integers.
    pub fn empty_ints() -> Self {
        Self::ints(Ints::new())
    }

    /// Creates an empty set in the form that suits about `about` members, of which `first` is one.
    pub fn for_members(first: &[u8], about: usize, limits: &Limits) -> Self {
        if about <= limits.set_ints && parse_i64(first).is_some() {
            Self::empty_ints()
        } else if about <= limits.set_entries {
            Self::default()
        } else {
            Self::table(Table::default())
        }
    }

    /// Creates a set in the form that Redis chooses when it reads `count` members from a snapshot.
    /// Ignores duplicates. O(total length) for a table; while the set is compact, each member costs
    /// O(members).
    pub fn from_members<'m>(
        members: impl IntoIterator<Item = Element<'m>>,
        count: usize,
        limits: &Limits,
    ) -> Self {
        let mut set = if count > limits.set_ints.max(limits.set_entries) {
            Self::table(Table::default())
        } else {
            Self::empty_ints()
        };
        for member in members {
            set.insert_element(member, limits);
        }
        set
    }

    /// Creates a set of integers, as a table if there are more than the limit. O(n).
    pub fn from_ints(ints: Ints, limits: &Limits) -> Self {
        let large = ints.len() > limits.set_ints.min(INTS_MAX);
        let mut set = Self::ints(ints);
        if large {
            set.become_table();
        }
        set
    }

    /// Creates a set from the entries of a listpack, as a table if there are more than the limit.
    /// O(bytes).
    pub fn from_packed(entries: Packed, limits: &Limits) -> Self {
        let large = entries.len() > limits.set_entries;
        let mut set = Self::packed(entries);
        if large {
            set.become_table();
        }
        set
    }

    /// Returns the form for reading.
    #[inline]
    pub fn view(&self) -> View<'_> {
        match &self.0 {
            Form::Packed(entries) => View::Packed(entries),
            Form::Boxed(boxed) => match &**boxed {
                Boxed::Ints(ints) => View::Ints(ints),
                Boxed::Other(other) => match &**other {
                    Other::Table(table) => View::Table(table),
                    Other::Timed(timed) => View::Packed(&timed.compact),
                },
            },
        }
    }

    #[inline]
    fn view_mut(&mut self) -> ViewMut<'_> {
        match &mut self.0 {
            Form::Packed(entries) => ViewMut::Packed(entries),
            Form::Boxed(boxed) => match &mut **boxed {
                Boxed::Ints(ints) => ViewMut::Ints(ints),
                Boxed::Other(other) => match &mut **other {
                    Other::Table(table) => ViewMut::Table(table),
                    Other::Timed(timed) => ViewMut::Timed(timed),
                },
            },
        }
    }

    /// Loads the cache lines of these members if the set is large. Changes nothing.
    pub(crate) fn warm_names<'a>(&self, names: impl ExactSizeIterator<Item = &'a [u8]>) {
        if let View::Table(table) = self.view() {
            table.members().warm_names(names);
        }
    }

    /// Returns the members of a table for a snapshot's walk.
    pub(crate) fn keyed_mut(&mut self) -> Option<&mut Keyed<Member>> {
        match self.view_mut() {
            ViewMut::Table(table) => Some(table.members_mut()),
            _ => None,
        }
    }

    /// Returns the number of members. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        match self.view() {
            View::Ints(ints) => ints.len(),
            View::Packed(entries) => entries.len(),
            View::Table(table) => table.members().len(),
        }
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the members in no particular order. A table's members are bytes even if they
    /// look like integers.
    pub fn iter(&self) -> Members<'_> {
        match self.view() {
            View::Ints(ints) => Members::Ints(ints.iter()),
            View::Packed(entries) => Members::Packed(entries.iter()),
            View::Table(table) => {
                let members = table.members().iter();
                Members::Table(Box::new(members.map(|(_, m)| Element::Bytes(m.name()))))
            }
        }
    }

    /// Returns the position of `member`. O(1) in a table, O(log n) among integers, O(bytes) in a
    /// listpack.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Spot> {
        match self.view() {
            View::Table(table) => table.members().find(hash_of(member), member).map(Spot::Id),
            View::Packed(entries) => entries.find(member, 0).map(Spot::Entry),
            View::Ints(ints) => ints.search(parse_i64(member)?).ok().map(Spot::Int),
        }
    }

    /// Returns true if `member` is present.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.find(member).is_some()
    }

    /// Same as [`Set::contains`], for an element.
    #[inline]
    pub fn contains_element(&self, member: Element<'_>) -> bool {
        match (self.view(), member) {
            (View::Ints(ints), Element::Int(int)) => ints.search(int).is_ok(),
            _ => member.with_text(|text| self.contains(text)),
        }
    }

    /// Returns the position to insert `member` at, or `None` if it is present. Costs as much as
    /// [`Set::find`].
    #[inline]
    pub fn vacancy(&self, member: &[u8]) -> Option<Vacancy> {
        match self.view() {
            View::Table(table) => {
                let hash = hash_of(member);
                let found = table.members().find(hash, member);
                found.is_none().then_some(Vacancy::Hash(hash))
            }
            View::Packed(entries) => entries.find(member, 0).is_none().then_some(Vacancy::Entry),
            View::Ints(ints) => match parse_i64(member) {
                Some(int) => ints.search(int).err().map(|at| Vacancy::Int(int, at)),
                None => Some(Vacancy::NotInt),
            },
        }
    }

    /// Adds `member` at its [`Set::vacancy`], and converts the set if a limit requires it.
    /// O(length) amortised, and O(members) in a compact form.
    #[inline]
    pub fn insert_at(&mut self, vacancy: Vacancy, member: &[u8], limits: &Limits) {
        match (self.view_mut(), vacancy) {
            (ViewMut::Table(table), Vacancy::Hash(hash)) => {
                table.add(hash, member);
            }
            (ViewMut::Timed(timed), _) => {
                let entries = &timed.compact;
                if entries.len() < Timed::<Packed>::MAX && fits_after(entries, member, limits) {
                    timed.compact.push(Element::of(member));
                } else {
                    self.become_table().insert(member);
                }
            }
            (ViewMut::Packed(entries), _) => {
                if fits_after(entries, member, limits) {
                    entries.push(Element::of(member));
                } else {
                    self.become_table().insert(member);
                }
            }
            (ViewMut::Ints(ints), Vacancy::Int(int, at)) => {
                ints.insert(at, int);
                if ints.len() > limits.set_ints.min(INTS_MAX) {
                    self.become_table();
                }
            }
            (ViewMut::Ints(ints), _) => {
                if fits_packed(ints, member, limits) {
                    let mut entries = Packed::new();
                    for int in ints.iter() {
                        entries.push(Element::Int(int));
                    }
                    entries.push(Element::of(member));
                    *self = Self::packed(entries);
                } else {
                    self.become_table().insert(member);
                }
            }
            (ViewMut::Table(table), _) => table.insert(member),
        }
    }

    /// Returns the deadline of the member at `spot`, even if it has passed; `u64::MAX` without a
    /// deadline. O(1); in a listpack with deadlines O(members).
    #[inline]
    pub(crate) fn deadline_at(&self, spot: &Spot) -> u64 {
        match (self.view(), self.timed(), spot) {
            (View::Table(table), _, Spot::Id(id)) => {
                table.members().deadline_of(table.members().get(*id))
            }
            (_, Some(timed), Spot::Entry(entry)) => timed.deadline(number_of(timed, entry)),
            _ => NEVER,
        }
    }

    /// Returns the listpack with deadlines if the set has that form.
    #[inline]
    fn timed(&self) -> Option<&Timed<Packed>> {
        let Form::Boxed(boxed) = &self.0 else {
            return None;
        };
        match &**boxed {
            Boxed::Other(other) => match &**other {
                Other::Timed(timed) => Some(timed),
                Other::Table(_) => None,
            },
            Boxed::Ints(_) => None,
        }
    }

    /// Iterates over the members and their deadlines in no particular order.
    fn iter_timed(&self) -> impl Iterator<Item = (Element<'_>, u64)> {
        let table = match self.view() {
            View::Table(table) => Some(table.members()),
            _ => None,
        };
        let compact = table.is_none().then(|| {
            let deadlines = self.timed().map(|timed| timed.all(self.len()));
            let deadlines = deadlines.into_iter().flatten();
            self.iter().zip(deadlines.chain(std::iter::repeat(NEVER)))
        });
        let compact = compact.into_iter().flatten();
        let table = table.into_iter().flat_map(|members| {
            let member = |(_, m)| (Element::Bytes(Member::name(m)), members.deadline_of(m));
            members.iter().map(member)
        });
        compact.chain(table)
    }

    /// Returns true if `member` is present and not due.
    #[inline]
    pub(crate) fn has_live(&self, member: &[u8], now: Now) -> bool {
        let spot = self.find(member);
        spot.is_some_and(|spot| !now.is_due(self.deadline_at(&spot)))
    }

    /// Adds `member`. Returns false if it was present.
    #[inline]
    pub fn insert(&mut self, member: &[u8], limits: &Limits) -> bool {
        let vacancy = self.vacancy(member);
        if let Some(vacancy) = vacancy {
            self.insert_at(vacancy, member, limits);
        }
        vacancy.is_some()
    }

    /// Same as [`Set::insert`], for an element.
    pub fn insert_element(&mut self, member: Element<'_>, limits: &Limits) -> bool {
        member.with_text(|text| self.insert(text, limits))
    }

    /// Removes the member at `spot`. O(1) amortised in a table, O(bytes) in compact forms.
    ///
    /// # Panics
    /// If the set has changed since the lookup.
    #[inline]
    pub fn remove_at(&mut self, spot: Spot) {
        match (self.view_mut(), spot) {
            (ViewMut::Table(table), Spot::Id(id)) => drop(table.remove(id)),
            (ViewMut::Packed(entries), Spot::Entry(entry)) => entries.remove(entry, 1),
            (ViewMut::Timed(timed), Spot::Entry(entry)) => {
                timed.removed(number_of(timed, &entry));
                timed.compact.remove(entry, 1);
            }
            (ViewMut::Ints(ints), Spot::Int(at)) => ints.remove(at),
            _ => panic!("the set changed after the lookup"),
        }
    }

    /// Removes `member`. Returns false if it was not present.
    #[inline]
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let spot = self.find(member);
        let found = spot.is_some();
        if let Some(spot) = spot {
            self.remove_at(spot);
        }
        found
    }

    /// Same as [`Set::remove`], for an element.
    pub fn remove_element(&mut self, member: Element<'_>) -> bool {
        member.with_text(|text| self.remove(text))
    }

    /// Returns true if `more` additional members are, by themselves, too many for the set's compact
    /// form. A table returns false.
    #[inline]
    pub fn outgrown_by(&self, more: usize, limits: &Limits) -> bool {
        match self.view() {
            View::Ints(_) => more > limits.set_ints,
            View::Packed(_) => more > limits.set_entries,
            View::Table(_) => false,
        }
    }

    /// Converts the set to a table. O(members).
    pub fn become_table(&mut self) -> &mut Table {
        if !matches!(self.view(), View::Table(_)) {
            let mut table = Table::default();
            for (member, deadline) in self.iter_timed() {
                member.with_text(|text| {
                    table.insert(text);
                    if deadline != NEVER
                        && let Some(id) = table.members().find(hash_of(text), text)
                    {
                        table.members_mut().set_deadline(id, deadline);
                    }
                });
            }
            if let Some(timed) = self.timed() {
                table.members_mut().adopt_timer(&timed.deadlines);
            }
            *self = Self::table(table);
        }
        match self.view_mut() {
            ViewMut::Table(table) => table,
            _ => unreachable!("converted above"),
        }
    }

    /// Converts the set so that members can get deadlines. A set that is small enough for a
    /// listpack becomes a listpack with deadlines, any other set a table. O(members).
    fn become_timed(&mut self, limits: &Limits) {
        if self.timed().is_some() || matches!(self.view(), View::Table(_)) {
            return;
        }
        let fits = |member: Element<'_>| member.text_len() <= limits.set_value;
        if self.len() <= limits.set_entries.min(Timed::<Packed>::MAX) && self.iter().all(fits) {
            let mut entries = Packed::new();
            self.iter().for_each(|member| entries.push(member));
            *self = Self::other(Other::Timed(Timed::new(entries)));
        } else {
            self.become_table();
        }
    }

    /// Creates a set of members with deadlines. Returns `None` for a duplicate member. O(members).
    pub(crate) fn of_timed<'m>(
        members: impl IntoIterator<Item = (&'m [u8], u64)>,
        limits: &Limits,
    ) -> Option<Self> {
        let mut set = Self::default();
        set.become_timed(limits);
        for (member, deadline) in members {
            if !set.insert(member, limits) {
                return None;
            }
            set.set_deadline(member, deadline, limits);
        }
        Some(set)
    }

    /// Converts the set to sorted integers if all members are integers and the limit allows it.
    /// O(members log members), and O(members²) moved bytes if the members are in no order.
    pub fn become_ints(&mut self, limits: &Limits) {
        if matches!(self.view(), View::Ints(_)) || self.len() > limits.set_ints.min(INTS_MAX) {
            return;
        }
        let mut ints = Ints::new();
        for member in self.iter() {
            let Some(int) = member.as_int() else {
                return;
            };
            if let Err(at) = ints.search(int) {
                ints.insert(at, int);
            }
        }
        *self = Self::ints(ints);
    }
}

/// Returns true if a listpack may get one more member.
#[inline]
fn fits_after(entries: &Packed, member: &[u8], limits: &Limits) -> bool {
    entries.len() < limits.set_entries
        && member.len() <= limits.set_value
        && entries.heap_bytes() + member.len() <= PACKED_MAX
}

/// Returns the number of the member whose entry is at this range. O(members).
fn number_of(timed: &Timed<Packed>, entry: &Range<usize>) -> usize {
    timed.compact.number_at(entry.start)
}

/// Returns true if integers and a non-integer member fit into one listpack.
fn fits_packed(ints: &Ints, member: &[u8], limits: &Limits) -> bool {
    let (longest, widest) = ints.ends().map_or((0, 0), |(low, high)| {
        let ends = [Element::Int(low), Element::Int(high)];
        (
            ends.map(Element::text_len).into_iter().max().unwrap_or(0),
            ends.map(Element::entry_len).into_iter().max().unwrap_or(0),
        )
    });
    ints.len() < limits.set_entries
        && member.len() <= limits.set_value
        && longest <= limits.set_value
        && widest * ints.len() + member.len() <= PACKED_MAX
}

/// Iterator over the members of a set in no particular order.
pub enum Members<'a> {
    /// Over sorted integers.
    Ints(Ascending<'a>),
    /// Over a listpack.
    Packed(Entries<'a>),
    /// Over a table.
    Table(Box<dyn Iterator<Item = Element<'a>> + 'a>),
}

impl<'a> Iterator for Members<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            Self::Ints(ints) => ints.next().map(Element::Int),
            Self::Packed(entries) => entries.next(),
            Self::Table(members) => members.next(),
        }
    }
}
