//! Digests of DEBUG DIGEST, independent of encodings.
//!
//! The digest is Redis's: SHA-1 chained where order counts (list elements), combined by XOR where
//! it does not.

use sha1::{Digest as _, Sha1};

/// A digest of texts.
#[derive(Debug, Default)]
pub struct Digest(pub(crate) [u8; 20]);

impl Digest {
    /// Adds a text; the order does not count.
    pub(crate) fn add(&mut self, text: &[u8]) {
        let hash = Sha1::digest(text);
        for (byte, hashed) in self.0.iter_mut().zip(hash) {
            *byte ^= hashed;
        }
    }

    /// Adds a text; the order counts.
    pub(crate) fn chain(&mut self, text: &[u8]) {
        self.add(text);
        self.0 = Sha1::digest(self.0).into();
    }
}
