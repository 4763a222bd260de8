//! The settings of `cjson`, and the functions with which scripts read and change them. A changed
//! setting stays for later scripts, as in Redis.

use crate::raw::function::Raise;
use crate::raw::{Kind, Stack};

/// Indices of the settings.
const SPARSE_CONVERT: usize = 0;
const SPARSE_RATIO: usize = 1;
const SPARSE_SAFE: usize = 2;
const ENCODE_MAX_DEPTH: usize = 3;
const DECODE_MAX_DEPTH: usize = 4;
const ENCODE_INVALID: usize = 5;
const DECODE_INVALID: usize = 6;
const PRECISION: usize = 7;
const KEEP_BUFFER: usize = 8;

/// Settings of a new table of the library, in the order of the indices above.
pub(super) const DEFAULTS: [i32; 9] = [0, 2, 10, 1000, 1000, 0, 1, 14, 1];

/// How `encode` writes NaN and infinities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Invalid {
    /// Raises an error.
    Refuse,
    /// Writes `nan`, `inf` or `-inf`, which are not JSON.
    Write,
    WriteNull,
}

/// Settings of `encode`.
#[derive(Clone, Copy)]
pub(super) struct Encode {
    /// Whether sparse arrays are written as objects; otherwise they are an error.
    pub(super) sparse_convert: bool,
    /// An array is sparse if its greatest index is more than `sparse_ratio` times the number of its
    /// elements. With 0, no array is sparse.
    pub(super) sparse_ratio: i32,
    /// Arrays up to this length are never sparse.
    pub(super) sparse_safe: i32,
    /// Maximum number of nested tables.
    pub(super) max_depth: i32,
    pub(super) invalid: Invalid,
    /// Number of significant digits of numbers.
    pub(super) precision: usize,
}

impl Encode {
    /// Returns the settings of the running function.
    pub(super) fn of(stack: &Stack<'_>) -> Self {
        let settings = stack.settings();
        Self {
            sparse_convert: settings[SPARSE_CONVERT].get() != 0,
            sparse_ratio: settings[SPARSE_RATIO].get(),
            sparse_safe: settings[SPARSE_SAFE].get(),
            max_depth: settings[ENCODE_MAX_DEPTH].get(),
            invalid: match settings[ENCODE_INVALID].get() {
                0 => Invalid::Refuse,
                1 => Invalid::Write,
                _ => Invalid::WriteNull,
            },
            precision: settings[PRECISION].get() as usize,
        }
    }
}

/// Settings of `decode`.
#[derive(Clone, Copy)]
pub(super) struct Decode {
    /// Maximum number of nested arrays and objects.
    pub(super) max_depth: i32,
    /// Whether NaN, infinities, hexadecimal numbers, leading zeros and a plus sign are accepted.
    pub(super) invalid: bool,
}

impl Decode {
    /// Returns the settings of the running function.
    pub(super) fn of(stack: &Stack<'_>) -> Self {
        let settings = stack.settings();
        Self {
            max_depth: settings[DECODE_MAX_DEPTH].get(),
            invalid: settings[DECODE_INVALID].get() != 0,
        }
    }
}

const SWITCH: &[&str] = &["off", "on"];

pub(super) fn encode_sparse_array(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 3)?;
    choose(stack, 1, SPARSE_CONVERT, SWITCH)?;
    set_number(stack, 2, SPARSE_RATIO, 0, i32::MAX)?;
    set_number(stack, 3, SPARSE_SAFE, 0, i32::MAX)?;
    Ok(3)
}

pub(super) fn encode_max_depth(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    set_number(stack, 1, ENCODE_MAX_DEPTH, 1, i32::MAX)
}

pub(super) fn decode_max_depth(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    set_number(stack, 1, DECODE_MAX_DEPTH, 1, i32::MAX)
}

pub(super) fn encode_number_precision(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    set_number(stack, 1, PRECISION, 1, 14)
}

/// Sets whether Redis keeps its buffer. Here the setting has no effect; buffers up to a limit are
/// always kept.
pub(super) fn encode_keep_buffer(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    choose(stack, 1, KEEP_BUFFER, SWITCH)
}

pub(super) fn encode_invalid_numbers(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    choose(stack, 1, ENCODE_INVALID, &["off", "on", "null"])
}

pub(super) fn decode_invalid_numbers(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    pad_arguments(stack, 1)?;
    choose(stack, 1, DECODE_INVALID, SWITCH)
}

/// Refuses more than `count` arguments, and pushes nil for missing arguments.
fn pad_arguments(stack: &Stack<'_>, count: i32) -> Result<(), Raise> {
    if stack.top() > count {
        return Err(stack.argument_error(count + 1, "found too many arguments"));
    }
    while stack.top() < count {
        stack.push_nil();
    }
    Ok(())
}

/// Sets a number unless the argument is nil, and pushes the setting.
fn set_number(
    stack: &Stack<'_>,
    at: i32,
    setting: usize,
    min: i32,
    max: i32,
) -> Result<i32, Raise> {
    let cell = &stack.settings()[setting];
    if stack.kind(at) != Kind::Nil {
        let value = stack.check_integer(at)? as i32;
        if !(min..=max).contains(&value) {
            let problem = format!("expected integer between {min} and {max}");
            // As in Redis, the message names the first argument for any `at`.
            return Err(stack.argument_error(1, problem));
        }
        cell.set(value);
    }
    stack.push_number(cell.get().into());
    Ok(1)
}

/// Sets an option unless the argument is nil, and pushes the setting. The first option is pushed as
/// false, the second as true, and a third by its name.
fn choose(stack: &Stack<'_>, at: i32, setting: usize, options: &[&str]) -> Result<i32, Raise> {
    let cell = &stack.settings()[setting];
    match stack.kind(at) {
        Kind::Nil => {}
        Kind::Boolean => cell.set(stack.boolean(at).into()),
        _ => cell.set(stack.check_option(at, options)? as i32),
    }
    match cell.get() {
        value @ 0..=1 => stack.push_boolean(value == 1),
        value => stack.push_bytes(options[value as usize].as_bytes()),
    }
    Ok(1)
}
