//! Own commands: blocks of Ruby that the server calls.
//!
//! The threads of the server are not threads of Ruby, so they cannot run a block. An event loop
//! leaves each command in the queue of a [`CommandRequests`] and waits
//! (`punctual_server::Requests`). One thread of Ruby (`lib/punctual/server/runner.rb`) takes it,
//! calls the block, and replies. The thread releases the interpreter's lock while it waits for the
//! next command, and while the loop runs a command for it.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use magnus::value::ReprValue;
use magnus::{
    Class, Error, Float, Integer, Module, RArray, RHash, RModule, RString, Ruby, Symbol, Value,
    function, method, r_hash::ForEach,
};
use parking_lot::Mutex;
use punctual_server::{CallError, Parameter, Request, Requests, Value as Reply};

use crate::call::{call_error, error_class, exception, reply, words};
use crate::gvl;
use crate::server::release_briefly;

/// Maximum depth of a reply: the depth that clients in the process can decode.
const DEPTH_MAX: usize = 128;

/// Returns the parameters of a block, which Ruby describes as pairs of kind and name.
pub(crate) fn parameters(pairs: Vec<(String, String)>) -> Vec<Parameter> {
    let parameter = |(kind, name): (String, String)| match kind.as_str() {
        "opt" => Parameter::Optional(name),
        "rest" => Parameter::Rest(name),
        _ => Parameter::Required(name),
    };
    pairs.into_iter().map(parameter).collect()
}

/// The queue of own commands, for the thread that runs them.
#[magnus::wrap(class = "Punctual::CommandRequests")]
pub(crate) struct CommandRequests {
    pub(crate) requests: Requests,
    /// The request that has no reply yet.
    current: Mutex<Option<Arc<Request>>>,
}

impl CommandRequests {
    fn new() -> Self {
        Self {
            requests: Requests::default(),
            current: Mutex::default(),
        }
    }

    /// Waits for the next command. Returns its number, the handle for its block, and its arguments;
    /// or nil if the queue is closed.
    fn next(ruby: &Ruby, rb_self: &Self) -> Result<Option<(usize, Invocation, RArray)>, Error> {
        let requests = &rb_self.requests;
        loop {
            let request = gvl::release(ruby, || requests.next(), &|| requests.interrupt());
            if let Some(Some(request)) = request {
                let request = Arc::new(request);
                *rb_self.current.lock() = Some(Arc::clone(&request));
                let args = ruby.ary_new_capa(request.args().len());
                for arg in &request.args()[1..] {
                    args.push(ruby.str_from_slice(arg))?;
                }
                return Ok(Some((request.command(), Invocation { request }, args)));
            }
            if requests.is_closed() {
                return Ok(None);
            }
            ruby.thread_check_ints()?;
        }
    }

    fn reply(ruby: &Ruby, rb_self: &Self, value: Value) -> Result<(), Error> {
        let value = reply_value(ruby, value, 0)?;
        rb_self.end(ruby, value);
        Ok(())
    }

    fn fail(ruby: &Ruby, rb_self: &Self, text: String) {
        rb_self.end(ruby, Request::error(&text));
    }

    fn end(&self, ruby: &Ruby, value: Reply) {
        let request = self.current.lock().take();
        if let Some(request) = request {
            release_briefly(ruby, || request.reply(value));
        }
    }

    fn close(&self) {
        self.requests.close();
    }
}

/// A running own command: the first argument of its block.
#[magnus::wrap(class = "Punctual::Server::Invocation")]
pub(crate) struct Invocation {
    request: Arc<Request>,
}

impl Invocation {
    fn call(ruby: &Ruby, rb_self: &Self, args: RArray) -> Result<Value, Error> {
        let words = words(ruby, args)?;
        if words.is_empty() {
            return Err(call_error(ruby, &CallError::Empty));
        }
        match release_briefly(ruby, || rb_self.request.call(&words)) {
            Ok(value) => reply(ruby, value),
            Err(ended) => Err(exception(ruby.exception_runtime_error(), ended.to_string())),
        }
    }

    fn now_micros(&self) -> u64 {
        let since = self.request.now().duration_since(UNIX_EPOCH);
        u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Returns the reply for what a block has returned.
fn reply_value(ruby: &Ruby, value: Value, depth: usize) -> Result<Reply, Error> {
    if depth == DEPTH_MAX {
        let text = format!("a reply must not be nested more than {DEPTH_MAX} levels deep");
        return Err(exception(ruby.exception_arg_error(), text));
    }
    let all = |items: RArray| {
        let items = items.into_iter();
        items
            .map(|item| reply_value(ruby, item, depth + 1))
            .collect::<Result<Vec<_>, Error>>()
    };
    let text = |text: RString| text.to_bytes().to_vec();
    Ok(if value.is_nil() {
        Reply::Null
    } else if let Some(string) = RString::from_value(value) {
        Reply::Bulk(text(string))
    } else if let Some(symbol) = Symbol::from_value(value) {
        Reply::bulk(symbol.name()?.as_bytes())
    } else if let Some(number) = Integer::from_value(value) {
        match number.to_i64() {
            Ok(number) => Reply::Int(number),
            Err(_) => Reply::BigNumber(text(value.to_r_string()?)),
        }
    } else if let Some(number) = Float::from_value(value) {
        Reply::Double(number.to_f64())
    } else if value.is_kind_of(ruby.class_true_class()) {
        Reply::Boolean(true)
    } else if value.is_kind_of(ruby.class_false_class()) {
        Reply::Boolean(false)
    } else if let Some(items) = RArray::from_value(value) {
        Reply::Array(all(items)?)
    } else if let Some(hash) = RHash::from_value(value) {
        let mut pairs = Vec::with_capacity(hash.len());
        hash.foreach(|key: Value, value: Value| {
            pairs.push((key, value));
            Ok(ForEach::Continue)
        })?;
        let pairs = pairs.into_iter().map(|(key, value)| {
            Ok((
                reply_value(ruby, key, depth + 1)?,
                reply_value(ruby, value, depth + 1)?,
            ))
        });
        Reply::Map(pairs.collect::<Result<_, Error>>()?)
    } else if value.is_kind_of(error_class(ruby)?) {
        Request::error(&value.funcall::<_, _, String>("message", ())?)
    } else if value.is_kind_of(ruby.class_object().const_get::<_, magnus::RClass>("Set")?) {
        Reply::Set(all(value.funcall("to_a", ())?)?)
    } else {
        let text = format!(
            "a reply must be a String, Symbol, Integer, Float, true, false, nil, Array, Hash or Set, not {}",
            value.class()
        );
        return Err(exception(ruby.exception_type_error(), text));
    })
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule, server: magnus::RClass) -> Result<(), Error> {
    let class = punctual.define_class("CommandRequests", ruby.class_object())?;
    class.undef_default_alloc_func();
    magnus::Object::define_singleton_method(class, "new", function!(CommandRequests::new, 0))?;
    class.define_method("next", method!(CommandRequests::next, 0))?;
    class.define_method("reply", method!(CommandRequests::reply, 1))?;
    class.define_method("fail", method!(CommandRequests::fail, 1))?;
    class.define_method("close", method!(CommandRequests::close, 0))?;
    // `lib/punctual/server.rb` documents the class.
    let class = server.define_class("Invocation", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_method("call_words", method!(Invocation::call, 1))?;
    class.define_method("now_micros", method!(Invocation::now_micros, 0))?;
    Ok(())
}
