//! The encoding of one entry: a first byte, the data, and the backlen (see
//! [`listpack`](crate::listpack)).
//!
//! | first byte | data |
//! |---|---|
//! | `0xxxxxxx` | an integer 0..=127 |
//! | `10xxxxxx` | text of up to 63 bytes |
//! | `110xxxxx` + 1 byte | a signed integer of 13 bits |
//! | `1110xxxx` + 1 byte | text of up to 4095 bytes |
//! | `0xF0` + 4 bytes | text, its length little-endian |
//! | `0xF1` .. `0xF4` | a signed little-endian integer of 16, 24, 32, 64 bits |
//! | `0xFF` | the end of the listpack |

use punctual_resp::decimal;

/// The contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element<'a> {
    /// The decimal text of an integer.
    Int(i64),
    /// Any other text, which may be binary.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// Returns the stored form of `text`: an integer if it is exactly the decimal text of an `i64`.
    #[inline]
    pub fn of(text: &'a [u8]) -> Self {
        // A text longer than the decimal text of `i64::MIN` is not an integer. Most texts do not
        // start with a digit, so they need no parsing.
        match text {
            [b'0'..=b'9' | b'-', ..] if text.len() <= 20 => match decimal::parse_i64(text) {
                Some(value) => Element::Int(value),
                None => Element::Bytes(text),
            },
            _ => Element::Bytes(text),
        }
    }

    /// Returns the element as [`Element::of`] would make it: as an integer if it is the decimal
    /// text of an integer. Only unusual writers store such a text as bytes.
    #[inline]
    pub fn canonical(self) -> Self {
        match self {
            Element::Bytes(text) => Element::of(text),
            int => int,
        }
    }

    /// Returns the length of the entry with this element, including the backlen.
    #[inline]
    pub fn entry_len(self) -> usize {
        let len = self.body_len();
        len + backlen_len(len)
    }

    /// Returns the length of the element's text in bytes.
    #[inline]
    pub fn text_len(self) -> usize {
        match self {
            Element::Bytes(text) => text.len(),
            Element::Int(value) => itoa::Buffer::new().format(value).len(),
        }
    }

    /// Returns true if its text is `text`.
    #[inline]
    pub fn is_text(self, text: &[u8]) -> bool {
        match self {
            Element::Bytes(bytes) => bytes == text,
            Element::Int(value) => itoa::Buffer::new().format(value).as_bytes() == text,
        }
    }

    /// Calls `f` with the element's text. Allocates nothing.
    #[inline]
    pub fn with_text<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Element::Bytes(text) => f(text),
            Element::Int(value) => f(itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    /// Appends the element's text to `out`.
    #[inline]
    pub fn write_text(self, out: &mut Vec<u8>) {
        match self {
            Element::Bytes(text) => out.extend_from_slice(text),
            Element::Int(value) => decimal::write_i64(out, value),
        }
    }

    /// Returns the integer whose decimal text the element is, or `None` for any other text.
    #[inline]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Element::Int(value) => Some(value),
            Element::Bytes(text) => decimal::parse_i64(text),
        }
    }

    /// Returns the length of the *body*: encoding and data, without the backlen.
    #[inline]
    pub(super) fn body_len(self) -> usize {
        match self {
            Element::Int(value) => int_body_len(value),
            Element::Bytes(text) => match text.len() {
                len @ 0..64 => 1 + len,
                len @ 64..4096 => 2 + len,
                len => 5 + len,
            },
        }
    }
}

#[inline]
fn int_body_len(value: i64) -> usize {
    match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7FFF => 3,
        -0x80_0000..=0x7F_FFFF => 4,
        -0x8000_0000..=0x7FFF_FFFF => 5,
        _ => 9,
    }
}

/// Returns the number of bytes of the backlen after a body of `body_len` bytes.
///
/// All limits except the first are one lower than groups of seven bits would allow, as in Redis.
#[inline]
pub(super) fn backlen_len(body_len: usize) -> usize {
    match body_len {
        0..=127 => 1,
        128..16383 => 2,
        16383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Reads the backlen that ends at `end`. Returns the body's length and the start of the backlen.
#[inline]
pub(super) fn backlen_before(entries: &[u8], end: usize) -> Option<(usize, usize)> {
    let mut at = end.checked_sub(1)?;
    let last = *entries.get(at)?;
    if last & 0x80 == 0 {
        return Some((usize::from(last), at));
    }
    let mut len = u64::from(last & 0x7F);
    for shift in [7, 14, 21, 28] {
        at = at.checked_sub(1)?;
        let byte = entries[at];
        len |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some((usize::try_from(len).ok()?, at));
        }
    }
    None
}

/// Returns the length of the entry with `text`, including the backlen. **O(1)**.
#[inline]
pub fn encoded_len(text: &[u8]) -> usize {
    Element::of(text).entry_len()
}

#[inline]
fn bytes_at<const N: usize>(entries: &[u8], at: usize) -> Option<[u8; N]> {
    entries.get(at..)?.first_chunk().copied()
}

/// Returns the element of the body at `at`, and the body's length.
#[inline]
pub(super) fn body_at(entries: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    #[inline]
    fn text(entries: &[u8], at: usize, head: usize, len: usize) -> Option<(Element<'_>, usize)> {
        let start = at + head;
        let text = entries.get(start..start.checked_add(len)?)?;
        Some((Element::Bytes(text), head + len))
    }
    let first = *entries.get(at)?;
    Some(match first {
        0x00..=0x7F => (Element::Int(i64::from(first)), 1),
        0x80..=0xBF => return text(entries, at, 1, usize::from(first & 0x3F)),
        0xC0..=0xDF => {
            let low = *entries.get(at + 1)?;
            // Thirteen bits, shifted to the top and back to extend the sign.
            let bits = (u16::from(first & 0x1F) << 8 | u16::from(low)) << 3;
            (Element::Int(i64::from(bits as i16 >> 3)), 2)
        }
        0xE0..=0xEF => {
            let low = *entries.get(at + 1)?;
            let len = usize::from(first & 0x0F) << 8 | usize::from(low);
            return text(entries, at, 2, len);
        }
        0xF0 => {
            let len = u32::from_le_bytes(bytes_at(entries, at + 1)?);
            return text(entries, at, 5, len as usize);
        }
        0xF1 => {
            let value = i16::from_le_bytes(bytes_at(entries, at + 1)?);
            (Element::Int(i64::from(value)), 3)
        }
        0xF2 => {
            let [a, b, c] = bytes_at(entries, at + 1)?;
            (
                Element::Int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)),
                4,
            )
        }
        0xF3 => {
            let value = i32::from_le_bytes(bytes_at(entries, at + 1)?);
            (Element::Int(i64::from(value)), 5)
        }
        0xF4 => {
            let value = i64::from_le_bytes(bytes_at(entries, at + 1)?);
            (Element::Int(value), 9)
        }
        _ => return None,
    })
}

/// Returns the entry that starts at `at`, and its end. Returns `None` at the end of the entries, or
/// if no complete entry starts at `at`. **O(1)**.
#[inline]
pub fn next(entries: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let (element, body) = body_at(entries, at)?;
    let end = at + body + backlen_len(body);
    (end <= entries.len()).then_some((element, end))
}

/// Returns the entry that ends at `end`, and its start. Returns `None` at the start of the entries,
/// or if no complete entry ends at `end`. **O(1)**.
#[inline]
pub fn prev(entries: &[u8], end: usize) -> Option<(Element<'_>, usize)> {
    let (body, backlen) = backlen_before(entries, end)?;
    let start = backlen.checked_sub(body)?;
    let (element, found) = body_at(entries, start)?;
    (found == body).then_some((element, start))
}

/// Returns the start of the entry that ends at `end`. Reads only the entry's backlen. **O(1)**.
#[inline]
pub(crate) fn start_before(entries: &[u8], end: usize) -> Option<usize> {
    let (body, backlen) = backlen_before(entries, end)?;
    backlen.checked_sub(body)
}

/// Returns the length of the entry at `at`, including the backlen. Returns `None` in the same cases
/// as [`next`]. **O(1)**.
#[inline]
pub fn entry_len_at(entries: &[u8], at: usize) -> Option<usize> {
    let body = body_len_at(entries, at)?;
    let len = body + backlen_len(body);
    (at + len <= entries.len()).then_some(len)
}

/// Returns the length of the body at `at`. Reads only the body's header, so the data after the
/// header may be missing.
#[inline]
fn body_len_at(entries: &[u8], at: usize) -> Option<usize> {
    let first = *entries.get(at)?;
    Some(match first {
        0x00..=0x7F => 1,
        0x80..=0xBF => 1 + usize::from(first & 0x3F),
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 2 + (usize::from(first & 0x0F) << 8 | usize::from(*entries.get(at + 1)?)),
        0xF0 => 5usize.checked_add(u32::from_le_bytes(bytes_at(entries, at + 1)?) as usize)?,
        0xF1 => 3,
        0xF2 => 4,
        0xF3 => 5,
        0xF4 => 9,
        _ => return None,
    })
}

/// Finds the first entry from `at` on with the text `text`, and returns its start and end. After
/// each entry that does not match, `skip` entries are skipped: with `skip` 1, the function finds a
/// field among fields and values.
///
/// **O(n)** in entries. Texts are compared only if the entries have equal lengths.
#[inline]
pub fn find(entries: &[u8], mut at: usize, text: &[u8], skip: usize) -> Option<(usize, usize)> {
    let wanted = Element::of(text);
    let wanted_len = wanted.entry_len();
    while let Some(len) = entry_len_at(entries, at) {
        if len == wanted_len && body_at(entries, at).is_some_and(|(found, _)| found == wanted) {
            return Some((at, at + len));
        }
        at += len;
        for _ in 0..skip {
            at += entry_len_at(entries, at)?;
        }
    }
    None
}
