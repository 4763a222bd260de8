//! The library `cjson`: converts JSON to Lua values and back, as lua-cjson 2.1.0 does in Redis 7.0.
//!
//! Ground rules:
//!
//! - Results, messages and positions in messages are the same as in Redis. The decoder fills tables
//!   in the order of the text, one element after the other, because the order of `next` depends on
//!   the order of insertion.
//! - The code is not recursive. A list holds the tables that are not complete yet, so only Lua's
//!   stack limits the depth.
//! - There is no intermediate form: the decoder pushes values while it reads the text, and the
//!   encoder appends to a buffer, which the next call reuses.

mod config;
mod decode;
mod encode;
mod number;

use crate::raw::Stack;
use crate::raw::function::{Native, Raise};

/// Functions in the order in which Redis registers them, which scripts can see with `pairs`.
const FUNCTIONS: &[(&str, Native)] = &[
    ("encode", encode::encode),
    ("decode", decode::decode),
    ("encode_sparse_array", config::encode_sparse_array),
    ("encode_max_depth", config::encode_max_depth),
    ("decode_max_depth", config::decode_max_depth),
    ("encode_number_precision", config::encode_number_precision),
    ("encode_keep_buffer", config::encode_keep_buffer),
    ("encode_invalid_numbers", config::encode_invalid_numbers),
    ("decode_invalid_numbers", config::decode_invalid_numbers),
    ("new", new),
];

/// Buffers that calls reuse.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The JSON text.
    text: Vec<u8>,
    /// A string whose escapes are replaced.
    unescaped: Vec<u8>,
    /// The tables that the decoder has not completed.
    decoding: Vec<decode::Open>,
    /// The tables that the encoder has not completed.
    encoding: Vec<encode::Open>,
}

impl Buffers {
    /// Calls `f` with the interpreter's buffers, which are empty.
    fn with<R>(stack: &mut Stack<'_>, f: impl FnOnce(&mut Stack<'_>, &mut Self) -> R) -> R {
        const KEPT: usize = 64 << 10;
        let mut buffers = stack.context().session().json.take();
        let result = f(stack, &mut buffers);
        if buffers.text.capacity() <= KEPT && buffers.unescaped.capacity() <= KEPT {
            buffers.text.clear();
            buffers.unescaped.clear();
            buffers.decoding.clear();
            buffers.encoding.clear();
            stack.context().session().json.replace(buffers);
        }
        result
    }
}

/// Pushes a new table of the library, whose settings are separate from other such tables.
pub(crate) fn push(stack: &mut Stack<'_>) {
    stack.push_table(0, 0);
    stack.push_settings(config::DEFAULTS);
    for (name, function) in FUNCTIONS {
        stack.push_function_with(*function, -1);
        stack.raw_set_field(-3, name.as_bytes());
    }
    stack.pop(1);
    stack.push_light_userdata(0);
    stack.raw_set_field(-2, b"null");
    stack.push_bytes(b"cjson");
    stack.raw_set_field(-2, b"_NAME");
    stack.push_bytes(b"2.1.0");
    stack.raw_set_field(-2, b"_VERSION");
}

/// `cjson.new()`.
fn new(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    // The function ignores its arguments, but they may have filled the stack.
    stack.ensure(8)?;
    push(stack);
    Ok(1)
}

/// Returns the error of a script that has used up its memory. The text is Lua's.
fn out_of_memory(stack: &Stack<'_>) -> Raise {
    stack.push_bytes(b"not enough memory");
    Raise::Top
}
