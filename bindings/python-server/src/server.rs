//! The embedded server, for `python/punctual_server/server.py`.
//!
//! Ground rules: the server's threads never run Python. A method that waits for them releases the
//! GIL first, and only then locks `state`. A fork of the process has the server's memory but not
//! its threads: methods compare the process ID before they lock `state`, because another thread may
//! have held the lock during the fork.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use punctual_server::log::Level;
use punctual_server::{Builder, Server};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{NativeClient, call_error};
use crate::errors::{
    CommandError, ForkedError, config_error, move_error, not_running, start_error,
};
use crate::log::{LogLines, LogWriter};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<NativeServer>()?;
    m.add_class::<LogLines>()?;
    m.add_class::<NativeClient>()?;
    m.add("CommandError", m.py().get_type::<CommandError>())?;
    m.add("SERVE_OPTIONS", punctual_server::program::OPTIONS)?;
    m.add_function(wrap_pyfunction!(crate::program::serve, m)?)
}

/// A server that can be started and stopped repeatedly.
#[pyclass(frozen, module = "punctual_server._punctual_server")]
struct NativeServer {
    builder: Builder,
    /// Names of the given options that have no effect.
    without_effect: Vec<&'static str>,
    threads: usize,
    is_virtual: bool,
    log_level: Level,
    password: Option<Vec<u8>>,
    unix_socket: Option<PathBuf>,
    /// The process that started the server, or 0.
    pid: AtomicU32,
    state: Mutex<State>,
}

/// State that starting and stopping change.
struct State {
    server: Option<Server>,
    /// The log of the running server. It is dropped after the server, which writes to it.
    log: Option<LogWriter>,
    /// Host for clients to connect to.
    host: String,
    /// 0 without TCP, and before the first start if the server picks any free port.
    port: u16,
}

impl State {
    /// Stops the server, if it runs, and then ends its log.
    fn end(&mut self) {
        drop(self.server.take());
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
            threads: settings.threads,
            is_virtual: settings.clock == punctual_server::config::ClockKind::Virtual,
            log_level: settings.log_level,
            password: settings.requirepass.clone(),
            unix_socket: settings.unixsocket.clone(),
            pid: AtomicU32::new(0),
            state: Mutex::new(State {
                server: None,
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
    fn threads(&self) -> usize {
        self.threads
    }

    #[getter]
    fn is_virtual(&self) -> bool {
        self.is_virtual
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
                .try_lock()
                .map_or_else(Default::default, |s| (s.host.clone(), s.port));
        }
        py.detach(|| {
            let state = self.state.lock();
            (state.host.clone(), state.port)
        })
    }

    fn is_running(&self, py: Python<'_>) -> bool {
        !self.is_inherited()
            && py.detach(|| {
                let state = self.state.lock();
                state.server.as_ref().is_some_and(Server::is_running)
            })
    }

    /// Starts the server unless it runs. Returns false if it was running. The log goes to `log`
    /// until the server stops.
    #[pyo3(signature = (log=None))]
    fn start(&self, py: Python<'_>, log: Option<Bound<'_, LogLines>>) -> PyResult<bool> {
        // The writer is created first: its drop ends the log, even if the start fails.
        let log = log.map(|log| LogWriter::of(&log));
        self.check_process()?;
        py.detach(|| self.start_now(log)).map_err(start_error)
    }

    /// Stops the server. Does nothing if it does not run in this process.
    fn stop(&self, py: Python<'_>) {
        if !self.is_inherited() {
            py.detach(|| self.state.lock().end());
        }
    }

    /// Connects a client in this process.
    fn client(&self, py: Python<'_>) -> PyResult<NativeClient> {
        let client = self.with_server(py, |server| server.client().map_err(call_error))?;
        Ok(NativeClient::new(client))
    }

    /// Runs one command and returns its reply.
    #[pyo3(signature = (*args))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client(py)?;
        client.call(py, args)
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
    fn start_now(&self, log: Option<LogWriter>) -> Result<bool, punctual_server::StartError> {
        let mut state = self.state.lock();
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
        self.pid.store(std::process::id(), Ordering::Release);
        let server = builder.spawn()?;
        if let Some(addr) = server.addr() {
            state.host = reachable(&addr.ip().to_string());
            state.port = addr.port();
        }
        state.server = Some(server);
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
        py.detach(move || match &self.state.lock().server {
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
        if self.is_inherited() {
            // A stop would wait for threads that do not exist in this process, and wake threads of
            // the parent process.
            let state = self.state.get_mut();
            std::mem::forget((state.server.take(), state.log.take()));
        }
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

fn unix_seconds(time: SystemTime) -> f64 {
    // Whole microseconds are exact as floats until the year 2255.
    let micros = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros();
    micros as f64 / 1e6
}
