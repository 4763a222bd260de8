//! The functions and numbers in the table `redis` of scripts, such as `redis.call`.

use std::cell::{Cell, RefCell};

use punctual_resp::{OwnedArgs, Protocol, decimal};
use sha1::{Digest, Sha1};

use crate::declaration::Registered;
use crate::host::LogLevel;
use crate::libs::cjson::Buffers;
use crate::random::Random;
use crate::raw::arguments::truncate;
use crate::raw::function::{Native, Raise};
use crate::raw::state::Context;
use crate::raw::{Kind, Stack};
use crate::reply;

/// State of the functions for scripts, one for each interpreter.
#[derive(Default)]
pub(crate) struct Session {
    /// The protocol of the replies of `redis.call`, which the script sets with `redis.setresp`.
    pub(crate) protocol: Cell<Protocol>,
    /// The generator of `math.random`.
    pub(crate) random: RefCell<Random>,
    /// The functions of the library that is being loaded.
    pub(crate) loading: RefCell<Registered>,
    /// Buffer for the arguments of a command, reused by the next command.
    args: RefCell<OwnedArgs>,
    /// Buffer for the reply of a command, reused by the next command.
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

impl Context {
    /// Returns the state of the functions for scripts.
    pub(crate) fn session(&self) -> &Session {
        self.state
            .downcast_ref()
            .expect("each interpreter has a session")
    }
}

/// Functions in the table `redis`.
pub(crate) const FUNCTIONS: &[(&str, Native)] = &[
    ("call", call),
    ("pcall", pcall),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", set_resp),
    ("set_repl", set_repl),
    ("replicate_commands", replicate_commands),
    ("breakpoint", breakpoint),
    ("debug", debug),
    ("acl_check_cmd", acl_check_cmd),
];

/// Flags of `redis.set_repl`.
const REPL_AOF: i32 = 1;
const REPL_REPLICA: i32 = 2;

/// Numbers in the table `redis`.
pub(crate) const NUMBERS: &[(&str, f64)] = &[
    ("LOG_DEBUG", 0.0),
    ("LOG_VERBOSE", 1.0),
    ("LOG_NOTICE", 2.0),
    ("LOG_WARNING", 3.0),
    ("REPL_NONE", 0.0),
    ("REPL_AOF", REPL_AOF as f64),
    ("REPL_SLAVE", REPL_REPLICA as f64),
    ("REPL_REPLICA", REPL_REPLICA as f64),
    ("REPL_ALL", (REPL_AOF | REPL_REPLICA) as f64),
];

const CALL_REFUSED: &str = "redis.call/pcall can only be called inside a script invocation";

fn call(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    needs_script(stack, CALL_REFUSED)?;
    run_command(stack)?;
    if stack.kind(-1) == Kind::Table && is_error(stack) {
        return Err(Raise::Top);
    }
    Ok(1)
}

fn pcall(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    needs_script(stack, CALL_REFUSED)?;
    match run_command(stack) {
        Err(Raise::Refusal(text)) => {
            stack.push_error(text.as_bytes());
            Ok(1)
        }
        other => other.map(|()| 1),
    }
}

/// Returns whether the table at the top has the field `err`.
fn is_error(stack: &mut Stack<'_>) -> bool {
    stack.raw_get_field(-1, b"err");
    let found = stack.kind(-1) != Kind::Nil;
    stack.pop(1);
    found
}

/// Runs the command that the function's arguments name, and pushes its reply.
///
/// # Errors
/// An error if the arguments are not a command, if no script runs, or if the reply does not fit on
/// the stack.
fn run_command(stack: &mut Stack<'_>) -> Result<(), Raise> {
    let session = stack.context().session();
    let mut args = session.args.take();
    let mut reply = session.reply.take();
    args.clear();
    reply.clear();
    let collected = collect(stack, &mut args);
    // The command has been copied, and the reply needs the room on the stack.
    stack.set_top(0);
    let pushed = collected.map_err(Raise::refusal).and_then(|()| {
        let context = stack.context();
        let protocol = context.session().protocol.get();
        context
            .with_host(|host| host.call(args.as_args(), protocol, &mut reply))
            .ok_or(Raise::refusal(CALL_REFUSED))?;
        reply::push(stack, &reply)
    });
    // Larger buffers are freed.
    const KEPT: usize = 64 << 10;
    let session = stack.context().session();
    if args.memory() <= KEPT {
        session.args.replace(args);
    }
    if reply.capacity() <= KEPT {
        session.reply.replace(reply);
    }
    pushed
}

/// Copies the function's arguments to `args`; numbers become text. Returns Redis's message for
/// other types.
fn collect(stack: &Stack<'_>, args: &mut OwnedArgs) -> Result<(), &'static str> {
    if stack.top() == 0 {
        return Err("Please specify at least one argument for this redis lib call");
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
            return Err("Lua redis lib command arguments must be strings or integers");
        };
        if pushed.is_err() {
            return Err("Lua redis lib command arguments are too large");
        }
    }
    Ok(())
}

/// Returns the error `refusal` unless Lua code runs with a [`Host`](crate::Host).
fn needs_script(stack: &Stack<'_>, refusal: &'static str) -> Result<(), Raise> {
    let runs = stack.context().with_host(|_| ()).is_some();
    runs.then_some(()).ok_or(Raise::refusal(refusal))
}

/// Pushes the error reply of a command; `text` is the reply after its `-`.
pub(crate) fn push_command_error(stack: &mut Stack<'_>, text: &[u8]) {
    stack.push_error(&[b"-", text].concat());
    // The server has already counted the command's error for INFO. If the error also ends the
    // script, the server does not count it again.
    stack.push_boolean(true);
    stack.raw_set_field(-2, b"ignore_error_stats_update");
}

/// Returns true if the function's only argument is a string. Otherwise pushes the error table that
/// `error_reply` and `status_reply` return for wrong arguments.
fn takes_one_string(stack: &mut Stack<'_>) -> bool {
    let fits = stack.top() == 1 && stack.kind(1) == Kind::String;
    if !fits {
        stack.push_error(b"wrong number or type of arguments");
    }
    fits
}

fn error_reply(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if takes_one_string(stack) {
        let text = stack.bytes(1).unwrap_or_default();
        let dash: &[u8] = if text.starts_with(b"-") { b"" } else { b"-" };
        let text = [dash, text].concat();
        stack.push_error(&text);
    }
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if takes_one_string(stack) {
        stack.push_table(0, 1);
        stack.push_value(1);
        stack.raw_set_field(-2, b"ok");
    }
    Ok(1)
}

fn sha1hex(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 1 {
        return Err(Raise::refusal("wrong number of arguments"));
    }
    let text = stack.coerced(1).unwrap_or_default();
    let digest = Sha1::digest(&text);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    stack.push_bytes(hex.as_bytes());
    Ok(1)
}

fn log(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() < 2 {
        return Err(Raise::refusal(
            "redis.log() requires two arguments or more.",
        ));
    }
    if !stack.is_numeric(1) {
        return Err(Raise::refusal(
            "First argument must be a number (log level).",
        ));
    }
    let level = match truncate(stack.to_number(1)) as i32 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Raise::refusal("Invalid debug level.")),
    };
    let parts: Vec<Vec<u8>> = (2..=stack.top())
        .filter_map(|at| stack.coerced(at))
        .collect();
    let text = parts.join(&b' ');
    stack.context().with_host(|host| host.log(level, &text));
    Ok(0)
}

fn set_resp(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    needs_script(
        stack,
        "redis.setresp can only be called inside a script invocation",
    )?;
    if stack.top() != 1 {
        return Err(Raise::refusal("redis.setresp() requires one argument."));
    }
    let protocol = match truncate(stack.to_number(1)) as i32 {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(Raise::refusal("RESP version must be 2 or 3.")),
    };
    stack.context().session().protocol.set(protocol);
    Ok(0)
}

/// Checks the flags and ignores them: all changes of a script go to the append-only file and to
/// replicas.
fn set_repl(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    needs_script(
        stack,
        "redis.set_repl can only be called inside a script invocation",
    )?;
    if stack.top() != 1 {
        return Err(Raise::refusal("redis.set_repl() requires two arguments."));
    }
    if truncate(stack.to_number(1)) as i32 & !(REPL_AOF | REPL_REPLICA) != 0 {
        return Err(Raise::refusal(
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(0)
}

/// Returns true: the server always logs and replicates the changes of a script, not the script.
fn replicate_commands(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    stack.push_boolean(true);
    Ok(1)
}

/// Returns false, because there is no debugger.
fn breakpoint(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    stack.push_boolean(false);
    Ok(1)
}

/// Does nothing, because there is no debugger that could show the arguments.
fn debug(_: &mut Stack<'_>) -> Result<i32, Raise> {
    Ok(0)
}

fn acl_check_cmd(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    needs_script(
        stack,
        "redis.acl_check_cmd can only be called inside a script invocation",
    )?;
    let mut args = OwnedArgs::default();
    if let Err(text) = collect(stack, &mut args) {
        return Err(Raise::refusal(text));
    }
    let allowed = stack
        .context()
        .with_host(|host| host.acl_check(args.as_args()))
        .flatten();
    match allowed {
        Some(allowed) => stack.push_boolean(allowed),
        None => {
            return Err(Raise::refusal(
                "Invalid command passed to redis.acl_check_cmd()",
            ));
        }
    }
    Ok(1)
}
