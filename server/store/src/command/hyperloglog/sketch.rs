//! Format of the string: `HYLL`, a byte for the form of the registers, three unused bytes, the
//! cached estimate (8 bytes, little-endian; its highest bit is set if registers have changed
//! since), then the registers.

use super::estimate::cardinality;
use super::sparse::{Cursor, Raised};
use super::{CORRUPT, NOT_A_SKETCH, REGISTERS, dense, hash, sparse};
use crate::error::Error;

const MAGIC: &[u8; 4] = b"HYLL";
/// Position of the byte for the form.
const FORM: usize = 4;
/// Position of the cached estimate.
const CACHED: std::ops::Range<usize> = 8..16;
/// Bit in the last byte of the cached estimate that marks it as stale.
const STALE: u8 = 0x80;
/// Size of the header in bytes.
pub(super) const HEADER: usize = 16;

/// Form of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Dense = 0,
    Sparse = 1,
}

/// Returns the form of a string's registers.
///
/// # Errors
/// If the header or the length is not valid for a sketch.
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

/// Returns an empty sketch: sparse, with a cached estimate of 0.
pub(super) fn empty() -> Vec<u8> {
    let mut string = vec![0; HEADER];
    string[..MAGIC.len()].copy_from_slice(MAGIC);
    string[FORM] = Form::Sparse as u8;
    string.extend(sparse::EMPTY);
    string
}

/// Returns the cached estimate, unless it is stale.
pub(super) fn cached(string: &[u8]) -> Option<u64> {
    let (bytes, _) = string.get(CACHED)?.split_first_chunk()?;
    (bytes[7] & STALE == 0).then(|| u64::from_le_bytes(*bytes))
}

/// Caches an estimate.
pub(super) fn set_cached(string: &mut [u8], estimate: u64) {
    string[CACHED].copy_from_slice(&estimate.to_le_bytes());
}

/// Marks the cached estimate as stale.
pub(super) fn mark_stale(string: &mut [u8]) {
    string[CACHED.end - 1] |= STALE;
}

/// Returns the bytes of the registers, dense or sparse.
pub(super) fn registers(string: &[u8]) -> &[u8] {
    &string[HEADER..]
}

/// Raises register `index` to at least `value`. Returns true if the register changed. A sparse
/// sketch becomes dense if runs cannot hold the value, or if the sketch would exceed `sparse_max`
/// bytes. O(1) if dense, else O(length).
///
/// # Errors
/// If the string is not a sketch, or its registers are invalid.
pub(super) fn raise(
    string: &mut Vec<u8>,
    index: usize,
    value: u8,
    sparse_max: usize,
) -> Result<bool, Error> {
    raise_from(string, &mut Cursor::first(HEADER), index, value, sparse_max)
}

/// Does the same as [`raise`], with a search that starts at a cursor (see [`sparse::raise`]).
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
                mark_stale(string);
                return Ok(true);
            }
            Raised::NoRoom => to_dense(string)?,
        };
    }
    Ok(dense::raise(&mut string[HEADER..], index, value))
}

/// Makes a sparse sketch dense. Returns true if it was sparse. The cached estimate stays.
/// O(registers).
///
/// # Errors
/// If the string is not a sketch, or its registers are invalid.
pub(super) fn to_dense(string: &mut Vec<u8>) -> Result<bool, Error> {
    if form(string)? == Form::Dense {
        return Ok(false);
    }
    let mut dense = vec![0; HEADER + dense::BYTES];
    dense[..HEADER].copy_from_slice(&string[..HEADER]);
    dense[FORM] = Form::Dense as u8;
    let target = &mut dense[HEADER..];
    sparse::each(registers(string), |first, run| {
        if run.value > 0 {
            for index in first..first + run.len {
                dense::raise(target, index, run.value);
            }
        }
    })?;
    *string = dense;
    Ok(true)
}

/// Computes the estimate from the registers. O(registers).
///
/// # Errors
/// If the string is not a sketch, or its registers are invalid.
pub(super) fn estimate(string: &[u8]) -> Result<u64, Error> {
    let histogram = match form(string)? {
        Form::Dense => dense::histogram(registers(string)),
        Form::Sparse => sparse::histogram(registers(string))?,
    };
    Ok(cardinality(&histogram))
}

/// Union of several sketches: each register is the maximum of the sketches' registers.
pub(crate) struct Union(Box<[u8; REGISTERS]>);

impl Union {
    /// Returns the union of no sketches.
    pub(crate) fn new() -> Self {
        Self(vec![0; REGISTERS].try_into().expect("the same length"))
    }

    /// Adds a sketch and returns its form. O(registers).
    ///
    /// # Errors
    /// If the string is not a sketch, or its registers are invalid.
    pub(super) fn add(&mut self, string: &[u8]) -> Result<Form, Error> {
        let form = form(string)?;
        match form {
            Form::Dense => dense::raise_all(registers(string), &mut self.0),
            Form::Sparse => sparse::raise_all(registers(string), &mut self.0)?,
        }
        Ok(form)
    }

    /// Raises the registers of a sketch to at least the union's registers. O(registers), and
    /// O(length) for each run that splits.
    ///
    /// # Errors
    /// If the string is not a sketch, or its registers are invalid.
    pub(super) fn raise(&self, string: &mut Vec<u8>, sparse_max: usize) -> Result<(), Error> {
        let mut from = Cursor::first(HEADER);
        for (index, value) in self.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            raise_from(string, &mut from, index, *value, sparse_max)?;
        }
        Ok(())
    }

    /// Adds an element. O(length).
    pub(crate) fn insert(&mut self, element: &[u8]) {
        let (index, value) = hash::place(element);
        self.0[index] = self.0[index].max(value);
    }

    /// Returns the estimate of the number of distinct elements. O(registers).
    pub(crate) fn cardinality(&self) -> u64 {
        let mut histogram = [0; 64];
        for register in self.0.iter() {
            histogram[usize::from(register & 63)] += 1;
        }
        cardinality(&histogram)
    }
}

/// Returns all registers of a dense sketch.
///
/// # Errors
/// If the string is not a dense sketch.
pub(super) fn dense_registers(string: &[u8]) -> Result<impl Iterator<Item = u8>, Error> {
    match form(string)? {
        Form::Dense => Ok(dense::iter(registers(string))),
        Form::Sparse => Err(CORRUPT),
    }
}
