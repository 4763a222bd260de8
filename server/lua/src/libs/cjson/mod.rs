//! The library `cjson`: JSON to Lua values and back, as version 2.1.0 of lua-cjson does it in Redis
//! 7.0.
//!
//! Ground rules:
//!
//! - Texts, positions in errors and the state after an error equal those of Redis. Tables are
//!   filled in the order of the text, one element after the other, because the order of `next`
//!   depends on it.
//! - Nothing recurses: open tables are a list, so only Lua's stack bounds the depth.
//! - Nothing is built in between: text goes to the stack, and the stack to a buffer, which the next
//!   call uses again.

mod config;
mod decode;
mod encode;
mod number;

use crate::raw::Stack;
use crate::raw::function::{Native, Raise};

/// Functions in the order in which Redis registers them; `pairs` shows it.
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

/// Buffers kept from call to call.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The JSON text.
    text: Vec<u8>,
    /// A string without its escapes.
    unescaped: Vec<u8>,
    /// The tables that are open while decoding, and while encoding.
    decoding: Vec<decode::Open>,
    encoding: Vec<encode::Open>,
}

impl Buffers {
    /// Passes the interpreter's buffers to `f`, empty.
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

/// Pushes a table of the library with settings of its own.
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

fn new(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    // Redis ignores arguments, but they fill the stack.
    stack.ensure(8)?;
    push(stack);
    Ok(1)
}

/// Returns the error of a script that has used up its memory, with the text of Lua's own.
fn out_of_memory(stack: &Stack<'_>) -> Raise {
    stack.push_bytes(b"not enough memory");
    Raise::Top
}
