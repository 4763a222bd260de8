//! [`Content`]: the operations that every type of value offers to the keyspace, to snapshots and to
//! commands for keys of any type.
//!
//! Each type implements `Content` in its own file or folder. Only the macro `types!` in
//! `value/mod.rs` matches on all types. The default methods suit a type that has one element, no
//! timer, and a value that a snapshot writes in one step.
//!
//! A snapshot writes a large value in steps (a *walk*), while commands change the value. The walk
//! begins when the snapshot reaches the value, or just before the first change of a value that the
//! snapshot has not reached. During the walk, the value copies each unwritten element (of a list:
//! piece; of a stream: block) before that element changes or is removed
//! ([`Keyed`](super::keyed::Keyed), `list/content.rs`, `stream/content.rs`). So the snapshot gets
//! the value as it was when the walk began. During a walk, the value does not convert to another
//! encoding.

use punctual_rdb::{Encoder, Failure, Kind, Source};
use punctual_resp::Args;

use super::deadlines::Deadlines;
use super::digest::Digest;
use super::parts::Parts;
use crate::check::Check;
use crate::time::NEVER;

/// A removed value with more elements is not dropped at once, but after the turn, when no shard is
/// locked ([`Discarded`](crate::Discarded)).
pub(super) const DROPPED_MAX: usize = 1_000;

/// Smallest number of elements of a table that a snapshot walks in steps.
pub(super) const LARGE: usize = if cfg!(test) { 3 } else { 2_048 };
/// Smallest number of pieces of a list, or of blocks of a stream, that a snapshot walks in steps.
/// Each takes some kilobytes.
pub(super) const LARGE_PIECES: usize = if cfg!(test) { 3 } else { 32 };

/// Maximum number of elements to reserve memory for before they are read: the length in the input
/// may be wrong.
pub(super) const PREALLOC_MAX: u64 = 1 << 16;

/// Facts about a type, the same for all of its values.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The type's name for TYPE.
    pub name: &'static str,
    /// The type's number in Redis, which DEBUG DIGEST adds before the value.
    pub number: u32,
    marks: u8,
}

impl Facts {
    /// The [`number`](Self::number) of each type that Redis does not have: Redis's number for the
    /// types of modules.
    pub(super) const MODULE: u32 = 5;

    /// Mark of a type whose keys stay when they have no elements.
    pub(crate) const STAYS_EMPTY: u8 = 1;
    /// Mark of a type whose values do something by themselves at a deadline: a timer runs its
    /// command, a queue makes jobs ready. Such a value is not evicted. While MIGRATE moves it, its
    /// shard stays locked, because the value would otherwise act on both servers.
    pub(crate) const ACTS: u8 = 2;
    /// Mark of a type that blocking commands can wait for.
    pub(crate) const AWAITED: u8 = 4;

    /// Creates the facts of a type; `marks` is the sum of its marks.
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

    /// Returns the number of heap bytes, which are outside of the key's record. At most
    /// O(elements).
    fn heap_bytes(&self) -> usize;

    /// Returns whether a removed value is dropped after the turn instead of at once. O(1).
    #[inline]
    fn drops_late(&self) -> bool {
        self.elements() > DROPPED_MAX
    }

    /// Loads the first cache line outside of the record that a command will need. The result is
    /// arbitrary; the caller uses it so that the compiler keeps the load.
    #[inline]
    fn warm(&self) -> u8 {
        0
    }

    /// Loads the cache lines of a large collection that `commands` will probably need. Guesses by
    /// position which argument of a command names an element. Changes nothing.
    #[inline]
    fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>)
    where
        Self: Sized,
    {
        drop(commands);
    }

    /// Returns the collection for changes of the deadlines of its elements, if its type has such
    /// deadlines.
    fn parts_mut(&mut self) -> Option<&mut dyn Parts> {
        None
    }

    /// Returns the deadlines of the collection's elements, if an element has, or had, one.
    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        None
    }

    /// Returns the deadlines of the collection's elements for the database's notes.
    #[inline]
    fn deadlines_mut(&mut self) -> Option<&mut Deadlines> {
        None
    }

    /// Returns the number of the value's own timer in its database, and the deadline that this
    /// timer must get (`None`: no deadline). Returns `None` if the timer needs no change. The
    /// *timeline* of a value is the times at which something in it is due: an entry of a stream, a
    /// job of a queue.
    #[inline]
    fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        let deadlines = self.deadlines()?;
        let next = Some(deadlines.next()).filter(|next| *next != NEVER);
        Some((deadlines.timer(), next))
    }

    /// Returns the number of the value's own timer in its database.
    #[inline]
    fn timer(&self) -> Option<u32> {
        self.deadlines()?.timer()
    }

    /// Stores the number of the value's own timer in its database.
    #[inline]
    fn set_timer(&mut self, timer: Option<u32>) {
        if let Some(deadlines) = self.deadlines_mut() {
            deadlines.set_timer(timer);
        }
    }

    /// Returns the next time in Unix ms at which something in the value is due, if the value has a
    /// timer of its own for it.
    fn next_due(&self) -> Option<u64> {
        let next = self.deadlines().map(Deadlines::next);
        next.filter(|next| *next != NEVER)
    }

    /// Checks that the value's indexes and counters agree with its elements. O(elements).
    fn check(&self, _: &mut Check) {}

    /// Returns the settings that precede the value in a snapshot, for example a stream's maximum
    /// age of entries.
    fn settings(&self) -> Option<Vec<u8>> {
        None
    }

    /// Applies [`settings`](Self::settings) from a snapshot. Returns `None` if they are malformed
    /// or the type has no settings.
    fn apply_settings(&mut self, _: &[u8]) -> Option<()> {
        None
    }

    /// Returns the kind under which a snapshot writes the value.
    fn kind(&self) -> Kind {
        Kind::Module
    }

    /// Appends the value, without its kind, in the format of a snapshot. O(bytes).
    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>);

    /// Returns whether a snapshot must walk through the value in steps.
    fn is_large(&self) -> bool {
        false
    }

    /// Begins a walk through a [large](Self::is_large) value: appends the value's start to `out`.
    /// O(elements / 64), for a list O(1), for a stream O(pending entries).
    fn begin_walk(&mut self, _: &mut Encoder, _: &mut Vec<u8>) {
        debug_assert!(false, "only large values are walked");
    }

    /// Continues the walk: appends elements until `out` has `full` bytes. `kind` is the kind that
    /// the value had when the walk began. Returns true at the end.
    fn walk_on(&mut self, _kind: Kind, _: &mut Encoder, _: &mut Vec<u8>, _full: usize) -> bool {
        true
    }

    /// Cancels a walk.
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
    /// The bytes are well-formed, but the type does not allow the content, for example a set with a
    /// duplicate member.
    #[error("{0}")]
    Content(&'static str),
}

impl<E> Unreadable<E> {
    /// Error for a duplicate element or a score that is NaN.
    pub(super) const ELEMENTS: Self =
        Self::Content("duplicate element, or a score that is not a number");
    /// Error for a member whose deadline or score is malformed.
    pub(super) const DEADLINE: Self = Self::Content("malformed deadline or score of a member");
}

/// Converts Unix ms to the signed number that snapshots hold, saturating.
pub(crate) fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
