//! Libraries of functions: their records in a snapshot, and the payload of FUNCTION DUMP and
//! FUNCTION RESTORE. The payload is a sequence of such records, the version, and a checksum.
//!
//! ```
//! use punctual_rdb::{Encoder, dump, functions};
//!
//! let code = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)";
//! let mut payload = Vec::new();
//! Encoder::new(false).library(&mut payload, code);
//! dump::seal(&mut payload);
//!
//! let mut restore = functions::Restore::new(&payload).unwrap();
//! assert_eq!(restore.next().unwrap(), Some(&code[..]));
//! assert_eq!(restore.next().unwrap(), None);
//! ```

use thiserror::Error;

use crate::dump::{self, Refused};
use crate::input::{Fallible, Input};
use crate::kind::opcode;
use crate::reader::read_text;
use crate::source::Source;

/// The error of a payload whose checksum is right and whose records FUNCTION RESTORE refuses. The
/// texts are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// A record is not a library.
    #[error("given type is not a function")]
    Type,
    /// A record ends early or has a wrong encoding.
    #[error("Failed loading library payload")]
    Library,
}

/// Reads the libraries of a payload.
pub struct Restore<'p> {
    input: Input<&'p [u8]>,
    code: Vec<u8>,
}

impl<'p> Restore<'p> {
    /// Checks a payload's version and checksum.
    ///
    /// # Errors
    ///
    /// [`Refused`], in the cases in which FUNCTION RESTORE refuses the payload.
    pub fn new(payload: &'p [u8]) -> Result<Self, Refused> {
        Ok(Restore {
            input: Input::new(dump::open(payload)?),
            code: Vec::new(),
        })
    }

    /// Returns the code of the next library, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the next record is not a library, or is damaged. The payload cannot be
    /// read further.
    #[expect(
        clippy::should_implement_trait,
        reason = "the code borrows from the reader"
    )]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Unreadable> {
        if self.input.remaining() == Some(0) {
            return Ok(None);
        }
        let type_byte = self.input.byte().map_err(|_| Unreadable::Library)?;
        if !matches!(type_byte, opcode::FUNCTION | opcode::FUNCTION_PRE_GA) {
            return Err(Unreadable::Type);
        }
        read_library(&mut self.input, type_byte, &mut self.code)
            .map_err(|_| Unreadable::Library)?;
        Ok(Some(&self.code))
    }
}

/// Reads the code of a library after the type byte of its record.
pub(crate) fn read_library<S: Source>(
    input: &mut Input<S>,
    type_byte: u8,
    code: &mut Vec<u8>,
) -> Fallible<(), S> {
    if type_byte == opcode::FUNCTION {
        return read_text(input, code);
    }
    // The release candidates of 7.0 stored the name and the engine, which are now the first line of
    // the code, as separate strings.
    let (mut name, mut engine) = (Vec::new(), Vec::new());
    read_text(input, &mut name)?;
    read_text(input, &mut engine)?;
    if input.number()? != 0 {
        input.skip_string()?; // description
    }
    let mut rest = Vec::new();
    read_text(input, &mut rest)?;
    *code = [b"#!", &engine[..], b" name=", &name, b"\n", &rest].concat();
    Ok(())
}
