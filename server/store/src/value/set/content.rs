//! [`Content`] of sets, and reading sets from snapshots.

use punctual_rdb::{Encoder, Kind, Members, Own, OwnParts, Source};
use punctual_resp::Args;

use super::{Boxed, Other, Set, Spot, View, ViewMut, number_of};
use crate::check::Check;
use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Read, Unreadable};
use crate::value::deadlines::Deadlines;
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, Keyed};
use crate::value::parts::{MEMBERS, Parts, Timed, Words, read_deadline, write_deadline};
use crate::value::text::Text;
use crate::value::varint::Input;

impl Content for Set {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("set", 2, 0)
    }

    fn encoding(&self) -> &'static str {
        match self.view() {
            View::Ints(_) => "intset",
            View::Packed(_) if self.timed().is_some() => "listpackex",
            View::Packed(_) => "listpack",
            View::Table(_) => "hashtable",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(pages of the table).
    fn heap_bytes(&self) -> usize {
        match self.view() {
            View::Ints(ints) => size_of::<Boxed>() + ints.heap_bytes(),
            View::Packed(entries) => match self.timed() {
                Some(timed) => {
                    let boxes = size_of::<Boxed>() + size_of::<Other>();
                    boxes + entries.heap_bytes() + timed.deadlines.heap_bytes()
                }
                None => entries.heap_bytes(),
            },
            View::Table(table) => size_of::<Boxed>() + size_of::<Other>() + table.heap_bytes(),
        }
    }

    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        if let View::Table(table) = self.view() {
            table.members().warm_commands(commands);
        }
    }

    fn check(&self, to: &mut Check) {
        match self.view() {
            View::Ints(ints) => to.holds("integers ascend", ints.iter().is_sorted()),
            View::Packed(packed) => packed.check(to),
            View::Table(table) => table.check(to),
        }
        if let Some(timed) = self.timed() {
            timed.check(to, self.len());
        }
        to.holds("a set is not empty", !self.is_empty());
    }

    fn parts_mut(&mut self) -> Option<&mut dyn Parts> {
        Some(self)
    }

    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        match self.view() {
            View::Table(table) => table.members().deadlines(),
            View::Packed(_) => Some(&self.timed()?.deadlines),
            View::Ints(_) => None,
        }
    }

    #[inline]
    fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        match self.view_mut() {
            ViewMut::Table(table) => table.members_mut().deadlines_mut(),
            ViewMut::Timed(timed) => Some(&mut timed.deadlines),
            _ => None,
        }
    }

    fn kind(&self) -> Kind {
        match self.view() {
            _ if self
                .deadlines()
                .is_some_and(|deadlines| deadlines.len() > 0) =>
            {
                Kind::Module
            }
            View::Ints(_) => Kind::SetIntset,
            // Redis 7.0 does not read sets as listpacks.
            View::Packed(_) | View::Table(_) => Kind::Set,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        if let View::Ints(ints) = self.view() {
            return to.string(out, ints.as_intset());
        }
        if self.kind() == Kind::Module {
            to.own_parts(out, Own::Set, self.len() as u64);
            for (member, deadline) in self.iter_timed() {
                member.with_text(|text| write_timed(to, out, text, deadline));
            }
            return to.own_end(out);
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
        match self.kind() {
            Kind::Module => to.own_parts(out, Own::Set, self.len() as u64),
            _ => to.len(out, self.len() as u64),
        }
        self.keyed_mut().into_iter().for_each(Keyed::begin_walk);
    }

    fn walk_on(&mut self, kind: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        let Some(members) = self.keyed_mut().filter(|members| members.is_walked()) else {
            return true;
        };
        let ended = members.walk(|member, deadline| {
            match kind {
                Kind::Module => write_timed(to, out, member.name(), deadline),
                _ => to.string(out, member.name()),
            }
            out.len() < full
        });
        if ended && kind == Kind::Module {
            to.own_end(out);
        }
        ended
    }

    fn end_walk(&mut self) {
        self.keyed_mut().into_iter().for_each(Keyed::end_walk);
    }

    fn digest(&self, to: &mut Digest) {
        for (member, deadline) in self.iter_timed() {
            member.with_text(|text| match deadline {
                NEVER => to.add(text),
                _ => {
                    let mut entry = Digest::default();
                    entry.chain(text);
                    entry.add(b"!!sexpire!!");
                    to.add(&entry.0);
                }
            });
        }
    }
}

impl Timed for Set {
    const WORDS: &'static Words = &MEMBERS;
}

impl Parts for Set {
    fn words(&self) -> &'static Words {
        Self::WORDS
    }

    fn deadline(&self, name: &[u8]) -> Option<u64> {
        self.find(name).map(|spot| self.deadline_at(&spot))
    }

    fn set_deadline(&mut self, name: &[u8], deadline: u64, limits: &Limits) {
        self.become_timed(limits);
        let spot = self.find(name);
        match (self.view_mut(), spot) {
            (ViewMut::Table(table), Some(Spot::Id(id))) => {
                table.members_mut().set_deadline(id, deadline);
            }
            (ViewMut::Timed(timed), Some(Spot::Entry(entry))) => {
                timed.set_deadline(number_of(timed, &entry), deadline);
            }
            _ => {}
        }
    }

    fn remove_part(&mut self, name: &[u8]) -> bool {
        self.remove(name)
    }

    fn take_first(&mut self) -> Option<Text> {
        let first = self.deadlines()?.first()?;
        match self.view_mut() {
            ViewMut::Table(table) => Some(table.remove(first).into_name()),
            ViewMut::Timed(timed) => {
                let entry = timed.compact.position(first as usize)?;
                let name = Text::of(timed.compact.next(entry.start)?.0);
                timed.removed(first as usize);
                timed.compact.remove(entry, 1);
                Some(name)
            }
            _ => None,
        }
    }
}

/// Writes a member as a part: its deadline, 0 for none, and its text.
fn write_timed(to: &mut Encoder, out: &mut Vec<u8>, member: &[u8], deadline: u64) {
    let mut part = Vec::with_capacity(member.len() + 10);
    write_deadline(&mut part, deadline);
    part.extend_from_slice(member);
    to.own_part(out, &part);
}

impl Set {
    /// Reads the members of a set, possibly 0 members. O(bytes) for a table; while the set is
    /// compact, each member costs O(members).
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

    /// Reads the members of a set in which members have deadlines. O(bytes).
    pub(crate) fn read_timed<S: Source>(
        mut parts: OwnParts<'_, S>,
        limits: &Limits,
    ) -> Read<Self, S> {
        let mut members: Vec<(Text, u64)> = Vec::new();
        while let Some(part) = parts.next()? {
            let member = part.with_text(|text| {
                let mut from = Input(text);
                Some((read_deadline(&mut from)?, Text::new(from.0)))
            });
            let (deadline, member) = member.ok_or(Unreadable::DEADLINE)?;
            members.push((member, deadline));
        }
        let members = members.iter().map(|(text, at)| (text.as_bytes(), *at));
        Self::of_timed(members, limits).ok_or(Unreadable::ELEMENTS)
    }
}
