//! Values of keys, one type per file.

pub mod decode;
pub mod encode;
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
pub(crate) mod walk;
pub mod zset;

use punctual_resp::Args;
use smallvec::SmallVec;

use crate::hash_table::WARM_MAX;
use crate::unaligned::UnalignedBox;
use hash::Hash;
use jobs::Jobs;
use list::List;
use set::Set;
use stream::Stream;
use timer::Timer;

/// Name of the auxiliary field of a snapshot that has the settings of the next key, a stream.
pub const SETTINGS_FIELD: &[u8] = stream::settings::FIELD;
use string::Str;
use zset::Zset;

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

/// The content of one type of value.
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

    /// Touches the cache line outside of the record that a reader needs next. The result is arbitrary.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        match self {
            Self::Str(string) => string.warm(),
            Self::List(list) => list.warm(),
            Self::Timer(timer) => timer.warm(),
            _ => 0,
        }
    }

    /// Loads the cache lines of a large collection that `commands` will probably need. Guesses the argument that names
    /// the element. Changes nothing.
    pub(crate) fn warm_elements<'a>(&self, commands: impl Iterator<Item = Args<'a>>) {
        if let Self::Zset(zset) = self {
            return zset.warm(commands);
        }
        let mut hashes: SmallVec<[crate::hash_table::Hash; WARM_MAX]> = SmallVec::new();
        let gather = |at: fn(usize) -> usize| {
            let names = commands.filter_map(|args| args.get(at(args.len())));
            hashes.extend(names.map(keyed::hash_of));
        };
        match self {
            Self::Set(set) => {
                if let set::View::Table(table) = set.view() {
                    gather(|_| 2);
                    drop(table.members().warm(&hashes));
                }
            }
            Self::Hash(hash) => {
                if let Some(table) = hash.table() {
                    gather(|_| 2);
                    drop(table.keyed().warm(&hashes));
                }
            }
            Self::Str(_)
            | Self::List(_)
            | Self::Zset(_)
            | Self::Stream(_)
            | Self::Timer(_)
            | Self::Jobs(_) => {}
        }
    }

    /// Returns the settings of a stream that has some, as snapshots have them.
    pub(crate) fn settings(&self) -> Option<Vec<u8>> {
        match self {
            Self::Stream(stream) => stream.settings(),
            _ => None,
        }
    }

    /// Applies settings from the auxiliary field [`SETTINGS_FIELD`] before the value's record. Returns false if they are not
    /// understood, or if the value is no stream.
    #[must_use]
    pub fn apply_settings(&mut self, settings: &[u8]) -> bool {
        match self {
            Self::Stream(stream) => stream.apply_settings(settings).is_some(),
            _ => false,
        }
    }

    /// Returns the timer and the next deadline of a value with a timeline of its own: a stream with settings, a queue of jobs. `None` if
    /// the timer may stay as it is.
    pub(crate) fn timeline(&mut self) -> Option<(Option<u32>, Option<u64>)> {
        match self {
            Self::Stream(stream) if stream.is_timed() => {
                Some((stream.timer(), stream.next_deadline()))
            }
            Self::Jobs(jobs) => Some((jobs.timer(), jobs.changed_deadline()?)),
            _ => None,
        }
    }

    /// Returns the timer of a value with a timeline of its own.
    pub(crate) fn timeline_timer(&self) -> Option<u32> {
        match self {
            Self::Stream(stream) => stream.timer(),
            Self::Jobs(jobs) => jobs.timer(),
            _ => None,
        }
    }

    /// Notes the timer of a value with a timeline of its own.
    pub(crate) fn set_timeline_timer(&mut self, timer: Option<u32>) {
        match self {
            Self::Stream(stream) => stream.set_timer(timer),
            Self::Jobs(jobs) => jobs.set_timer(timer),
            _ => {}
        }
    }

    /// Returns the type's name for TYPE.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Str(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::Zset(_) => "zset",
            Self::Stream(_) => "stream",
            Self::Timer(_) => "timer",
            Self::Jobs(_) => "jobs",
        }
    }

    /// Returns the encoding's name for OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Str(string) => string.encoding(),
            Self::List(list) => list.encoding(),
            Self::Hash(hash) => hash.encoding(),
            Self::Set(set) => set.encoding(),
            Self::Zset(zset) => zset.encoding(),
            Self::Stream(_) => "stream",
            Self::Timer(_) => "raw",
            Self::Jobs(_) => "jobs",
        }
    }

    /// Returns the number of elements of a collection, 1 for a string or a timer. O(1).
    pub fn elements(&self) -> usize {
        match self {
            Self::Str(_) | Self::Timer(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::Zset(zset) => zset.len(),
            Self::Stream(stream) => stream.len() as usize,
            Self::Jobs(jobs) => jobs.len(),
        }
    }

    /// Returns true for a collection without elements, whose key must be removed. A stream stays, and so does a
    /// queue of jobs.
    pub fn is_empty_collection(&self) -> bool {
        match self {
            Self::Str(_) | Self::Stream(_) | Self::Timer(_) | Self::Jobs(_) => false,
            Self::List(list) => list.is_empty(),
            Self::Hash(hash) => hash.is_empty(),
            Self::Set(set) => set.is_empty(),
            Self::Zset(zset) => zset.is_empty(),
        }
    }

    /// Returns the number of bytes outside of the record. O(1) for strings, at most O(elements).
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Str(string) => string.heap_bytes(),
            Self::List(list) => size_of::<List>() + list.heap_bytes(),
            Self::Hash(hash) => hash.heap_bytes(),
            Self::Set(set) => set.heap_bytes(),
            Self::Zset(zset) => zset.heap_bytes(),
            Self::Stream(stream) => size_of::<Stream>() + stream.heap_bytes(),
            Self::Timer(timer) => timer.heap_bytes(),
            Self::Jobs(jobs) => size_of::<Jobs>() + jobs.heap_bytes(),
        }
    }
}
