//! Random members, all with equal probability.
//!
//! The parameter `random` of each method returns a uniformly distributed number below its argument.

use punctual_rdb::listpack::Element;

use super::{Set, Spot, View, ViewMut};
use crate::limits::Limits;
use crate::random::drawn;
use crate::value::keyed::Element as _;
use crate::value::packed::Packed;

/// Selects `wanted` of `remaining` items in one pass, each possible selection with the same
/// probability (Knuth, "The Art of Computer Programming", 3.4.2, algorithm S).
struct Selection<R> {
    remaining: usize,
    wanted: usize,
    random: R,
}

impl<R: FnMut(u32) -> u32> Selection<R> {
    /// Returns true if the current item is selected.
    fn select_next(&mut self) -> bool {
        let selected = ((self.random)(self.remaining as u32) as usize) < self.wanted;
        self.remaining -= 1;
        self.wanted -= usize::from(selected);
        selected
    }
}

impl Set {
    /// Returns a random member and its position. O(1) on average, O(pages) in a table that has lost
    /// nearly all its members, O(bytes) in a listpack.
    pub fn pick(&self, mut random: impl FnMut(u32) -> u32) -> Option<(Spot, Element<'_>)> {
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

    /// Visits `count` distinct random members, or all members if there are at most `count`. The
    /// order is arbitrary but not random. O(count) in a table, O(members) in compact forms.
    pub fn sample<'a>(
        &'a self,
        count: usize,
        mut random: impl FnMut(u32) -> u32,
        mut visit: impl FnMut(Element<'a>),
    ) {
        if let View::Table(table) = self.view()
            && count < self.len() / 3
        {
            // Less than a third of the members is wanted, so most draws are new members.
            let members = table.members();
            let mut selected = drawn(count);
            while selected.len() < count
                && let Some(id) = members.at_random(&mut random)
            {
                if selected.insert(id) {
                    visit(Element::Bytes(members.get(id).name()));
                }
            }
            return;
        }
        let mut draw = Selection {
            remaining: self.len(),
            wanted: count,
            random,
        };
        self.iter().filter(|_| draw.select_next()).for_each(visit);
    }

    /// Removes `count` random members and visits them in no particular order. A table may become
    /// compact if few members are left. O(count) in a table, O(members) in compact forms.
    ///
    /// # Panics
    /// If the set has no more than `count` members.
    pub fn take_some(
        &mut self,
        count: usize,
        limits: &Limits,
        mut random: impl FnMut(u32) -> u32,
        mut visit: impl FnMut(Element<'_>),
    ) {
        let len = self.len();
        assert!(count < len, "count is below the number of members");
        let stay = len - count;
        let mut draw = Selection {
            remaining: len,
            wanted: count,
            random: &mut random,
        };
        match self.view_mut() {
            ViewMut::Ints(ints) => ints.retain(|int| {
                let selected = draw.select_next();
                if selected {
                    visit(Element::Int(int));
                }
                !selected
            }),
            ViewMut::Packed(entries) => {
                let mut kept = Vec::with_capacity(entries.entries().len());
                let mut at = 0;
                while let Some((element, end)) = entries.next(at) {
                    if draw.select_next() {
                        visit(element);
                    } else {
                        kept.extend_from_slice(&entries.entries()[at..end]);
                    }
                    at = end;
                }
                *entries = Packed::from_entries(&kept, stay);
            }
            // At most a few hundred members, so the search for each is short.
            ViewMut::Timed(_) => {
                for _ in 0..count {
                    let (spot, member) = self.pick(&mut random).expect("some members stay");
                    visit(member);
                    self.remove_at(spot);
                }
            }
            // The table must stay if it holds deadlines, or the state of a snapshot's walk.
            ViewMut::Table(table)
                if stay * 5 > count
                    || table.members().is_walked()
                    || table.members().deadlines().is_some() =>
            {
                for _ in 0..count {
                    let id = table.members().at_random(&mut random);
                    let member = table.remove(id.expect("some members stay"));
                    visit(Element::Bytes(member.name()));
                }
            }
            // Most members are removed: selecting the members that stay is less work.
            ViewMut::Table(table) => {
                let mut staying = Self::default();
                for _ in 0..stay {
                    let id = table.members().at_random(&mut random);
                    let member = table.remove(id.expect("the table has enough members"));
                    staying.insert(member.name(), limits);
                }
                self.iter().for_each(visit);
                *self = staying;
            }
        }
    }
}
