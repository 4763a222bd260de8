//! Members at random, every one as likely as any other.
//!
//! `random` gives a number below its argument, each as likely.

use std::collections::HashSet;

use punctual_rdb::listpack::Element;

use super::{Set, Spot, View, ViewMut};
use crate::limits::Limits;
use crate::value::keyed::Element as _;
use crate::value::packed::Packed;

/// Draws some of many things that pass by one after the other, every choice of so many as likely (Knuth, "The Art
/// of Computer Programming", 3.4.2, algorithm S).
struct Draw<R> {
    to_come: usize,
    wanted: usize,
    random: R,
}

impl<R: Fn(u32) -> u32> Draw<R> {
    /// Whether the thing that passes is drawn.
    fn draws(&mut self) -> bool {
        let drawn = ((self.random)(self.to_come as u32) as usize) < self.wanted;
        self.to_come -= 1;
        self.wanted -= usize::from(drawn);
        drawn
    }
}

impl Set {
    /// A member at random, and where it is. O(1) on average, O(members / 256) in a table that has lost nearly all of
    /// its members, O(bytes) in a listpack.
    pub fn pick(&self, random: impl Fn(u32) -> u32) -> Option<(Spot, Element<'_>)> {
        if self.is_empty() {
            return None;
        }
        match self.view() {
            View::Ints(ints) => {
                let at = random(ints.len() as u32) as usize;
                Some((Spot::Int(at), Element::Int(ints.get(at))))
            }
            View::Packed(entries) => {
                let entry = entries.position(random(entries.len() as u32) as usize)?;
                let (element, _) = entries.next(entry.start)?;
                Some((Spot::Entry(entry), element))
            }
            View::Table(table) => {
                let id = table.members().at_random(random)?;
                Some((Spot::Id(id), Element::Bytes(table.members().get(id).name())))
            }
        }
    }

    /// Visits `count` members at random, each at most once; all if there are not more. In no particular order, which is
    /// not a random one. O(count) in a table, O(members) in compact forms.
    pub fn sample<'a>(
        &'a self,
        count: usize,
        random: impl Fn(u32) -> u32,
        mut visit: impl FnMut(Element<'a>),
    ) {
        if let View::Table(table) = self.view()
            && count < self.len() / 3
        {
            // Rarely the same one twice.
            let members = table.members();
            let mut drawn = HashSet::with_capacity(count);
            while drawn.len() < count
                && let Some(id) = members.at_random(&random)
            {
                if drawn.insert(id) {
                    visit(Element::Bytes(members.get(id).name()));
                }
            }
            return;
        }
        let mut draw = Draw {
            to_come: self.len(),
            wanted: count,
            random,
        };
        self.iter().filter(|_| draw.draws()).for_each(visit);
    }

    /// Takes `count` members out at random, fewer than there are, and visits them in no particular order. What stays of
    /// a table may be a compact form, if it is little. O(count) in a table, O(members) in compact forms.
    ///
    /// # Panics
    /// If there are not more than `count` members.
    pub fn take_some(
        &mut self,
        count: usize,
        limits: &Limits,
        random: impl Fn(u32) -> u32,
        mut visit: impl FnMut(Element<'_>),
    ) {
        let len = self.len();
        assert!(count < len, "some members stay");
        let stay = len - count;
        let mut draw = Draw {
            to_come: len,
            wanted: count,
            random: &random,
        };
        match self.view_mut() {
            ViewMut::Ints(ints) => ints.retain(|int| {
                let drawn = draw.draws();
                if drawn {
                    visit(Element::Int(int));
                }
                !drawn
            }),
            ViewMut::Packed(entries) => {
                let mut kept = Vec::with_capacity(entries.entries().len());
                let mut at = 0;
                while let Some((element, end)) = entries.next(at) {
                    if draw.draws() {
                        visit(element);
                    } else {
                        kept.extend_from_slice(&entries.entries()[at..end]);
                    }
                    at = end;
                }
                *entries = Packed::from_entries(&kept, stay);
            }
            ViewMut::Table(table) if stay * 5 > count => {
                for _ in 0..count {
                    let id = table.members().at_random(&random);
                    let member = table.remove(id.expect("some members stay"));
                    visit(Element::Bytes(member.name()));
                }
            }
            // Nearly all of them go: it is less work to draw those that stay.
            ViewMut::Table(table) => {
                let mut staying = Self::default();
                for _ in 0..stay {
                    let id = table.members().at_random(&random);
                    let member = table.remove(id.expect("so many are there"));
                    staying.insert(member.name(), limits);
                }
                self.iter().for_each(visit);
                *self = staying;
            }
        }
    }
}
