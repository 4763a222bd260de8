//! `Punctual::NativeServer`: the server inside the process, for `lib/punctual/server.rb`.
//!
//! The server's threads never use Ruby. A method that waits for them releases the interpreter's
//! lock first, and only then locks `state`. Only a start and a stop lock it to write, and readers
//! pass waiting writers: the clock may move, and so hold the lock, while an own command runs that
//! reads the state. A fork of the process has the memory of a server but
//! not its threads, so methods check the process first.

use std::io;
use std::mem::ManuallyDrop;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use magnus::value::ReprValue;
use magnus::{
    Class, Error, Exception, Module, Object, RArray, RModule, Ruby, TryConvert, Value, function,
    method,
};
use parking_lot::RwLock;
use punctual_server::config::{ClockKind, ConfigError};
use punctual_server::{
    Builder, CallError, Declaration, IdleClients, MoveError, Requests, Server, StartError,
};

use crate::call::{self, Client, call_error, exception, in_command, interruptible};
use crate::commands::{CommandRequests, parameters};
use crate::{fork, gvl};

/// Value of [`NativeServer::forks`] before the first start.
const NEVER: u32 = u32::MAX;

/// A server that can be started and stopped any number of times.
#[magnus::wrap(class = "Punctual::NativeServer")]
struct NativeServer {
    builder: Builder,
    without_effect: Vec<&'static str>,
    is_virtual: bool,
    /// Number of forks in the history of the process that started the server, or [`NEVER`]. It is
    /// outside of `state`: in a fork, the lock may be held by a thread that the fork does not have.
    forks: AtomicU32,
    state: ManuallyDrop<RwLock<State>>,
    /// Clients of `call`.
    idle_clients: ManuallyDrop<IdleClients>,
}

struct State {
    server: Option<Server>,
    commands: Vec<Declaration>,
    /// The queue of the running server's own commands.
    requests: Option<Requests>,
    /// Host for clients to connect to.
    host: String,
    /// 0 without TCP, or if the server picks any free port at the start.
    port: u16,
}

impl State {
    fn is_running(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_running)
    }

    /// Stops the server, if it runs, and then ends the queue of its commands.
    fn end(&mut self) {
        drop(self.server.take());
        if let Some(requests) = self.requests.take() {
            requests.close();
        }
    }
}

/// The reason why a call of the server failed.
enum Failure {
    NotRunning,
    Running,
    Move(MoveError),
    Start(StartError),
    Call(CallError),
}

impl NativeServer {
    fn new(ruby: &Ruby, port: Option<u16>, options: Vec<(String, String)>) -> Result<Self, Error> {
        let mut builder = match port {
            Some(port) => Server::builder().port(port),
            None => Server::builder().option("port", "0"),
        };
        for (name, value) in &options {
            builder = builder.option(name, value);
        }
        let config = builder
            .configuration()
            .map_err(|error| config_error(ruby, error))?;
        let settings = config.settings();
        let host = settings
            .bind
            .first()
            .map_or_else(String::new, |bind| reachable(&bind.host));
        Ok(NativeServer {
            without_effect: config.without_effect(),
            is_virtual: settings.clock == ClockKind::Virtual,
            builder,
            forks: AtomicU32::new(NEVER),
            idle_clients: ManuallyDrop::default(),
            state: ManuallyDrop::new(RwLock::new(State {
                server: None,
                commands: Vec::new(),
                requests: None,
                host,
                port: port.unwrap_or(0),
            })),
        })
    }

    fn without_effect(&self) -> Vec<&'static str> {
        self.without_effect.clone()
    }

    fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// Returns true if this process is a fork of the process that started the server.
    fn is_inherited(&self) -> bool {
        let forks = self.forks.load(Ordering::Acquire);
        forks != NEVER && forks != fork::count()
    }

    fn address(ruby: &Ruby, rb_self: &Self) -> (String, u16) {
        rb_self.locked(ruby, |state| (state.host.clone(), state.port))
    }

    fn is_running(ruby: &Ruby, rb_self: &Self) -> bool {
        !rb_self.is_inherited() && rb_self.locked(ruby, State::is_running)
    }

    /// Calls `f` with the state, without the interpreter's lock.
    fn locked<R>(&self, ruby: &Ruby, f: impl FnOnce(&State) -> R) -> R {
        release_briefly(ruby, || f(&self.state.read_recursive()))
    }

    /// Calls `f` with the state, which `f` may change, without the interpreter's lock.
    fn changed<R>(&self, ruby: &Ruby, f: impl FnOnce(&mut State) -> R) -> R {
        release_briefly(ruby, || f(&mut self.state.write()))
    }

    fn check_own(&self, ruby: &Ruby) -> Result<(), Error> {
        if self.is_inherited() {
            return Err(exception(
                ruby.exception_runtime_error(),
                "this server belongs to the process that this one was forked from: clients here may connect to the server, \
                 but only that process can start, stop or query it; create another Punctual::Server here",
            ));
        }
        Ok(())
    }

    /// Adds an own command. Its number is the number of earlier ones. `texts` has the name, the
    /// summary and the complexity.
    fn declare(
        ruby: &Ruby,
        rb_self: &Self,
        texts: (String, String, String),
        taken: Vec<(String, String)>,
        flags: Vec<String>,
        keys: Option<(usize, i32, usize)>,
        categories: Vec<String>,
    ) -> Result<(), Error> {
        rb_self.check_own(ruby)?;
        let (name, summary, complexity) = texts;
        let declaration = Declaration {
            name,
            parameters: parameters(taken),
            flags,
            keys,
            categories,
            summary,
            complexity,
        };
        if let Err(error) = declaration.row() {
            return Err(exception(ruby.exception_arg_error(), error.to_string()));
        }
        let name = declaration.name.clone();
        let declared = rb_self.changed(ruby, |state| {
            if state.is_running() {
                return Err(Failure::Running);
            }
            if state.commands.iter().any(|other| other.name == name) {
                return Err(Failure::Start(StartError::CommandName(name)));
            }
            state.commands.push(declaration);
            Ok(())
        });
        declared.map_err(|failure| failure.into_error(ruby))
    }

    /// Starts the server unless it runs. Returns false if it was running. Calls of own commands go
    /// to `requests` until the server stops.
    fn start(
        ruby: &Ruby,
        rb_self: &Self,
        requests: Option<&CommandRequests>,
    ) -> Result<bool, Error> {
        rb_self.check_own(ruby)?;
        let requests = requests.map(|requests| requests.requests.clone());
        let started = rb_self.changed(ruby, |state| -> Result<bool, Failure> {
            if state.is_running() {
                return Ok(false);
            }
            // A client may have shut the server down: its threads end before the port is used
            // again.
            state.end();
            let mut builder = rb_self.builder.clone();
            if state.port != 0 {
                builder = builder.port(state.port);
            }
            if let Some(requests) = &requests {
                for (number, declaration) in state.commands.iter().enumerate() {
                    builder = builder
                        .requested_command(declaration.clone(), requests, number)
                        .expect("`declare` has checked the declaration");
                }
            }
            let server = builder.spawn().map_err(Failure::Start)?;
            if let Some(addr) = server.addr() {
                state.host = reachable(&addr.ip().to_string());
                state.port = addr.port();
            }
            rb_self.forks.store(fork::count(), Ordering::Release);
            state.server = Some(server);
            state.requests = requests;
            Ok(true)
        });
        started.map_err(|failure| failure.into_error(ruby))
    }

    /// Stops the server. Does nothing if it does not run, or if it belongs to another process.
    fn stop(ruby: &Ruby, rb_self: &Self) {
        if !rb_self.is_inherited() {
            // Ends calls that hold the lock, and own commands that they wait for.
            rb_self.locked(ruby, |state| {
                if let Some(server) = &state.server {
                    server.shared().stop();
                }
            });
            rb_self.changed(ruby, State::end);
            rb_self.forks.store(NEVER, Ordering::Release);
        }
    }

    /// Calls `act` with the running server, without the interpreter's lock.
    fn with_server<R>(
        &self,
        ruby: &Ruby,
        act: impl FnOnce(&Server) -> Result<R, MoveError>,
    ) -> Result<R, Error> {
        self.check_own(ruby)?;
        self.locked(ruby, |state| match &state.server {
            Some(server) if server.is_running() => act(server).map_err(Failure::Move),
            _ => Err(Failure::NotRunning),
        })
        .map_err(|failure| failure.into_error(ruby))
    }

    fn client(ruby: &Ruby, rb_self: &Self) -> Result<Client, Error> {
        rb_self.check_own(ruby)?;
        let client = rb_self.locked(ruby, |state| match &state.server {
            Some(server) if server.is_running() => server.client().map_err(Failure::Call),
            _ => Err(Failure::NotRunning),
        });
        client
            .map(Client::new)
            .map_err(|failure| failure.into_error(ruby))
    }

    fn call(ruby: &Ruby, rb_self: &Self, args: RArray) -> Result<Value, Error> {
        rb_self.check_own(ruby)?;
        let words = call::words(ruby, args)?;
        let connect = || match &rb_self.state.read_recursive().server {
            Some(server) => server.client().map(interruptible),
            None => Err(CallError::Stopped),
        };
        let reply = call::run(ruby, || rb_self.idle_clients.call(connect, &words))?;
        call::reply(ruby, reply)
    }

    fn now(ruby: &Ruby, rb_self: &Self) -> Result<u64, Error> {
        rb_self.with_server(ruby, |server| Ok(unix_micros(server.now())))
    }

    fn advance(ruby: &Ruby, rb_self: &Self, micros: u64) -> Result<u64, Error> {
        rb_self.with_server(ruby, |server| {
            server
                .advance(Duration::from_micros(micros))
                .map(unix_micros)
        })
    }

    fn set_time(ruby: &Ruby, rb_self: &Self, micros: u64) -> Result<u64, Error> {
        rb_self.with_server(ruby, |server| {
            server
                .set_time(UNIX_EPOCH + Duration::from_micros(micros))
                .map(unix_micros)
        })
    }
}

impl Drop for NativeServer {
    fn drop(&mut self) {
        // In a fork, a stop would wait for threads that do not exist there.
        if !self.is_inherited() {
            self.state.write().end();
            drop(std::mem::take(&mut *self.idle_clients));
        }
    }
}

impl Failure {
    fn into_error(self, ruby: &Ruby) -> Error {
        match self {
            Failure::NotRunning | Failure::Move(MoveError::Stopped) => exception(
                ruby.exception_runtime_error(),
                "the server is not running: start it first",
            ),
            Failure::Running => exception(
                ruby.exception_runtime_error(),
                "the server runs: declare its commands before its start",
            ),
            Failure::Start(StartError::CommandName(name)) => exception(
                ruby.exception_arg_error(),
                format!("name: the server has a command '{name}'"),
            ),
            Failure::Move(MoveError::InHandler) => in_command(ruby),
            Failure::Move(MoveError::Real) => exception(
                ruby.exception_runtime_error(),
                "the clock of this server is real and cannot be moved: create it with clock: :virtual",
            ),
            Failure::Move(MoveError::Backwards) => {
                exception(ruby.exception_arg_error(), "the clock cannot go back")
            }
            Failure::Move(MoveError::OutOfRange) => exception(
                ruby.exception_range_error(),
                "the time is later than the server can count",
            ),
            Failure::Move(other) => exception(ruby.exception_runtime_error(), other.to_string()),
            Failure::Call(error) => call_error(ruby, &error),
            Failure::Start(StartError::Config(error)) => config_error(ruby, error),
            Failure::Start(other) => {
                let text = other.to_string();
                let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&other);
                while let Some(error) = cause {
                    if let Some(error) = error.downcast_ref::<io::Error>() {
                        return system_error(ruby, error, &text);
                    }
                    cause = error.source();
                }
                exception(ruby.exception_runtime_error(), text)
            }
        }
    }
}

/// Calls `function`, which must be short, without the interpreter's lock. Signals do not interrupt
/// it.
pub(crate) fn release_briefly<R>(ruby: &Ruby, function: impl FnOnce() -> R) -> R {
    let mut function = Some(function);
    loop {
        let result = gvl::release(ruby, || function.take().map(|function| function()), &|| ());
        // `None`: a signal arrived before the call. Ruby runs its handler when the caller returns
        // to Ruby.
        if let Some(Some(result)) = result {
            return result;
        }
        if let Some(function) = function.take() {
            return function();
        }
    }
}

/// Creates, for example, `ArgumentError: maxclients: argument couldn't be parsed into an integer`.
fn config_error(ruby: &Ruby, error: ConfigError) -> Error {
    match error {
        ConfigError::Line { line, reason, .. } => {
            let name = line.split_whitespace().next().unwrap_or_default();
            exception(ruby.exception_arg_error(), format!("{name}: {reason}"))
        }
        ConfigError::Open { path, source } => {
            system_error(ruby, &source, &format!("can't open {}", path.display()))
        }
        other => exception(ruby.exception_runtime_error(), other.to_string()),
    }
}

/// Creates a `SystemCallError` with the system's number, so that Ruby picks the subclass, such as
/// `Errno::EADDRINUSE`.
fn system_error(ruby: &Ruby, error: &io::Error, text: &str) -> Error {
    let Some(errno) = error.raw_os_error() else {
        return exception(ruby.exception_io_error(), text);
    };
    let text = text.replace(&format!(" (os error {errno})"), "");
    let made = ruby
        .exception_system_call_error()
        .funcall::<_, _, magnus::Value>("new", (text, errno))
        .and_then(Exception::try_convert);
    match made {
        Ok(exception) => Error::from(exception),
        Err(error) => error,
    }
}

/// Returns the address of a listener as clients must name it.
fn reachable(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "::1".to_owned(),
        _ => host.to_owned(),
    }
}

fn unix_micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule) -> Result<(), Error> {
    let class = punctual.define_class("NativeServer", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(NativeServer::new, 2))?;
    class.define_method("without_effect", method!(NativeServer::without_effect, 0))?;
    class.define_method("virtual?", method!(NativeServer::is_virtual, 0))?;
    class.define_method("inherited?", method!(NativeServer::is_inherited, 0))?;
    class.define_method("address", method!(NativeServer::address, 0))?;
    class.define_method("running?", method!(NativeServer::is_running, 0))?;
    class.define_method("declare", method!(NativeServer::declare, 5))?;
    class.define_method("start", method!(NativeServer::start, 1))?;
    class.define_method("stop", method!(NativeServer::stop, 0))?;
    class.define_method("client", method!(NativeServer::client, 0))?;
    class.define_method("call_words", method!(NativeServer::call, 1))?;
    class.define_method("now", method!(NativeServer::now, 0))?;
    class.define_method("advance", method!(NativeServer::advance, 1))?;
    class.define_method("set_time", method!(NativeServer::set_time, 1))?;
    Ok(())
}
