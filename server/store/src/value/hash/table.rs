//! The table of a hash that is large or has fields with deadlines.

use std::fmt;

use punctual_rdb::listpack::Element;

use super::{Entry, Written, element, string};
use crate::time::NEVER;
use crate::value::content::Content as _;
use crate::value::keyed::{self, Keyed, hash_of};
use crate::value::packed::Packed;
use crate::value::string::Str;
use crate::value::text::Text;

/// A field with its value, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Field {
    hash: u32,
    /// Index of the deadline's timer. Meaningless if the field has no deadline or the hash is not
    /// in a database.
    timer: u32,
    /// Deadline in Unix ms; `u64::MAX` if the field has no deadline.
    deadline: u64,
    name: Text,
    pub(crate) value: Str,
}

const _: () = assert!(size_of::<Option<Field>>() == 64);

impl keyed::Element for Field {
    #[inline]
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    #[inline]
    fn hash(&self) -> u32 {
        self.hash
    }
}

impl Field {
    /// Returns the name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns the deadline in Unix ms; `u64::MAX` if the field has no deadline.
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Returns the deadline's timer if the field has one.
    pub(crate) fn timer(&self) -> Option<u32> {
        (self.deadline != NEVER).then_some(self.timer)
    }

    /// Returns the name, value and deadline.
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            name: Element::Bytes(self.name()),
            value: element(&self.value),
            deadline: self.deadline,
        }
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
    with_deadline: usize,
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
            table.add(name, string(value), NEVER);
        }
        Some(table)
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the number of fields with a deadline.
    pub(crate) fn with_deadline(&self) -> usize {
        self.with_deadline
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

    /// Adds a field whose name is not present.
    pub(super) fn add(&mut self, name: &[u8], value: Str, deadline: u64) {
        let hash = hash_of(name);
        self.with_deadline += usize::from(deadline != NEVER);
        self.fields.insert(
            hash,
            Field {
                hash: hash.place,
                timer: 0,
                deadline,
                name: Text::new(name),
                value,
            },
        );
    }

    /// Sets a field's value, and removes its deadline if `keep_deadline` is false. O(1) amortised.
    #[inline]
    pub(super) fn set(&mut self, name: &[u8], text: &[u8], keep_deadline: bool) -> Written {
        let hash = hash_of(name);
        if let Some(id) = self.fields.find(hash, name) {
            let field = self.fields.get_mut(id);
            field.value.set(text);
            if keep_deadline || field.deadline == NEVER {
                return Written::REPLACED;
            }
            return Written {
                created: false,
                timer: self.persist(id),
            };
        }
        let field = Field {
            hash: hash.place,
            timer: 0,
            deadline: NEVER,
            name: Text::new(name),
            value: Str::new(text),
        };
        self.fields.insert(hash, field);
        Written::CREATED
    }

    /// Sets a field's deadline and the timer armed for it. If the field has a deadline already,
    /// `timer` must be its timer.
    pub(crate) fn set_deadline(&mut self, id: u32, deadline: u64, timer: u32) {
        let field = self.fields.get_mut(id);
        self.with_deadline += usize::from(field.deadline == NEVER);
        field.deadline = deadline;
        field.timer = timer;
    }

    /// Removes a field's deadline. Returns its timer, which the caller must disarm.
    #[must_use = "the timer must be disarmed"]
    pub(crate) fn persist(&mut self, id: u32) -> Option<u32> {
        let field = self.fields.get_mut(id);
        let timer = field.timer()?;
        field.deadline = NEVER;
        self.with_deadline -= 1;
        Some(timer)
    }

    /// Removes a field, whose [timer](Field::timer) the caller must disarm. O(1) amortised.
    pub(crate) fn remove(&mut self, id: u32) -> Field {
        let field = self.fields.remove(id);
        self.with_deadline -= usize::from(field.deadline != NEVER);
        field
    }

    /// Arms a timer for each deadline: `arm` gets a field's index and deadline, and returns the
    /// timer.
    pub(crate) fn arm_all(&mut self, mut arm: impl FnMut(u32, u64) -> u32) {
        if self.with_deadline == 0 {
            return;
        }
        let due: Vec<(u32, u64)> = self
            .fields
            .iter()
            .filter(|(_, field)| field.deadline != NEVER)
            .map(|(id, field)| (id, field.deadline))
            .collect();
        for (id, deadline) in due {
            self.fields.get_mut(id).timer = arm(id, deadline);
        }
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
