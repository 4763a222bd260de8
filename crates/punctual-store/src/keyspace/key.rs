//! A key's name in 24 bytes: up to 19 bytes in place, longer names in a box.

use std::fmt;

/// Longest name that is kept in place.
pub const INLINE_MAX: usize = 19;

/// The key's [uses](crate::uses), 24 bits. They take bytes that alignment would waste, so a record stays one cache line.
type Access = [u8; 3];

enum Bytes {
    Inline {
        access: Access,
        len: u8,
        bytes: [u8; INLINE_MAX],
    },
    Boxed {
        access: Access,
        bytes: Box<[u8]>,
    },
}

/// A key's name and its uses.
pub struct Key(Bytes);

const _: () = assert!(size_of::<Key>() == 24);

impl Key {
    /// Creates a key with this name. O(length).
    pub fn new(name: &[u8], uses: u32) -> Self {
        let access = low_bytes(uses);
        Self(if name.len() <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            bytes[..name.len()].copy_from_slice(name);
            Bytes::Inline {
                access,
                len: name.len() as u8,
                bytes,
            }
        } else {
            Bytes::Boxed {
                access,
                bytes: name.into(),
            }
        })
    }

    /// The name.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { len, bytes, .. } => &bytes[..usize::from(*len).min(INLINE_MAX)],
            Bytes::Boxed { bytes, .. } => bytes,
        }
    }

    /// Reads a byte of a boxed name, which fetches its cache line.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Boxed { bytes, .. } => bytes.first().copied().unwrap_or(0),
        }
    }

    /// Returns its uses (24 bits).
    pub fn uses(&self) -> u32 {
        let (Bytes::Inline { access: a, .. } | Bytes::Boxed { access: a, .. }) = &self.0;
        u32::from_le_bytes([a[0], a[1], a[2], 0])
    }

    /// Notes a use.
    #[inline]
    pub fn touch(&mut self, uses: u32) {
        let (Bytes::Inline { access, .. } | Bytes::Boxed { access, .. }) = &mut self.0;
        *access = low_bytes(uses);
    }

    /// Bytes outside of the record.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Boxed { bytes, .. } => bytes.len(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Returns the low 24 bits.
fn low_bytes(uses: u32) -> Access {
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
