//! Scores and their comparison.
//!
//! Integers and floats become *ranks*: 64-bit numbers that sort like the scores, which Rust
//! compares. All other scores are compared by `<=>`, which may run Ruby code and raise.

use std::cmp::Ordering;

use magnus::rb_sys::AsRawValue;
use magnus::value::{Fixnum, LazyId, ReprValue};
use magnus::{Error, Float, Integer, Ruby, TryConvert, Value};

/// The common kind of all scores of a heap; it decides which ranks the scores have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Integers that fit into a machine word.
    Integers,
    /// Floats, and integers from -2^53 to 2^53, which are exact as floats.
    Floats,
    /// Anything that `<=>` compares.
    Objects,
}

/// Every integer between `-EXACT` and `EXACT` is exact as a float.
const EXACT: i64 = 1 << 53;

impl Kind {
    /// Returns the first kind that has ranks for `score`.
    #[inline]
    pub(crate) fn of(score: Value) -> Kind {
        if Fixnum::from_value(score).is_some() {
            Kind::Integers
        } else if Float::from_value(score).is_some() {
            Kind::Floats
        } else {
            Kind::Objects
        }
    }

    /// Returns the next kind, which has ranks for more scores.
    pub(crate) fn wider(self) -> Kind {
        match self {
            Kind::Integers => Kind::Floats,
            Kind::Floats | Kind::Objects => Kind::Objects,
        }
    }

    /// Returns the score's rank, or `None` if the score is NaN or not of this kind. All objects
    /// have the same rank.
    #[inline]
    pub(crate) fn rank(self, score: Value) -> Option<i64> {
        match self {
            // The `VALUE` of a small integer sorts like the integer.
            Kind::Integers => Fixnum::from_value(score).map(|_| score.as_raw() as i64),
            Kind::Floats => float_rank(score),
            Kind::Objects => Some(0),
        }
    }
}

#[inline]
fn float_rank(score: Value) -> Option<i64> {
    let float = if let Some(float) = Float::from_value(score) {
        float.to_f64()
    } else {
        let integer = Fixnum::from_value(score)?.to_i64();
        if integer.unsigned_abs() > EXACT.unsigned_abs() {
            return None;
        }
        integer as f64
    };
    if float.is_nan() {
        return None;
    }
    // Adding zero turns -0.0 into 0.0, which must have the same rank.
    let bits = (float + 0.0).to_bits() as i64;
    Some(bits ^ (((bits >> 63) as u64) >> 1) as i64)
}

/// Rejects scores that have no place in any order: NaN, and objects that cannot be compared with
/// themselves.
#[inline]
pub(crate) fn check(ruby: &Ruby, score: Value) -> Result<(), Error> {
    if Fixnum::from_value(score).is_some() {
        return Ok(());
    }
    if let Some(float) = Float::from_value(score) {
        if float.to_f64().is_nan() {
            return Err(Error::new(
                ruby.exception_arg_error(),
                "the score is NaN, which has no place in an order",
            ));
        }
        return Ok(());
    }
    compare(ruby, score, score).map(drop)
}

/// Returns `Float(score)`, for a queue whose scores are numbers only.
///
/// # Errors
/// The exception that `Float` raises.
pub(crate) fn to_float(ruby: &Ruby, score: Value) -> Result<Value, Error> {
    if Integer::from_value(score).is_some() || Float::from_value(score).is_some() {
        return Ok(score);
    }
    ruby.module_kernel().funcall("Float", (score,))
}

/// Compares two scores by `<=>`.
///
/// # Errors
/// The exception that `<=>` raises; `ArgumentError` if `<=>` returns no number, or NaN.
pub(crate) fn compare(ruby: &Ruby, a: Value, b: Value) -> Result<Ordering, Error> {
    static COMPARE: LazyId = LazyId::new("<=>");
    if let (Some(a), Some(b)) = (Fixnum::from_value(a), Fixnum::from_value(b)) {
        return Ok(a.to_i64().cmp(&b.to_i64()));
    }
    let answer: Value = a.funcall(*COMPARE, (b,))?;
    if let Some(answer) = Fixnum::from_value(answer) {
        return Ok(answer.to_i64().cmp(&0));
    }
    if let Some(answer) = Integer::from_value(answer) {
        // An integer that does not fit into a machine word.
        let negative: bool = answer.funcall("negative?", ())?;
        return Ok(if negative {
            Ordering::Less
        } else {
            Ordering::Greater
        });
    }
    if let Ok(answer) = f64::try_convert(answer)
        && let Some(order) = answer.partial_cmp(&0.0)
    {
        return Ok(order);
    }
    Err(Error::new(
        ruby.exception_arg_error(),
        format!(
            "comparison of {} with {} failed",
            class_name(a),
            describe(b)
        ),
    ))
}

fn class_name(value: Value) -> String {
    value.class().to_string()
}

/// Describes a value as Ruby's own message does: nil and numbers by their text, other values by
/// their class.
fn describe(value: Value) -> String {
    if value.is_nil() || Integer::from_value(value).is_some() || Float::from_value(value).is_some()
    {
        value.inspect()
    } else {
        class_name(value)
    }
}
