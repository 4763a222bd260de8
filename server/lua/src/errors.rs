//! Errors of scripts: converts a raised Lua value to an error reply.

use crate::raw::arguments::c_string;
use crate::raw::function::Raise;
use crate::raw::state::Place;
use crate::raw::{Kind, Stack};

/// An error that ended a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(text))]
pub struct Failure {
    /// The text of the error reply. It begins with a code such as `ERR`, unless the script raised a
    /// table without a code in `err`.
    pub text: Vec<u8>,
    /// True if it is the error reply of a command, which the server has already counted in its
    /// statistics of errors.
    pub counted: bool,
}

/// Replaces a raised value by a table with its text in the field `err`; a raised table stays. Adds
/// the fields `source` and `line` if the place of the error is known. Lua calls this function when
/// an error is raised; scripts can call it as `__redis__err__handler`.
pub(crate) fn describe_error(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let mut place = stack.place(1).and_then(|place| {
        if place.native {
            stack.place(2)
        } else {
            Some(place)
        }
    });
    let text = if stack.kind(1) != Kind::Table {
        Some(stack.shown(1))
    } else if stack.is_read_only(1) {
        // In Redis, this handler is Lua code. It fails at a read-only table, and the message names
        // the handler's own place.
        place = Some(Place {
            source: b"@err_handler_def".to_vec(),
            line: 10,
            native: false,
        });
        Some(b"err_handler_def:10: Attempt to modify a readonly table".to_vec())
    } else {
        None
    };
    stack.set_top(stack.top().min(1));
    if let Some(text) = text {
        stack.set_top(0);
        stack.push_table(0, 3);
        stack.push_bytes(&[b"ERR ", &text[..]].concat());
        stack.raw_set_field(1, b"err");
    }
    if let Some(place) = place {
        stack.push_bytes(&place.source);
        stack.raw_set_field(1, b"source");
        stack.push_number(place.line.into());
        stack.raw_set_field(1, b"line");
    }
    Ok(1)
}

/// Returns the message of the error at the top, and leaves the error on the stack.
pub(crate) fn message(stack: &mut Stack<'_>) -> Vec<u8> {
    if stack.kind(-1) == Kind::Table {
        stack.raw_get_field(-1, b"err");
        let text = stack.coerced(-1);
        stack.pop(1);
        text.unwrap_or_else(|| b"ERR unknown error".to_vec())
    } else {
        [b"ERR ", &stack.coerced(-1).unwrap_or_default()[..]].concat()
    }
}

/// Pops an error and returns it with the name of the script and the place of the error.
pub(crate) fn failure(stack: &mut Stack<'_>, name: &str) -> Failure {
    let mut text = Vec::new();
    let mut counted = false;
    if stack.kind(-1) == Kind::Table {
        let mut take = |field: &[u8]| {
            stack.raw_get_field(-1, field);
            let value = stack.coerced(-1);
            let set = stack.boolean(-1);
            stack.pop(1);
            (value, set)
        };
        let (message, _) = take(b"err");
        let (source, _) = take(b"source");
        let (line, _) = take(b"line");
        (_, counted) = take(b"ignore_error_stats_update");
        // Redis 7.0 crashes if the table has no text.
        let message = message.unwrap_or_else(|| b"ERR unknown error".to_vec());
        text.extend_from_slice(c_string(&message));
        if let (Some(source), Some(line)) = (source, line) {
            text.extend_from_slice(format!(" script: {name}, on ").as_bytes());
            text.extend_from_slice(c_string(&source));
            text.push(b':');
            text.extend_from_slice(c_string(&line));
            text.push(b'.');
        }
    } else {
        // Lua could not call the error handler, because it had too little memory or stack.
        const SHOWN: usize = 100;
        let message = stack
            .coerced(-1)
            .unwrap_or_else(|| b"execution failure".to_vec());
        let message = c_string(&message);
        text.extend_from_slice(format!("ERR Error running script {name}, ").as_bytes());
        text.extend_from_slice(&message[..message.len().min(SHOWN)]);
    }
    stack.pop(1);
    Failure { text, counted }
}
