//! The value type `hash`: fields with values, packed in one block if small, otherwise in a table.
//! Fields may have deadlines.
//!
//! Ground rules:
//!
//! - A hash becomes a table, however small, when a field gets a deadline. It stays a table when the
//!   deadline is removed. The table's field `small` is true while OBJECT ENCODING must reply with
//!   `listpackex`, the packed form that Redis would use.
//! - A hash stores the deadlines of its fields, so a copy or a move keeps the
//!   deadlines. The hash itself arms no timer.
//! - A field whose deadline has passed stays until the hash's timer or a command removes it. So
//!   readers compare deadlines with `now`.

mod content;
mod table;
#[cfg(test)]
mod tests;

use punctual_rdb::listpack::Element;

use crate::error::Error;
use crate::limits::Limits;
use crate::time::NEVER;
use crate::unaligned::UnalignedBox;
use crate::value::keyed::Keyed;
use crate::value::packed::Packed;
use crate::value::string::Str;

pub(crate) use content::read_field;
pub(crate) use table::{Field, Table};

/// Maximum size of a packed block in bytes.
const PACKED_BYTES_MAX: usize = 1 << 30;

/// A hash, in 16 bytes.
#[derive(Clone, Debug)]
pub enum Hash {
    /// Alternating names and values of a small hash without deadlines.
    Packed(Packed),
    /// Any other hash.
    Table(UnalignedBox<Table>),
}

const _: () = assert!(size_of::<Hash>() == 16);

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name of the field.
    pub name: Element<'a>,
    /// Value of the field.
    pub value: Element<'a>,
    /// Deadline in Unix ms; `u64::MAX` if the field has no deadline.
    pub deadline: u64,
}

/// Returns a string as an element, without a copy.
#[inline]
pub(crate) fn element(string: &Str) -> Element<'_> {
    match string {
        Str::Int(int) => Element::Int(int.get()),
        Str::Inline { len, bytes } => Element::Bytes(&bytes[..usize::from(*len).min(bytes.len())]),
        Str::Boxed(bytes) => Element::Bytes(bytes),
        Str::Grown(bytes) => Element::Bytes(bytes),
    }
}

/// Returns an element as a string.
#[inline]
pub(crate) fn string(element: Element<'_>) -> Str {
    match element {
        Element::Int(int) => Str::Int(int.into()),
        Element::Bytes(bytes) => Str::new(bytes),
    }
}

/// Returns true if the text is too long for a packed block.
#[inline]
fn is_long(text: &[u8], limits: &Limits) -> bool {
    text.len() > limits.hash_value
}

impl Hash {
    /// Creates an empty hash.
    pub fn new() -> Self {
        Self::Packed(Packed::new())
    }

    /// Creates a hash of these fields; the last value of a duplicate name wins. O(bytes), and
    /// O(fields²) comparisons of name lengths if the hash is packed.
    pub(crate) fn of_pairs<'a>(
        pairs: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone,
        limits: &Limits,
    ) -> Self {
        let mut bytes = 0;
        let fits = pairs.len() <= limits.hash_entries
            && pairs.clone().all(|(name, value)| {
                bytes += name.len() + value.len();
                !is_long(name, limits) && !is_long(value, limits) && bytes < PACKED_BYTES_MAX
            });
        if fits {
            return Self::Packed(Packed::of_pairs(pairs));
        }
        let mut table = Table::default();
        for (name, value) in pairs {
            table.set(name, value, false);
        }
        Self::Table(Box::new(table).into())
    }

    /// Creates a hash of entries with deadlines. Returns `None` for a duplicate name. O(bytes).
    pub fn of_entries<'a>(
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8], u64)>,
        limits: &Limits,
    ) -> Option<Self> {
        let mut table = Table::default();
        for (name, value, deadline) in entries {
            if table.find(name).is_some() {
                return None;
            }
            let id = table.add(name, Str::new(value));
            table.keyed_mut().set_deadline(id, deadline);
        }
        let fits = table.len() <= limits.hash_entries
            && table.fields().all(|(_, field)| {
                !is_long(field.name(), limits) && field.value.len() <= limits.hash_value
            });
        table.small = fits;
        let bytes: usize = table.fields().map(|(_, f)| f.len_in_block()).sum();
        if !fits || table.keyed().with_deadline() > 0 || bytes >= PACKED_BYTES_MAX {
            return Some(Self::Table(Box::new(table).into()));
        }
        let mut packed = Packed::new();
        for (_, field) in table.fields() {
            packed.push_pair(Element::of(field.name()), element(&field.value));
        }
        Some(Self::Packed(packed))
    }

    /// Creates a hash from the `count` bare entries of a listpack, which are
    /// [validated](punctual_rdb::listpack::validate_entries). Returns `None` if `count` is odd or a
    /// name occurs twice. O(bytes).
    pub fn of_packed(entries: &[u8], count: usize, limits: &Limits) -> Option<Self> {
        let packed = Packed::from_entries(entries, count);
        if !count.is_multiple_of(2) {
            return None;
        }
        let fits = count / 2 <= limits.hash_entries
            && entries.len() < PACKED_BYTES_MAX
            && packed.iter().all(|e| e.text_len() <= limits.hash_value);
        let table = Table::of_packed(&packed)?;
        Some(if fits {
            Self::Packed(packed)
        } else {
            Self::Table(Box::new(table).into())
        })
    }

    /// Returns the number of fields, including fields whose deadline has passed. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len() / 2,
            Self::Table(table) => table.len(),
        }
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the listpack entries of a small hash without deadlines.
    pub fn packed(&self) -> Option<&Packed> {
        match self {
            Self::Packed(packed) => Some(packed),
            Self::Table(_) => None,
        }
    }

    /// Returns the number of fields with a deadline. O(1).
    #[inline]
    pub fn with_deadline(&self) -> usize {
        match self {
            Self::Packed(_) => 0,
            Self::Table(table) => table.keyed().with_deadline(),
        }
    }

    /// Returns a field's value and deadline, even if the deadline has passed. O(1), O(fields) in a
    /// packed block.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<(Element<'_>, u64)> {
        match self {
            Self::Packed(packed) => {
                let at = packed.find(name, 1)?;
                Some((packed.next(at.end)?.0, NEVER))
            }
            Self::Table(table) => {
                let entry = table.entry(table.field(table.find(name)?));
                Some((entry.value, entry.deadline))
            }
        }
    }

    /// Iterates over all fields in no particular order, including fields whose deadline has passed.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let (packed, table) = match self {
            Self::Packed(packed) => (Some(packed), None),
            Self::Table(table) => (None, Some(table)),
        };
        let packed = packed.into_iter().flat_map(|packed| {
            let mut elements = packed.iter();
            std::iter::from_fn(move || {
                Some(Entry {
                    name: elements.next()?,
                    value: elements.next()?,
                    deadline: NEVER,
                })
            })
        });
        let table = table.into_iter();
        packed.chain(table.flat_map(|t| t.fields().map(|(_, field)| t.entry(field))))
    }

    /// Converts a packed block to a table. Returns the table. If `small` is false, clears the
    /// table's field [`small`](Table).
    fn make_table(&mut self, small: bool) -> &mut Table {
        if let Self::Packed(packed) = self {
            let mut table = Table::of_packed(packed).unwrap_or_default();
            table.small = small;
            *self = Self::Table(Box::new(table).into());
        }
        match self {
            Self::Table(table) => {
                table.small &= small;
                table
            }
            Self::Packed(_) => unreachable!("converted above"),
        }
    }

    /// Converts a packed block to a table so that fields can get deadlines. Returns the table.
    pub(crate) fn become_table(&mut self) -> &mut Table {
        self.make_table(true)
    }

    /// Loads the cache lines of these fields if the hash is large. Changes nothing.
    pub(crate) fn warm_names<'a>(&self, names: impl ExactSizeIterator<Item = &'a [u8]>) {
        if let Some(table) = self.table() {
            table.keyed().warm_names(names);
        }
    }

    /// Returns the table if the hash has that form.
    #[inline]
    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            Self::Packed(_) => None,
            Self::Table(table) => Some(table),
        }
    }

    /// Returns the table for changes if the hash has that form.
    #[inline]
    pub(crate) fn table_mut(&mut self) -> Option<&mut Table> {
        match self {
            Self::Packed(_) => None,
            Self::Table(table) => Some(table),
        }
    }

    /// Returns the fields of a table for a snapshot's walk.
    fn keyed_mut(&mut self) -> Option<&mut Keyed<Field>> {
        self.table_mut().map(Table::keyed_mut)
    }

    /// Prepares for `pairs` more pairs: converts a packed block to a table if the pairs alone
    /// exceed the block's limit.
    pub(crate) fn reserve(&mut self, pairs: usize, limits: &Limits) {
        if pairs > limits.hash_entries {
            self.make_table(false);
        }
    }

    /// Sets a field's value, and removes its deadline if `keep_deadline` is false. Returns whether
    /// the field is new. O(1) amortised, O(bytes) in a packed block, O(log deadlines) if a deadline
    /// is removed.
    #[inline]
    pub(crate) fn set(
        &mut self,
        name: &[u8],
        value: &[u8],
        keep_deadline: bool,
        limits: &Limits,
    ) -> bool {
        let long = is_long(name, limits) || is_long(value, limits);
        match self {
            Self::Packed(packed) if !long => {
                if let Some(at) = packed.find(name, 1)
                    && let Some((_, end)) = packed.next(at.end)
                {
                    packed.replace(at.end..end, Element::of(value));
                    return false;
                }
                packed.push_pair(Element::of(name), Element::of(value));
                if packed.len() / 2 > limits.hash_entries || packed.heap_bytes() > PACKED_BYTES_MAX
                {
                    self.make_table(false);
                }
                true
            }
            Self::Packed(_) => self.make_table(false).set(name, value, keep_deadline),
            Self::Table(table) => {
                if table.small && long {
                    table.small = false;
                }
                let created = table.set(name, value, keep_deadline);
                if table.small && table.len() > limits.hash_entries {
                    table.small = false;
                }
                created
            }
        }
    }

    /// Adds `by` to a field's integer; an absent field counts as 0. Returns the sum. Keeps the
    /// deadline. O(1) amortised, O(bytes) in a packed block.
    ///
    /// # Errors
    /// If the value is not an integer, or the sum would overflow.
    pub(crate) fn add(&mut self, name: &[u8], by: i64, limits: &Limits) -> Result<i64, Error> {
        const NOT_INTEGER: Error = Error::fixed("ERR hash value is not an integer");
        const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
        match self {
            Self::Packed(packed) => {
                if let Some(at) = packed.find(name, 1)
                    && let Some((value, end)) = packed.next(at.end)
                {
                    let old = value.as_int().ok_or(NOT_INTEGER)?;
                    let sum = old.checked_add(by).ok_or(OVERFLOW)?;
                    packed.replace(at.end..end, Element::Int(sum));
                    return Ok(sum);
                }
            }
            Self::Table(table) => {
                if let Some(id) = table.find(name) {
                    let value = &mut table.field_mut(id).value;
                    let old = value.as_int().ok_or(NOT_INTEGER)?;
                    let sum = old.checked_add(by).ok_or(OVERFLOW)?;
                    *value = Str::Int(sum.into());
                    return Ok(sum);
                }
            }
        }
        let mut buffer = itoa::Buffer::new();
        let created = self.set(name, buffer.format(by).as_bytes(), true, limits);
        debug_assert!(created);
        Ok(by)
    }

    /// Removes a field. Returns whether it was present. O(1) amortised, O(bytes) in a packed block,
    /// O(log deadlines) if it has a deadline.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        match self {
            Self::Packed(packed) => {
                let Some(at) = packed.find(name, 1) else {
                    return false;
                };
                let end = packed.next(at.end).map_or(at.end, |(_, end)| end);
                packed.remove(at.start..end, 2);
                true
            }
            Self::Table(table) => match table.find(name) {
                Some(id) => {
                    table.remove(id);
                    true
                }
                None => false,
            },
        }
    }
}
