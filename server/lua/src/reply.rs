//! Converts the reply of a command to a Lua value, and the result of a script to a reply.

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Protocol, Reply};

use crate::api::push_command_error;
use crate::host::Host;
use crate::raw::arguments::{c_string, truncate};
use crate::raw::function::Raise;
use crate::raw::{Kind, Stack};

/// Number of values for which one level of a nested reply needs room on the stack.
const ROOM: i32 = 8;

/// Pushes the complete reply of a command as a Lua value. On an error, the stack is unchanged.
pub(crate) fn push(stack: &mut Stack<'_>, reply: &[u8]) -> Result<(), Raise> {
    let top = stack.top();
    let result = push_one(stack, reply);
    if result.is_err() {
        stack.set_top(top);
    }
    result.map(|_| ())
}

/// Pushes the first value in `reply`. Returns the bytes after it.
fn push_one<'r>(stack: &mut Stack<'_>, reply: &'r [u8]) -> Result<&'r [u8], Raise> {
    stack.ensure(ROOM)?;
    let (kind, line, rest) = split_line(reply)?;
    match kind {
        b'+' => push_in_table(stack, b"ok", |stack| stack.push_bytes(line)),
        b'-' => push_command_error(stack, line),
        b':' => stack.push_number(integer(line)? as f64),
        b'$' => {
            let Some((text, rest)) = bulk(line, rest)? else {
                stack.push_boolean(false);
                return Ok(rest);
            };
            stack.push_bytes(text);
            return Ok(rest);
        }
        b'*' if line == b"-1" => stack.push_boolean(false),
        b'*' => return push_array(stack, line, rest),
        b'_' => stack.push_nil(),
        b'#' => stack.push_boolean(line == b"t"),
        b',' => {
            let text = std::str::from_utf8(line).unwrap_or_default();
            let value = text.parse().unwrap_or(f64::NAN);
            push_in_table(stack, b"double", |stack| stack.push_number(value));
        }
        b'(' => push_in_table(stack, b"big_number", |stack| stack.push_bytes(line)),
        b'=' => {
            let Some((text, rest)) = bulk(line, rest)? else {
                return Err(broken());
            };
            let (format, text) = text.split_at_checked(4).ok_or_else(broken)?;
            push_in_table(stack, b"verbatim_string", |stack| {
                stack.push_table(0, 2);
                stack.push_bytes(text);
                stack.raw_set_field(-2, b"string");
                stack.push_bytes(&format[..3]);
                stack.raw_set_field(-2, b"format");
            });
            return Ok(rest);
        }
        b'%' => return push_map(stack, line, rest),
        b'~' => return push_set(stack, line, rest),
        b'|' => {
            // Scripts do not get attributes.
            let mut rest = rest;
            for _ in 0..2 * integer(line)? {
                rest = push_one(stack, rest)?;
                stack.pop(1);
            }
            return push_one(stack, rest);
        }
        _ => return Err(broken()),
    }
    Ok(rest)
}

/// Pushes a table with one field.
fn push_in_table(stack: &mut Stack<'_>, name: &[u8], push_value: impl FnOnce(&mut Stack<'_>)) {
    stack.push_table(0, 1);
    push_value(stack);
    stack.raw_set_field(-2, name);
}

fn push_array<'r>(
    stack: &mut Stack<'_>,
    line: &[u8],
    mut rest: &'r [u8],
) -> Result<&'r [u8], Raise> {
    let len = count(line)?;
    stack.push_table(len as usize, 0);
    for n in 1..=len {
        rest = push_one(stack, rest)?;
        stack.raw_set_index(-2, n);
    }
    Ok(rest)
}

fn push_map<'r>(stack: &mut Stack<'_>, line: &[u8], mut rest: &'r [u8]) -> Result<&'r [u8], Raise> {
    let len = count(line)?;
    stack.push_table(0, 1);
    stack.push_table(0, len as usize);
    for _ in 0..len {
        rest = push_one(stack, rest)?;
        rest = push_one(stack, rest)?;
        set_unless_refused(stack);
    }
    stack.raw_set_field(-2, b"map");
    Ok(rest)
}

fn push_set<'r>(stack: &mut Stack<'_>, line: &[u8], mut rest: &'r [u8]) -> Result<&'r [u8], Raise> {
    let len = count(line)?;
    stack.push_table(0, 1);
    stack.push_table(0, len as usize);
    for _ in 0..len {
        rest = push_one(stack, rest)?;
        stack.push_boolean(true);
        set_unless_refused(stack);
    }
    stack.raw_set_field(-2, b"set");
    Ok(rest)
}

/// Pops a value and the key below it, and sets them in the table below, unless the key is nil or
/// NaN, which Lua refuses.
fn set_unless_refused(stack: &mut Stack<'_>) {
    if stack.kind(-2) == Kind::Nil || stack.number(-2).is_some_and(f64::is_nan) {
        stack.pop(2);
    } else {
        stack.raw_set(-3);
    }
}

fn broken() -> Raise {
    Raise::message("a reply that is not RESP")
}

fn split_line(reply: &[u8]) -> Result<(u8, &[u8], &[u8]), Raise> {
    let (&kind, rest) = reply.split_first().ok_or_else(broken)?;
    let end = rest.iter().position(|&b| b == b'\r').ok_or_else(broken)?;
    let after = rest.get(end + 2..).ok_or_else(broken)?;
    Ok((kind, &rest[..end], after))
}

fn integer(line: &[u8]) -> Result<i64, Raise> {
    parse_i64(line).ok_or_else(broken)
}

fn count(line: &[u8]) -> Result<i32, Raise> {
    i32::try_from(integer(line)?).map_err(|_| broken())
}

/// Returns the text of a bulk string and the bytes after it; `None` for the null of RESP2.
#[expect(clippy::type_complexity, reason = "a pair that may be missing")]
fn bulk<'r>(line: &[u8], rest: &'r [u8]) -> Result<Option<(&'r [u8], &'r [u8])>, Raise> {
    let len = integer(line)?;
    let Ok(len) = usize::try_from(len) else {
        return Ok(None);
    };
    let (text, rest) = rest.split_at_checked(len).ok_or_else(broken)?;
    Ok(Some((text, rest.get(2..).ok_or_else(broken)?)))
}

/// A table whose elements are being written. It is on the stack. A table with the field `map` or
/// `set` is followed on the stack by the table in that field.
enum Open {
    /// `next` is the index of the next element.
    Array { next: i32, len: i32 },
    /// The last key is at the top. If `in_pair` is true, its value is above it: the key is written,
    /// and the value is not.
    Map { in_pair: bool },
    /// The last member is at the top.
    Set,
}

/// Pops a value and writes it as one reply in the client's protocol. `script` is the protocol that
/// the script has set with `redis.setresp`.
///
/// The function is not recursive, because a value on Lua's stack can have more levels than a
/// thread's stack has room for.
pub(crate) fn write(
    stack: &mut Stack<'_>,
    script: Protocol,
    reply: &mut Reply<'_>,
    host: &mut dyn Host,
) {
    let (start, below) = (reply.len(), stack.top() - 1);
    let mut open = Vec::new();
    loop {
        match write_value(stack, script, reply, host) {
            Some(table) => open.push(table),
            None => stack.pop(1),
        }
        // A table can contain the same table many times, so a small table can become a large reply.
        // A reply that exceeds the client's limit has dropped bytes (see `Reply::chunked`), so its
        // length may be below `start`.
        if stack
            .context()
            .is_out_of_memory(reply.len().saturating_sub(start))
        {
            reply.truncate(start);
            write_error(b"ERR not enough memory", false, reply, host);
            return stack.set_top(below);
        }
        while let Some(table) = open.last_mut() {
            if push_next(stack, table) {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return;
        }
    }
}

/// Pushes the next value of an open table; a key stays below it. At the end of the table, pops the
/// table and returns false.
fn push_next(stack: &mut Stack<'_>, table: &mut Open) -> bool {
    match table {
        Open::Array { next, len } if *next <= *len => {
            stack.raw_get_index(-1, *next);
            *next += 1;
        }
        Open::Array { .. } => {
            stack.pop(1);
            return false;
        }
        Open::Map { in_pair: true } => *table = Open::Map { in_pair: false },
        Open::Map { in_pair } if stack.next(-2) => {
            stack.push_value(-2);
            *in_pair = true;
        }
        Open::Set if stack.next(-2) => {
            stack.pop(1);
            stack.push_value(-1);
        }
        Open::Map { .. } | Open::Set => {
            stack.pop(2);
            return false;
        }
    }
    true
}

/// Writes the value at the top, and leaves it on the stack. Of an array, a map or a set, writes
/// only the head, and returns the table whose elements come next.
fn write_value(
    stack: &mut Stack<'_>,
    script: Protocol,
    reply: &mut Reply<'_>,
    host: &mut dyn Host,
) -> Option<Open> {
    // Redis checks for four values as well, so the maximum depth is the same.
    const ROOM: i32 = 4;
    if !stack.has_room(ROOM) {
        write_error(b"ERR reached lua stack limit", false, reply, host);
        return None;
    }
    match stack.kind(-1) {
        Kind::String => reply.bulk(stack.bytes(-1).unwrap_or_default()),
        Kind::Boolean => match (script, stack.boolean(-1)) {
            (Protocol::Resp3, value) => reply.boolean(value),
            (Protocol::Resp2, true) => reply.int(1),
            (Protocol::Resp2, false) => reply.null(),
        },
        Kind::Number => reply.int(truncate(stack.to_number(-1))),
        Kind::Table => return write_table(stack, reply, host),
        _ => reply.null(),
    }
    None
}

/// Writes the table at the top, in the same way as [`write_value`].
fn write_table(stack: &mut Stack<'_>, reply: &mut Reply<'_>, host: &mut dyn Host) -> Option<Open> {
    if field(stack, b"err", Kind::String) {
        stack.raw_get_field(-2, b"ignore_error_stats_update");
        let counted = stack.boolean(-1);
        stack.pop(1);
        let text = c_string(stack.bytes(-1).unwrap_or_default());
        write_error(text, counted, reply, host);
    } else if field(stack, b"ok", Kind::String) {
        reply.simple(c_string(stack.bytes(-1).unwrap_or_default()));
    } else if field(stack, b"double", Kind::Number) {
        reply.double(stack.to_number(-1));
    } else if field(stack, b"big_number", Kind::String) {
        let digits = String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default());
        reply.big_number(&digits.replace(['\r', '\n'], " "));
    } else if write_verbatim(stack, reply) {
        return None;
    } else if field(stack, b"map", Kind::Table) {
        reply.map(size(stack));
        stack.push_nil();
        return Some(Open::Map { in_pair: false });
    } else if field(stack, b"set", Kind::Table) {
        reply.set(size(stack));
        stack.push_nil();
        return Some(Open::Set);
    } else {
        return Some(begin_array(stack, reply));
    }
    stack.pop(1);
    None
}

/// Writes an error, and passes it to the host.
fn write_error(text: &[u8], counted: bool, reply: &mut Reply<'_>, host: &mut dyn Host) {
    reply.error(text);
    host.replied_error(text, counted);
}

/// Writes the table at the top if it describes a verbatim text. Otherwise returns false.
fn write_verbatim(stack: &mut Stack<'_>, reply: &mut Reply<'_>) -> bool {
    if !field(stack, b"verbatim_string", Kind::Table) {
        return false;
    }
    stack.raw_get_field(-1, b"string");
    stack.raw_get_field(-2, b"format");
    let written = match (stack.bytes(-2), stack.bytes(-1)) {
        (Some(text), Some(format)) => {
            reply.verbatim(&String::from_utf8_lossy(format), text);
            true
        }
        _ => false,
    };
    stack.pop(3);
    written
}

/// Pushes a field of the table at the top if the field's value has the type `kind`. Otherwise
/// pushes nothing and returns false.
fn field(stack: &mut Stack<'_>, name: &[u8], kind: Kind) -> bool {
    stack.raw_get_field(-1, name);
    let found = stack.kind(-1) == kind;
    if !found {
        stack.pop(1);
    }
    found
}

/// Returns the number of pairs in the table at the top. **O(n)** in the slots of the table.
fn size(stack: &mut Stack<'_>) -> usize {
    let mut size = 0;
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        size += 1;
    }
    size
}

/// Writes the head of an array with the elements of the table at the top before the first nil.
fn begin_array(stack: &mut Stack<'_>, reply: &mut Reply<'_>) -> Open {
    let mut len = 0;
    loop {
        stack.raw_get_index(-1, len + 1);
        let end = stack.kind(-1) == Kind::Nil;
        stack.pop(1);
        if end {
            break;
        }
        len += 1;
    }
    reply.array(len as usize);
    Open::Array { next: 1, len }
}
