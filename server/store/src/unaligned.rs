//! Boxes and integers without alignment. An enum with such a field needs one byte for its tag
//! instead of eight.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A box that may lie at any address.
#[repr(Rust, packed)]
pub struct UnalignedBox<T: ?Sized>(Box<T>);

impl<T: ?Sized> UnalignedBox<T> {
    /// Returns the box itself.
    pub fn into_box(self) -> Box<T> {
        self.0
    }
}

impl<T: ?Sized> From<Box<T>> for UnalignedBox<T> {
    fn from(content: Box<T>) -> Self {
        Self(content)
    }
}

impl<T> From<T> for UnalignedBox<T> {
    #[inline]
    fn from(content: T) -> Self {
        Self(Box::new(content))
    }
}

impl<T: ?Sized> Deref for UnalignedBox<T> {
    type Target = T;

    #[expect(
        clippy::explicit_auto_deref,
        reason = "a reference to the box itself would be unaligned"
    )]
    #[inline]
    fn deref(&self) -> &T {
        &*self.0
    }
}

impl<T: ?Sized> DerefMut for UnalignedBox<T> {
    #[expect(
        clippy::explicit_auto_deref,
        reason = "a reference to the box itself would be unaligned"
    )]
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut *self.0
    }
}

impl<T: Clone> Clone for UnalignedBox<T> {
    fn clone(&self) -> Self {
        Self(Box::new(T::clone(self)))
    }
}

impl Clone for UnalignedBox<[u8]> {
    fn clone(&self) -> Self {
        Self(Box::from(&**self))
    }
}

impl Default for UnalignedBox<[u8]> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T: ?Sized + PartialEq> PartialEq for UnalignedBox<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq> Eq for UnalignedBox<T> {}

impl<T: ?Sized + fmt::Debug> fmt::Debug for UnalignedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// An integer that may lie at any address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnalignedI64([u8; 8]);

impl UnalignedI64 {
    /// Returns the integer.
    #[inline]
    pub const fn get(self) -> i64 {
        i64::from_ne_bytes(self.0)
    }
}

impl From<i64> for UnalignedI64 {
    #[inline]
    fn from(int: i64) -> Self {
        Self(int.to_ne_bytes())
    }
}

impl fmt::Debug for UnalignedI64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
