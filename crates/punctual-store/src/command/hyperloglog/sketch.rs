//! The string: `HYLL`, a byte for the form of the registers, three that mean nothing, the last estimate (8 bytes from
//! the low end on; its highest bit says that registers have changed since), then the registers.

use super::estimate::cardinality;
use super::sparse::{Cursor, Raised};
use super::{CORRUPT, NOT_A_SKETCH, REGISTERS, dense, sparse};
use crate::error::Error;

const MAGIC: &[u8; 4] = b"HYLL";
/// The byte that tells the form.
const FORM: usize = 4;
/// The bytes of the last estimate.
const KEPT: std::ops::Range<usize> = 8..16;
/// The bit, in the last byte of the estimate, that says that it does not hold any more.
const STALE: u8 = 0x80;
/// Bytes before the registers.
pub(super) const HEADER: usize = 16;

/// How the registers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Dense = 0,
    Sparse = 1,
}

/// The form of a string's registers.
///
/// # Errors
/// If the string is no sketch, by what its header and its length say.
pub(super) fn form(string: &[u8]) -> Result<Form, Error> {
    if string.len() < HEADER || !string.starts_with(MAGIC) {
        return Err(NOT_A_SKETCH);
    }
    match string[FORM] {
        0 if string.len() == HEADER + dense::BYTES => Ok(Form::Dense),
        1 => Ok(Form::Sparse),
        _ => Err(NOT_A_SKETCH),
    }
}

/// A sketch without elements: sparse, with an estimate of 0.
pub(super) fn empty() -> Vec<u8> {
    let mut string = vec![0; HEADER];
    string[..MAGIC.len()].copy_from_slice(MAGIC);
    string[FORM] = Form::Sparse as u8;
    string.extend(sparse::EMPTY);
    string
}

/// The estimate that the string keeps, if nothing has changed since.
pub(super) fn kept(string: &[u8]) -> Option<u64> {
    let (bytes, _) = string.get(KEPT)?.split_first_chunk()?;
    (bytes[7] & STALE == 0).then(|| u64::from_le_bytes(*bytes))
}

/// Keeps an estimate.
pub(super) fn keep(string: &mut [u8], estimate: u64) {
    string[KEPT].copy_from_slice(&estimate.to_le_bytes());
}

/// Says that the estimate does not hold any more.
pub(super) fn stale(string: &mut [u8]) {
    string[KEPT.end - 1] |= STALE;
}

/// The registers' bytes, in whichever form.
pub(super) fn registers(string: &[u8]) -> &[u8] {
    &string[HEADER..]
}

/// Makes register `index` at least `value`; whether that changed it. A sparse sketch becomes dense if it must, or
/// would pass `sparse_max` bytes. O(1) if dense, else O(length).
///
/// # Errors
/// If the string is no sketch, or its registers make no sense.
pub(super) fn raise(
    string: &mut Vec<u8>,
    index: usize,
    value: u8,
    sparse_max: usize,
) -> Result<bool, Error> {
    raise_from(string, &mut Cursor::first(HEADER), index, value, sparse_max)
}

/// As [`raise`], with a search of runs from a cursor on: see [`sparse::raise`].
fn raise_from(
    string: &mut Vec<u8>,
    from: &mut Cursor,
    index: usize,
    value: u8,
    sparse_max: usize,
) -> Result<bool, Error> {
    if form(string)? == Form::Sparse {
        match sparse::raise(string, from, index, value, sparse_max)? {
            Raised::Same => return Ok(false),
            Raised::Changed => {
                stale(string);
                return Ok(true);
            }
            Raised::NoRoom => to_dense(string)?,
        };
    }
    Ok(dense::raise(&mut string[HEADER..], index, value))
}

/// Makes a sparse sketch dense; whether it was sparse. The kept estimate stays. O(registers).
///
/// # Errors
/// If the string is no sketch, or its registers make no sense.
pub(super) fn to_dense(string: &mut Vec<u8>) -> Result<bool, Error> {
    if form(string)? == Form::Dense {
        return Ok(false);
    }
    let mut wide = vec![0; HEADER + dense::BYTES];
    wide[..HEADER].copy_from_slice(&string[..HEADER]);
    wide[FORM] = Form::Dense as u8;
    let there = &mut wide[HEADER..];
    sparse::each(registers(string), |first, run| {
        if run.value > 0 {
            for index in first..first + run.len {
                dense::raise(there, index, run.value);
            }
        }
    })?;
    *string = wide;
    Ok(true)
}

/// The estimate, worked out anew. O(registers).
///
/// # Errors
/// If the string is no sketch, or its registers make no sense.
pub(super) fn estimate(string: &[u8]) -> Result<u64, Error> {
    let histogram = match form(string)? {
        Form::Dense => dense::histogram(registers(string)),
        Form::Sparse => sparse::histogram(registers(string))?,
    };
    Ok(cardinality(&histogram))
}

/// The registers of several sketches together: each as large as in any of them.
pub(super) struct Union(Box<[u8; REGISTERS]>);

impl Union {
    /// Of no sketches.
    pub(super) fn new() -> Self {
        Self(vec![0; REGISTERS].try_into().expect("just as many"))
    }

    /// Adds a sketch; its form. O(registers).
    ///
    /// # Errors
    /// If the string is no sketch, or its registers make no sense.
    pub(super) fn add(&mut self, string: &[u8]) -> Result<Form, Error> {
        let form = form(string)?;
        match form {
            Form::Dense => dense::raise_all(registers(string), &mut self.0),
            Form::Sparse => sparse::raise_all(registers(string), &mut self.0)?,
        }
        Ok(form)
    }

    /// Makes the registers of a sketch at least these. O(registers), and what runs move when one is split.
    ///
    /// # Errors
    /// If the string is no sketch, or its registers make no sense.
    pub(super) fn raise(&self, string: &mut Vec<u8>, sparse_max: usize) -> Result<(), Error> {
        let mut from = Cursor::first(HEADER);
        for (index, value) in self.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            raise_from(string, &mut from, index, *value, sparse_max)?;
        }
        Ok(())
    }

    /// How many different elements there are in all. O(registers).
    pub(super) fn cardinality(&self) -> u64 {
        let mut histogram = [0; 64];
        for register in self.0.iter() {
            histogram[usize::from(register & 63)] += 1;
        }
        cardinality(&histogram)
    }
}

/// A dense sketch tells all its registers.
///
/// # Errors
/// If the string is not a dense sketch.
pub(super) fn all(string: &[u8]) -> Result<impl Iterator<Item = u8>, Error> {
    match form(string)? {
        Form::Dense => Ok(dense::iter(registers(string))),
        Form::Sparse => Err(CORRUPT),
    }
}
