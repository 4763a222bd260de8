//! The records of a database: one cache line a key, in pages, under indices that never move.
//!
//! A record's index is what the table and the timing wheel hold. Pages are given back as soon as they are
//! empty, so memory returns after a mass expiry. An index may be used again by another key: what holds a
//! stale one must compare (the table by name, the wheel by the record's stamp).

use punctual::queue::wheel::Timers;

use crate::key::Key;
use crate::value::Value;

/// No deadline.
pub const NEVER: u64 = u64::MAX;

const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;
const WORDS: usize = PAGE / 64;

/// One key with its value and its deadline.
#[derive(Debug)]
pub struct Record {
    /// Unix time in ms at which the key goes; [`NEVER`] without a TTL.
    pub(crate) deadline: u64,
    /// Number of the arm that filed this key's live entry in the wheel; 0: none is filed.
    pub(crate) stamp: u32,
    /// The hash that places the key in the table.
    pub(crate) hash: u32,
    /// The name.
    pub key: Key,
    /// The value.
    pub value: Value,
}

#[repr(align(64))]
struct Slot(Option<Record>);

/// Bytes of a record in its page.
pub const RECORD_BYTES: usize = size_of::<Slot>();
const _: () = assert!(RECORD_BYTES == 64, "a key must stay one cache line");

/// The places of a page; a page that was given back has none.
type Page = Box<[Slot]>;

fn new_page() -> Page {
    (0..PAGE).map(|_| Slot(None)).collect()
}

/// Which places of a page are free.
struct Room {
    /// Bit i of word w: place 64 w + i is free.
    free: [u64; WORDS],
    used: usize,
}

impl Room {
    const EMPTY: Self = Self {
        free: [u64::MAX; WORDS],
        used: 0,
    };
}

/// All records of one database.
#[derive(Default)]
pub struct Records {
    /// Apart from `rooms`: a look-up needs the places only.
    pages: Vec<Page>,
    /// By page number.
    rooms: Vec<Room>,
    /// Pages that may have room, each at most once; the last is filled first.
    open: Vec<u32>,
    /// Page numbers that hold no page.
    gaps: Vec<u32>,
    len: usize,
}

const fn split(index: u32) -> (usize, usize) {
    ((index >> PAGE_BITS) as usize, index as usize & (PAGE - 1))
}

impl Records {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The record at `index`, if there is one. O(1).
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Record> {
        let (page, slot) = split(index);
        self.pages.get(page)?.get(slot)?.0.as_ref()
    }

    /// The record at `index` to be changed, if there is one. O(1).
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Record> {
        let (page, slot) = split(index);
        self.pages.get_mut(page)?.get_mut(slot)?.0.as_mut()
    }

    /// Adds a record and gives its index. O(1), O(page) when a page is added.
    ///
    /// # Panics
    /// When 2^32 records are there.
    pub fn insert(&mut self, record: Record) -> u32 {
        let number = match self.open.last() {
            Some(&number) => number,
            None => {
                let number = self.gaps.pop().unwrap_or_else(|| {
                    self.pages.push(Page::default());
                    self.rooms.push(Room::EMPTY);
                    u32::try_from(self.pages.len() - 1).expect("pages fit u32")
                });
                assert!(number < 1 << (32 - PAGE_BITS), "2^32 keys in one shard");
                self.pages[number as usize] = new_page();
                self.open.push(number);
                number
            }
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
        self.pages[number as usize][slot].0 = Some(record);
        if room.used == PAGE {
            self.open.pop();
        }
        self.len += 1;
        (number << PAGE_BITS) | slot as u32
    }

    /// Takes the record at `index` out. O(1), and O(open pages) when it was its page's last.
    pub fn remove(&mut self, index: u32) -> Option<Record> {
        let (number, slot) = split(index);
        let record = self.pages.get_mut(number)?.get_mut(slot)?.0.take()?;
        let room = &mut self.rooms[number];
        if room.used == PAGE {
            self.open.push(number as u32);
        }
        room.free[slot / 64] |= 1 << (slot % 64);
        room.used -= 1;
        self.len -= 1;
        if room.used == 0 {
            self.pages[number] = Page::default();
            // Emptied pages are mostly the last opened ones, so look from the end.
            if let Some(at) = self.open.iter().rposition(|&n| n == number as u32) {
                self.open.swap_remove(at);
            }
            self.gaps.push(number as u32);
        }
        Some(record)
    }

    /// All records with their indices, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().enumerate().filter_map(move |(slot, s)| {
                let index = ((number as u32) << PAGE_BITS) | slot as u32;
                Some((index, s.0.as_ref()?))
            })
        })
    }

    /// The first record at or after a random place: fair while pages are well filled, since every empty
    /// place before a record adds to its chance. O(places looked at).
    pub fn at_random(&self, random: impl Fn(u32) -> u32) -> Option<u32> {
        let places = (self.pages.len() << PAGE_BITS) as u32;
        if self.len == 0 {
            return None;
        }
        for _ in 0..64 {
            let index = random(places);
            if self.get(index).is_some() {
                return Some(index);
            }
        }
        let start = random(places);
        (start..places)
            .chain(0..start)
            .find(|&i| self.get(i).is_some())
    }

    /// Bytes of the pages.
    pub fn memory(&self) -> usize {
        (self.pages.len() - self.gaps.len()) * PAGE * size_of::<Slot>()
    }
}

impl Timers for Records {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let record = self.get(index)?;
        (record.stamp == generation).then_some(record.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn record(n: u32) -> Record {
        Record {
            deadline: NEVER,
            stamp: 0,
            hash: n,
            key: Key::new(&n.to_le_bytes(), 0),
            value: Value::string(b"v"),
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..3000)) {
            let mut records = Records::default();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (n, (add, pick)) in steps.into_iter().enumerate() {
                if add || model.is_empty() {
                    let index = records.insert(record(n as u32));
                    prop_assert!(model.insert(index, n as u32).is_none());
                } else {
                    let at = usize::from(pick) % model.len();
                    let index = *model.keys().nth(at).unwrap();
                    let was = model.remove(&index).unwrap();
                    prop_assert_eq!(records.remove(index).unwrap().hash, was);
                    prop_assert!(records.remove(index).is_none());
                }
                prop_assert_eq!(records.len(), model.len());
            }
            let all: Vec<(u32, u32)> = records.iter().map(|(i, r)| (i, r.hash)).collect();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn empty_pages_are_given_back() {
        let mut records = Records::default();
        let indices: Vec<u32> = (0..10_000).map(|n| records.insert(record(n))).collect();
        let full = records.memory();
        for index in indices {
            records.remove(index);
        }
        assert_eq!(records.memory(), 0);
        for n in 0..10_000 {
            records.insert(record(n));
        }
        assert_eq!(records.memory(), full, "page numbers are used again");
    }
}
