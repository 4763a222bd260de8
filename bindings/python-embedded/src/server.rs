//! The embedded server, for `python/punctual_embedded/server.py`.
//!
//! Ground rules: the server's threads never run Python. A method that waits for them releases the
//! GIL first, and only then locks `state`. Only a start and a stop lock it to write, and readers
//! pass waiting writers: the clock may move, and so hold the lock, while an own command runs that
//! reads the state. A fork of the process has the server's memory but not its threads: methods
//! compare the process ID before they lock `state`, because another thread may have held the lock
//! during the fork.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use punctual_server::log::Level;
use punctual_server::{Builder, CallError, Declaration, IdleClients, Requests, Server};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{NativeClient, call_error, interruptible, reply, words};
use crate::commands::{CommandRequests, Invocation, Parameters, parameters};
use crate::errors::{ForkedError, config_error, move_error, not_running, start_error};
use crate::log::{LogLines, LogWriter};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<NativeServer>()?;
    m.add_class::<LogLines>()?;
    m.add_class::<NativeClient>()?;
    m.add_class::<CommandRequests>()?;
    m.add_class::<Invocation>()
}

/// A server that can be started and stopped repeatedly.
#[pyclass(frozen, module = "punctual_embedded._punctual_embedded")]
struct NativeServer {
    builder: Builder,
    /// Names of the given options that have no effect.
    without_effect: Vec<&'static str>,
    log_level: Level,
    password: Option<Vec<u8>>,
    unix_socket: Option<PathBuf>,
    /// The process that started the server, or 0.
    pid: AtomicU32,
    state: RwLock<State>,
    /// Clients of `call`.
    idle_clients: IdleClients,
}

/// State that starting and stopping change.
struct State {
    server: Option<Server>,
    commands: Vec<Declaration>,
    /// The queue of the running server's own commands.
    requests: Option<Requests>,
    /// The log of the running server. It is dropped after the server, which writes to it.
    log: Option<LogWriter>,
    /// Host for clients to connect to.
    host: String,
    /// 0 without TCP, and before the first start if the server picks any free port.
    port: u16,
}

impl State {
    /// Stops the server, if it runs, and then ends the queue of its commands and its log.
    fn end(&mut self) {
        drop(self.server.take());
        if let Some(requests) = self.requests.take() {
            requests.close();
        }
        drop(self.log.take());
    }
}

#[pymethods]
impl NativeServer {
    /// `port` is 0 for any free port, and None for no TCP port.
    #[new]
    fn new(port: Option<u16>, options: Vec<(String, String)>) -> PyResult<Self> {
        let mut builder = match port {
            Some(port) => Server::builder().port(port),
            None => Server::builder().option("port", "0"),
        };
        for (name, value) in &options {
            builder = builder.option(name, value);
        }
        let config = builder.configuration().map_err(config_error)?;
        let settings = config.settings();
        let host = settings
            .bind
            .first()
            .map_or_else(String::new, |bind| reachable(&bind.host));
        Ok(Self {
            without_effect: config.without_effect(),
            log_level: settings.log_level,
            password: settings.requirepass.clone(),
            unix_socket: settings.unixsocket.clone(),
            pid: AtomicU32::new(0),
            idle_clients: IdleClients::default(),
            state: RwLock::new(State {
                server: None,
                commands: Vec::new(),
                requests: None,
                log: None,
                host,
                port: port.unwrap_or(0),
            }),
            builder,
        })
    }

    /// Returns the names of given options that have no effect.
    #[getter]
    fn without_effect(&self) -> Vec<&'static str> {
        self.without_effect.clone()
    }

    #[getter]
    fn password(&self) -> Option<&[u8]> {
        self.password.as_deref()
    }

    #[getter]
    fn unix_socket(&self) -> Option<PathBuf> {
        self.unix_socket.clone()
    }

    /// Returns whether this process is a fork of the one that started the server.
    #[getter]
    fn is_inherited(&self) -> bool {
        self.check_process().is_err()
    }

    /// Returns host and port.
    fn address(&self, py: Python<'_>) -> (String, u16) {
        if self.is_inherited() {
            // In a fork, the lock stays locked if another thread of the parent held it.
            return self
                .state
                .try_read()
                .map_or_else(Default::default, |s| (s.host.clone(), s.port));
        }
        py.detach(|| {
            let state = self.state.read_recursive();
            (state.host.clone(), state.port)
        })
    }

    fn is_running(&self, py: Python<'_>) -> bool {
        !self.is_inherited()
            && py.detach(|| {
                let state = self.state.read_recursive();
                state.server.as_ref().is_some_and(Server::is_running)
            })
    }

    /// Adds an own command. Its number is the number of earlier ones. `texts` has the name, the
    /// summary and the complexity.
    fn declare(
        &self,
        py: Python<'_>,
        texts: (String, String, String),
        taken: Parameters,
        flags: Vec<String>,
        keys: Option<(usize, i32, usize)>,
        categories: Vec<String>,
    ) -> PyResult<()> {
        self.check_process()?;
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
        py.detach(|| {
            let mut state = self.state.write();
            declare(&mut state, declaration)
        })
    }

    /// Starts the server unless it runs. Returns false if it was running. The log goes to `log`,
    /// and calls of own commands to `requests`, until the server stops.
    #[pyo3(signature = (log=None, requests=None))]
    fn start(
        &self,
        py: Python<'_>,
        log: Option<Bound<'_, LogLines>>,
        requests: Option<Bound<'_, CommandRequests>>,
    ) -> PyResult<bool> {
        // The writer is created first: its drop ends the log, even if the start fails.
        let log = log.map(|log| LogWriter::of(&log));
        self.check_process()?;
        let requests = requests.map(|requests| requests.get().requests.clone());
        py.detach(|| self.start_now(log, requests))
            .map_err(start_error)
    }

    /// Stops the server. Does nothing if it does not run in this process.
    fn stop(&self, py: Python<'_>) {
        if !self.is_inherited() {
            py.detach(|| {
                if let Some(server) = &self.state.read_recursive().server {
                    // Ends calls that hold the lock, and own commands that they wait for.
                    server.shared().stop();
                }
                self.state.write().end();
            });
        }
    }

    /// Connects a client in this process.
    fn client(&self, py: Python<'_>) -> PyResult<NativeClient> {
        let client = self.with_server(py, |server| server.client().map_err(call_error))?;
        Ok(NativeClient::new(interruptible(client)))
    }

    /// Runs one command and returns its reply.
    #[pyo3(signature = (*args))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process()?;
        let args: Vec<_> = args.iter().collect();
        let words = words(&args)?;
        let connect = || {
            let state = self.state.read_recursive();
            let server = state.server.as_ref().ok_or(CallError::Stopped)?;
            server.client().map(interruptible)
        };
        let value = py.detach(|| self.idle_clients.call(connect, &words));
        reply(py, value)
    }

    /// Returns the server's clock in Unix seconds.
    fn now(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_server(py, |server| Ok(unix_seconds(server.now())))
    }

    /// Advances the clock by `micros`. Returns the new time in Unix seconds.
    fn advance(&self, py: Python<'_>, micros: u64) -> PyResult<f64> {
        self.with_server(py, |server| {
            let to = server.advance(Duration::from_micros(micros));
            to.map(unix_seconds).map_err(move_error)
        })
    }

    /// Sets the clock to `micros` of Unix time.
    fn set_time(&self, py: Python<'_>, micros: u64) -> PyResult<()> {
        self.with_server(py, |server| {
            let to = server.set_time(UNIX_EPOCH + Duration::from_micros(micros));
            to.map(drop).map_err(move_error)
        })
    }
}

impl NativeServer {
    fn start_now(
        &self,
        log: Option<LogWriter>,
        requests: Option<Requests>,
    ) -> Result<bool, punctual_server::StartError> {
        let mut state = self.state.write();
        if state.server.as_ref().is_some_and(Server::is_running) {
            return Ok(false);
        }
        // A client may have shut the server down: join its threads before the port is used again.
        state.end();
        let mut builder = self.builder.clone();
        if let Some(log) = &log {
            builder = builder.logger(log.logger(self.log_level));
        }
        if state.port != 0 {
            // A restarted server keeps its port, so that clients find it.
            builder = builder.port(state.port);
        }
        if let Some(requests) = &requests {
            for (number, declaration) in state.commands.iter().enumerate() {
                builder = builder
                    .requested_command(declaration.clone(), requests, number)
                    .expect("`declare` has checked the declaration");
            }
        }
        self.pid.store(std::process::id(), Ordering::Release);
        let server = builder.spawn()?;
        if let Some(addr) = server.addr() {
            state.host = reachable(&addr.ip().to_string());
            state.port = addr.port();
        }
        state.server = Some(server);
        state.requests = requests;
        state.log = log;
        Ok(true)
    }

    /// Calls `act` with the running server, without the GIL. Returns an error if it does not run.
    fn with_server<R: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Server) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        py.detach(move || match &self.state.read_recursive().server {
            Some(server) if server.is_running() => act(server),
            _ => Err(not_running()),
        })
    }

    /// Returns an error if another process started the server.
    fn check_process(&self) -> Result<(), ForkedError> {
        match self.pid.load(Ordering::Acquire) {
            0 => Ok(()),
            pid if pid == std::process::id() => Ok(()),
            parent => Err(ForkedError { parent }),
        }
    }
}

impl Drop for NativeServer {
    fn drop(&mut self) {
        let is_inherited = self.is_inherited();
        let state = self.state.get_mut();
        if is_inherited {
            // A stop would wait for threads that do not exist in this process, and wake threads of
            // the parent process.
            let clients = std::mem::take(&mut self.idle_clients);
            std::mem::forget((state.server.take(), state.log.take(), clients));
        } else {
            state.end();
        }
    }
}

/// Adds an own command to a server that does not run.
fn declare(state: &mut State, declaration: Declaration) -> PyResult<()> {
    if state.server.as_ref().is_some_and(Server::is_running) {
        let text = "the server runs: declare its commands before its start";
        return Err(PyRuntimeError::new_err(text));
    }
    if state
        .commands
        .iter()
        .any(|other| other.name == declaration.name)
    {
        let text = format!("name: the server has a command '{}'", declaration.name);
        return Err(PyValueError::new_err(text));
    }
    let row = declaration.row();
    row.map_err(|error| PyValueError::new_err(error.to_string()))?;
    state.commands.push(declaration);
    Ok(())
}

/// Returns the address of a listener as clients must name it.
fn reachable(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "::1".to_owned(),
        _ => host.to_owned(),
    }
}

pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    // Whole microseconds are exact as floats until the year 2255.
    let micros = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros();
    micros as f64 / 1e6
}
