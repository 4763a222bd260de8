//! A key's name in 20 bytes: up to 16 bytes in place, longer names in a box.

use std::fmt;
use std::num::NonZeroU8;

use crate::unaligned::UnalignedBox;

/// Maximum length in bytes of a name that is kept in place.
pub const INLINE_MAX: usize = 16;

/// The key's [uses](crate::uses), 24 bits.
type UsesBytes = [u8; 3];

enum Name {
    Inline {
        /// Number of bytes in use, plus 1.
        end: NonZeroU8,
        bytes: [u8; INLINE_MAX],
    },
    Boxed(UnalignedBox<[u8]>),
}

/// A key's name and its uses.
pub struct Key {
    uses: UsesBytes,
    name: Name,
}

const _: () = assert!(size_of::<Key>() == 20);

impl Key {
    /// Creates a key with this name. O(length).
    pub fn new(name: &[u8], uses: u32) -> Self {
        let uses = low_bytes(uses);
        let name = if name.len() <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            bytes[..name.len()].copy_from_slice(name);
            Name::Inline {
                end: NonZeroU8::MIN.saturating_add(name.len() as u8),
                bytes,
            }
        } else {
            Name::Boxed(Box::<[u8]>::from(name).into())
        };
        Self { uses, name }
    }

    /// Returns the name.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.name {
            Name::Inline { end, bytes } => &bytes[..usize::from(end.get() - 1).min(INLINE_MAX)],
            Name::Boxed(bytes) => bytes,
        }
    }

    /// Reads one byte of a boxed name, which loads its cache line.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        match &self.name {
            Name::Inline { .. } => 0,
            Name::Boxed(bytes) => bytes.first().copied().unwrap_or(0),
        }
    }

    /// Returns the key's uses (24 bits).
    pub fn uses(&self) -> u32 {
        let [a, b, c] = self.uses;
        u32::from_le_bytes([a, b, c, 0])
    }

    /// Replaces the key's uses (24 bits).
    #[inline]
    pub fn touch(&mut self, uses: u32) {
        self.uses = low_bytes(uses);
    }

    /// Returns the bytes of a boxed name; 0 for a name in place.
    pub fn heap_bytes(&self) -> usize {
        match &self.name {
            Name::Inline { .. } => 0,
            Name::Boxed(bytes) => bytes.len(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Returns the low 24 bits.
fn low_bytes(uses: u32) -> UsesBytes {
    let b = uses.to_le_bytes();
    [b[0], b[1], b[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_come_back() {
        for len in 0..64 {
            let name: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            let mut key = Key::new(&name, 0x00ab_cdef);
            assert_eq!(key.as_bytes(), name);
            assert_eq!(key.uses(), 0x00ab_cdef);
            key.touch(0x0112_3456);
            assert_eq!(key.uses(), 0x12_3456);
            assert_eq!(key.as_bytes(), name);
        }
    }
}
