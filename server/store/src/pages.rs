//! Items in pages, under indices that do not change while the item exists. Examples are the records
//! of a database, and the elements of a large collection.
//!
//! A page is freed as soon as it is empty, so memory is released after a mass expiry. A later item
//! may get the index of a removed one. So a holder of an index must check the item: the hash
//! table's callers compare the name, the wheel compares the record's stamp. The first page grows by
//! doubling, so that a few items take little memory.

use crate::check::Check;

/// Binary logarithm of the number of places in a page.
const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;
const WORDS: usize = PAGE / 64;
/// Number of places in the first page when it is new.
const FIRST: usize = 8;

/// The places of a page; a freed page has 0 places.
type Page<T> = Box<[Option<T>]>;

/// The free places of a page.
#[derive(Clone)]
struct Room {
    /// Bit i of word w is set if place 64 w + i is free.
    free: [u64; WORDS],
    used: usize,
}

impl Room {
    const NONE: Self = Self {
        free: [0; WORDS],
        used: 0,
    };

    /// Makes the places from `from` up to `to` free.
    fn open(&mut self, from: usize, to: usize) {
        for slot in from..to {
            self.free[slot / 64] |= 1 << (slot % 64);
        }
    }
}

/// Items in pages.
#[derive(Clone)]
pub struct Pages<T> {
    /// The places by page number. Separate from `rooms`, because a lookup needs only the places.
    pages: Vec<Page<T>>,
    /// The free places by page number.
    rooms: Vec<Room>,
    /// Numbers of the pages that new items go into, each at most once. Each has room. The last page
    /// of the list is filled first.
    open: Vec<u32>,
    /// Numbers of freed pages.
    gaps: Vec<u32>,
    len: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            rooms: Vec::new(),
            open: Vec::new(),
            gaps: Vec::new(),
            len: 0,
        }
    }
}

const fn split(index: u32) -> (usize, usize) {
    ((index >> PAGE_BITS) as usize, index as usize & (PAGE - 1))
}

fn places<T>(count: usize) -> impl Iterator<Item = Option<T>> {
    std::iter::repeat_with(|| None).take(count)
}

impl<T> Pages<T> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a number that is greater than the index of every item, for any size of the first
    /// page.
    pub fn end(&self) -> u32 {
        (self.pages.len() << PAGE_BITS) as u32
    }

    /// Returns a number that is greater than the index of every place, until a page is added or the
    /// first page grows.
    pub fn places(&self) -> u32 {
        match &self.pages[..] {
            [only] => only.len() as u32,
            _ => self.end(),
        }
    }

    /// Returns the item at `index`, if there is one. O(1).
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (page, slot) = split(index);
        self.pages.get(page)?.get(slot)?.as_ref()
    }

    /// Returns the item at `index` for changes, if there is one. O(1).
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (page, slot) = split(index);
        self.pages.get_mut(page)?.get_mut(slot)?.as_mut()
    }

    /// Loads the cache lines that [`Pages::remove`] changes besides the item. The result is
    /// arbitrary. Callers sum the results so that the compiler keeps the loads.
    #[inline]
    pub(crate) fn warm_room(&self, index: u32) -> u32 {
        let (page, slot) = split(index);
        self.rooms
            .get(page)
            .map_or(0, |room| room.free[slot / 64] as u32 ^ room.used as u32)
    }

    /// Adds an item and returns its index. O(1), O(places of a page) when a page is added or the
    /// first page grows.
    ///
    /// # Panics
    /// If all 2^32 places are taken.
    pub fn insert(&mut self, item: T) -> u32 {
        let number = match self.open.last() {
            Some(&number) => number,
            None => self.make_room(),
        };
        let room = &mut self.rooms[number as usize];
        let word = room
            .free
            .iter()
            .position(|&bits| bits != 0)
            .expect("open pages have room");
        let slot = word * 64 + room.free[word].trailing_zeros() as usize;
        room.free[word] &= room.free[word] - 1;
        room.used += 1;
        let page = &mut self.pages[number as usize];
        page[slot] = Some(item);
        if room.used == page.len() {
            self.open.pop();
        }
        self.len += 1;
        (number << PAGE_BITS) | slot as u32
    }

    /// Grows the first page, or adds a page. Returns the number of the page, which now has room.
    #[cold]
    fn make_room(&mut self) -> u32 {
        if let [first] = &mut self.pages[..]
            && (1..PAGE).contains(&first.len())
        {
            let (old, new) = (first.len(), (first.len() * 2).min(PAGE));
            let grown = std::mem::take(first);
            *first = grown.into_iter().chain(places(new - old)).collect();
            self.rooms[0].open(old, new);
            self.open.push(0);
            return 0;
        }
        let number = self.gaps.pop().unwrap_or_else(|| {
            self.pages.push(Page::default());
            self.rooms.push(Room::NONE);
            u32::try_from(self.pages.len() - 1).expect("page numbers fit u32")
        });
        assert!(number < 1 << (32 - PAGE_BITS), "at most 2^32 places");
        let size = if self.pages.len() == 1 { FIRST } else { PAGE };
        self.pages[number as usize] = places(size).collect();
        self.rooms[number as usize].open(0, size);
        self.open.push(number);
        number
    }

    /// Removes the item at `index`. O(1), O(pages with room) if it was the only item of its page.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let (number, slot) = split(index);
        let page = self.pages.get_mut(number)?;
        let item = page.get_mut(slot)?.take()?;
        let room = &mut self.rooms[number];
        if room.used == page.len() {
            self.open.push(number as u32);
        }
        room.free[slot / 64] |= 1 << (slot % 64);
        room.used -= 1;
        self.len -= 1;
        if room.used == 0 {
            *page = Page::default();
            *room = Room::NONE;
            // Pages that became empty are mostly near the end of the list.
            if let Some(at) = self.open.iter().rposition(|&n| n == number as u32) {
                self.open.swap_remove(at);
            }
            self.gaps.push(number as u32);
        }
        Some(item)
    }

    /// Returns all items with their indices, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().enumerate().filter_map(move |(slot, item)| {
                let index = ((number as u32) << PAGE_BITS) | slot as u32;
                Some((index, item.as_ref()?))
            })
        })
    }

    /// Returns the index of a random item; all items have the same probability. O(1) on average,
    /// O(pages) if very few places are taken. `random` returns a number below its argument.
    pub fn at_random(&self, mut random: impl FnMut(u32) -> u32) -> Option<u32> {
        let places = self.places();
        if self.len == 0 {
            return None;
        }
        for _ in 0..32 {
            let index = random(places);
            if self.is_taken(index) {
                return Some(index);
            }
        }
        let mut nth = random(self.len as u32) as usize;
        let number = self.rooms.iter().position(|room| {
            let here = nth < room.used;
            nth -= if here { 0 } else { room.used };
            here
        })?;
        let mut taken = (0u32..)
            .zip(&self.pages[number])
            .filter(|(_, t)| t.is_some());
        let (slot, _) = taken.nth(nth)?;
        Some(((number as u32) << PAGE_BITS) | slot)
    }

    /// Returns whether there is an item at `index`, without reading it.
    #[inline]
    fn is_taken(&self, index: u32) -> bool {
        let (page, slot) = split(index);
        self.pages.get(page).is_some_and(|page| slot < page.len())
            && self.rooms[page].free[slot / 64] >> (slot % 64) & 1 == 0
    }

    /// Returns the number of free places in the pages. O(1).
    #[inline]
    pub fn room(&self) -> usize {
        let places = match &self.pages[..] {
            [only] => only.len(),
            pages => (pages.len() - self.gaps.len()) * PAGE,
        };
        places - self.len
    }

    /// Returns the indices of the items in the page with the fewest items, for a caller that moves
    /// these items to other pages. New items no longer go into that page, so it is freed when its
    /// last item is removed. Returns `None` if the other pages may lack room. O(pages).
    pub fn close_sparsest(&mut self) -> Option<Vec<u32>> {
        if self.pages.len() < 2 || self.room() <= PAGE {
            return None;
        }
        let used = self.rooms.iter().enumerate();
        let (number, _) = used
            .filter(|(_, room)| (1..PAGE).contains(&room.used))
            .min_by_key(|(_, room)| room.used)?;
        self.open.retain(|&open| open != number as u32);
        let start = (number << PAGE_BITS) as u32;
        Some(
            (start..start + PAGE as u32)
                .filter(|i| self.is_taken(*i))
                .collect(),
        )
    }

    /// Returns the bytes of the pages and of their administration. O(pages).
    pub fn memory(&self) -> usize {
        self.pages
            .iter()
            .map(|page| size_of_val(&**page))
            .sum::<usize>()
            + self.pages.capacity() * size_of::<Page<T>>()
            + self.rooms.capacity() * size_of::<Room>()
    }
}

impl<T> Pages<T> {
    /// Checks that the administration agrees with the places.
    pub(crate) fn check(&self, to: &mut Check) {
        let (mut len, mut gaps) = (0, 0);
        to.equal("pages", self.rooms.len(), self.pages.len());
        for (number, (page, room)) in self.pages.iter().zip(&self.rooms).enumerate() {
            let used = page.iter().filter(|place| place.is_some()).count();
            (len, gaps) = (len + used, gaps + usize::from(page.is_empty()));
            to.within(
                || format!("page {number}"),
                |to| {
                    to.equal("items", room.used, used);
                    let is_free = |slot: usize| room.free[slot / 64] >> (slot % 64) & 1 == 1;
                    let free = |slot| page.get(slot).is_some_and(Option::is_none);
                    let agree = (0..PAGE).all(|slot| is_free(slot) == free(slot));
                    to.holds("the free places are marked", agree);
                },
            );
        }
        to.equal("items", self.len, len);
        to.equal("freed pages", self.gaps.len(), gaps);
        let has_room = |number: &u32| {
            let room = self.rooms.get(*number as usize);
            room.is_some_and(|room| room.free.iter().any(|word| *word != 0))
        };
        to.holds(
            "new items go into pages with room",
            self.open.iter().all(has_room),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec((0..10u8, any::<u16>()), 1..3000), removals in 1..8u8) {
            let mut pages = Pages::default();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (n, (kind, pick)) in steps.into_iter().enumerate() {
                if kind >= removals || model.is_empty() {
                    let index = pages.insert(n as u32);
                    prop_assert!(model.insert(index, n as u32).is_none());
                } else {
                    let at = usize::from(pick) % model.len();
                    let index = *model.keys().nth(at).unwrap();
                    let was = model.remove(&index).unwrap();
                    prop_assert_eq!(pages.remove(index).unwrap(), was);
                    prop_assert!(pages.remove(index).is_none());
                }
                prop_assert_eq!(pages.len(), model.len());
            }
            let random = pages.at_random(|end| end / 2);
            prop_assert_eq!(random.is_some(), !model.is_empty());
            prop_assert!(random.is_none_or(|i| model.contains_key(&i)));
            let all: Vec<(u32, u32)> = pages.iter().map(|(i, n)| (i, *n)).collect();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn empty_pages_are_freed() {
        let mut pages = Pages::default();
        let indices: Vec<u32> = (0..10_000u64).map(|n| pages.insert(n)).collect();
        let full = pages.memory();
        for index in indices {
            pages.remove(index);
        }
        assert!(pages.memory() < full / 20);
        for n in 0..10_000 {
            pages.insert(n);
        }
        assert_eq!(pages.memory(), full, "page numbers are used again");
    }

    #[test]
    fn random_items_are_uniformly_distributed() {
        for keep in [1, 3, 1000] {
            let mut pages = Pages::default();
            let all: Vec<u32> = (0..20_000u32).map(|n| pages.insert(n)).collect();
            for index in all {
                if index % keep != 0 {
                    pages.remove(index);
                }
            }
            let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
            let draws = 200 * pages.len() as u32;
            for _ in 0..draws {
                let index = pages.at_random(|end| rand::random_range(0..end)).unwrap();
                *counts.entry(index).or_default() += 1;
            }
            assert_eq!(counts.len(), pages.len());
            // Seven standard deviations.
            assert!(counts.values().all(|count| (101..299).contains(count)));
        }
    }

    #[test]
    fn few_items_take_little_memory() {
        let mut pages = Pages::default();
        for n in 0..8u64 {
            pages.insert(n);
        }
        assert!(pages.memory() < 600, "{}", pages.memory());
    }
}
