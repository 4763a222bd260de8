//! `bit`: operations on 32-bit integers, as Lua BitOp 1.0.2 defines them.

use crate::raw::Stack;
use crate::raw::function::{Native, Raise};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("tobit", tobit),
    ("tohex", tohex),
    ("bnot", bnot),
    ("band", band),
    ("bor", bor),
    ("bxor", bxor),
    ("lshift", lshift),
    ("rshift", rshift),
    ("arshift", arshift),
    ("rol", rol),
    ("ror", ror),
    ("bswap", bswap),
];

/// Returns the low 32 bits of a number argument, which is rounded to the nearest integer (halfway
/// cases to even).
fn bits(stack: &Stack<'_>, at: i32) -> Result<u32, Raise> {
    // The last bit of the sum's mantissa has the value 1, so the mantissa ends with the rounded
    // integer. For arguments beyond 2^51 the result is unspecified, as in Lua BitOp.
    const ONE_IN_LAST_PLACE: f64 = 6_755_399_441_055_744.0;
    let bits = (stack.check_number(at)? + ONE_IN_LAST_PLACE).to_bits() as u32;
    Ok(bits)
}

/// Pushes `bits` as a signed number, the only result.
fn push_result(stack: &Stack<'_>, bits: u32) -> Result<i32, Raise> {
    stack.push_number(f64::from(bits as i32));
    Ok(1)
}

fn tobit(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    push_result(stack, bits(stack, 1)?)
}

fn bnot(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    push_result(stack, !bits(stack, 1)?)
}

fn bswap(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    push_result(stack, bits(stack, 1)?.swap_bytes())
}

/// Combines all arguments. Checks the types of the arguments in the order of Lua BitOp: the first
/// argument, then the others from the last to the second.
fn fold(stack: &Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<i32, Raise> {
    let mut value = bits(stack, 1)?;
    for at in (2..=stack.top()).rev() {
        value = operation(value, bits(stack, at)?);
    }
    push_result(stack, value)
}

fn band(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    fold(stack, |a, b| a & b)
}

fn bor(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    fold(stack, |a, b| a | b)
}

fn bxor(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    fold(stack, |a, b| a ^ b)
}

/// Shifts the first argument by the low five bits of the second.
fn shift(stack: &Stack<'_>, operation: fn(u32, u32) -> u32) -> Result<i32, Raise> {
    let (value, by) = (bits(stack, 1)?, bits(stack, 2)?);
    push_result(stack, operation(value, by & 31))
}

fn lshift(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    shift(stack, |value, by| value << by)
}

fn rshift(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    shift(stack, |value, by| value >> by)
}

fn arshift(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    shift(stack, |value, by| (value as i32 >> by) as u32)
}

fn rol(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    shift(stack, u32::rotate_left)
}

fn ror(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    shift(stack, u32::rotate_right)
}

/// Pushes the last hexadecimal digits of the first argument. The second argument is the number of
/// digits; if it is negative, the digits are in capitals.
fn tohex(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    const DIGITS: usize = 8;
    let value = bits(stack, 1)?;
    let wanted = if stack.top() < 2 {
        DIGITS as i32
    } else {
        bits(stack, 2)? as i32
    };
    // CVE-2024-31449: the smallest i32 cannot be negated as an i32.
    let count = (wanted.unsigned_abs() as usize).min(DIGITS);
    let text = if wanted < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    stack.push_bytes(&text.as_bytes()[DIGITS - count..]);
    Ok(1)
}
