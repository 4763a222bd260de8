//! Values of keys: one type a file.

pub mod float;
pub mod string;

use string::Str;

/// A key's value, in 24 bytes; whatever is larger is behind one pointer.
#[derive(Clone, Debug)]
pub struct Value(Str);

const _: () = assert!(size_of::<Value>() == 24);

impl Value {
    /// A string value.
    pub fn string(bytes: &[u8]) -> Self {
        Self(Str::new(bytes))
    }

    /// Wraps a string.
    pub const fn from_str(string: Str) -> Self {
        Self(string)
    }

    /// The string, if that is the type.
    #[inline]
    pub fn as_str(&self) -> Option<&Str> {
        Some(&self.0)
    }

    /// The string to be changed, if that is the type.
    #[inline]
    pub fn as_str_mut(&mut self) -> Option<&mut Str> {
        Some(&mut self.0)
    }

    /// A byte of what a reader will need next, if that lies elsewhere. Means nothing.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        self.0.warm()
    }

    /// The name that TYPE answers.
    pub const fn type_name(&self) -> &'static str {
        "string"
    }

    /// The name that OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        self.0.encoding()
    }

    /// Bytes outside of the record.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
