//! Numbers of Python as ticks of the queues.
//!
//! A tick is a float: its bits, arranged so that they sort as the floats do. So a deadline may be in any unit and come
//! back as it was given, and the queues, which compare ticks, never round. Other numbers become floats first, where a
//! deadline is rounded up and a reading of the clock is rounded down: nothing falls due early.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

const SIGN: u64 = 1 << 63;

/// Up to here every integer is a float.
const EXACT: i64 = 1 << 53;

/// The tick of a deadline: rounded up, if it is no float exactly.
#[inline]
pub(crate) fn of_deadline(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    tick(number, Rounding::Up)
}

/// The tick that a clock shows: rounded down, if it is no float exactly.
#[inline]
pub(crate) fn of_reading(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    tick(number, Rounding::Down)
}

/// The number of a tick.
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
            "NaN is no time: nothing is before or after it",
        ));
    }
    // Adding zero makes -0.0, which equals 0.0, the same tick.
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
        // An integer of hundreds of digits lies between the largest float and infinity.
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {
            if number.lt(0)? {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Err(error) => return Err(error),
    };
    // Python compares its numbers exactly. Those that do not compare with floats are taken as they convert.
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
