//! Writing entries: appending, inserting and replacing. (`Vec::drain` removes entries.)

use std::ops::Range;

use super::entry::{Element, backlen_len};

/// Writes the entry of `element` over `place`, whose length must be
/// [`entry_len`](Element::entry_len). **O(n)** in the bytes of the entry.
///
/// Text must be shorter than 4 GiB, the format's limit.
///
/// # Panics
///
/// If `place` is shorter than the entry.
#[inline]
pub fn write(place: &mut [u8], element: Element<'_>) {
    let body = element.body_len();
    debug_assert_eq!(place.len(), body + backlen_len(body));
    match element {
        Element::Bytes(text) => {
            let head = body - text.len();
            match head {
                1 => place[0] = 0x80 | text.len() as u8,
                2 => {
                    place[0] = 0xE0 | (text.len() >> 8) as u8;
                    place[1] = text.len() as u8;
                }
                _ => {
                    place[0] = 0xF0;
                    place[1..5].copy_from_slice(&(text.len() as u32).to_le_bytes());
                }
            }
            place[head..body].copy_from_slice(text);
        }
        Element::Int(value) => match body {
            1 => place[0] = value as u8,
            2 => {
                place[0] = 0xC0 | ((value >> 8) as u8 & 0x1F);
                place[1] = value as u8;
            }
            _ => {
                place[0] = match body {
                    3 => 0xF1,
                    4 => 0xF2,
                    5 => 0xF3,
                    _ => 0xF4,
                };
                place[1..body].copy_from_slice(&value.to_le_bytes()[..body - 1]);
            }
        },
    }
    write_backlen(&mut place[body..], body);
}

#[inline]
fn write_backlen(place: &mut [u8], body: usize) {
    if let [only] = place {
        *only = body as u8;
        return;
    }
    // The first byte holds the most significant group and is the only byte without the mark 0x80,
    // so a backward read stops there.
    let groups = place.len();
    for (index, byte) in place.iter_mut().enumerate() {
        let group = (body >> (7 * (groups - 1 - index))) as u8 & 0x7F;
        *byte = if index == 0 { group } else { group | 0x80 };
    }
}

/// Appends the entry of `element`. **O(n)** in the bytes of the entry.
///
/// Text must be shorter than 4 GiB, the format's limit.
#[inline]
pub fn append(out: &mut Vec<u8>, element: Element<'_>) {
    let at = out.len();
    out.resize(at + element.entry_len(), 0);
    write(&mut out[at..], element);
}

/// Appends an entry with `text`: as an integer if it is exactly the decimal text of an `i64`.
///
/// ```
/// use punctual_rdb::listpack::{self, Element};
///
/// let mut entries = Vec::new();
/// listpack::encode(&mut entries, b"field");
/// listpack::encode(&mut entries, b"-12");
///
/// let (first, at) = listpack::next(&entries, 0).unwrap();
/// assert_eq!(first, Element::Bytes(b"field"));
/// let (second, end) = listpack::next(&entries, at).unwrap();
/// assert_eq!(second, Element::Int(-12));
/// assert_eq!(listpack::next(&entries, end), None);
/// assert_eq!(listpack::prev(&entries, end), Some((Element::Int(-12), at)));
///
/// let whole = listpack::wrap(&entries, 2);
/// assert_eq!(listpack::validate(&whole), Ok(2));
/// ```
#[inline]
pub fn encode(out: &mut Vec<u8>, text: &[u8]) {
    append(out, Element::of(text));
}

/// Appends an entry with `value`.
#[inline]
pub fn encode_int(out: &mut Vec<u8>, value: i64) {
    append(out, Element::Int(value));
}

/// Inserts the entry of `element` at `at`, which must be the start of an entry or the end of all
/// entries. Returns the end of the new entry. **O(n)** in the bytes after the new entry.
///
/// # Panics
///
/// If `at` is greater than the length of the entries.
#[inline]
pub fn insert(entries: &mut Vec<u8>, at: usize, element: Element<'_>) -> usize {
    replace(entries, at..at, element)
}

/// Replaces `range`, which must be zero or more complete entries, with the entry of `element`.
/// Returns the end of the new entry. **O(n)** in the bytes after the new entry; if the length stays
/// the same, these bytes do not move.
///
/// # Panics
///
/// If `range` is not within the entries.
#[inline]
pub fn replace(entries: &mut Vec<u8>, range: Range<usize>, element: Element<'_>) -> usize {
    let len = entries.len();
    assert!(range.start <= range.end && range.end <= len);
    let end = range.start + element.entry_len();
    if end > range.end {
        entries.resize(len + (end - range.end), 0);
        entries.copy_within(range.end..len, end);
    } else if end < range.end {
        entries.copy_within(range.end..len, end);
        entries.truncate(len - (range.end - end));
    }
    write(&mut entries[range.start..end], element);
    end
}
