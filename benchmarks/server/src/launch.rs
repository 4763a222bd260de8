//! Starts and stops the servers of a run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_harness::{Launch, Peer, Process, Ready, raise_open_file_limit, resident_bytes};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cleanup::Guard;
use crate::client::{Client, field};
use crate::error::{Error, Result};
use crate::options::{Kind, Target};
use crate::process::CpuTime;

/// The setting with which servers publish `expired` events of keys, `hexpired` events of fields,
/// and `timer` events.
pub(crate) const EVENTS: (&str, &str) = ("notify-keyspace-events", "Exhg");

/// A program that can be started as a server, as often as needed.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    path: PathBuf,
    /// Settings given on the command line.
    settings: Vec<(String, String)>,
    /// Name in tables.
    pub(crate) label: String,
    /// Product and version from INFO.
    pub(crate) product: String,
    /// True for Punctual. The bars apply only to Punctual; other servers are references.
    pub(crate) ours: bool,
}

/// A server of the run, with its temporary directory.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    // Dropped before `process`: the guard kills the process.
    _guard: Guard,
    process: Process,
}

/// Returns the programs that the options name. Adds notes about programs that are not installed.
pub(crate) fn programs(target: &Target, notes: &mut Vec<String>) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for kind in target.kinds() {
        let paths = match kind {
            Kind::Punctual => punctual_paths(target.punctual_path.as_deref()),
            Kind::Redis7 => {
                let path = target.redis_path.clone();
                vec![path.unwrap_or_else(|| Peer::Redis7.program())]
            }
            Kind::Redis8 => vec![Peer::Redis8.program()],
            Kind::Valkey9 => vec![Peer::Valkey9.program()],
        };
        let settings = match kind {
            Kind::Punctual => &target.punctual_options,
            _ => &target.redis_options,
        };
        let Some(path) = paths.iter().find(|path| installed(path)) else {
            let path = paths
                .first()
                .map_or(Path::new(""), PathBuf::as_path)
                .display();
            let hint = match kind {
                Kind::Redis8 | Kind::Valkey9 => " (scripts/setup peers)",
                _ => "",
            };
            notes.push(format!("{path} is not installed, and not measured{hint}"));
            continue;
        };
        let mut program = Program {
            kind,
            path: path.clone(),
            settings: settings.clone(),
            label: String::new(),
            product: String::new(),
            ours: kind == Kind::Punctual,
        };
        let info = program.start(&[])?.client()?.info("server")?;
        let (name, version) = identity(&info);
        program.label = match kind {
            Kind::Punctual => "punctual".into(),
            _ => format!("{name} {version}"),
        };
        program.product = format!("{name} {version}");
        found.push(program);
    }
    if found.is_empty() {
        return Err(Error::NoServer(notes.join("; ")));
    }
    Ok(found)
}

/// Returns the path of jemalloc's library, if it is installed. Valkey then uses this allocator.
fn jemalloc() -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
    ];
    let mut paths = folders
        .iter()
        .map(|folder| Path::new(folder).join("libjemalloc.so.2"));
    paths.find(|path| path.is_file())
}

/// Returns the possible paths of `punctual`: the given path; or else, the path beside this program
/// and the path on the PATH.
fn punctual_paths(given: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = given {
        return vec![path.to_owned()];
    }
    let beside = std::env::current_exe().map(|own| own.with_file_name("punctual"));
    beside.into_iter().chain(["punctual".into()]).collect()
}

/// Returns true if `program` is a file, or a bare name of a file on the PATH.
pub(crate) fn installed(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Starts a server of each program.
pub(crate) fn start_all(programs: &[Program], settings: &[(&str, &str)]) -> Result<Vec<Server>> {
    programs
        .iter()
        .map(|program| program.start(settings))
        .collect()
}

impl Program {
    /// Starts a server in a temporary directory, on a free port, without persistence. The user's
    /// settings follow `settings`, and so override them.
    pub(crate) fn start(&self, settings: &[(&str, &str)]) -> Result<Server> {
        self.start_under(&[], settings)
    }

    /// Adds a setting, which overrides the user's.
    pub(crate) fn with_setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Same as [`Program::start`], under another program, such as Valgrind, with its options.
    pub(crate) fn start_under(&self, tool: &[&str], settings: &[(&str, &str)]) -> Result<Server> {
        let own = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = settings.iter().copied().chain(own);
        let preloaded = jemalloc().filter(|_| self.kind == Kind::Valkey9);
        let launch = Launch::of(&self.path)
            .under(tool)
            .preload(preloaded)
            .options(["--bind", "127.0.0.1", "--save", ""])
            .options(settings.flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]))
            .ready(Ready::Answers);
        // The server needs no clean shutdown, because its data is not used again.
        let guard = |process: &Process| {
            let (id, leftovers) = (process.id(), process.path(""));
            Guard::new(move || {
                let _ = kill_process(pid(id), Signal::KILL);
                let _ = fs::remove_dir_all(&leftovers);
            })
        };
        let (process, guard) = launch.start_with(guard)?;
        Ok(Server {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, process.port)),
            _guard: guard,
            process,
        })
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).expect("a process has a number")
}

impl Server {
    /// Returns the path of a file in the server's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.process.path(name)
    }

    /// Returns the number of the server's process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Opens a connection.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(self.addr)
    }

    /// Returns the server's resident memory.
    pub(crate) fn resident(&self) -> Result<u64> {
        resident_bytes(self.process.id())
            .ok_or_else(|| Error::Invalid("the server's memory cannot be read".into()))
    }

    /// Waits for `settle`, and returns the server's CPU time since its start. The kernel updates
    /// the CPU time of a thread only when the thread goes to sleep.
    pub(crate) fn cpu(&self, settle: Duration) -> Result<CpuTime> {
        std::thread::sleep(settle);
        CpuTime::of(pid(self.process.id()))
            .ok_or_else(|| Error::Invalid("the server's CPU time cannot be read".into()))
    }

    /// Returns the result of `work`, and the server's CPU time during `work` in seconds.
    pub(crate) fn cpu_of<T>(
        &self,
        settle: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, f64)> {
        let before = self.cpu(settle)?;
        let done = work()?;
        Ok((done, self.cpu(settle)?.since(&before).as_secs_f64()))
    }
}

/// Creates a temporary directory, which is removed when the result is dropped.
pub(crate) fn temporary_directory() -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("punctual-bench-").tempdir();
    made.map_err(Error::system("making a directory"))
}

/// Returns the name and the version of a server from INFO. Forks of Redis have `redis_version` for
/// compatibility, so their own field takes precedence.
fn identity(info: &str) -> (String, String) {
    let own = ["punctual", "valkey", "dragonfly"].into_iter();
    let mut own = own.filter_map(|name| Some((name, field(info, &format!("{name}_version"))?)));
    let (name, version) = own
        .next()
        .unwrap_or(("redis", field(info, "redis_version").unwrap_or("(unknown)")));
    (name.into(), version.into())
}

/// Raises the limit of open files for this number of clients. Servers inherit the limit. Returns an
/// error if the hard limit is too low.
///
/// Otherwise returns the setting `maxclients` for the servers.
pub(crate) fn allow_clients(clients: u64) -> Result<String> {
    let needed = clients + 200;
    let allowed = raise_open_file_limit(needed);
    if allowed < needed {
        return Err(Error::Options(format!(
            "{needed} descriptors are needed and {allowed} are allowed: run fewer connections, or raise the hard limit (ulimit -Hn)"
        )));
    }
    Ok((clients + 100).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_go_by_their_own_name() {
        let is = |info, name: &str, version: &str| {
            assert_eq!(identity(info), (name.into(), version.into()))
        };
        is("# Server\r\nredis_version:7.0.15\r\n", "redis", "7.0.15");
        is(
            "redis_version:7.2.0\r\npunctual_version:0.1.0\r\n",
            "punctual",
            "0.1.0",
        );
    }
}
