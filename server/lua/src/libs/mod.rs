//! The libraries of scripts that do not belong to Lua: `cjson`, `bit`, `struct` and `cmsgpack`.

mod bit;
pub(crate) mod cjson;
mod cmsgpack;
mod struct_;

use crate::raw::Stack;

/// Adds the libraries to the table at the top of the stack.
pub(crate) fn fill(stack: &mut Stack<'_>) {
    cjson::push(stack);
    stack.raw_set_field(-2, b"cjson");
    stack.push_library(bit::FUNCTIONS);
    stack.raw_set_field(-2, b"bit");
    stack.push_library(struct_::FUNCTIONS);
    stack.raw_set_field(-2, b"struct");
    stack.push_library(cmsgpack::FUNCTIONS);
    for (name, text) in cmsgpack::TEXTS {
        stack.push_bytes(text.as_bytes());
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.raw_set_field(-2, b"cmsgpack");
}
