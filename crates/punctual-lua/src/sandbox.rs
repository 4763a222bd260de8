//! The global variables of scripts.

use crate::api;
use crate::libs;
use crate::random;
use crate::raw::function::{Native, Raise};
use crate::raw::state::{Library, State};
use crate::raw::{Kind, Stack};

/// Functions of Lua's base library that scripts do not have: they read files or write to standard output, or are of no use
/// without what is missing.
const WITHHELD: &[&str] = &[
    "dofile", "loadfile", "newproxy", "print", "getfenv", "setfenv", "module", "require",
];

/// Fills the globals of a new state.
pub(crate) fn fill(state: &mut State, version: &str, version_number: u32) {
    for library in [
        Library::Base,
        Library::Table,
        Library::String,
        Library::Math,
    ] {
        state.open(library);
    }
    let stack = &mut state.stack();
    stack.push_globals();
    for name in WITHHELD {
        stack.push_nil();
        stack.raw_set_field(-2, name.as_bytes());
    }
    push_library(stack, api::FUNCTIONS);
    for (name, value) in api::NUMBERS {
        stack.push_number(*value);
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.push_bytes(version.as_bytes());
    stack.raw_set_field(-2, b"REDIS_VERSION");
    stack.push_number(version_number.into());
    stack.raw_set_field(-2, b"REDIS_VERSION_NUM");
    stack.raw_set_field(-2, b"redis");
    libs::fill(stack);
    stack.raw_get_field(-1, b"math");
    for (name, function) in [
        ("random", random::random as Native),
        ("randomseed", random::random_seed),
    ] {
        stack.push_function(function);
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.pop(1);
    // Reading a global variable that does not exist is an error.
    push_library(stack, &[("__index", missing_global)]);
    stack.set_metatable(-2);
    protect(stack, 0);
    stack.pop(1);
    // Strings have a metatable of their own.
    stack.push_bytes(b"");
    if stack.push_metatable(-1) {
        stack.set_read_only(-1, true);
        stack.pop(1);
    }
    stack.pop(1);
}

/// Pushes a table of functions.
pub(crate) fn push_library(stack: &mut Stack<'_>, functions: &[(&str, Native)]) {
    stack.push_table(0, functions.len());
    for (name, function) in functions {
        stack.push_function(*function);
        stack.raw_set_field(-2, name.as_bytes());
    }
}

/// Makes the table at the top, its metatable and all tables in it read-only.
fn protect(stack: &mut Stack<'_>, depth: u32) {
    const DEPTH: u32 = 4;
    stack.set_read_only(-1, true);
    if stack.push_metatable(-1) {
        stack.set_read_only(-1, true);
        stack.pop(1);
    }
    stack.push_nil();
    while stack.next(-2) {
        // The globals contain themselves.
        if stack.kind(-1) == Kind::Table && depth < DEPTH && !stack.raw_equal(-1, -3) {
            protect(stack, depth + 1);
        }
        stack.pop(1);
    }
}

fn missing_global(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let name = stack.coerced(2).unwrap_or_else(|| b"?".to_vec());
    Err(Raise::Message(
        [
            b"Script attempted to access nonexistent global variable '",
            &name[..],
            b"'",
        ]
        .concat(),
    ))
}
