//! `Punctual::Server::Client`: commands in the process, without a socket.
//!
//! A call releases the interpreter's lock while the server runs the command, because the command
//! may wait. A signal, or `Thread#kill`, ends the wait and disconnects the client. Each thread has
//! a flag for this, which the client reads: `Server#call` uses a client for any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use magnus::value::ReprValue;
use magnus::{
    Class, Error, ExceptionClass, Module, RArray, RHash, RModule, RString, Ruby, TryConvert as _,
    Value, method,
};
use parking_lot::Mutex;
use punctual_server::{CallError, Value as Reply};

use crate::{fork, gvl};

thread_local! {
    /// Ruby interrupts this thread.
    static INTERRUPTED: Arc<AtomicBool> = Arc::default();
}

/// Lets an interrupt of the calling thread end a wait of the client.
pub(crate) fn interruptible(mut client: punctual_server::Client) -> punctual_server::Client {
    client.set_interrupt(|| INTERRUPTED.with(|flag| flag.load(Ordering::Relaxed)));
    client
}

/// Runs `act`, which uses an [`interruptible`] client, without the interpreter's lock.
pub(crate) fn run<R>(ruby: &Ruby, act: impl FnOnce() -> Result<R, CallError>) -> Result<R, Error> {
    let flag = INTERRUPTED.with(Arc::clone);
    flag.store(false, Ordering::Relaxed);
    let interrupt = || flag.store(true, Ordering::Relaxed);
    let mut act = Some(act);
    let result = loop {
        match gvl::release(ruby, || act.take().map(|act| act()), &interrupt) {
            Some(Some(result)) => break result,
            // The thread was interrupted before the call.
            _ => ruby.thread_check_ints()?,
        }
    };
    if matches!(result, Err(CallError::Interrupted)) {
        // Runs handlers of signals, and raises the exception of a kill or a timeout.
        ruby.thread_check_ints()?;
    }
    result.map_err(|error| call_error(ruby, &error))
}

/// A client in the process of its server.
#[magnus::wrap(class = "Punctual::Server::Client")]
pub(crate) struct Client {
    client: Mutex<punctual_server::Client>,
    forks: u32,
}

impl Client {
    pub(crate) fn new(client: punctual_server::Client) -> Self {
        Self {
            client: Mutex::new(interruptible(client)),
            forks: fork::count(),
        }
    }

    /// Runs `act` without the interpreter's lock.
    fn run<R>(
        &self,
        ruby: &Ruby,
        act: impl FnOnce(&mut punctual_server::Client) -> Result<R, CallError>,
    ) -> Result<R, Error> {
        if self.forks != fork::count() {
            let text = "this client belongs to the process that this one was forked from";
            return Err(exception(ruby.exception_runtime_error(), text));
        }
        run(ruby, || act(&mut self.client.lock()))
    }

    fn call(ruby: &Ruby, rb_self: &Self, args: RArray) -> Result<Value, Error> {
        let words = words(ruby, args)?;
        reply(ruby, rb_self.run(ruby, |client| client.call(&words))?)
    }

    fn message(ruby: &Ruby, rb_self: &Self, timeout: Option<f64>) -> Result<Value, Error> {
        let wait = timeout.map(Duration::try_from_secs_f64).transpose();
        let wait =
            wait.map_err(|error| exception(ruby.exception_arg_error(), error.to_string()))?;
        match rb_self.run(ruby, |client| client.message(wait))? {
            Some(message) => object(ruby, message),
            None => Ok(ruby.qnil().as_value()),
        }
    }

    fn pipeline(ruby: &Ruby, rb_self: &Self, commands: RArray) -> Result<RArray, Error> {
        let words: Vec<Vec<Vec<u8>>> = commands
            .into_iter()
            .map(|command| words(ruby, RArray::try_convert(command)?))
            .collect::<Result<_, _>>()?;
        let replies = rb_self.run(ruby, |client| client.pipeline(&words))?;
        array(ruby, replies)
    }
}

/// Returns the Ruby object of a call's reply; an error reply becomes the error of a raised
/// exception.
pub(crate) fn reply(ruby: &Ruby, reply: Reply) -> Result<Value, Error> {
    match reply {
        Reply::Error(text) | Reply::BulkError(text) => Err(command_error(ruby, &text)?),
        reply => object(ruby, reply),
    }
}

/// Returns the bytes of a command's arguments.
pub(crate) fn words(ruby: &Ruby, args: RArray) -> Result<Vec<Vec<u8>>, Error> {
    let mut words = Vec::with_capacity(args.len());
    for arg in args.into_iter() {
        let accepted = RString::from_value(arg).is_some()
            || arg.is_kind_of(ruby.class_symbol())
            || arg.is_kind_of(ruby.class_integer())
            || arg.is_kind_of(ruby.class_float());
        if !accepted {
            let text = format!(
                "an argument must be a String, Symbol, Integer or Float, not {}",
                arg.class()
            );
            return Err(exception(ruby.exception_type_error(), text));
        }
        words.push(arg.to_r_string()?.to_bytes().to_vec());
    }
    Ok(words)
}

/// Returns the Ruby object of a value. An error within a reply becomes an exception object.
fn object(ruby: &Ruby, value: Reply) -> Result<Value, Error> {
    Ok(match value {
        Reply::Simple(text) | Reply::Bulk(text) | Reply::Verbatim { text, .. } => {
            ruby.str_from_slice(&text).as_value()
        }
        Reply::Error(text) | Reply::BulkError(text) => error_class(ruby)?
            .new_instance((String::from_utf8_lossy(&text).into_owned(),))?
            .as_value(),
        Reply::Int(value) => ruby.integer_from_i64(value).as_value(),
        Reply::Double(value) => ruby.float_from_f64(value).as_value(),
        Reply::Boolean(value) => match value {
            true => ruby.qtrue().as_value(),
            false => ruby.qfalse().as_value(),
        },
        Reply::BigNumber(digits) => ruby.str_from_slice(&digits).funcall("to_i", ())?,
        Reply::Array(items) | Reply::Push(items) | Reply::Set(items) => {
            array(ruby, items)?.as_value()
        }
        Reply::Map(pairs) => {
            let hash: RHash = ruby.hash_new();
            for (key, value) in pairs {
                hash.aset(object(ruby, key)?, object(ruby, value)?)?;
            }
            hash.as_value()
        }
        Reply::Attribute { value, .. } => object(ruby, *value)?,
        _ => ruby.qnil().as_value(),
    })
}

fn array(ruby: &Ruby, items: Vec<Reply>) -> Result<RArray, Error> {
    let array = ruby.ary_new_capa(items.len());
    for item in items {
        array.push(object(ruby, item)?)?;
    }
    Ok(array)
}

/// Returns the error for a new exception.
///
/// If the thread is to be killed, the creation of the exception fails, which is the returned error.
/// `magnus::Error::new` would create the exception when it is raised, and end the process.
pub(crate) fn exception(class: ExceptionClass, text: impl AsRef<str>) -> Error {
    match class.new_instance((text.as_ref(),)) {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

pub(crate) fn error_class(ruby: &Ruby) -> Result<ExceptionClass, Error> {
    let punctual: RModule = ruby.class_object().const_get("Punctual")?;
    let server: magnus::RClass = punctual.const_get("Server")?;
    server.const_get("CommandError")
}

fn command_error(ruby: &Ruby, text: &[u8]) -> Result<Error, Error> {
    let text = String::from_utf8_lossy(text).into_owned();
    Ok(exception(error_class(ruby)?, text))
}

pub(crate) fn call_error(ruby: &Ruby, error: &CallError) -> Error {
    if let CallError::InHandler = error {
        return in_command(ruby);
    }
    let class = match error {
        CallError::Empty | CallError::Unsupported(_) => ruby.exception_arg_error(),
        _ => ruby.exception_runtime_error(),
    };
    exception(class, error.to_string())
}

pub(crate) fn in_command(ruby: &Ruby) -> Error {
    let text = "the server waits for this block, which runs a command: call the server by the block's first argument";
    exception(ruby.exception_runtime_error(), text)
}

pub(crate) fn define(ruby: &Ruby, server: magnus::RClass) -> Result<(), Error> {
    // `lib/punctual/server.rb` documents both classes.
    server.define_error("CommandError", ruby.exception_standard_error())?;
    let class = server.define_class("Client", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_method("call_words", method!(Client::call, 1))?;
    class.define_method("pipeline", method!(Client::pipeline, 1))?;
    class.define_method("next_message", method!(Client::message, 1))?;
    Ok(())
}
