//! The name of an element of a collection, in 24 bytes: short names inline, longer names in a box
//! of exact size.

use std::fmt;

use punctual_rdb::listpack::Element;

/// Maximum length in bytes of an inline text.
const INLINE_MAX: usize = 22;

/// Immutable bytes: a member of a set or of a sorted set, or the name of a hash's field.
#[derive(Clone)]
pub struct Text(Bytes);

#[derive(Clone)]
enum Bytes {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Boxed(Box<[u8]>),
}

const _: () = assert!(size_of::<Text>() == 24);

impl Text {
    /// Copies `text`. O(length).
    #[inline]
    pub fn new(text: &[u8]) -> Self {
        Self(if text.len() <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            bytes[..text.len()].copy_from_slice(text);
            Bytes::Inline {
                len: text.len() as u8,
                bytes,
            }
        } else {
            Bytes::Boxed(text.into())
        })
    }

    /// Copies the text of an element. O(length).
    pub fn of(element: Element<'_>) -> Self {
        element.with_text(Self::new)
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE_MAX)],
            Bytes::Boxed(bytes) => bytes,
        }
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Boxed(bytes) => bytes.len(),
        }
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({})", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_round_trip() {
        for len in 0..64 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let text = Text::new(&bytes);
            assert_eq!(text.as_bytes(), bytes);
            assert_eq!(text.heap_bytes(), if len <= 22 { 0 } else { len });
        }
    }
}
