//! Modules' values, and Punctual's own values, which are stored in the same form.
//!
//! A module's value is a sequence of typed parts, so it can be skipped without the module. Timers,
//! queues of jobs, and sets and sorted sets whose members have deadlines ([`Own`]) use this form
//! because a redis-server refuses a snapshot with a module that it does not have; it does not
//! silently drop the keys or the deadlines.

use std::fmt;

use crate::error::Reason;
use crate::input::{Fallible, Input, Span};
use crate::source::Source;

/// The type of a skipped record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opaque {
    /// A key with a module's value.
    Module(ModuleName),
    /// A module's data outside of keys.
    ModuleAux(ModuleName),
    /// A hash as a zipmap, as a redis-server before 2.6 writes it.
    Zipmap,
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opaque::Module(name) => write!(f, "value of module type {name}"),
            Opaque::ModuleAux(name) => write!(f, "data of module type {name}"),
            Opaque::Zipmap => f.write_str("hash in the encoding zipmap of Redis before 2.6"),
        }
    }
}

/// The name of a module's type: nine characters, each a letter, a digit, `-` or `_`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ModuleName([u8; 9]);

impl ModuleName {
    /// Returns the name in an id: nine characters of six bits, then ten bits of version.
    fn of_id(id: u64) -> Self {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        ModuleName(std::array::from_fn(|index| {
            LETTERS[(id >> (58 - 6 * index)) as usize & 63]
        }))
    }

    /// Returns the id of a name with a version below 1024.
    const fn id(name: [u8; 9], version: u64) -> u64 {
        let (mut id, mut at) = (0, 0);
        while at < name.len() {
            let letter = match name[at] {
                byte @ b'A'..=b'Z' => byte - b'A',
                byte @ b'a'..=b'z' => byte - b'a' + 26,
                byte @ b'0'..=b'9' => byte - b'0' + 52,
                b'-' => 62,
                _ => 63,
            };
            id = id << 6 | letter as u64;
            at += 1;
        }
        id << 10 | version
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        // All characters are ASCII, so the conversion succeeds.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// One of Punctual's own types, stored as a module's type. The id combines a name that no module
/// has with the version of the value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Own {
    /// A timer, stored as one text.
    Timer = ModuleName::id(*b"punctimer", 1),
    /// A queue of jobs, stored in several parts.
    Jobs = ModuleName::id(*b"punctjobs", 1),
    /// A set whose members have deadlines, stored in one part for each member.
    Set = ModuleName::id(*b"punctsets", 1),
    /// A sorted set whose members have deadlines, stored in one part for each member.
    Zset = ModuleName::id(*b"punctzset", 1),
}

impl Own {
    const ALL: [Self; 4] = [Self::Timer, Self::Jobs, Self::Set, Self::Zset];

    /// Reads an id. Returns the inner `Err`, with the name in the id, for a type of a module.
    pub(crate) fn read<S: Source>(input: &mut Input<S>) -> Fallible<Result<Self, ModuleName>, S> {
        let id = input.number()?;
        let own = Self::ALL.into_iter().find(|own| *own as u64 == id);
        Ok(own.ok_or_else(|| ModuleName::of_id(id)))
    }
}

/// The form of an own value.
pub(crate) enum Form {
    /// All bytes of the value, as the snapshot has them.
    Text(Span),
    /// The number of parts that follow.
    Parts(u64),
}

/// Reads an own value after its id: a whole text, or the start of several parts.
pub(crate) fn read_form<S: Source>(input: &mut Input<S>) -> Fallible<Form, S> {
    let start = input.offset();
    match input.number()? {
        mark::STRING => {
            let span = input.string()?;
            read_end(input)?;
            Ok(Form::Text(span))
        }
        mark::UNSIGNED => Ok(Form::Parts(input.count(2)?)),
        _ => Err(input.error(start, Reason::Length)),
    }
}

/// Reads a part of an own value.
pub(crate) fn read_part<S: Source>(input: &mut Input<S>) -> Fallible<Span, S> {
    let start = input.offset();
    if input.number()? != mark::STRING {
        return Err(input.error(start, Reason::Length));
    }
    input.string()
}

/// Reads the end of an own value.
pub(crate) fn read_end<S: Source>(input: &mut Input<S>) -> Fallible<(), S> {
    let start = input.offset();
    if input.number()? != mark::END {
        return Err(input.error(start, Reason::Length));
    }
    Ok(())
}

/// The type codes of the parts of a module's value.
pub(crate) mod mark {
    pub(crate) const END: u64 = 0;
    pub(crate) const SIGNED: u64 = 1;
    pub(crate) const UNSIGNED: u64 = 2;
    pub(crate) const FLOAT: u64 = 3;
    pub(crate) const DOUBLE: u64 = 4;
    pub(crate) const STRING: u64 = 5;
}

pub(crate) fn skip_module_aux<S: Source>(input: &mut Input<S>) -> Fallible<Opaque, S> {
    let id = input.number()?;
    skip_module_parts(input)?;
    Ok(Opaque::ModuleAux(ModuleName::of_id(id)))
}

pub(crate) fn skip_module_parts<S: Source>(input: &mut Input<S>) -> Fallible<(), S> {
    loop {
        input.start_item();
        let start = input.offset();
        match input.number()? {
            mark::END => return Ok(()),
            mark::SIGNED | mark::UNSIGNED => {
                input.number()?;
            }
            mark::FLOAT => input.skip(4)?,
            mark::DOUBLE => input.skip(8)?,
            mark::STRING => input.skip_string()?,
            _ => return Err(input.error(start, Reason::Length)),
        }
    }
}
