//! The table of a hash that is large or has fields with deadlines.

use std::fmt;

use punctual_rdb::listpack::Element;

use super::{Entry, element, string};
use crate::time::NEVER;
use crate::value::content::Content as _;
use crate::value::deadlines::NO_SLOT;
use crate::value::keyed::{Keyed, hash_of, timed_element};
use crate::value::packed::Packed;
use crate::value::string::Str;
use crate::value::text::Text;

/// A field with its value, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Field {
    hash: u32,
    slot: u32,
    name: Text,
    pub(crate) value: Str,
}

const _: () = assert!(size_of::<Option<Field>>() == 64);

timed_element!(Field, name);

impl Field {
    /// Returns the name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns the name.
    pub(super) fn into_name(self) -> Text {
        self.name
    }

    /// Returns the number of bytes that the field would take in a packed block.
    pub(crate) fn len_in_block(&self) -> usize {
        Element::of(self.name()).entry_len() + element(&self.value).entry_len()
    }
}

/// Fields by name.
#[derive(Clone, Default)]
pub struct Table {
    fields: Keyed<Field>,
    /// The hash has never exceeded the limits of a packed block: it is a table only because fields
    /// have, or had, deadlines.
    pub(super) small: bool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} fields)", self.len())
    }
}

impl Table {
    /// Converts a packed block. Returns `None` if it contains a duplicate name.
    pub(super) fn of_packed(packed: &Packed) -> Option<Self> {
        let mut table = Self::default();
        let mut elements = packed.iter();
        while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
            let mut buffer = itoa::Buffer::new();
            let name = match name {
                Element::Int(int) => buffer.format(int).as_bytes(),
                Element::Bytes(bytes) => bytes,
            };
            if table.find(name).is_some() {
                return None;
            }
            table.add(name, string(value));
        }
        Some(table)
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the index of the field with this name, even if its deadline has passed. O(1).
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.fields.find(hash_of(name), name)
    }

    /// Returns the field at `id`.
    #[inline]
    pub(crate) fn field(&self, id: u32) -> &Field {
        self.fields.get(id)
    }

    /// Returns the field at `id` for changes.
    #[inline]
    pub(super) fn field_mut(&mut self, id: u32) -> &mut Field {
        self.fields.get_mut(id)
    }

    /// Returns a field's name, value and deadline.
    pub(crate) fn entry<'a>(&self, field: &'a Field) -> Entry<'a> {
        Entry {
            name: Element::Bytes(field.name()),
            value: element(&field.value),
            deadline: self.fields.deadline_of(field),
        }
    }

    /// Iterates over all fields in no particular order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (u32, &Field)> {
        self.fields.iter()
    }

    /// Returns the fields, for scans and for loading cache lines.
    pub(crate) fn keyed(&self) -> &Keyed<Field> {
        &self.fields
    }

    /// Returns the fields for a snapshot's walk.
    pub(crate) fn keyed_mut(&mut self) -> &mut Keyed<Field> {
        &mut self.fields
    }

    /// Returns the index of a random field, whose deadline may have passed.
    pub(crate) fn at_random(&self, random: impl FnMut(u32) -> u32) -> Option<u32> {
        self.fields.at_random(random)
    }

    /// Adds a field whose name is not present. Returns its index. O(1) amortised.
    pub(super) fn add(&mut self, name: &[u8], value: Str) -> u32 {
        let hash = hash_of(name);
        let field = Field {
            hash: hash.place,
            slot: NO_SLOT,
            name: Text::new(name),
            value,
        };
        self.fields.insert(hash, field)
    }

    /// Sets a field's value, and removes its deadline if `keep_deadline` is false. Returns whether
    /// the field is new. O(1) amortised, O(log deadlines) if a deadline is removed.
    #[inline]
    pub(super) fn set(&mut self, name: &[u8], text: &[u8], keep_deadline: bool) -> bool {
        let hash = hash_of(name);
        if let Some(id) = self.fields.find(hash, name) {
            let field = self.fields.get_mut(id);
            field.value.set(text);
            if !keep_deadline && field.slot != NO_SLOT {
                self.fields.set_deadline(id, NEVER);
            }
            return false;
        }
        let field = Field {
            hash: hash.place,
            slot: NO_SLOT,
            name: Text::new(name),
            value: Str::new(text),
        };
        self.fields.insert(hash, field);
        true
    }

    /// Removes a field. O(1) amortised, O(log deadlines) if it has a deadline.
    pub(crate) fn remove(&mut self, id: u32) -> Field {
        self.fields.remove(id)
    }

    /// Returns the number of heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let texts: usize = self
            .fields()
            .map(|(_, field)| field.name.heap_bytes() + field.value.heap_bytes())
            .sum();
        self.fields.memory() + texts
    }
}
