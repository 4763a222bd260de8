//! The value type `set`, in Redis's three forms: integers in order, a listpack, a table.
//!
//! A set is changed in place, and becomes a larger form where Redis 7.2's does; it never goes back by itself. Whoever
//! adds or removes a member looks for it first ([`Set::gap`], [`Set::find`]) and then changes the set
//! there ([`Set::fill`], [`Set::remove_at`]): what turns out to change nothing needs no set that may be changed, and
//! nothing is looked up twice.

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
use crate::value::keyed::{Element as _, hash_of};
use crate::value::packed::Packed;

/// Redis lets no listpack grow beyond this.
const PACKED_MAX: usize = 1 << 30;
/// Redis lets no intset have more integers, whatever the limit says.
const INTS_MAX: usize = 1 << 30;

/// A set, in 16 bytes.
#[derive(Clone, Debug)]
pub struct Set(Form);

/// One form fits in place; the others are behind a pointer.
#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Boxed(Box<Boxed>),
}

#[derive(Clone, Debug)]
enum Boxed {
    Ints(Ints),
    Table(Box<Table>),
}

const _: () = assert!(size_of::<Set>() == 16 && size_of::<Boxed>() == 16);

/// A set's form, to be looked at.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    /// Integers in order.
    Ints(&'a Ints),
    /// A listpack.
    Packed(&'a Packed),
    /// A table.
    Table(&'a Table),
}

enum ViewMut<'a> {
    Ints(&'a mut Ints),
    Packed(&'a mut Packed),
    Table(&'a mut Table),
}

/// Where a member is; good until the set changes.
#[derive(Clone, Debug)]
pub enum Spot {
    /// So many integers are smaller.
    Int(usize),
    /// Its entry.
    Entry(Range<usize>),
    /// Its index in the table.
    Id(u32),
}

/// Where a member would be that is not there; good until the set changes.
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    /// The integer, and how many are smaller.
    Int(i64, usize),
    /// Among integers, but it is none.
    NotInt,
    /// Anywhere among the entries.
    Entry,
    /// At this hash.
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
        Self(Form::Boxed(Box::new(Boxed::Ints(ints))))
    }

    fn table(table: Table) -> Self {
        Self(Form::Boxed(Box::new(Boxed::Table(Box::new(table)))))
    }

    /// No integers: what becomes of results whose members may all be integers.
    pub fn no_ints() -> Self {
        Self::ints(Ints::new())
    }

    /// An empty set in the form that suits `first` and about so many members in all.
    pub fn for_members(first: &[u8], about: usize, limits: &Limits) -> Self {
        if about <= limits.set_ints && parse_i64(first).is_some() {
            Self::no_ints()
        } else if about <= limits.set_entries {
            Self::default()
        } else {
            Self::table(Table::default())
        }
    }

    /// The set of these members in the form that Redis gives it when it reads so many (`count`) from a snapshot. Those
    /// that come twice are in it once. O(total length).
    pub fn from_members<'m>(
        members: impl IntoIterator<Item = Element<'m>>,
        count: usize,
        limits: &Limits,
    ) -> Self {
        let mut set = if count > limits.set_ints.max(limits.set_entries) {
            Self::table(Table::default())
        } else {
            Self::no_ints()
        };
        for member in members {
            set.insert_element(member, limits);
        }
        set
    }

    /// The set of these integers, as a table if they are too many. O(n).
    pub fn from_ints(ints: Ints, limits: &Limits) -> Self {
        let large = ints.len() > limits.set_ints.min(INTS_MAX);
        let mut set = Self::ints(ints);
        if large {
            set.become_table();
        }
        set
    }

    /// The set of these entries, as a table if they are too many. O(bytes).
    pub fn from_packed(entries: Packed, limits: &Limits) -> Self {
        let large = entries.len() > limits.set_entries;
        let mut set = Self::packed(entries);
        if large {
            set.become_table();
        }
        set
    }

    /// The form, to be looked at.
    #[inline]
    pub fn view(&self) -> View<'_> {
        match &self.0 {
            Form::Packed(entries) => View::Packed(entries),
            Form::Boxed(boxed) => match &**boxed {
                Boxed::Ints(ints) => View::Ints(ints),
                Boxed::Table(table) => View::Table(table),
            },
        }
    }

    #[inline]
    fn view_mut(&mut self) -> ViewMut<'_> {
        match &mut self.0 {
            Form::Packed(entries) => ViewMut::Packed(entries),
            Form::Boxed(boxed) => match &mut **boxed {
                Boxed::Ints(ints) => ViewMut::Ints(ints),
                Boxed::Table(table) => ViewMut::Table(table),
            },
        }
    }

    /// How many members there are. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        match self.view() {
            View::Ints(ints) => ints.len(),
            View::Packed(entries) => entries.len(),
            View::Table(table) => table.members().len(),
        }
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Redis's name for the form.
    pub fn encoding(&self) -> &'static str {
        match self.view() {
            View::Ints(_) => "intset",
            View::Packed(_) => "listpack",
            View::Table(_) => "hashtable",
        }
    }

    /// Bytes outside of the value itself. O(members / 256) at most.
    pub fn heap_bytes(&self) -> usize {
        match self.view() {
            View::Ints(ints) => size_of::<Boxed>() + ints.heap_bytes(),
            View::Packed(entries) => entries.heap_bytes(),
            View::Table(table) => size_of::<Boxed>() + size_of::<Table>() + table.heap_bytes(),
        }
    }

    /// The members, in no particular order. Those of a table are bytes even if they look like integers.
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

    /// Where `member` is. O(1) in a table, O(log n) among integers, O(bytes) in a listpack.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Spot> {
        match self.view() {
            View::Table(table) => table.members().find(hash_of(member), member).map(Spot::Id),
            View::Packed(entries) => entries.find(member, 0).map(Spot::Entry),
            View::Ints(ints) => ints.search(parse_i64(member)?).ok().map(Spot::Int),
        }
    }

    /// Whether `member` is in here.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.find(member).is_some()
    }

    /// As [`Set::contains`], of another set's member.
    #[inline]
    pub fn contains_element(&self, member: Element<'_>) -> bool {
        match (self.view(), member) {
            (View::Ints(ints), Element::Int(int)) => ints.search(int).is_ok(),
            _ => member.with_text(|text| self.contains(text)),
        }
    }

    /// Where `member` would be; `None` if it is there. Costs what [`Set::find`] does.
    #[inline]
    pub fn gap(&self, member: &[u8]) -> Option<Gap> {
        match self.view() {
            View::Table(table) => {
                let hash = hash_of(member);
                let found = table.members().find(hash, member);
                found.is_none().then_some(Gap::Hash(hash))
            }
            View::Packed(entries) => entries.find(member, 0).is_none().then_some(Gap::Entry),
            View::Ints(ints) => match parse_i64(member) {
                Some(int) => ints.search(int).err().map(|at| Gap::Int(int, at)),
                None => Some(Gap::NotInt),
            },
        }
    }

    /// Adds `member` where [`Set::gap`] says that it would be; the set takes another form if it must. O(length)
    /// amortised, and O(members) where a compact form changes.
    #[inline]
    pub fn fill(&mut self, gap: Gap, member: &[u8], limits: &Limits) {
        match (self.view_mut(), gap) {
            (ViewMut::Table(table), Gap::Hash(hash)) => table.add(hash, member),
            (ViewMut::Packed(entries), _) => {
                if entries.len() < limits.set_entries
                    && member.len() <= limits.set_value
                    && entries.heap_bytes() + member.len() <= PACKED_MAX
                {
                    entries.push(Element::of(member));
                } else {
                    self.become_table().insert(member);
                }
            }
            (ViewMut::Ints(ints), Gap::Int(int, at)) => {
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

    /// Adds `member`; whether it was not there.
    #[inline]
    pub fn insert(&mut self, member: &[u8], limits: &Limits) -> bool {
        let gap = self.gap(member);
        if let Some(gap) = gap {
            self.fill(gap, member, limits);
        }
        gap.is_some()
    }

    /// As [`Set::insert`], of another set's member.
    pub fn insert_element(&mut self, member: Element<'_>, limits: &Limits) -> bool {
        member.with_text(|text| self.insert(text, limits))
    }

    /// Takes out the member at `spot`. O(1) amortised in a table, O(bytes) in compact forms.
    ///
    /// # Panics
    /// If the set has changed since.
    #[inline]
    pub fn remove_at(&mut self, spot: Spot) {
        match (self.view_mut(), spot) {
            (ViewMut::Table(table), Spot::Id(id)) => drop(table.remove(id)),
            (ViewMut::Packed(entries), Spot::Entry(entry)) => entries.remove(entry, 1),
            (ViewMut::Ints(ints), Spot::Int(at)) => ints.remove(at),
            _ => panic!("the set has changed since"),
        }
    }

    /// Takes `member` out; whether it was there.
    #[inline]
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let spot = self.find(member);
        let found = spot.is_some();
        if let Some(spot) = spot {
            self.remove_at(spot);
        }
        found
    }

    /// As [`Set::remove`], of another set's member.
    pub fn remove_element(&mut self, member: Element<'_>) -> bool {
        member.with_text(|text| self.remove(text))
    }

    /// Whether so many more members make a table of it, whichever they are.
    #[inline]
    pub fn outgrown_by(&self, more: usize, limits: &Limits) -> bool {
        match self.view() {
            View::Ints(_) => more > limits.set_ints,
            View::Packed(_) => more > limits.set_entries,
            View::Table(_) => false,
        }
    }

    /// Makes a table of it, if it is none. O(members).
    pub fn become_table(&mut self) -> &mut Table {
        if !matches!(self.view(), View::Table(_)) {
            let mut table = Table::default();
            for member in self.iter() {
                member.with_text(|text| table.insert(text));
            }
            *self = Self::table(table);
        }
        match self.view_mut() {
            ViewMut::Table(table) => table,
            _ => unreachable!("it was made one"),
        }
    }

    /// Makes integers in order of it if all members are integers, and not too many. O(members log members).
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

/// Whether integers and a member that is none may share a listpack.
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

/// Members of a set, in no particular order.
pub enum Members<'a> {
    /// Of integers in order.
    Ints(Ascending<'a>),
    /// Of a listpack.
    Packed(Entries<'a>),
    /// Of a table.
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
