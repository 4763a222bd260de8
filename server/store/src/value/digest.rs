//! Digests for DEBUG DIGEST. A value's digest does not depend on its encoding.
//!
//! The algorithm is Redis's. Elements whose order matters (of a list, for example) are chained:
//! each step hashes the digest so far. SHA-1 hashes of other elements are combined by XOR.

use sha1::{Digest as _, Sha1};

/// A digest of texts.
#[derive(Debug, Default)]
pub struct Digest(pub(crate) [u8; 20]);

impl Digest {
    /// Adds a text. The result does not depend on the order of such additions.
    pub(crate) fn add(&mut self, text: &[u8]) {
        let hash = Sha1::digest(text);
        for (byte, hashed) in self.0.iter_mut().zip(hash) {
            *byte ^= hashed;
        }
    }

    /// Adds a text, and hashes the result, so that the order of additions matters.
    pub(crate) fn chain(&mut self, text: &[u8]) {
        self.add(text);
        self.0 = Sha1::digest(self.0).into();
    }
}
