//! [`Content`] of hashes, and reading hashes from snapshots.

use punctual_rdb::{Element, Encoder, Kind, dump};
use punctual_resp::Args;

use super::{Hash, Table, element};
use crate::check::Check;
use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Unreadable, millis};
use crate::value::deadlines::Deadlines;
use crate::value::digest::Digest;
use crate::value::keyed::Keyed;
use crate::value::parts::{FIELDS, Parts, Timed, Words};
use crate::value::text::Text;

/// Base from which a snapshot counts the deadlines of a large hash. For a small hash the base is
/// the earliest deadline; to find it in a large hash would need a pass over all fields.
const DEADLINE_BASE: i64 = 0;

impl Content for Hash {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("hash", 4, 0)
    }

    fn encoding(&self) -> &'static str {
        match self {
            Self::Packed(_) => "listpack",
            Self::Table(table) if table.small => "listpackex",
            Self::Table(_) => "hashtable",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// Excludes the bytes of timers. O(fields).
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.heap_bytes(),
            Self::Table(table) => size_of::<Table>() + table.heap_bytes(),
        }
    }

    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        if let Some(table) = self.table() {
            table.keyed().warm_commands(commands);
        }
    }

    fn check(&self, to: &mut Check) {
        match self {
            Self::Packed(packed) => packed.check(to),
            Self::Table(table) => table.keyed().check(to),
        }
        to.holds("a hash is not empty", !self.is_empty());
    }

    fn parts_mut(&mut self) -> Option<&mut dyn Parts> {
        Some(self)
    }

    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        self.table()?.keyed().deadlines()
    }

    #[inline]
    fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        self.keyed_mut()?.deadlines_mut()
    }

    fn kind(&self) -> Kind {
        match self {
            _ if self.with_deadline() > 0 => Kind::HashExpiry,
            Self::Packed(_) => Kind::HashListpack,
            Self::Table(_) => Kind::Hash,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        if let Some(packed) = self.packed() {
            return to.listpack(out, packed.entries(), packed.len());
        }
        let timed = self.with_deadline() > 0;
        let first = self.iter().filter_map(|entry| deadline(entry.deadline));
        let first = if timed { first.min().unwrap_or(0) } else { 0 };
        if timed {
            to.field_base(out, first);
        }
        to.len(out, self.len() as u64);
        for entry in self.iter() {
            if timed {
                to.field(
                    out,
                    first,
                    entry.name,
                    entry.value,
                    deadline(entry.deadline),
                );
            } else {
                to.element(out, entry.name);
                to.element(out, entry.value);
            }
        }
    }

    fn is_large(&self) -> bool {
        self.table().is_some_and(|table| table.len() >= LARGE)
    }

    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        if self.kind() == Kind::HashExpiry {
            to.field_base(out, DEADLINE_BASE);
        }
        to.len(out, self.len() as u64);
        self.keyed_mut().into_iter().for_each(Keyed::begin_walk);
    }

    fn walk_on(&mut self, kind: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        self.keyed_mut().is_none_or(|fields| {
            fields.walk(|field, at| {
                let value = element(&field.value);
                if kind == Kind::HashExpiry {
                    let name = Element::Bytes(field.name());
                    to.field(out, DEADLINE_BASE, name, value, deadline(at));
                } else {
                    to.string(out, field.name());
                    to.element(out, value);
                }
                out.len() < full
            })
        })
    }

    fn end_walk(&mut self) {
        self.keyed_mut().into_iter().for_each(Keyed::end_walk);
    }

    fn digest(&self, to: &mut Digest) {
        for field in self.iter() {
            let mut entry = Digest::default();
            field.name.with_text(|text| entry.chain(text));
            field.value.with_text(|text| entry.chain(text));
            if field.deadline != NEVER {
                entry.add(b"!!hexpire!!");
            }
            to.add(&entry.0);
        }
    }
}

impl Timed for Hash {
    const WORDS: &'static Words = &FIELDS;
}

impl Parts for Hash {
    fn words(&self) -> &'static Words {
        Self::WORDS
    }

    fn deadline(&self, name: &[u8]) -> Option<u64> {
        self.get(name).map(|(_, deadline)| deadline)
    }

    fn set_deadline(&mut self, name: &[u8], deadline: u64, _: &Limits) {
        let table = self.become_table();
        if let Some(id) = table.find(name) {
            table.keyed_mut().set_deadline(id, deadline);
        }
    }

    fn remove_part(&mut self, name: &[u8]) -> bool {
        self.remove(name)
    }

    fn take_first(&mut self) -> Option<Text> {
        let first = self.deadlines()?.first()?;
        Some(self.table_mut()?.remove(first).into_name())
    }
}

/// Converts a field's deadline to the form of snapshots.
fn deadline(ms: u64) -> Option<i64> {
    (ms != NEVER).then(|| millis(ms))
}

impl Hash {
    /// Returns DUMP's payload of the hash without the deadlines of its fields. O(bytes).
    pub(crate) fn dump_without_deadlines(&self) -> Vec<u8> {
        let (mut payload, mut to) = (vec![Kind::Hash.byte()], Encoder::new(true));
        to.len(&mut payload, self.len() as u64);
        for entry in self.iter() {
            to.element(&mut payload, entry.name);
            to.element(&mut payload, entry.value);
        }
        dump::seal(&mut payload);
        payload
    }

    /// Creates a hash of about `count` fields that `next` reads. O(bytes).
    pub(crate) fn read<E>(
        count: u64,
        limits: &Limits,
        mut next: impl FnMut() -> Result<Option<Read>, Unreadable<E>>,
    ) -> Result<Self, Unreadable<E>> {
        let mut fields = Vec::with_capacity(count.min(PREALLOC_MAX) as usize);
        while let Some(field) = next()? {
            fields.push(field);
        }
        let entries = fields
            .iter()
            .map(|(name, value, deadline)| (&name[..], &value[..], *deadline));
        Self::of_entries(entries, limits).ok_or(Unreadable::ELEMENTS)
    }
}

/// A field from a snapshot: name, value and deadline.
type Read = (Vec<u8>, Vec<u8>, u64);

/// Copies a field from a snapshot. `expire_ms` is in Unix ms.
pub(crate) fn read_field(name: Element<'_>, value: Element<'_>, expire_ms: Option<i64>) -> Read {
    let owned = |element: Element<'_>| element.with_text(<[u8]>::to_vec);
    let deadline = expire_ms.map_or(NEVER, |ms| u64::try_from(ms).unwrap_or(0));
    (owned(name), owned(value), deadline)
}
