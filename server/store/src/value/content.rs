//! [`Content`]: what the keyspace, snapshots and commands for keys of any type ask of a value.
//!
//! Each type implements it in its own folder, and `Value` has the only match over all types. The
//! defaults suit a type that has one element, no timer, and one piece in a snapshot.
//!
//! A snapshot *walks* through a large value in steps, while commands change the value. A walk
//! begins when a snapshot reaches the value, or before the first change of a value that the
//! snapshot has not reached. From then on the collection itself keeps what the snapshot needs: it
//! copies an element, or a piece of a list, before the element changes or is removed
//! ([`Keyed`](super::keyed::Keyed), `list/content.rs`, `stream/content.rs`). So the walk finds the
//! value as it was when it began. A walked value keeps its form.

use punctual_rdb::{Encoder, Failure, Kind, Source};
use punctual_resp::Args;

use super::digest::Digest;

/// Number of elements above which a removed value is dropped after the turn.
pub(super) const DROPPED_MAX: usize = 1_000;

/// Smallest number of elements of a table that is walked in steps.
pub(super) const LARGE: usize = if cfg!(test) { 3 } else { 2_048 };
/// Smallest number of pieces of a list, or blocks of a stream, some kilobytes each.
pub(super) const LARGE_PIECES: usize = if cfg!(test) { 3 } else { 32 };

/// Preallocation limit in elements: a length read from the input is not trustworthy.
pub(super) const PREALLOC_MAX: u64 = 1 << 16;

/// Facts about a type: all its values have them in common.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The type's name for TYPE.
    pub name: &'static str,
    /// The type's number in Redis, with which DEBUG DIGEST begins.
    pub number: u32,
    marks: u8,
}

impl Facts {
    /// The number of types that Redis does not have: the number of its modules.
    pub(super) const MODULE: u32 = 5;

    /// Mark of a type whose keys stay when they have no elements.
    pub(crate) const STAYS_EMPTY: u8 = 1;
    /// Mark of a type that acts at its time: it must not be evicted, nor exist in two places.
    pub(crate) const ACTS: u8 = 2;
    /// Mark of a type whose keys blocking commands wait for.
    pub(crate) const AWAITED: u8 = 4;
    /// Mark of a type whose values may have a timer of their own.
    pub(crate) const TIMED: u8 = 8;

    /// Creates the facts of a type; `marks` is a sum.
    pub(super) const fn new(name: &'static str, number: u32, marks: u8) -> Self {
        Self {
            name,
            number,
            marks,
        }
    }

    /// Returns whether the type has a mark.
    #[inline]
    pub(crate) const fn has(self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// The content of one type of value.
pub trait Content {
    /// Returns the facts about the type.
    fn facts(&self) -> Facts;

    /// Returns the encoding's name for OBJECT ENCODING.
    fn encoding(&self) -> &'static str {
        self.facts().name
    }

    /// Returns the number of elements of a collection, 1 for other types. O(1).
    #[inline]
    fn elements(&self) -> usize {
        1
    }

    /// Returns the number of bytes outside of the record. At most O(elements).
    fn heap_bytes(&self) -> usize;

    /// Returns whether a removed value is dropped after the turn. O(1).
    #[inline]
    fn drops_late(&self) -> bool {
        self.elements() > DROPPED_MAX
    }

    /// Touches the cache line outside of the record that a reader needs next. The result is
    /// arbitrary.
    #[inline]
    fn warm(&self) -> u8 {
        0
    }

    /// Loads the cache lines of a large collection that `commands` will probably need. Guesses the
    /// argument that names the element. Changes nothing.
    #[inline]
    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>)
    where
        Self: Sized,
    {
        drop(commands);
    }

    /// Returns the value's own timer and its next deadline. `None` if the timer may stay as it is.
    #[inline]
    fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        None
    }

    /// Returns the number of the value's own timer in its database.
    #[inline]
    fn timer(&self) -> Option<u32> {
        None
    }

    /// Notes the number of the value's own timer in its database.
    #[inline]
    fn set_timer(&mut self, _: Option<u32>) {}

    /// Returns the settings that precede the value in a snapshot.
    fn settings(&self) -> Option<Vec<u8>> {
        None
    }

    /// Applies [`settings`](Self::settings) of a snapshot. Returns `None` if they are not
    /// understood.
    fn apply_settings(&mut self, _: &[u8]) -> Option<()> {
        None
    }

    /// Returns the type byte under which snapshots have the value.
    fn kind(&self) -> Kind {
        Kind::Module
    }

    /// Appends the value without its type. O(bytes).
    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>);

    /// Returns whether a snapshot must walk through the value in steps.
    fn is_large(&self) -> bool {
        false
    }

    /// Begins a walk through a [large](Self::is_large) value: appends the value's start to `out`.
    /// O(elements / 64), for a stream O(pending entries).
    fn begin_walk(&mut self, _: &mut Encoder, _: &mut Vec<u8>) {
        debug_assert!(false, "one piece is never large");
    }

    /// Appends elements of the walk until `out` has `full` bytes. `kind` is the value's kind at the
    /// beginning. Returns true at the end.
    fn walk_on(&mut self, _kind: Kind, _: &mut Encoder, _: &mut Vec<u8>, _full: usize) -> bool {
        true
    }

    /// Ends a walk before its end.
    fn end_walk(&mut self) {}

    /// Adds the value to DEBUG DIGEST.
    fn digest(&self, to: &mut Digest);
}

/// The result of reading a `T` from a source.
pub(crate) type Read<T, S> = Result<T, Unreadable<<S as Source>::Error>>;

/// An error of [`read_value`](super::decode::read_value).
#[derive(Debug, thiserror::Error)]
pub enum Unreadable<E> {
    /// The bytes are invalid, or reading them failed.
    #[error(transparent)]
    Failure(#[from] Failure<E>),
    /// The content is not what the type allows.
    #[error("{0}")]
    Content(&'static str),
}

impl<E> Unreadable<E> {
    /// A duplicate element, or a score that is not a number.
    pub(super) const ELEMENTS: Self =
        Self::Content("duplicate element, or a score that is not a number");
}

/// Converts unix ms to the signed number of snapshots, saturating.
pub(crate) fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
