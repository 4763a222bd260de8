//! Libraries of functions: loads libraries, and calls their functions.
//!
//! A library's code runs once, when the library is loaded. At that time, the only global is a small
//! table `redis` with `register_function`, `log` and the server's version. When the functions are
//! called later, they have almost the same globals as scripts. Lua binds code to a table of
//! globals, so both cases use the same table, whose contents [`Functions`] replaces.

use punctual_resp::{Args, Reply};

use crate::declaration::{Declaration, Function, ScriptFlags};
use crate::errors::{self, Failure};
use crate::host::Host;
use crate::interpreter::{Call, Interpreter, Options, push_list};
use crate::random::Random;
use crate::raw::function::Raise;
use crate::raw::state::{Kept, Outcome};
use crate::raw::{Kind, Stack};
use crate::{api, sandbox};

/// Fields of `redis` that scripts have and functions do not have.
const WITHHELD: &[&str] = &["breakpoint", "debug", "replicate_commands"];

/// Fields of `redis` while a library is loaded, besides `register_function`.
const WHILE_LOADING: &[&str] = &[
    "log",
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
];

/// The error for a library or function whose name [`is_name`] refuses.
pub const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                            character long";

/// Returns whether a library or a function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A Lua state for libraries of functions.
pub struct Functions {
    interpreter: Interpreter,
    /// A table with the globals while a function runs.
    running: Kept,
    /// A table with the globals while a library is loaded.
    loading: Kept,
}

impl Functions {
    /// Creates an interpreter without libraries. Takes about 60 KB and 60 microseconds.
    pub fn new(options: Options) -> Self {
        let mut interpreter = Interpreter::new(options);
        let stack = &mut interpreter.state.stack();
        stack.push_globals();
        stack.raw_get_field(-1, b"redis");
        stack.set_read_only(-1, false);
        for name in WITHHELD {
            stack.push_nil();
            stack.raw_set_field(-2, name.as_bytes());
        }
        stack.set_read_only(-1, true);
        // The table with the globals while a library is loaded, and its only element `redis`.
        stack.push_table(0, 1);
        stack.push_library(&[("register_function", register_function)]);
        for name in WHILE_LOADING {
            stack.raw_get_field(-3, name.as_bytes());
            stack.raw_set_field(-2, name.as_bytes());
        }
        sandbox::refuse_missing(stack);
        stack.set_read_only(-1, true);
        stack.raw_set_field(-2, b"redis");
        let loading = stack.keep();
        stack.pop(1);
        // A copy of the globals, because `set_globals` empties the table itself.
        stack.push_table(0, 0);
        copy(stack, -2, -1);
        // As in Redis, functions do not have the error handler of scripts.
        stack.push_nil();
        stack.raw_set_field(-2, b"__redis__err__handler");
        let running = stack.keep();
        stack.pop(1);
        let mut functions = Self {
            interpreter,
            running,
            loading,
        };
        functions.set_globals(false);
        functions
    }

    /// Sets the generator of `math.random`, which several interpreters may share.
    pub fn set_random(&mut self, random: &Random) {
        self.interpreter.set_random(random);
    }

    /// Returns the bytes that the interpreter has allocated.
    pub fn memory(&self) -> usize {
        self.interpreter.memory()
    }

    /// Runs a library's code, which begins after the shebang, and returns the functions that it
    /// registers. If the library fails, all its functions are freed. [`Host::interrupt`] limits the
    /// time.
    ///
    /// # Errors
    /// Redis's message without a code.
    pub fn load(&mut self, code: &[u8], host: &mut dyn Host) -> Result<Vec<Function>, Vec<u8>> {
        let state = &mut self.interpreter.state;
        if state.load("@user_function", code) == Outcome::Failed {
            let stack = &mut state.stack();
            let text = stack.coerced(-1).unwrap_or_default();
            stack.pop(1);
            return Err([b"Error compiling function: ", &text[..]].concat());
        }
        self.set_globals(true);
        let state = &mut self.interpreter.state;
        state.context().session().begin_load();
        let outcome = state.call(host, 0);
        let registered = state.context().session().end_load();
        let stack = &mut state.stack();
        let result = match outcome {
            Outcome::Done if registered.is_empty() => Err(b"No functions registered".to_vec()),
            Outcome::Done => Ok(registered),
            Outcome::Failed => {
                let text = errors::message(stack);
                for function in registered {
                    stack.release(function.body);
                }
                Err([b"Error registering functions: ", &text[..]].concat())
            }
        };
        stack.pop(1);
        self.set_globals(false);
        if result.is_err() {
            self.interpreter.state.collect();
        }
        result
    }

    /// Frees the functions of a library.
    pub fn forget(&mut self, library: Vec<Function>) {
        let stack = &mut self.interpreter.state.stack();
        for function in library {
            stack.release(function.body);
        }
        self.interpreter.state.collect();
    }

    /// Calls a function with two tables, the keys and the other arguments, and writes its reply in
    /// the protocol of `reply`.
    ///
    /// # Errors
    /// The error that ended the function. A function that fails writes no reply.
    pub fn call(
        &mut self,
        function: &Function,
        call: &Call<'_>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let state = &mut self.interpreter.state;
        state.context().session().reset();
        let stack = &mut state.stack();
        stack.push_kept(&function.body);
        let tables: [Args<'_>; 2] = [call.keys, call.argv];
        for args in tables {
            push_list(stack, args);
        }
        self.interpreter.finish(2, call, host, reply)
    }

    /// Replaces the contents of the table of globals: for loading a library, or for functions.
    fn set_globals(&mut self, loading: bool) {
        let stack = &mut self.interpreter.state.stack();
        stack.push_globals();
        stack.set_read_only(-1, false);
        stack.push_nil();
        while stack.next(-2) {
            stack.pop(1);
            stack.push_value(-1);
            stack.push_nil();
            stack.raw_set(-4);
        }
        stack.push_kept(if loading {
            &self.loading
        } else {
            &self.running
        });
        copy(stack, -1, -2);
        stack.pop(1);
        stack.set_read_only(-1, true);
        stack.pop(1);
    }
}

/// Copies the elements of the table at `from` to the table at `to`. Both indices are negative.
fn copy(stack: &mut Stack<'_>, from: i32, to: i32) {
    stack.push_nil();
    while stack.next(from - 1) {
        stack.push_value(-2);
        stack.insert(-2);
        stack.raw_set(to - 3);
    }
}

/// `redis.register_function(name, callback)` or `redis.register_function{function_name=...,
/// callback=..., ...}`.
fn register_function(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if !stack.context().session().is_loading() {
        return Err(Raise::refusal(
            "redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let (name, description, flags) = match stack.top() {
        1 => named_arguments(stack)?,
        2 => (positional_arguments(stack)?, None, ScriptFlags::default()),
        _ => {
            return Err(Raise::refusal(
                "wrong number of arguments to redis.register_function",
            ));
        }
    };
    // The callback is at the top.
    let name = String::from_utf8(name)
        .ok()
        .filter(|name| is_name(name.as_bytes()))
        .ok_or_else(|| Raise::refusal(BAD_NAME))?;
    if stack.context().session().has_registered(&name) {
        return Err(Raise::refusal("Function already exists in the library"));
    }
    let body = stack.keep();
    stack.context().session().register(Function {
        declaration: Declaration {
            name,
            description,
            flags,
        },
        body,
    });
    Ok(0)
}

/// Returns the name, and leaves the callback at the top.
fn positional_arguments(stack: &Stack<'_>) -> Result<Vec<u8>, Raise> {
    let name = stack.coerced(1).ok_or_else(|| {
        Raise::refusal("first argument to redis.register_function must be a string")
    })?;
    if stack.kind(2) != Kind::Function {
        return Err(Raise::refusal(
            "second argument to redis.register_function must be a function",
        ));
    }
    Ok(name)
}

type Named = (Vec<u8>, Option<Vec<u8>>, ScriptFlags);

/// Returns name, description and flags, and leaves the callback at the top.
fn named_arguments(stack: &mut Stack<'_>) -> Result<Named, Raise> {
    if stack.kind(1) != Kind::Table {
        return Err(Raise::refusal(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        ));
    }
    let (mut name, mut description, mut flags) = (None, None, ScriptFlags::default());
    // Index 2 will hold the callback. Above it is the key of the iteration.
    stack.push_nil();
    stack.push_nil();
    while stack.next(1) {
        let Some(key) = stack.coerced(-2) else {
            return Err(Raise::refusal(
                "named argument key given to redis.register_function is not a string",
            ));
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                name = Some(stack.coerced(-1).ok_or_else(|| {
                    Raise::refusal(
                        "function_name argument given to redis.register_function must be a string",
                    )
                })?);
            }
            b"description" => {
                description = Some(stack.coerced(-1).ok_or_else(|| {
                    Raise::refusal(
                        "description argument given to redis.register_function must be a string",
                    )
                })?);
            }
            b"callback" => {
                if stack.kind(-1) != Kind::Function {
                    return Err(Raise::refusal(
                        "callback argument given to redis.register_function must be a function",
                    ));
                }
                stack.push_value(-1);
                stack.replace(2);
            }
            b"flags" => flags = read_flags(stack)?,
            _ => {
                return Err(Raise::refusal(
                    "unknown argument given to redis.register_function",
                ));
            }
        }
        stack.pop(1);
    }
    let name = name.ok_or_else(|| {
        Raise::refusal("redis.register_function must get a function name argument")
    })?;
    if stack.kind(2) != Kind::Function {
        return Err(Raise::refusal(
            "redis.register_function must get a callback argument",
        ));
    }
    Ok((name, description, flags))
}

/// Reads the list of flags at the top.
fn read_flags(stack: &mut Stack<'_>) -> Result<ScriptFlags, Raise> {
    if stack.kind(-1) != Kind::Table {
        return Err(Raise::refusal(
            "flags argument to redis.register_function must be a table representing function flags",
        ));
    }
    let mut flags = ScriptFlags::default();
    for n in 1.. {
        stack.raw_get_index(-1, n);
        if stack.kind(-1) == Kind::Nil {
            stack.pop(1);
            break;
        }
        let flag = stack.bytes(-1).and_then(ScriptFlags::of_name);
        flags = flags | flag.ok_or_else(|| Raise::refusal("unknown flag given"))?;
        stack.pop(1);
    }
    Ok(flags)
}

/// The list of functions that the library being loaded has registered.
impl api::Session {
    fn begin_load(&self) {
        self.loading.replace(Some(Vec::new()));
    }

    fn end_load(&self) -> Vec<Function> {
        self.loading.take().unwrap_or_default()
    }

    fn is_loading(&self) -> bool {
        self.loading.borrow().is_some()
    }

    fn has_registered(&self, name: &str) -> bool {
        let loading = self.loading.borrow();
        loading
            .iter()
            .flatten()
            .any(|function| function.declaration.name == name)
    }

    fn register(&self, function: Function) {
        if let Some(registered) = &mut *self.loading.borrow_mut() {
            registered.push(function);
        }
    }
}
