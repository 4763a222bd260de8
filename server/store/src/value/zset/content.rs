//! [`Content`] of sorted sets, and reading sorted sets from snapshots.

use punctual_rdb::{Element, Encoder, Kind, Own, OwnParts, Source};
use punctual_resp::{Args, decimal};
use smallvec::SmallVec;

use super::{Boxed, Mut, Ref, Scores, Zset, parse_score};
use crate::check::Check;
use crate::hash_table::WARM_MAX;
use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Read, Unreadable};
use crate::value::deadlines::Deadlines;
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, Keyed, WARM_FROM};
use crate::value::parts::{Parts, SCORED, Timed, Words, read_deadline, write_deadline};
use crate::value::text::Text;
use crate::value::varint::Input;

impl Content for Zset {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("zset", 3, Facts::AWAITED)
    }

    fn encoding(&self) -> &'static str {
        match self.form() {
            Ref::Packed(_) if self.timed().is_some() => "listpackex",
            Ref::Packed(_) => "listpack",
            Ref::Table(_) => "skiplist",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(entries).
    fn heap_bytes(&self) -> usize {
        match self.form() {
            Ref::Packed(pairs) => match self.timed() {
                Some(timed) => {
                    let boxed = size_of::<Boxed>() + timed.deadlines.heap_bytes();
                    boxed + pairs.packed().heap_bytes()
                }
                None => pairs.packed().heap_bytes(),
            },
            Ref::Table(table) => size_of::<Boxed>() + table.heap_bytes(),
        }
    }

    /// Assumes that the last argument of each command names an entry.
    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        let Ref::Table(table) = self.form() else {
            return;
        };
        if table.len() < WARM_FROM {
            return;
        }
        let (mut names, mut scores) = (SmallVec::<[&[u8]; WARM_MAX]>::new(), Scores::new());
        let mut searches = false;
        for args in commands {
            let is = |command: &str| args.at(0).eq_ignore_ascii_case(command.as_bytes());
            names.extend(args.get(args.len() - 1));
            searches |= !is("zscore");
            if args.len() > 3 && is("zadd") {
                scores.extend(parse_score(args.at(args.len() - 2)));
            }
        }
        table.warm(&names, searches.then_some(&scores));
    }

    fn check(&self, to: &mut Check) {
        match self.form() {
            Ref::Packed(pairs) => pairs.packed().check(to),
            Ref::Table(table) => table.check(to),
        }
        if let Some(timed) = self.timed() {
            timed.check(to, self.len());
        }
        to.holds("a sorted set is not empty", !self.is_empty());
    }

    fn parts_mut(&mut self) -> Option<&mut dyn Parts> {
        Some(self)
    }

    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        match self.form() {
            Ref::Table(table) => table.entries().deadlines(),
            Ref::Packed(_) => Some(&self.timed()?.deadlines),
        }
    }

    #[inline]
    fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        match self.form_mut() {
            Mut::Table(table) => table.entries_mut().deadlines_mut(),
            Mut::Timed(timed) => Some(&mut timed.deadlines),
            Mut::Packed(_) => None,
        }
    }

    fn kind(&self) -> Kind {
        match self.form() {
            _ if self
                .deadlines()
                .is_some_and(|deadlines| deadlines.len() > 0) =>
            {
                Kind::Module
            }
            Ref::Packed(_) => Kind::ZsetListpack,
            Ref::Table(_) => Kind::Zset,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        if self.kind() == Kind::Module {
            to.own_parts(out, Own::Zset, self.len() as u64);
            for (name, score) in self.walk(0..self.len(), true) {
                name.with_text(|name| {
                    let deadline = self.deadline(name).unwrap_or(NEVER);
                    write_timed(to, out, name, score, deadline);
                });
            }
            return to.own_end(out);
        }
        if let Some(packed) = self.packed() {
            return to.listpack(out, packed.entries(), packed.len());
        }
        to.len(out, self.len() as u64);
        // As in Redis, the highest score comes first: the reader inserts each entry at the front.
        for (name, score) in self.walk(0..self.len(), true) {
            to.element(out, name);
            to.score(out, score);
        }
    }

    fn is_large(&self) -> bool {
        matches!(self.form(), Ref::Table(table) if table.len() >= LARGE)
    }

    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        match self.kind() {
            Kind::Module => to.own_parts(out, Own::Zset, self.len() as u64),
            _ => to.len(out, self.len() as u64),
        }
        self.keyed_mut().into_iter().for_each(Keyed::begin_walk);
    }

    fn walk_on(&mut self, kind: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        let Some(entries) = self.keyed_mut().filter(|entries| entries.is_walked()) else {
            return true;
        };
        let ended = entries.walk(|entry, deadline| {
            if kind == Kind::Module {
                write_timed(to, out, entry.name(), entry.score, deadline);
            } else {
                to.element(out, Element::Bytes(entry.name()));
                to.score(out, entry.score);
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
        let mut score_text = Vec::new();
        for (name, score) in self.iter() {
            score_text.clear();
            decimal::write_f64_rounded(&mut score_text, score, 17);
            let mut entry = Digest::default();
            name.with_text(|text| entry.chain(text));
            entry.chain(&score_text);
            let timed = name.with_text(|name| self.deadline(name)) != Some(NEVER);
            if timed {
                entry.add(b"!!zexpire!!");
            }
            to.add(&entry.0);
        }
    }
}

impl Timed for Zset {
    const WORDS: &'static Words = &SCORED;
}

impl Parts for Zset {
    fn words(&self) -> &'static Words {
        Self::WORDS
    }

    fn deadline(&self, name: &[u8]) -> Option<u64> {
        match self.form() {
            Ref::Packed(pairs) => match self.timed() {
                Some(timed) => Some(timed.deadline(pairs.rank(name)?.0)),
                None => pairs.score(name).map(|_| NEVER),
            },
            Ref::Table(table) => table.deadline(name),
        }
    }

    fn set_deadline(&mut self, name: &[u8], deadline: u64, limits: &Limits) {
        self.become_timed(limits);
        match self.form_mut() {
            Mut::Table(table) => table.set_deadline(name, deadline),
            Mut::Timed(timed) => {
                if let Some((rank, _)) = timed.compact.rank(name) {
                    timed.set_deadline(rank, deadline);
                }
            }
            Mut::Packed(_) => unreachable!("converted above"),
        }
    }

    fn remove_part(&mut self, name: &[u8]) -> bool {
        self.remove(name).is_some()
    }

    fn take_first(&mut self) -> Option<Text> {
        match self.form_mut() {
            Mut::Packed(_) => None,
            Mut::Table(table) => table.take_first(),
            Mut::Timed(timed) => {
                let rank = timed.deadlines.first()? as usize;
                let name = Text::of(timed.compact.nth(rank)?.0);
                timed.removed(rank);
                timed.compact.remove_ranks(rank..rank + 1);
                Some(name)
            }
        }
    }
}

/// Writes an entry as a part: its deadline, 0 for none, its score in eight bytes, and its name.
fn write_timed(to: &mut Encoder, out: &mut Vec<u8>, name: &[u8], score: f64, deadline: u64) {
    let mut part = Vec::with_capacity(name.len() + 18);
    write_deadline(&mut part, deadline);
    part.extend_from_slice(&score.to_le_bytes());
    part.extend_from_slice(name);
    to.own_part(out, &part);
}

/// Reads an entry that [`write_timed`] has written.
fn read_timed(part: &[u8]) -> Option<(Text, f64, u64)> {
    let mut from = Input(part);
    let deadline = read_deadline(&mut from)?;
    let (score, name) = from.0.split_first_chunk()?;
    Some((Text::new(name), f64::from_le_bytes(*score), deadline))
}

impl Zset {
    /// Reads names and scores, in the time of [`Zset::from_pairs`].
    pub(crate) fn read<S: Source>(
        mut entries: punctual_rdb::Scored<'_, S>,
        limits: &Limits,
    ) -> Read<Self, S> {
        let mut pairs = Vec::with_capacity(entries.remaining().min(PREALLOC_MAX) as usize);
        while let Some((name, score)) = entries.next()? {
            pairs.push((name.with_text(Text::new), score));
        }
        Self::from_pairs(pairs, *limits).ok_or(Unreadable::ELEMENTS)
    }

    /// Reads a sorted set in which members have deadlines. O(n log n), O(n) if they are in order;
    /// O(n²) while the set is compact.
    pub(crate) fn read_timed<S: Source>(
        mut parts: OwnParts<'_, S>,
        limits: &Limits,
    ) -> Read<Self, S> {
        let mut timed = Vec::new();
        while let Some(part) = parts.next()? {
            timed.push(part.with_text(read_timed).ok_or(Unreadable::DEADLINE)?);
        }
        Self::from_timed(timed, limits).ok_or(Unreadable::ELEMENTS)
    }
}
