//! Records that are skipped: modules' values. Their form is known, but they are not used.

use std::fmt;

use crate::error::Reason;
use crate::input::{Fallible, Input};
use crate::source::Source;

/// The type of a skipped record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opaque {
    /// A key with a module's value.
    Module(ModuleName),
    /// A module's data outside of keys.
    ModuleAux(ModuleName),
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opaque::Module(name) => write!(f, "value of module type {name}"),
            Opaque::ModuleAux(name) => write!(f, "data of module type {name}"),
        }
    }
}

/// The name of a module's type: nine letters, digits, `-` or `_`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ModuleName([u8; 9]);

impl ModuleName {
    /// The 64 bits are nine letters of six bits, and ten bits of version.
    fn of_id(id: u64) -> Self {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        ModuleName(std::array::from_fn(|index| {
            LETTERS[(id >> (58 - 6 * index)) as usize & 63]
        }))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        // All letters are ASCII.
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

/// The type codes of the parts of a module's value.
mod mark {
    pub(super) const END: u64 = 0;
    pub(super) const SIGNED: u64 = 1;
    pub(super) const UNSIGNED: u64 = 2;
    pub(super) const FLOAT: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const STRING: u64 = 5;
}

pub(crate) fn skip_module<S: Source>(input: &mut Input<S>) -> Fallible<Opaque, S> {
    let id = input.number()?;
    skip_module_parts(input)?;
    Ok(Opaque::Module(ModuleName::of_id(id)))
}

pub(crate) fn skip_module_aux<S: Source>(input: &mut Input<S>) -> Fallible<Opaque, S> {
    let id = input.number()?;
    skip_module_parts(input)?;
    Ok(Opaque::ModuleAux(ModuleName::of_id(id)))
}

fn skip_module_parts<S: Source>(input: &mut Input<S>) -> Fallible<(), S> {
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
