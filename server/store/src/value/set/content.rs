//! [`Content`] of sets, and reading sets from snapshots.

use punctual_rdb::{Encoder, Kind, Members, Own, OwnParts, Source};
use punctual_resp::Args;

use super::{Boxed, Member, Set, Table, View, ViewMut};
use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Read, Unreadable};
use crate::value::deadlines::Deadlines;
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, Keyed, hash_of};
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
            View::Packed(_) => "listpack",
            View::Table(table) if table.small => "listpackex",
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

    fn parts_mut(&mut self) -> Option<&mut dyn Parts> {
        Some(self)
    }

    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        match self.view() {
            View::Table(table) => table.members().deadlines(),
            _ => None,
        }
    }

    #[inline]
    fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        self.keyed_mut()?.deadlines_mut()
    }

    fn kind(&self) -> Kind {
        match self.view() {
            View::Table(table) if table.members().with_deadline() > 0 => Kind::Module,
            View::Ints(_) => Kind::SetIntset,
            // Redis 7.0 does not read sets as listpacks.
            View::Packed(_) | View::Table(_) => Kind::Set,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        if let View::Ints(ints) = self.view() {
            return to.string(out, ints.as_intset());
        }
        if let View::Table(table) = self.view()
            && self.kind() == Kind::Module
        {
            to.own_parts(out, Own::Set, self.len() as u64);
            for (_, member) in table.members().iter() {
                write_timed(to, out, member, table.members().deadline_of(member));
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
                Kind::Module => write_timed(to, out, member, deadline),
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
        let View::Table(table) = self.view() else {
            return self
                .iter()
                .for_each(|member| member.with_text(|text| to.add(text)));
        };
        for (_, member) in table.members().iter() {
            match table.members().deadline_of(member) {
                NEVER => to.add(member.name()),
                _ => {
                    let mut entry = Digest::default();
                    entry.chain(member.name());
                    entry.add(b"!!sexpire!!");
                    to.add(&entry.0);
                }
            }
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
        let members = self.become_timed(limits).members_mut();
        if let Some(id) = members.find(hash_of(name), name) {
            members.set_deadline(id, deadline);
        }
    }

    fn remove_part(&mut self, name: &[u8]) -> bool {
        self.remove(name)
    }

    fn take_first(&mut self) -> Option<Text> {
        let first = self.deadlines()?.first()?;
        match self.view_mut() {
            ViewMut::Table(table) => Some(table.remove(first).into_name()),
            _ => None,
        }
    }
}

/// Writes a member as a part: its deadline, 0 for none, and its text.
fn write_timed(to: &mut Encoder, out: &mut Vec<u8>, member: &Member, deadline: u64) {
    let mut part = Vec::with_capacity(member.name().len() + 10);
    write_deadline(&mut part, deadline);
    part.extend_from_slice(member.name());
    to.own_part(out, &part);
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
