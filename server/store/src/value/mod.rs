//! Values of keys, one type per file or folder.
//!
//! - A [`Value`] takes 20 bytes of its key's record. Larger content is behind one pointer.
//! - A small set, hash or sorted set is one block of exact size ([`packed`]) that holds the entries
//!   of a listpack. A small set of integers is an intset. Beyond Redis's limits
//!   ([`Limits`](crate::limits::Limits)) the collection becomes a table, so OBJECT ENCODING replies
//!   as Redis's does.
//! - A large set, hash or sorted set finds its elements by name in [`keyed`]. A large sorted set
//!   also has a B+ tree (`tree.rs`) in the order of scores.
//! - Lists and streams are sequences of blocks. Each block has the form that a snapshot has.
//! - A value does not read the clock and arms no timer. The database arms the timers of its values
//!   (`keyspace/db/timelines.rs`).
//!
//! To add a type, implement [`Content`] for it, add it to the list `types!`, and read it in
//! `decode.rs`.

pub mod content;
pub(crate) mod deadlines;
pub mod decode;
pub mod digest;
pub mod float;
pub mod hash;
pub mod jobs;
pub mod keyed;
pub mod list;
pub mod packed;
pub(crate) mod parts;
pub mod set;
pub mod stream;
pub mod string;
pub mod text;
pub mod timer;
mod varint;
pub mod zset;

use punctual_rdb::{Encoder, dump};
use punctual_resp::Args;

use crate::time::NEVER;
use crate::unaligned::UnalignedBox;
use content::{Content, Facts};
use deadlines::Deadlines;
use hash::Hash;
use jobs::Jobs;
use list::List;
use set::Set;
use stream::Stream;
use string::Str;
use timer::Timer;
use zset::Zset;

/// Name of the auxiliary field of a snapshot that precedes a stream with settings and holds the
/// settings.
pub const SETTINGS_FIELD: &[u8] = b"punctual-stream";

/// First byte of DUMP's payload of a stream with settings. The length of the settings in four bytes
/// follows, then the settings, then the payload of the same stream without settings. Redis has no
/// type with this number, so it refuses the payload.
pub(crate) const WITH_SETTINGS: u8 = 200;

/// A type of value, as a variant of [`Value`].
pub trait Kind: Sized {
    /// Returns the value's content if it has this type.
    fn of(value: &Value) -> Option<&Self>;
    /// Returns the value's content for changes if it has this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Wraps the content into a value.
    fn into_value(self) -> Value;
}

/// Declares [`Value`], its conversions, and `content!`: all matches over all types.
macro_rules! types {
    ($dollar:tt $($(#[$doc:meta])* $name:ident($stored:ty),)*) => {
        /// A key's value, in 20 bytes; larger content is behind one pointer.
        #[derive(Clone, Debug)]
        pub enum Value {
            $($(#[$doc])* $name($stored),)*
        }

        $(impl Kind for $name {
            #[inline]
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$name(content) => Some(content),
                    _ => None,
                }
            }
            #[inline]
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$name(content) => Some(content),
                    _ => None,
                }
            }
            #[inline]
            fn into_value(self) -> Value {
                Value::$name(self.into())
            }
        })*

        impl Value {
            /// Returns the content as a trait object. Not for hot paths, because each method call
            /// is indirect.
            pub fn content(&self) -> &dyn Content {
                match self {
                    $(Self::$name(content) => { let content: &$name = content; content })*
                }
            }

            /// Returns the content for changes. Not for hot paths; see [`Value::content`].
            pub(crate) fn content_mut(&mut self) -> &mut dyn Content {
                match self {
                    $(Self::$name(content) => { let content: &mut $name = content; content })*
                }
            }
        }

        /// Calls a method of a value's [`Content`].
        macro_rules! content {
            ($dollar value:expr, $dollar content:ident => $dollar call:expr) => {
                match $dollar value {
                    $(Value::$name($dollar content) => $dollar call,)*
                }
            };
        }
    };
}

types! {
    $
    /// A string.
    Str(Str),
    /// A list; never empty in a database.
    List(UnalignedBox<List>),
    /// A hash; never empty in a database.
    Hash(Hash),
    /// A set; never empty in a database.
    Set(Set),
    /// A sorted set; never empty in a database.
    Zset(Zset),
    /// A stream, which may be empty.
    Stream(UnalignedBox<Stream>),
    /// A command that runs at the key's deadline.
    Timer(Timer),
    /// A queue of jobs, which may be empty.
    Jobs(UnalignedBox<Jobs>),
}

const _: () = assert!(size_of::<Value>() == 20);

impl Value {
    /// Creates a string value.
    pub fn string(bytes: &[u8]) -> Self {
        Self::Str(Str::new(bytes))
    }

    /// Returns the string if the value is one.
    #[inline]
    pub fn as_str(&self) -> Option<&Str> {
        Str::of(self)
    }

    /// Returns the string for changes if the value is one.
    #[inline]
    pub fn as_str_mut(&mut self) -> Option<&mut Str> {
        Str::of_mut(self)
    }

    /// See [`Content::warm`].
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        content!(self, content => content.warm())
    }

    /// See [`Content::warm_elements`].
    pub(crate) fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        content!(self, content => content.warm_elements(commands));
    }

    /// Applies the settings from the auxiliary field [`SETTINGS_FIELD`] of a snapshot. Returns
    /// false if the settings are malformed, or if the value is not a stream.
    #[must_use]
    pub fn apply_settings(&mut self, settings: &[u8]) -> bool {
        self.content_mut().apply_settings(settings).is_some()
    }

    /// See [`Content::timeline`].
    #[inline]
    pub(crate) fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        content!(self, content => content.timeline())
    }

    /// See [`Content::timer`].
    #[inline]
    pub(crate) fn timeline_timer(&self) -> Option<u32> {
        content!(self, content => content.timer())
    }

    /// Returns the earliest deadline of an element in Unix ms; `u64::MAX` if no element has one.
    /// O(1).
    #[inline]
    pub(crate) fn next_deadline(&self) -> u64 {
        self.deadlines().map_or(NEVER, Deadlines::next)
    }

    /// See [`Content::deadlines`].
    #[inline]
    pub(crate) fn deadlines(&self) -> Option<&Deadlines> {
        // All other types have none, and most look-ups find a string.
        match self {
            Self::Hash(hash) => hash.deadlines(),
            Self::Set(set) => set.deadlines(),
            Self::Zset(zset) => zset.deadlines(),
            _ => None,
        }
    }

    /// Returns the facts about the type.
    #[inline]
    pub fn facts(&self) -> Facts {
        content!(self, content => content.facts())
    }

    /// See [`Content::drops_late`].
    #[inline]
    pub(crate) fn drops_late(&self) -> bool {
        content!(self, content => content.drops_late())
    }

    /// Returns true if the value is an empty collection of a type whose empty keys are removed.
    pub fn is_empty_collection(&self) -> bool {
        content!(self, content => content.elements() == 0) && !self.facts().has(Facts::STAYS_EMPTY)
    }

    /// Returns DUMP's payload: the type, the value, the RDB version and a checksum. O(bytes).
    pub fn dump(&self) -> Vec<u8> {
        let (content, mut payload) = (self.content(), Vec::new());
        if let Some(settings) = content.settings() {
            payload.push(WITH_SETTINGS);
            payload.extend_from_slice(&(settings.len() as u32).to_le_bytes());
            payload.extend_from_slice(&settings);
        }
        payload.push(content.kind().byte());
        content.write(&mut Encoder::new(true), &mut payload);
        dump::seal(&mut payload);
        payload
    }
}
