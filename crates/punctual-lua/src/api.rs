//! The table `redis` of scripts.

use std::cell::{Cell, RefCell};

use punctual_resp::{OwnedArgs, Protocol, decimal};
use sha1::{Digest, Sha1};

use crate::host::LogLevel;
use crate::libs::cjson::Buffers;
use crate::random::Random;
use crate::raw::function::{Native, Raise};
use crate::raw::{Kind, Stack};
use crate::reply;

/// State of the API, for one interpreter.
#[derive(Default)]
pub(crate) struct Session {
    /// The protocol that the script has chosen for replies to it.
    pub(crate) protocol: Cell<Protocol>,
    /// True after an interrupt, until the script has ended.
    pub(crate) interrupted: Cell<bool>,
    /// The generator of `math.random`.
    pub(crate) random: Random,
    /// Buffers of commands and replies, kept for the next ones.
    args: RefCell<OwnedArgs>,
    reply: RefCell<Vec<u8>>,
    /// Buffers of `cjson`.
    pub(crate) json: RefCell<Buffers>,
}

impl Session {
    /// Prepares for the next script.
    pub(crate) fn reset(&self) {
        self.protocol.set(Protocol::Resp2);
    }
}

/// Functions of `redis`.
pub(crate) const FUNCTIONS: &[(&str, Native)] = &[
    ("call", call),
    ("pcall", pcall),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", set_resp),
];

/// Numbers in `redis`.
pub(crate) const NUMBERS: &[(&str, f64)] = &[
    ("LOG_DEBUG", 0.0),
    ("LOG_VERBOSE", 1.0),
    ("LOG_NOTICE", 2.0),
    ("LOG_WARNING", 3.0),
];

fn call(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    run_command(stack)?;
    if stack.kind(-1) == Kind::Table && is_error(stack) {
        return Err(Raise::Top);
    }
    Ok(1)
}

fn pcall(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    match run_command(stack) {
        Ok(()) | Err(Raise::Top) => Ok(1),
        Err(other) => Err(other),
    }
}

/// Returns whether the table at the top has the field `err`.
fn is_error(stack: &mut Stack<'_>) -> bool {
    stack.raw_get_field(-1, b"err");
    let found = stack.kind(-1) != Kind::Nil;
    stack.pop(1);
    found
}

/// Runs the command in the arguments, and pushes its reply.
///
/// # Errors
/// [`Raise::Top`] with an error table if the arguments are no command.
fn run_command(stack: &mut Stack<'_>) -> Result<(), Raise> {
    let session = &stack.context().session;
    let mut args = session.args.take();
    let mut reply = session.reply.take();
    args.clear();
    reply.clear();
    let collected = collect(stack, &mut args);
    if collected.is_ok() {
        let protocol = session.protocol.get();
        let ran = stack
            .context()
            .with_host(|host| host.call(args.as_args(), protocol, &mut reply));
        if ran.is_none() {
            reply.extend_from_slice(b"-ERR redis.call is not available here\r\n");
        }
    }
    let converted = match collected {
        Ok(()) => reply::push(stack, &reply),
        Err(text) => {
            push_error(stack, text);
            Err(Raise::Top)
        }
    };
    const KEPT: usize = 64 << 10;
    let session = &stack.context().session;
    if args.memory() <= KEPT {
        session.args.replace(args);
    }
    if reply.capacity() <= KEPT {
        session.reply.replace(reply);
    }
    converted
}

fn collect(stack: &Stack<'_>, args: &mut OwnedArgs) -> Result<(), &'static [u8]> {
    if stack.top() == 0 {
        return Err(b"ERR Please specify at least one argument for this redis.call() call");
    }
    let mut number = Vec::new();
    for at in 1..=stack.top() {
        let pushed = if let Some(text) = stack.bytes(at) {
            args.push(text)
        } else if let Some(value) = stack.number(at) {
            number.clear();
            decimal::write_f64_rounded(&mut number, value, 17);
            args.push(&number)
        } else {
            return Err(b"ERR Lua redis lib command arguments must be strings or integers");
        };
        if pushed.is_err() {
            return Err(b"ERR Lua redis lib command arguments are too large");
        }
    }
    Ok(())
}

/// Pushes an error table as commands reply to scripts.
pub(crate) fn push_error(stack: &mut Stack<'_>, text: &[u8]) {
    stack.push_table(0, 2);
    stack.push_bytes(text);
    stack.raw_set_field(-2, b"err");
    // The command's error has been counted; the script's end must not count it again.
    stack.push_boolean(true);
    stack.raw_set_field(-2, b"ignore_error_stats_update");
}

fn error_reply(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    let single = stack.top() == 1;
    let Some(text) = stack.bytes(1).filter(|_| single) else {
        push_error(stack, b"ERR wrong number or type of arguments");
        return Ok(1);
    };
    // An error begins with a code.
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = if text.contains(&b' ') {
        text.to_vec()
    } else {
        [b"ERR ", text].concat()
    };
    stack.push_table(0, 1);
    stack.push_bytes(&text);
    stack.raw_set_field(-2, b"err");
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 || stack.kind(1) != Kind::String {
        push_error(stack, b"ERR wrong number or type of arguments");
        return Ok(1);
    }
    stack.push_table(0, 1);
    stack.push_value(1);
    stack.raw_set_field(-2, b"ok");
    Ok(1)
}

fn sha1hex(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 {
        return Err(Raise::message("wrong number of arguments"));
    }
    let text = stack.coerced(1).unwrap_or_default();
    let digest = Sha1::digest(&text);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    stack.push_bytes(hex.as_bytes());
    Ok(1)
}

fn log(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() < 2 {
        return Err(Raise::message(
            "redis.log() requires two arguments or more.",
        ));
    }
    let Some(level) = stack.number(1) else {
        return Err(Raise::message(
            "First argument must be a number (log level).",
        ));
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Raise::message("Invalid log level.")),
    };
    let parts: Vec<Vec<u8>> = (2..=stack.top())
        .filter_map(|at| stack.coerced(at))
        .collect();
    let text = parts.join(&b' ');
    stack.context().with_host(|host| host.log(level, &text));
    Ok(0)
}

fn set_resp(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 {
        return Err(Raise::message("redis.setresp() requires one argument."));
    }
    let protocol = match stack.to_number(1) as i64 {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(Raise::message("RESP version must be 2 or 3.")),
    };
    stack.context().session.protocol.set(protocol);
    Ok(0)
}
