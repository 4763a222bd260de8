//! Hash slots: the slot of a key, and sets of slots.

use std::fmt;
use std::sync::OnceLock;

use crate::crc16;

/// Number of slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// Bytes of a set of slots on the bus.
pub const SET_BYTES: usize = SLOTS as usize / 8;

/// Returns the slot of a key: CRC16 of its hash tag, or of the whole name. O(length).
///
/// The hash tag is the text between the first `{` and the next `}`, unless it is empty.
///
/// ```
/// use punctual_cluster::slot::of_key;
///
/// assert_eq!(of_key(b"foo"), 12_182);
/// assert_eq!(of_key(b"user:{foo}:mails"), of_key(b"foo"));
/// assert_ne!(of_key(b"{}foo"), of_key(b"{}bar"));
/// ```
#[inline]
pub fn of_key(key: &[u8]) -> u16 {
    crc16::of_hash_tag(key) % SLOTS
}

/// Returns the part of a key that determines its slot. O(length).
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let inside = &key[open + 1..];
    match inside.iter().position(|&byte| byte == b'}') {
        Some(end) if end > 0 => &inside[..end],
        _ => key,
    }
}

/// Bytes of the longest tag.
const TAG_MAX: usize = 4;

/// Returns the shortest word of a-z and 0-9 that has this slot, the first one in the order of these
/// characters. O(1) after the first call, which computes the words of all slots in some
/// milliseconds and keeps them in 64 KB.
///
/// # Panics
/// If the slot is not below [`SLOTS`].
///
/// ```
/// use punctual_cluster::slot::{of_key, tag};
///
/// assert_eq!(of_key(tag(7_000).as_bytes()), 7_000);
/// ```
pub fn tag(slot: u16) -> &'static str {
    static TAGS: OnceLock<Box<[[u8; TAG_MAX]]>> = OnceLock::new();
    assert!(slot < SLOTS, "slot {slot}");
    let word = &TAGS.get_or_init(all_tags)[usize::from(slot)];
    let length = word.iter().position(|&letter| letter == 0);
    std::str::from_utf8(&word[..length.unwrap_or(TAG_MAX)]).expect("ASCII letters")
}

/// Returns the tags of all slots, with zeros after the last letter.
fn all_tags() -> Box<[[u8; TAG_MAX]]> {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut tags = vec![[0; TAG_MAX]; usize::from(SLOTS)];
    let mut left = tags.len();
    for length in 1..=TAG_MAX {
        for number in 0..36usize.pow(length as u32) {
            let mut word = [0; TAG_MAX];
            for (place, letter) in word[..length].iter_mut().rev().enumerate() {
                *letter = LETTERS[number / 36usize.pow(place as u32) % 36];
            }
            let tag = &mut tags[usize::from(of_key(&word[..length]))];
            if tag[0] == 0 {
                *tag = word;
                left -= 1;
            }
            if left == 0 {
                return tags.into();
            }
        }
    }
    unreachable!("1.7 million words of four letters have every slot")
}

/// A set of slots: 2,048 bytes, in which bit `slot % 8` of byte `slot / 8` stands for `slot`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    words: Box<[u64; SET_BYTES / 8]>,
    /// Number of slots, because each packet needs to know which nodes have slots.
    len: usize,
}

impl Default for SlotSet {
    fn default() -> Self {
        Self {
            words: Box::new([0; SET_BYTES / 8]),
            len: 0,
        }
    }
}

impl SlotSet {
    /// Reads the form of the bus.
    pub fn from_bytes(bytes: &[u8; SET_BYTES]) -> Self {
        let mut set = Self::default();
        for (word, chunk) in set.words.iter_mut().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(chunk);
            *word = u64::from_le_bytes(eight);
        }
        set.count();
        set
    }

    /// Appends the form of the bus.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + SET_BYTES, 0);
        self.write_to(&mut out[start..]);
    }

    /// Writes the form of the bus into a place of [`SET_BYTES`].
    pub(crate) fn write_to(&self, place: &mut [u8]) {
        let chunks = place.chunks_exact_mut(8).zip(&self.words[..]);
        chunks.for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
    }

    fn count(&mut self) {
        let bits = self.words.iter().map(|word| word.count_ones() as usize);
        self.len = bits.sum();
    }

    /// Combines each word with the word of another set.
    fn combine(&mut self, other: &Self, mut change: impl FnMut(&mut u64, u64)) {
        let both = self.words.iter_mut().zip(&other.words[..]);
        both.for_each(|(word, other)| change(word, *other));
        self.count();
    }

    /// Returns whether the set has this slot. Slots from [`SLOTS`] on are in no set. O(1).
    pub fn contains(&self, slot: u16) -> bool {
        let word = self.words.get(usize::from(slot) / 64);
        let word = word.copied().unwrap_or(0);
        word >> (slot % 64) & 1 == 1
    }

    /// Adds a slot. Ignores slots from [`SLOTS`] on. O(1).
    pub fn insert(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot) / 64) {
            self.len += usize::from(*word >> (slot % 64) & 1 == 0);
            *word |= 1 << (slot % 64);
        }
    }

    /// Removes a slot. O(1).
    pub fn remove(&mut self, slot: u16) {
        if let Some(word) = self.words.get_mut(usize::from(slot) / 64) {
            self.len -= usize::from(*word >> (slot % 64) & 1 == 1);
            *word &= !(1 << (slot % 64));
        }
    }

    /// Adds all slots of another set.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, |a, b| *a |= b);
    }

    /// Removes all slots of another set.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, |a, b| *a &= !b);
    }

    /// Keeps only slots that are also in another set.
    pub fn retain(&mut self, other: &Self) {
        self.combine(other, |a, b| *a &= b);
    }

    /// Returns the slots of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.subtract(other);
        set
    }

    /// Returns the slots that are in both sets.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.retain(other);
        set
    }

    /// Returns the number of slots. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the set has no slot. O(1).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the set as words: bit `slot % 64` of word `slot / 64` stands for `slot`. O(1).
    pub fn words(&self) -> &[u64; SET_BYTES / 8] {
        &self.words
    }

    /// Returns the slots in ascending order. O(slots of the set).
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let words = self.words.iter().zip((0..).step_by(64));
        words.flat_map(|(word, first)| bits(*word).map(move |bit| first + bit))
    }

    /// Returns the first and the last slot of each run of neighbours, in ascending order. O(runs).
    ///
    /// ```
    /// use punctual_cluster::slot::SlotSet;
    ///
    /// let set: SlotSet = [1, 2, 3, 7].into_iter().collect();
    /// assert_eq!(set.ranges(), [(1, 3), (7, 7)]);
    /// ```
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for (word, base) in self.words.iter().zip((0u16..).step_by(64)) {
            let mut rest = *word;
            while rest != 0 {
                let from = rest.trailing_zeros();
                let length = (rest >> from).trailing_ones();
                let (first, end) = (base + from as u16, base + (from + length) as u16);
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == first => *last = end - 1,
                    _ => ranges.push((first, end - 1)),
                }
                rest &= u64::MAX.checked_shl(from + length).unwrap_or(0);
            }
        }
        ranges
    }
}

/// Returns the numbers of the bits that are set, in ascending order.
fn bits(mut word: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as u16;
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_tags_are_those_of_the_specification() {
        let tags: [(&[u8], &[u8]); 6] = [
            (b"{user1000}.following", b"user1000"),
            (b"foo{}{bar}", b"foo{}{bar}"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo{bar", b"foo{bar"),
            (b"", b""),
        ];
        for (key, tag) in tags {
            assert_eq!(hash_tag(key), tag);
        }
        assert_eq!(of_key(b""), 0);
    }

    #[test]
    fn every_slot_has_a_tag_of_at_most_four_letters() {
        for slot in (0..SLOTS).step_by(331).chain([SLOTS - 1]) {
            assert_eq!(of_key(tag(slot).as_bytes()), slot);
        }
    }

    #[test]
    fn ranges_are_the_runs_of_neighbours() {
        let sets: [&[(u16, u16)]; 6] = [
            &[],
            &[(0, SLOTS - 1)],
            &[(0, 0), (2, 63), (65, 127), (SLOTS - 1, SLOTS - 1)],
            &[(60, 70), (72, 72), (128, 191)],
            &[(63, 64), (100, 8_191)],
            &[(8_192, SLOTS - 1)],
        ];
        for ranges in sets {
            let slots = ranges.iter().flat_map(|(first, last)| *first..=*last);
            let set: SlotSet = slots.clone().collect();
            assert_eq!(set.ranges(), ranges);
            assert!(set.iter().eq(slots));
        }
    }

    #[test]
    fn bytes_of_a_set_come_back() {
        let set: SlotSet = [0, 9, 63, 64, 16_383, 16_384].into_iter().collect();
        let mut bytes = Vec::new();
        set.write(&mut bytes);
        assert_eq!((bytes[0], bytes[1], bytes[2_047]), (1, 2, 128));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 9, 63, 64, 16_383]);
        let read = SlotSet::from_bytes(bytes.as_slice().try_into().unwrap());
        assert_eq!((read.len(), &read), (5, &set));
        assert!(!set.contains(16_384));
    }
}
