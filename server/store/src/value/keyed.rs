//! The elements of a large collection by name: a set's members, a hash's fields, a sorted set's
//! entries, a queue's jobs.
//!
//! Elements lie in [pages](crate::pages); an element keeps its index until it is removed. A
//! [hash table](crate::hash_table) of the same kind as the keyspace's finds them. So a large
//! collection grows without a stall, and SSCAN, HSCAN and ZSCAN miss no element that stays. A
//! collection gets its table when it has more than `FEW` elements. Without a table, a lookup
//! compares each element.
//!
//! Elements may have deadlines. An element whose deadline has passed stays until
//! its collection's timer or a command removes it.

use std::fmt;
use std::sync::OnceLock;

use ahash::RandomState;
use punctual_resp::Args;
use smallvec::SmallVec;

use super::deadlines::{Deadlines, NO_SLOT};
use crate::check::Check;
use crate::hash_table::{Hash, HashTable, WARM_MAX};
use crate::pages::Pages;
use crate::time::NEVER;
use crate::unwritten::Unwritten;

/// Maximum number of elements without a table.
const FEW: usize = 16;
/// Maximum number of page slots, used or free, that one step of a walk visits.
const STEP_PLACES: usize = 4_096;

/// Minimum number of elements for loading cache lines ahead: smaller collections stay in the CPU's
/// caches.
pub(crate) const WARM_FROM: usize = 8_000;
/// Minimum number of names in one command for loading their cache lines together.
pub(crate) const WARM_NAMES_MIN: usize = 4;
/// Maximum number of names in one command whose cache lines are loaded together: more lines would
/// evict each other from the cache.
pub(crate) const WARM_NAMES_MAX: usize = 1_024;

/// The hash keys of all collections in the process, from the seed of the first store. They are
/// global because a value has no reference to its store.
static HASHER: OnceLock<RandomState> = OnceLock::new();

/// Sets the hash keys of collections, unless they are set already. Each store calls this function
/// before it creates values.
pub(crate) fn set_hash_keys(hasher: RandomState) {
    let _ = HASHER.set(hasher);
}

/// Returns fixed hash keys for tests of collections without a store. Panics in other debug builds.
#[cold]
fn without_store() -> RandomState {
    if cfg!(debug_assertions) && !cfg!(test) {
        panic!("a store sets the hash keys before it has values");
    }
    RandomState::with_seeds(1, 2, 3, 4)
}

/// Returns the hash of an element's name. O(length).
#[inline]
pub fn hash_of(name: &[u8]) -> Hash {
    Hash::new(HASHER.get_or_init(without_store).hash_one(name))
}

/// An element of a [`Keyed`].
pub trait Element: Clone {
    /// Returns the name.
    fn name(&self) -> &[u8];
    /// Returns the [`place`](Hash::place) of the name's [`hash_of`].
    fn hash(&self) -> u32;
    /// Returns the slot of the element's deadline; see `deadlines.rs`.
    #[inline]
    fn slot(&self) -> u32 {
        NO_SLOT
    }
    /// Stores the slot of the element's deadline.
    fn set_slot(&mut self, _: u32) {
        debug_assert!(false, "such an element has no deadline");
    }
}

/// Implements [`Element`] for a type with the fields `hash` and `slot`, and a field for the name.
macro_rules! timed_element {
    ($element:ty, $name:ident) => {
        impl $crate::value::keyed::Element for $element {
            #[inline]
            fn name(&self) -> &[u8] {
                self.$name.as_bytes()
            }
            #[inline]
            fn hash(&self) -> u32 {
                self.hash
            }
            #[inline]
            fn slot(&self) -> u32 {
                self.slot
            }
            #[inline]
            fn set_slot(&mut self, slot: u32) {
                self.slot = slot;
            }
        }
    };
}
pub(super) use timed_element;

/// Elements by name.
pub struct Keyed<E> {
    elements: Pages<E>,
    /// Finds elements by name; `None` if there are few.
    index: Option<Box<HashTable>>,
    /// Deadlines of elements; `None` if no element had one since the last timer fired.
    deadlines: Option<Box<Deadlines>>,
    /// The walk of a snapshot that has not reached the end of this collection.
    walk: Option<Box<Walk<E>>>,
}

/// A snapshot's walk through the elements.
struct Walk<E> {
    unwritten: Unwritten,
    /// Copies of elements from before they changed or were removed, not yet written, with their
    /// deadlines.
    early: Vec<(E, u64)>,
}

impl<E: Clone> Clone for Keyed<E> {
    /// Copies the elements. A snapshot does not walk through the copy.
    fn clone(&self) -> Self {
        Self {
            elements: self.elements.clone(),
            index: self.index.clone(),
            deadlines: self.deadlines.clone(),
            walk: None,
        }
    }
}

impl<E> Default for Keyed<E> {
    fn default() -> Self {
        Self {
            elements: Pages::default(),
            index: None,
            deadlines: None,
            walk: None,
        }
    }
}

impl<E> fmt::Debug for Keyed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyed({} elements)", self.elements.len())
    }
}

fn place<E: Element>(elements: &Pages<E>, id: u32) -> u32 {
    elements.get(id).map_or(0, Element::hash)
}

fn set_slot<E: Element>(elements: &mut Pages<E>, id: u32, slot: u32) {
    if let Some(element) = elements.get_mut(id) {
        element.set_slot(slot);
    }
}

impl<E: Element> Keyed<E> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the index of the element with this name and its [`hash_of`]. O(1) and the comparison
    /// of names.
    #[inline]
    pub fn find(&self, hash: Hash, name: &[u8]) -> Option<u32> {
        let is = |e: &E| e.hash() == hash.place && e.name() == name;
        match &self.index {
            Some(index) => index.find(hash, |id| self.elements.get(id).is_some_and(is)),
            None => self.elements.iter().find(|(_, e)| is(e)).map(|(id, _)| id),
        }
    }

    /// Loads the cache lines that lookups of these hashes will need, and returns the elements that
    /// they will probably find. Changes nothing. For a small collection it does nothing and returns
    /// no elements.
    pub(crate) fn warm(&self, hashes: &[Hash]) -> impl Iterator<Item = &E> {
        let mut elements: SmallVec<[&E; WARM_MAX]> = SmallVec::new();
        if let Some(index) = self.index.as_ref().filter(|_| self.len() >= WARM_FROM) {
            // The loads of each pass are independent, so they overlap; the sums keep the compiler
            // from removing them.
            let lines = hashes.iter().fold(0, |sum, hash| sum ^ index.warm(*hash));
            std::hint::black_box(lines);
            let candidates = hashes.iter().filter_map(|hash| index.candidate(*hash));
            elements.extend(candidates.filter_map(|id| self.elements.get(id)));
            std::hint::black_box(elements.iter().fold(0, |sum, e| sum ^ e.hash()));
        }
        elements.into_iter()
    }

    /// Loads the cache lines of the elements that the commands name in argument 2; see
    /// [`Keyed::warm`].
    pub(crate) fn warm_commands<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        let names = commands.filter_map(|args| args.get(2));
        let hashes: SmallVec<[Hash; WARM_MAX]> = names.map(hash_of).collect();
        drop(self.warm(&hashes));
    }

    /// Same as [`Keyed::warm`], for the names of one command. Uses at most [`WARM_NAMES_MAX`] of
    /// them.
    pub(crate) fn warm_names<'a>(&self, names: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.len() < WARM_FROM || names.len() < WARM_NAMES_MIN {
            return;
        }
        let mut hashes = names.take(WARM_NAMES_MAX).map(hash_of);
        loop {
            let some: SmallVec<[Hash; WARM_MAX]> = hashes.by_ref().take(WARM_MAX).collect();
            if some.is_empty() {
                return;
            }
            drop(self.warm(&some));
        }
    }

    /// Returns the element at `id`.
    ///
    /// # Panics
    /// If `id` is not in the collection.
    #[inline]
    pub fn get(&self, id: u32) -> &E {
        self.elements.get(id).expect("the id is in this collection")
    }

    /// Returns the element at `id` for changes, which must not change its name.
    ///
    /// # Panics
    /// If `id` is not in the collection.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut E {
        if self.walk.is_some() {
            self.before_change(id);
        }
        self.elements
            .get_mut(id)
            .expect("the id is in this collection")
    }

    /// Adds an element whose name is not present. Returns its index, which stays the same until the
    /// element is removed. O(1) amortised; when the hash table grows, it splits at most one of its
    /// parts.
    pub fn insert(&mut self, hash: Hash, element: E) -> u32 {
        debug_assert_eq!(element.hash(), hash.place);
        let id = self.elements.insert(element);
        if let Some(walk) = &mut self.walk {
            walk.unwritten.remove(id);
        }
        let elements = &self.elements;
        match &mut self.index {
            Some(index) => index.insert(hash, id, |i| place(elements, i)),
            None if elements.len() > FEW => {
                let mut index = Box::<HashTable>::default();
                for (id, element) in elements.iter() {
                    index.insert(hash_of(element.name()), id, |i| place(elements, i));
                }
                self.index = Some(index);
            }
            None => {}
        }
        id
    }

    /// Removes an element. O(1) amortised.
    ///
    /// # Panics
    /// If `id` is not in the collection.
    pub fn remove(&mut self, id: u32) -> E {
        if self.walk.is_some() {
            self.before_change(id);
        }
        if let Some(deadlines) = &mut self.deadlines
            && let Some(slot) = self.elements.get(id).map(Element::slot)
            && slot != NO_SLOT
        {
            deadlines.remove(slot, |id, slot| set_slot(&mut self.elements, id, slot));
        }
        let elements = &self.elements;
        if let Some(index) = &mut self.index {
            index.remove(place(elements, id), id, |i| place(elements, i));
            if elements.len() <= FEW / 2 {
                self.index = None;
            }
        }
        self.elements
            .remove(id)
            .expect("the id is in this collection")
    }

    /// Returns an element's deadline in Unix ms; `u64::MAX` without a deadline. O(1).
    #[inline]
    pub(crate) fn deadline_of(&self, element: &E) -> u64 {
        // No heap has the place `NO_SLOT`.
        let deadlines = self.deadlines.as_ref();
        deadlines.map_or(NEVER, |deadlines| deadlines.at(element.slot()))
    }

    /// Sets the deadline of the element at `id`, or removes it for `NEVER`. O(log deadlines).
    ///
    /// # Panics
    /// If `id` is not in the collection.
    pub(crate) fn set_deadline(&mut self, id: u32, deadline: u64) {
        if self.walk.is_some() {
            self.before_change(id);
        }
        let slot = self.get(id).slot();
        let elements = &mut self.elements;
        match deadline {
            NEVER if slot == NO_SLOT => {}
            NEVER => {
                if let Some(deadlines) = &mut self.deadlines {
                    deadlines.remove(slot, |id, slot| set_slot(elements, id, slot));
                }
                set_slot(elements, id, NO_SLOT);
            }
            _ => {
                let deadlines = self.deadlines.get_or_insert_default();
                deadlines.set(slot, id, deadline, |id, slot| set_slot(elements, id, slot));
            }
        }
    }

    /// Returns the deadlines of the elements. They stay, without elements, until the collection's
    /// timer is disarmed.
    #[inline]
    pub(crate) fn deadlines(&self) -> Option<&Deadlines> {
        self.deadlines.as_deref()
    }

    /// Returns the deadlines, so that the database can store its timer's number in them.
    #[inline]
    pub(crate) fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        self.deadlines.as_deref_mut()
    }

    /// Takes over the timer of the same collection in its compact form.
    pub(crate) fn adopt_timer(&mut self, before: &Deadlines) {
        self.deadlines.get_or_insert_default().adopt(before);
    }

    /// Returns the number of elements with a deadline. O(1).
    #[inline]
    pub(crate) fn with_deadline(&self) -> usize {
        self.deadlines().map_or(0, Deadlines::len)
    }

    /// Begins a snapshot's walk, which visits the elements as they are now, even if they change
    /// later. O(elements / 64).
    pub(crate) fn begin_walk(&mut self) {
        self.walk = Some(Box::new(Walk {
            unwritten: Unwritten::new(self.elements.end()),
            early: Vec::new(),
        }));
    }

    /// Returns whether a snapshot's walk is in progress.
    pub(crate) fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// Ends a snapshot's walk.
    pub(crate) fn end_walk(&mut self) {
        self.walk = None;
    }

    /// Continues the walk: visits the copies of elements that have changed, then elements in their
    /// pages, each with its deadline, until `visit` returns false or [`STEP_PLACES`] page slots
    /// were visited. Returns true at the end of the walk.
    pub(crate) fn walk(&mut self, mut visit: impl FnMut(&E, u64) -> bool) -> bool {
        let Some(walk) = &mut self.walk else {
            return true;
        };
        while let Some((element, deadline)) = walk.early.pop() {
            if !visit(&element, deadline) {
                return false;
            }
        }
        let deadlines = self.deadlines.as_ref();
        let deadline_of = |element: &E| deadlines.map_or(NEVER, |d| d.at(element.slot()));
        for _ in 0..STEP_PLACES {
            let Some((id, unwritten)) = walk.unwritten.take() else {
                self.walk = None;
                return true;
            };
            if unwritten
                && let Some(element) = self.elements.get(id)
                && !visit(element, deadline_of(element))
            {
                return false;
            }
        }
        false
    }

    /// Copies an element for the snapshot's walk before the element changes or is removed.
    #[cold]
    fn before_change(&mut self, id: u32) {
        if let Some(walk) = &mut self.walk
            && walk.unwritten.contains(id)
            && let Some(element) = self.elements.get(id)
        {
            let deadlines = self.deadlines.as_ref();
            let deadline = deadlines.map_or(NEVER, |deadlines| deadlines.at(element.slot()));
            walk.early.push((element.clone(), deadline));
            walk.unwritten.remove(id);
        }
    }

    /// Checks that the table finds each element, and that each deadline belongs to its element.
    pub(crate) fn check(&self, to: &mut Check) {
        self.elements.check(to);
        if let Some(index) = &self.index {
            index.check(to, self.elements.len());
        }
        let mut with_deadline = 0;
        for (id, element) in self.elements.iter() {
            to.within(
                || format!("element {}", element.name().escape_ascii()),
                |to| {
                    let hash = hash_of(element.name());
                    to.equal("hash", element.hash(), hash.place);
                    to.equal("place", self.find(hash, element.name()), Some(id));
                    if element.slot() != NO_SLOT {
                        with_deadline += 1;
                        let due = self
                            .deadlines()
                            .and_then(|all| all.element_at(element.slot()));
                        to.equal("element of its deadline", due, Some(id));
                    }
                },
            );
        }
        to.equal("deadlines", self.with_deadline(), with_deadline);
        if let Some(deadlines) = self.deadlines() {
            deadlines.check(to);
        }
    }

    /// Iterates over all elements in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &E)> {
        self.elements.iter()
    }

    /// Visits a few elements from the hash place `from` on. Returns the place to continue at, or
    /// `None` at the end. A scan visits every element that is present from its start to its end.
    /// An element that is added or removed meanwhile may be visited or not.
    pub fn scan(&self, from: u32, mut visit: impl FnMut(&E)) -> Option<u32> {
        match &self.index {
            Some(index) => index.scan(from, |i| place(&self.elements, i), |i| visit(self.get(i))),
            None => {
                let rest = self.iter().filter(|(_, e)| e.hash() >= from);
                rest.for_each(|(_, e)| visit(e));
                None
            }
        }
    }

    /// Returns the index of a random element; `random` returns a number below its argument.
    pub fn at_random(&self, random: impl FnMut(u32) -> u32) -> Option<u32> {
        self.elements.at_random(random)
    }

    /// Returns the hash table, which a collection of few elements lacks, and the number of
    /// elements.
    pub(crate) fn index(&self) -> (Option<&HashTable>, usize) {
        (self.index.as_deref(), self.len())
    }

    /// Returns the bytes of the pages and the table, without the elements' heap bytes. O(pages).
    pub fn memory(&self) -> usize {
        self.elements.memory()
            + self.deadlines().map_or(0, |deadlines| {
                size_of::<Deadlines>() + deadlines.heap_bytes()
            })
            + self
                .index
                .as_ref()
                .map_or(0, |index| size_of::<HashTable>() + index.memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::text::Text;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Clone)]
    struct Member(u32, Text);

    impl Element for Member {
        fn name(&self) -> &[u8] {
            self.1.as_bytes()
        }
        fn hash(&self) -> u32 {
            self.0
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(names in proptest::collection::vec(0..200u32, 1..600), growth in 1..5u32) {
            let mut keyed = Keyed::<Member>::default();
            let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            for (n, name) in names.into_iter().enumerate() {
                let name = (name * growth % 97).to_string().into_bytes();
                let hash = hash_of(&name);
                prop_assert_eq!(keyed.find(hash, &name), model.get(&name).copied());
                match model.get(&name) {
                    Some(&id) if n % 3 == 0 => {
                        let removed = keyed.remove(id);
                        prop_assert_eq!(removed.name(), &name[..]);
                        model.remove(&name);
                    }
                    Some(&id) => prop_assert_eq!(keyed.get(id).name(), &name[..]),
                    None => {
                        let id = keyed.insert(hash, Member(hash.place, Text::new(&name)));
                        model.insert(name, id);
                    }
                }
                prop_assert_eq!(keyed.len(), model.len());
            }
            let mut seen = BTreeSet::new();
            let mut from = Some(0);
            while let Some(at) = from {
                from = keyed.scan(at, |member| {
                    assert!(seen.insert(member.name().to_vec()));
                });
            }
            prop_assert_eq!(seen, model.into_keys().collect());
        }
    }
}
