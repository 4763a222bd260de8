//! The value type `zset`.

/// A zset.
#[derive(Clone, Debug, Default)]
pub struct Zset {}

impl Zset {
    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Redis's name for the form.
    pub fn encoding(&self) -> &'static str {
        "listpack"
    }

    /// Bytes outside of the value itself.
    pub fn heap_bytes(&self) -> usize {
        0
    }
}
