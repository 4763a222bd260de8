//! Options and own commands of a server that is about to start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::Value;

use super::{Server, Starting};
use crate::command::declaration::{Declaration, DeclarationError};
use crate::command::embedder::EmbedderCommand;
use crate::config::{Config, ConfigError, HugePages};
use crate::crash_report::CrashReporter;
use crate::log::Logger;
use crate::memory::reclaim::Reclaim;
use crate::net::listener::FreePorts;
use crate::node::Shared;
use crate::script::handler::Invocation;
use crate::script::requests::Requests;
use crate::start_error::StartError;
use crate::supervision::Systemd;
use crate::world::disk::Disk;

/// The declaration of a command that the embedding program adds: name, arity, flags, keys,
/// documentation.
pub type CommandRow = punctual_store::spec::Row<()>;

/// Builder of a server; see [`Server::builder`].
#[derive(Clone)]
pub struct Builder {
    pub(super) options: Vec<(String, String)>,
    pub(super) config: Option<Config>,
    /// Ports that the system selects.
    pub(super) free: FreePorts,
    pub(super) logger: Option<Logger>,
    pub(super) reclaim: Option<Reclaim>,
    pub(super) systemd: Option<Systemd>,
    /// Receives the shared state before the snapshot is loaded.
    pub(super) starting: Option<Starting>,
    /// Whether the server writes the file of `pidfile`.
    pub(super) writes_pid: bool,
    pub(super) crashes: Option<CrashReporter>,
    pub(super) disk: Disk,
    pub(super) commands: Vec<EmbedderCommand>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            options: Vec::new(),
            config: None,
            free: FreePorts::default(),
            logger: None,
            reclaim: None,
            systemd: None,
            starting: None,
            writes_pid: false,
            crashes: None,
            disk: Disk::default(),
            commands: Vec::new(),
        }
    }

    /// Sets the TCP port on the configured addresses; 0 selects a free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.free.plain = port == 0;
        self.option("port", &port.to_string())
    }

    /// Sets the port for TLS on the configured addresses; 0 selects a free port.
    /// [`Builder::option`] sets the certificates.
    #[must_use]
    pub fn tls_port(mut self, port: u16) -> Self {
        self.free.tls = port == 0;
        self.option("tls-port", &port.to_string())
    }

    /// Sets the port of the metrics and the web page on the addresses of `metrics-bind`; 0 selects
    /// a free port.
    #[must_use]
    pub fn metrics_port(mut self, port: u16) -> Self {
        self.free.metrics = port == 0;
        self.option("metrics-port", &port.to_string())
    }

    /// Sets the number of event loops.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        self.option("threads", &threads.to_string())
    }

    /// Selects a virtual clock, which only moves by CLOCK ADVANCE, CLOCK SET or
    /// [`Server::advance`].
    #[must_use]
    pub fn virtual_clock(self) -> Self {
        self.option("clock", "virtual")
    }

    /// Sets a directive of redis.conf. Spaces separate several values. The last call for a
    /// directive wins, except that each call for `rename-command` or `user` adds a line.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a complete configuration, to which the other options are applied. With it, or with one
    /// of the options `dir`, `dbfilename`, `save` and `appendonly`, the server loads existing files
    /// at startup. Without them, it neither loads nor saves files automatically.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the logger. Without a logger, log lines go to the file of the option `logfile`, and if
    /// that option is missing, nowhere.
    #[must_use]
    pub fn logger(mut self, logger: Logger) -> Self {
        self.logger = Some(logger);
        self
    }

    /// Sets the functions that return freed memory to the system. The server returns memory about a
    /// second after much memory has been freed.
    #[must_use]
    pub fn reclaim(mut self, reclaim: Reclaim) -> Self {
        self.reclaim = Some(reclaim);
        self
    }

    /// Adds a command. Clients, transactions, scripts and timers can call it, and COMMAND, COMMAND
    /// DOCS and ACL rules know it. The row must name the keys, and have the flag
    /// [`Flags::WRITE`](crate::Flags::WRITE) if the handler calls commands that write, otherwise
    /// [`Flags::READONLY`](crate::Flags::READONLY).
    ///
    /// The command is atomic: it runs on an event loop's thread, and other commands wait for it. So
    /// the handler must be quick, and must not use the server or its clients except by
    /// [`Invocation::call`]. The commands that it calls are written to the append-only file and to
    /// replicas, in one transaction. A panic of the handler becomes an error reply; the commands
    /// that it has called before remain in force.
    ///
    /// A server with added commands has a table of all commands, some 100 kB, which is not freed
    /// when the server stops.
    ///
    /// ```
    /// use punctual_server::{CommandRow, Flags, Group, Server, Value};
    ///
    /// let row = CommandRow::new("take", 3, Flags::WRITE, Group::String, ())
    ///     .keys(1, 1, 1)
    ///     .doc("1.0.0", "O(1)", "Takes an amount if there is as much.")
    ///     .syntax("key amount:integer");
    /// let server = Server::builder()
    ///     .port(0)
    ///     .command(row, |take| {
    ///         let (key, amount) = (take.arg(1).unwrap(), take.arg(2).unwrap());
    ///         let left = take.call(&[b"DECRBY", key, amount]);
    ///         match left.as_int() {
    ///             Some(0..) | None => left,
    ///             Some(_) => {
    ///                 take.call(&[b"INCRBY", key, amount]);
    ///                 Value::Error(b"ERR not enough left".to_vec())
    ///             }
    ///         }
    ///     })
    ///     .spawn()?;
    /// server.call(&["SET", "stock", "5"])?;
    /// assert_eq!(server.call(&["TAKE", "stock", "3"])?, Value::Int(2));
    /// assert!(server.call(&["TAKE", "stock", "3"])?.is_error());
    /// assert_eq!(server.call(&["GET", "stock"])?, Value::bulk("2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn command(
        mut self,
        row: CommandRow,
        handler: impl Fn(&mut Invocation<'_>) -> Value + Send + Sync + 'static,
    ) -> Self {
        let handler = Arc::new(handler);
        self.commands.push(EmbedderCommand { row, handler });
        self
    }

    /// Adds a command that a thread of the program runs: `requests` gets a request with this number
    /// for each call. See [`Builder::command`].
    ///
    /// # Errors
    /// A part of the declaration is wrong.
    pub fn requested_command(
        self,
        declaration: Declaration,
        requests: &Requests,
        number: usize,
    ) -> Result<Self, DeclarationError> {
        let (row, run) = (declaration.row()?, requests.handler(number));
        Ok(self.command(row, move |invocation| {
            match declaration.accepts(invocation.args().count()) {
                true => run(invocation),
                false => {
                    let name = &declaration.name;
                    let error = format!("ERR wrong number of arguments for '{name}' command");
                    Value::Error(error.into())
                }
            }
        }))
    }

    /// Makes the server write a pid file and notify systemd, as the program does.
    pub(crate) fn for_program(mut self, systemd: Option<Systemd>, starting: Starting) -> Self {
        self.systemd = systemd;
        self.starting = Some(starting);
        self.writes_pid = true;
        self
    }

    /// Sets the reporter of crashes.
    pub(crate) fn crashes(mut self, reporter: CrashReporter) -> Self {
        self.crashes = Some(reporter);
        self
    }

    /// Sets the disk that the server persists to.
    #[cfg(test)]
    pub(crate) fn disk(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// Starts the server on its own threads. The server accepts connections when this returns.
    ///
    /// # Errors
    /// An invalid option, an address in use, or a resource that the system refuses; see
    /// [`StartError`].
    pub fn spawn(self) -> Result<Server, StartError> {
        // An embedded server neither reads nor writes snapshots unless an option asks for them.
        let persists =
            self.config.is_some() || self.has_option(&["dir", "dbfilename", "save", "appendonly"]);
        let config = self.configuration()?;
        let logger = match &self.logger {
            Some(logger) => logger.clone(),
            None if self.has_option(&["logfile"]) => {
                config.settings().logger().map_err(StartError::Log)?
            }
            None => Logger::silent(),
        };
        Server::start(config, persists, logger, &self)
    }

    /// Returns the configuration that the server would start with.
    ///
    /// # Errors
    /// Returns an error if an option is invalid.
    pub fn configuration(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(config) => config.clone(),
            None => {
                let mut config = Config::new()?;
                config.option("save", "")?;
                config
            }
        };
        for (name, value) in &self.options {
            config.option(name, value)?;
        }
        Ok(config)
    }

    /// Adds the builder's parts (handlers, allocator functions, disk) to the state of a server, and
    /// shares the state.
    pub(super) fn share(&self, mut shared: Shared, huge_pages: HugePages) -> Arc<Shared> {
        let own = self.commands.iter();
        shared.embedder_handlers = own
            .map(|own| (own.row.name, Arc::clone(&own.handler)))
            .collect();
        shared.set_allocator(self.reclaim, huge_pages);
        shared.systemd = self.systemd.clone();
        shared.is_program = self.writes_pid;
        shared.durability.disk = self.disk.clone();
        let bytes = shared.memory.used();
        let startup_bytes = &shared.observed.startup_bytes;
        startup_bytes.store(bytes, Ordering::Relaxed);
        let shared = Arc::new(shared);
        if let Some(starting) = &self.starting {
            // A program starts only one server.
            let _ = starting.set(Arc::clone(&shared));
        }
        if let Some(reporter) = &self.crashes {
            reporter.attach(&shared);
        }
        shared
    }

    /// Returns whether one of these options was given.
    fn has_option(&self, names: &[&str]) -> bool {
        self.options
            .iter()
            .any(|(name, _)| names.iter().any(|n| name.eq_ignore_ascii_case(n)))
    }
}
