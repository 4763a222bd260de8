//! Conversion of Python numbers to ticks of the queues.
//!
//! A tick is the bit pattern of a float, changed so that ticks sort like the floats. So a deadline
//! may have any unit and is returned unchanged, and the queues, which only compare ticks, never
//! round. Numbers that are not floats are converted to floats: a deadline rounds up and a reading
//! of the clock rounds down, so no timer fires early.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

const SIGN: u64 = 1 << 63;

/// Every integer between `-EXACT` and `EXACT` is exact as a float.
const EXACT: i64 = 1 << 53;

/// Returns the tick of a deadline, which is rounded up if it is not exactly a float.
#[inline]
pub(crate) fn of_deadline(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    tick(number, Rounding::Up)
}

/// Returns the tick of a clock reading, which is rounded down if it is not exactly a float.
#[inline]
pub(crate) fn of_reading(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    tick(number, Rounding::Down)
}

/// Returns the float of a tick.
#[inline]
pub(crate) fn number(tick: u64) -> f64 {
    f64::from_bits(if tick & SIGN != 0 { tick ^ SIGN } else { !tick })
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

#[inline]
fn tick(number: &Bound<'_, PyAny>, rounding: Rounding) -> PyResult<u64> {
    let float = match number.cast_exact::<PyFloat>() {
        Ok(float) => float.value(),
        Err(_) => rounded(number, rounding)?,
    };
    if float.is_nan() {
        return Err(PyValueError::new_err(
            "NaN is not a valid time: it has no place in any order",
        ));
    }
    // Adding zero turns -0.0 into 0.0, which must have the same tick.
    let bits = (float + 0.0).to_bits();
    Ok(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

#[inline(never)]
fn rounded(number: &Bound<'_, PyAny>, rounding: Rounding) -> PyResult<f64> {
    if let Ok(int) = number.cast_exact::<PyInt>()
        && let Ok(int) = int.extract::<i64>()
        && (-EXACT..=EXACT).contains(&int)
    {
        return Ok(int as f64);
    }
    let nearest = match number.extract::<f64>() {
        Ok(float) => float,
        // An integer with hundreds of digits lies between the largest float and infinity.
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
            if number.lt(0)? {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Err(error) => return Err(error),
    };
    // Python compares its numbers with floats exactly. A number that does not compare with floats
    // is used as converted.
    let outcome = match rounding {
        Rounding::Up => number.gt(nearest),
        Rounding::Down => number.lt(nearest),
    };
    let off = match outcome {
        Err(error) if error.is_instance_of::<PyTypeError>(number.py()) => false,
        outcome => outcome?,
    };
    Ok(match (off, rounding) {
        (false, _) => nearest,
        (true, Rounding::Up) => nearest.next_up(),
        (true, Rounding::Down) => nearest.next_down(),
    })
}
