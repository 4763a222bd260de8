//! The servers of a run: running servers, and servers that the benchmark starts and stops.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cleanup::Guard;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::options::{Program, Target};

/// Time limit for a started server until it answers.
const START_LIMIT: Duration = Duration::from_secs(15);

/// The setting that makes servers publish `expired` events.
pub(crate) const EVENTS: (&str, &str) = ("notify-keyspace-events", "Ex");
/// The setting that makes servers publish `hexpired` events.
pub(crate) const FIELD_EVENTS: (&str, &str) = ("notify-keyspace-events", "Eh");

/// The setting that makes servers publish `timer` events.
pub(crate) const TIMER_EVENTS: (&str, &str) = ("notify-keyspace-events", "Eg");

/// A server that can be measured but is not opened yet.
#[derive(Debug, Clone)]
pub(crate) enum Candidate {
    /// A running server.
    Running {
        addr: SocketAddr,
        password: Option<String>,
    },
    /// A server that the benchmark starts, as often as needed.
    Startable {
        program: Program,
        path: PathBuf,
        /// Settings given on the command line.
        settings: Vec<(String, String)>,
    },
}

/// An open server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Name in tables.
    pub(crate) label: String,
    /// Product and version from INFO.
    pub(crate) product: String,
    /// The server is Punctual. The bars apply to Punctual only; other servers are references.
    pub(crate) ours: bool,
    /// Address of the server.
    pub(crate) addr: SocketAddr,
    /// Process id, if the server runs on this machine.
    pub(crate) pid: Option<Pid>,
    /// The benchmark started the server and may change its data.
    pub(crate) started: bool,
    password: Option<String>,
    // Drop order: first the process, then its directory.
    _process: Option<Process>,
    directory: Option<TempDir>,
}

/// A child process, which is killed on drop or when a signal ends the run.
#[derive(Debug)]
struct Process {
    child: Child,
    guard: Option<Guard>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.guard.take();
        // Wait for the process, so that its port and memory are free before the next server starts.
        let _ = self.child.wait();
    }
}

/// Returns the servers that the options name, and notes on missing programs.
pub(crate) fn candidates(target: &Target) -> Result<(Vec<Candidate>, Vec<String>)> {
    let mut found = Vec::new();
    let mut notes = Vec::new();
    let asked = match (target.start.as_slice(), target.addresses.as_slice()) {
        ([], []) => &[Program::Punctual, Program::Redis][..],
        (given, _) => given,
    };
    if asked.contains(&Program::Punctual) {
        match punctual_path(target.punctual_path.as_deref()) {
            Ok(path) => found.push(Candidate::Startable {
                program: Program::Punctual,
                path,
                settings: target.punctual_options.clone(),
            }),
            Err(note) => notes.push(note),
        }
    }
    for given in &target.addresses {
        found.push(Candidate::Running {
            addr: resolve(given)?,
            password: target.password.clone(),
        });
    }
    if asked.contains(&Program::Redis) {
        if installed(&target.redis_path) {
            found.push(Candidate::Startable {
                program: Program::Redis,
                path: target.redis_path.clone(),
                settings: target.redis_options.clone(),
            });
        } else {
            notes.push(format!(
                "{} is not installed (Debian: apt-get install redis-server); comparing with it is skipped",
                target.redis_path.display()
            ));
        }
    }
    if found.is_empty() {
        return Err(Error::NoServer(notes.join("; ")));
    }
    Ok((found, notes))
}

/// The same as [`candidates`], for measurements that need fresh servers.
pub(crate) fn fresh_candidates(
    target: &Target,
    what: &str,
) -> Result<(Vec<Candidate>, Vec<String>)> {
    if !target.addresses.is_empty() {
        return Err(Error::Options(format!(
            "{what} starts a fresh server for each measurement, so --addr does not go with it; \
             name programs with --punctual PATH and --redis PATH instead"
        )));
    }
    candidates(target)
}

fn resolve(given: &str) -> Result<SocketAddr> {
    let problem = |reason: String| Error::Address {
        given: given.to_owned(),
        reason,
    };
    let mut addresses = given
        .to_socket_addrs()
        .map_err(|error| problem(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| problem("the name has no address".into()))
}

/// Returns the path of punctual: the given one, the one beside this program, or the one on the PATH.
fn punctual_path(given: Option<&Path>) -> std::result::Result<PathBuf, String> {
    if let Some(path) = given {
        return match installed(path) {
            true => Ok(path.to_owned()),
            false => Err(format!(
                "{} is not a program; punctual is skipped",
                path.display()
            )),
        };
    }
    let own = std::env::current_exe()
        .map_err(|error| format!("this program cannot find itself: {error}"))?;
    let beside = own.with_file_name("punctual");
    let named = PathBuf::from("punctual");
    [beside, named].into_iter().find(|path| installed(path)).ok_or_else(|| {
        "there is no program `punctual` beside this one or on the PATH; it is skipped (name one with --punctual PATH)".into()
    })
}

/// Returns true if `program` is a file, or a bare name of a file on the PATH.
pub(crate) fn installed(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

impl Candidate {
    /// Opens the server. `settings` precede the user's on the command line of a started server; a running server ignores
    /// them.
    pub(crate) fn open(&self, settings: &[(&str, &str)]) -> Result<Server> {
        match self {
            Self::Running { addr, password } => Server::at(*addr, password.clone()),
            Self::Startable {
                program,
                path,
                settings: own,
            } => {
                let own = own
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()));
                let settings: Vec<_> = settings.iter().copied().chain(own).collect();
                Server::start(*program, path, &settings)
            }
        }
    }

    /// Returns the program, for a server that the benchmark starts.
    pub(crate) fn program(&self) -> Option<Program> {
        match self {
            Self::Running { .. } => None,
            Self::Startable { program, .. } => Some(*program),
        }
    }
}

/// Opens all servers with `settings`.
pub(crate) fn open_all(candidates: &[Candidate], settings: &[(&str, &str)]) -> Result<Vec<Server>> {
    let mut servers = candidates
        .iter()
        .map(|candidate| candidate.open(settings))
        .collect::<Result<Vec<_>>>()?;
    name_apart(&mut servers);
    Ok(servers)
}

/// Adds the port to the labels of servers of the same product.
pub(crate) fn name_apart(servers: &mut [Server]) {
    let labels: Vec<String> = servers.iter().map(|server| server.label.clone()).collect();
    for server in servers {
        if labels
            .iter()
            .filter(|label| **label == server.label)
            .count()
            > 1
        {
            server.label = format!("{} at {}", server.label, server.addr);
        }
    }
}

/// Returns the index of the reference server: the last one that is not Punctual, if there are at least two servers.
pub(crate) fn reference(servers: &[Server]) -> Option<usize> {
    if servers.len() < 2 {
        return None;
    }
    servers.iter().rposition(|server| !server.ours)
}

impl Server {
    /// Opens a running server.
    fn at(addr: SocketAddr, password: Option<String>) -> Result<Self> {
        let mut client = Client::connect(addr, password.as_deref())?;
        // A server without INFO can be measured but has no product name.
        let answer = client.command(&["INFO", "server"])?;
        let info = if answer.is_error() {
            &[]
        } else {
            answer.as_bytes().unwrap_or_default()
        };
        let identity = Identity::read(&String::from_utf8_lossy(info));
        // The process id in INFO is only useful if the server runs on this machine.
        let pid = identity.pid.filter(|_| addr.ip().is_loopback());
        Ok(Self {
            label: identity.name.clone(),
            product: format!("{} {}", identity.name, identity.version),
            ours: identity.name == "punctual",
            addr,
            pid,
            started: false,
            password,
            _process: None,
            directory: None,
        })
    }

    /// Starts `path` in a temporary directory, on a free port, without persistence.
    fn start(program: Program, path: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let system = |doing| move |source| Error::System { doing, source };
        let directory = tempfile::Builder::new()
            .prefix("punctual-bench-")
            .tempdir()
            .map_err(system("making a directory for a server"))?;
        let log_path = directory.path().join("log");
        let log = fs::File::create(&log_path).map_err(system("making a server's log"))?;
        let errors = log.try_clone().map_err(system("making a server's log"))?;
        let port = free_port().map_err(system("finding a free port"))?;
        let mut command = Command::new(path);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(directory.path());
        for (name, value) in settings {
            command.args([&format!("--{name}"), *value]);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|source| Error::Start {
            program: path.to_owned(),
            source,
        })?;
        let pid = Pid::from_child(&child);
        let leftovers = directory.path().to_owned();
        let mut process = Process {
            child,
            guard: Some(Guard::new(move || {
                // The server holds no data that needs a clean shutdown.
                let _ = kill_process(pid, Signal::KILL);
                let _ = fs::remove_dir_all(&leftovers);
            })),
        };
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let not_serving = |reason: String| Error::NotServing {
            program: path.to_owned(),
            port,
            reason,
            log: last_lines(&log_path),
        };
        let begun = Instant::now();
        let mut server = loop {
            // INFO replies while the server still loads.
            let ready = Self::at(addr, None).and_then(|server| {
                server.client()?.expect(&["PING"])?;
                Ok(server)
            });
            match ready {
                Ok(server) => break server,
                Err(error) if begun.elapsed() > START_LIMIT => {
                    return Err(not_serving(error.to_string()));
                }
                Err(_) => {}
            }
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(not_serving(format!("it ended with {status}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        server.pid = Some(pid);
        server.started = true;
        if program == Program::Punctual {
            if !server.ours {
                // It was started as punctual, whatever its INFO says.
                server.product = "punctual".into();
            }
            server.ours = true;
            server.label = "punctual".into();
        }
        server._process = Some(process);
        server.directory = Some(directory);
        Ok(server)
    }

    /// Returns the directory of a started server.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TempDir::path)
    }

    /// Opens a connection.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(self.addr, self.password.as_deref())
    }

    /// Returns the password for connections, if there is one.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Enables events with [`EVENTS`] or [`FIELD_EVENTS`] until the returned guard is dropped or a signal ends the run. A
    /// started server has them enabled from the start.
    pub(crate) fn publish_events(
        &self,
        (name, value): (&'static str, &str),
    ) -> Result<Option<Guard>> {
        if self.started {
            return Ok(None);
        }
        let mut client = self.client()?;
        let before = client.setting(name)?.unwrap_or_default();
        client.expect(&["CONFIG", "SET", name, value])?;
        let (addr, password) = (self.addr, self.password.clone());
        Ok(Some(Guard::new(move || {
            let restored = Client::connect(addr, password.as_deref())
                .and_then(|mut client| client.expect(&["CONFIG", "SET", name, &before]));
            if let Err(error) = restored {
                crate::output::print_error(format_args!(
                    "punctual-bench: {name} could not be restored to \"{before}\": {error}"
                ));
            }
        })))
    }
}

/// Identity of a server from INFO.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    name: String,
    version: String,
    pid: Option<Pid>,
}

impl Identity {
    /// Reads INFO. Forks keep `redis_version` for compatibility, so their own field takes precedence.
    fn read(info: &str) -> Self {
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        let mut identity = Self {
            name: "redis".into(),
            version: field("redis_version").unwrap_or_else(|| "(unknown)".into()),
            pid: field("process_id").and_then(|pid| Pid::from_raw(pid.parse().ok()?)),
        };
        if let Some(name) = field("server_name").filter(|name| !name.is_empty()) {
            identity.name = name;
        }
        for name in ["punctual", "valkey", "dragonfly"] {
            if let Some(version) = field(&format!("{name}_version")) {
                identity.name = name.into();
                identity.version = version;
            }
        }
        identity
    }
}

/// Returns a port that is free at the time of the call.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Returns the end of a log, to show why a server does not serve.
pub(crate) fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(8);
    let tail: Vec<String> = lines[from..]
        .iter()
        .map(|line| format!("  | {line}"))
        .collect();
    tail.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_go_by_their_own_name() {
        let redis = Identity::read("# Server\r\nredis_version:7.0.15\r\nprocess_id:77\r\n");
        assert_eq!(
            (redis.name.as_str(), redis.version.as_str()),
            ("redis", "7.0.15")
        );
        assert_eq!(redis.pid, Pid::from_raw(77));
        let ours = Identity::read("redis_version:7.2.0\r\npunctual_version:0.1.0\r\n");
        assert_eq!(
            (ours.name.as_str(), ours.version.as_str()),
            ("punctual", "0.1.0")
        );
        assert_eq!(ours.pid, None);
    }

    #[test]
    fn addresses_are_explained() {
        let error = resolve("localhost").unwrap_err().to_string();
        assert!(error.contains("host:port"), "{error}");
        assert_eq!(resolve("127.0.0.1:6379").unwrap().port(), 6379);
    }
}
