//! Values of keys, one type per file or folder.
//!
//! To add a type, implement [`Content`] for it, add it to the three lists in this file (`Value`, `content!`, `kinds!`), and
//! read it in `decode.rs`.

pub mod content;
pub mod decode;
pub mod digest;
pub mod float;
pub mod hash;
pub mod jobs;
pub mod keyed;
pub mod list;
pub mod packed;
pub mod set;
pub mod stream;
pub mod string;
pub mod text;
pub mod timer;
mod varint;
pub mod zset;

use punctual_rdb::{Encoder, dump};
use punctual_resp::Args;

use crate::unaligned::UnalignedBox;
use content::Content;
use hash::Hash;
use jobs::Jobs;
use list::List;
use set::Set;
use stream::Stream;
use timer::Timer;

use string::Str;
use zset::Zset;

/// Name of the auxiliary field of a snapshot that has the settings of the next key, a stream.
pub const SETTINGS_FIELD: &[u8] = b"punctual-stream";

/// The first byte of DUMP's payload of a stream with settings: their length in four bytes and the settings follow, then the payload that
/// there would be without them. No version of Redis has this type, so it refuses the payload.
pub(crate) const WITH_SETTINGS: u8 = 200;

/// A key's value, in 20 bytes; larger content is behind one pointer.
#[derive(Clone, Debug)]
pub enum Value {
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

/// Calls a method of a value's [`Content`]: the only match over all types.
macro_rules! content {
    ($value:expr, $content:ident => $call:expr) => {
        match $value {
            Value::Str($content) => $call,
            Value::List($content) => $call,
            Value::Hash($content) => $call,
            Value::Set($content) => $call,
            Value::Zset($content) => $call,
            Value::Stream($content) => $call,
            Value::Timer($content) => $call,
            Value::Jobs($content) => $call,
        }
    };
}

/// A type of value, as a variant of [`Value`].
pub trait Kind: Sized {
    /// Returns the value's content if it has this type.
    fn of(value: &Value) -> Option<&Self>;
    /// Returns the value's content for changes if it has this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Wraps the content into a value.
    fn into_value(self) -> Value;
}

macro_rules! kinds {
    ($($type:ty: $variant:ident, $content:ident => $wrapped:expr;)*) => {$(
        impl Kind for $type {
            #[inline]
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(content) => Some(content),
                    _ => None,
                }
            }
            #[inline]
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(content) => Some(content),
                    _ => None,
                }
            }
            #[inline]
            fn into_value(self) -> Value {
                let $content = self;
                Value::$variant($wrapped)
            }
        }
    )*};
}

kinds! {
    Str: Str, content => content;
    List: List, content => Box::new(content).into();
    Hash: Hash, content => content;
    Set: Set, content => content;
    Zset: Zset, content => content;
    Stream: Stream, content => Box::new(content).into();
    Timer: Timer, content => content;
    Jobs: Jobs, content => Box::new(content).into();
}

impl Value {
    /// Creates a string value.
    pub fn string(bytes: &[u8]) -> Self {
        Self::Str(Str::new(bytes))
    }

    /// Wraps a string.
    pub const fn from_str(string: Str) -> Self {
        Self::Str(string)
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

    /// Returns the content, off hot paths: each call of a method is indirect.
    pub fn content(&self) -> &dyn Content {
        content!(self, content => content.as_dyn())
    }

    /// Returns the content for changes, off hot paths.
    pub(crate) fn content_mut(&mut self) -> &mut dyn Content {
        content!(self, content => content.as_dyn_mut())
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

    /// Applies settings from the auxiliary field [`SETTINGS_FIELD`] before the value's record. Returns false if they are not
    /// understood, or if the value is no stream.
    #[must_use]
    pub fn apply_settings(&mut self, settings: &[u8]) -> bool {
        self.content_mut().apply_settings(settings).is_some()
    }

    /// See [`Content::has_timeline`].
    #[inline]
    pub(crate) fn has_timeline(&self) -> bool {
        content!(self, content => content.has_timeline())
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

    /// See [`Content::set_timer`].
    pub(crate) fn set_timeline_timer(&mut self, timer: Option<u32>) {
        content!(self, content => content.set_timer(timer));
    }

    /// See [`Content::acts_by_itself`].
    #[inline]
    pub(crate) fn acts_by_itself(&self) -> bool {
        content!(self, content => content.acts_by_itself())
    }

    /// See [`Content::is_awaited`].
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        content!(self, content => content.is_awaited())
    }

    /// See [`Content::drops_late`].
    #[inline]
    pub(crate) fn drops_late(&self) -> bool {
        content!(self, content => content.drops_late())
    }

    /// Returns true for a collection without elements, whose key must be removed.
    pub fn is_empty_collection(&self) -> bool {
        content!(self, content => content.elements() == 0 && !content.stays_empty())
    }

    /// Returns DUMP's payload: the value with its type, version and checksum. O(bytes).
    pub(crate) fn dump(&self) -> Vec<u8> {
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
