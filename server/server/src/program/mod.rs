//! The server as a program: command line, log, signals and pid file, for the binary `punctual`.

pub(crate) mod daemon;
mod parent;
pub(crate) mod signals;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::acl::registry::Users;
use crate::command;
use crate::config::{self, Config};
use crate::crash_report::CrashReporter;
use crate::log::{self, Logger};
use crate::memory::reclaim::Reclaim;
use crate::program::signals::SignalThread;
use crate::server::{Server, Starting};
use crate::start_error::{LoadError, StartError};
use crate::supervision::Supervision;
use crate::table::names::CommandNames;
use crate::world::disk::Disk;

/// Help text of the command line's options.
pub const OPTIONS: &str = "\
Every directive of redis.conf may be given as an option; --directives lists them. Some of Punctual's own:
  --threads N                   event loops, one per thread
  --clock virtual               time stands still until CLOCK ADVANCE or CLOCK SET
  --supervised parent           stops when its standard input ends; --port 0 selects a free port
  --notify-expired-values yes   expired strings also publish their last value
";

/// Facilities that the process provides to the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// Allocator functions that return freed memory to the system.
    pub reclaim: Option<Reclaim>,
    /// Installs handlers that report crashes. `None` in a process that has handlers of its own.
    pub watch_crashes: Option<fn(CrashReporter) -> io::Result<()>>,
}

/// Error that has ended [`serve`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// An event loop or a thread of the append-only file panicked. Nothing was saved, because the
    /// data in memory may be inconsistent.
    #[error("A thread panicked; the server has stopped without saving")]
    Panicked,
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        StartError::from(error).into()
    }
}

/// Returns the names of all directives of the configuration file.
pub fn directives() -> impl Iterator<Item = &'static str> {
    config::names()
}

/// Runs the server until SHUTDOWN, SIGTERM or SIGINT. With `daemonize yes`, the server runs in a
/// child process, and this process exits. `args` are the arguments after the program's name. Call
/// this function last in a process, because it does not restore the default actions of the two
/// signals.
///
/// # Errors
/// The errors of [`Builder::spawn`](crate::Builder::spawn); the log file cannot be written; the
/// process cannot become a daemon; the handlers of signals or crashes cannot be installed; an event
/// loop or a thread of the append-only file panicked.
pub fn serve(args: Vec<OsString>, host: Host) -> Result<(), ServeError> {
    let configured = !args.is_empty();
    let mut config = Config::from_args(args).map_err(StartError::from)?;
    // This comes before the fork, so that an error reaches the terminal.
    CommandNames::new(command::table(), &config).map_err(StartError::from)?;
    Users::from_config(
        command::table(),
        &config,
        &Disk::default(),
        &Logger::silent(),
    )
    .map_err(StartError::from)?;
    let settings = config.settings();
    let logger = settings.logger().map_err(StartError::Log)?;
    let supervision = Supervision::begin(settings.supervised, &logger);
    if settings.daemonize && matches!(supervision, Supervision::None) {
        if settings.pidfile.is_none() {
            let line = format!("pidfile {}", daemon::PIDFILE);
            config
                .load(line.as_bytes(), "the default of a daemon")
                .map_err(StartError::from)?;
        }
        // A fork copies only the calling thread, and no other thread has started yet.
        daemon::detach().map_err(StartError::Daemonize)?;
    }
    // The reporter's thread starts after the fork, because a fork does not copy it.
    let crashes = CrashReporter::new(logger.clone(), config.settings().crash_log);
    if let Some(watch) = host.watch_crashes {
        watch(crashes.clone())?;
    }
    log_start(&logger, config.settings().redis_version, configured);
    let ignored = config.without_effect();
    let is_child = matches!(supervision, Supervision::Parent);
    let selects_port = is_child && config.settings().port == 0;
    let systemd = match supervision {
        Supervision::Systemd(systemd) => Some(systemd),
        _ => None,
    };
    let starting = Starting::default();
    let signals = SignalThread::start(&starting)?;
    if is_child {
        parent::watch(&logger)?;
    }
    let mut builder = Server::builder()
        .config(config)
        .logger(logger.clone())
        .for_program(systemd, Arc::clone(&starting))
        .crashes(crashes);
    if let Some(reclaim) = host.reclaim {
        builder = builder.reclaim(reclaim);
    }
    if selects_port {
        builder = builder.port(0);
    }
    let server = match builder.spawn() {
        Ok(server) => server,
        // SHUTDOWN or a signal arrived during the load.
        Err(StartError::Load(LoadError::Stopped)) => return Ok(()),
        Err(e) => {
            // A daemon has no standard error. An error of a load is already in the log.
            if settings.logfile.is_some() && !matches!(e, StartError::Load(_)) {
                log::warning!(logger, "{e}");
            }
            if let StartError::Listen(refused) = &e
                && let Some(port) = refused.port()
            {
                log::warning!(logger, "Failed listening on port {port} (TCP), aborting.");
            }
            return Err(e.into());
        }
    };
    if !ignored.is_empty() {
        log::warning!(
            logger,
            "These directives are known but have no effect here yet: {}",
            ignored.join(", ")
        );
    }
    let state = Arc::clone(server.shared());
    if let Some(systemd) = &server.shared().systemd {
        systemd.ready();
    }
    if is_child {
        parent::announce(server.port());
    }
    server.join();
    if let Err(e) = signals.end() {
        log::warning!(logger, "Can't begin a shutdown: {e}");
    }
    if state.panicked.load(Ordering::Acquire) {
        return Err(ServeError::Panicked);
    }
    log::warning!(logger, "Punctual is now ready to exit, bye bye...");
    Ok(())
}

/// Logs the version, as Redis does. `configured` is false without arguments.
fn log_start(logger: &Logger, redis_version: &str, configured: bool) {
    log::notice!(logger, "oO0OoO0OoO0Oo Punctual is starting oO0OoO0OoO0Oo");
    log::notice!(
        logger,
        "Punctual version={}, speaks as Redis version={}, bits={}, PID: {}, just started",
        env!("CARGO_PKG_VERSION"),
        redis_version,
        usize::BITS,
        std::process::id()
    );
    if configured {
        log::notice!(logger, "Configuration loaded");
    } else {
        log::warning!(
            logger,
            "Warning: no config file specified, using the default config. In order to specify a config file use punctual \
             /path/to/redis.conf"
        );
    }
}
