//! [`Content`] of sets, and reading sets from snapshots.

use punctual_rdb::{Encoder, Kind, Members, Source};
use punctual_resp::Args;

use super::{Boxed, Set, Table, View};
use crate::limits::Limits;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Read, Unreadable};
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, Keyed};

impl Content for Set {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("set", 2, 0)
    }

    fn encoding(&self) -> &'static str {
        match self.view() {
            View::Ints(_) => "intset",
            View::Packed(_) => "listpack",
            View::Table(_) => "hashtable",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(members / 256).
    fn heap_bytes(&self) -> usize {
        match self.view() {
            View::Ints(ints) => size_of::<Boxed>() + ints.heap_bytes(),
            View::Packed(entries) => entries.heap_bytes(),
            View::Table(table) => size_of::<Boxed>() + size_of::<Table>() + table.heap_bytes(),
        }
    }

    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        if let View::Table(table) = self.view() {
            table.members().warm_commands(commands);
        }
    }

    fn kind(&self) -> Kind {
        match self.view() {
            View::Ints(_) => Kind::SetIntset,
            // Redis 7.0 does not read sets as listpacks.
            View::Packed(_) | View::Table(_) => Kind::Set,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        if let View::Ints(ints) = self.view() {
            return to.string(out, ints.as_intset());
        }
        to.len(out, self.len() as u64);
        for member in self.iter() {
            to.element(out, member);
        }
    }

    fn is_large(&self) -> bool {
        matches!(self.view(), View::Table(table) if table.members().len() >= LARGE)
    }

    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.len() as u64);
        self.keyed_mut().into_iter().for_each(Keyed::begin_walk);
    }

    fn walk_on(&mut self, _: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        self.keyed_mut().is_none_or(|members| {
            members.walk(|member, _| {
                to.string(out, member.name());
                out.len() < full
            })
        })
    }

    fn end_walk(&mut self) {
        self.keyed_mut().into_iter().for_each(Keyed::end_walk);
    }

    fn digest(&self, to: &mut Digest) {
        self.iter()
            .for_each(|member| member.with_text(|text| to.add(text)));
    }
}

impl Set {
    /// Reads the members of a set, possibly 0 members. O(bytes).
    pub(crate) fn read<S: Source>(mut members: Members<'_, S>, limits: &Limits) -> Read<Self, S> {
        let about = members.remaining().min(PREALLOC_MAX) as usize;
        let mut set = None;
        while let Some(member) = members.next()? {
            let set = set.get_or_insert_with(|| {
                member.with_text(|text| Self::for_members(text, about, limits))
            });
            if !set.insert_element(member, limits) {
                return Err(Unreadable::ELEMENTS);
            }
        }
        Ok(set.unwrap_or_default())
    }
}
