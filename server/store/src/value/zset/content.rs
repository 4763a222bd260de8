//! [`Content`] of sorted sets, and reading sorted sets from snapshots.

use punctual_rdb::{Element, Encoder, Kind, Source};
use punctual_resp::{Args, decimal};
use smallvec::SmallVec;

use super::{Form, Scores, Table, Zset, parse_score};
use crate::hash_table::WARM_MAX;
use crate::limits::Limits;
use crate::value::content::{Content, Facts, LARGE, PREALLOC_MAX, Read, Unreadable};
use crate::value::digest::Digest;
use crate::value::keyed::{Element as _, Keyed, WARM_FROM};
use crate::value::text::Text;

impl Content for Zset {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("zset", 3, Facts::AWAITED)
    }

    fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Packed(_) => "listpack",
            Form::Table(_) => "skiplist",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(entries).
    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(pairs) => pairs.packed().heap_bytes(),
            Form::Table(table) => size_of::<Table>() + table.heap_bytes(),
        }
    }

    /// Assumes that the last argument of each command names an entry.
    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        let Form::Table(table) = &self.0 else {
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

    fn kind(&self) -> Kind {
        match &self.0 {
            Form::Packed(_) => Kind::ZsetListpack,
            Form::Table(_) => Kind::Zset,
        }
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
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
        matches!(&self.0, Form::Table(table) if table.len() >= LARGE)
    }

    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.len() as u64);
        self.keyed_mut().into_iter().for_each(Keyed::begin_walk);
    }

    fn walk_on(&mut self, _: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        self.keyed_mut().is_none_or(|entries| {
            entries.walk(|entry, _| {
                to.element(out, Element::Bytes(entry.name()));
                to.score(out, entry.score);
                out.len() < full
            })
        })
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
            to.add(&entry.0);
        }
    }
}

impl Zset {
    /// Reads names and scores. O(n log n), O(n) if they are in order.
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
}
