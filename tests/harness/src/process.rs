//! Servers as child processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{PATIENCE, Wire, free_port};

/// Maximum number of ports to try: another process may take a free port before the program listens
/// on it.
const PORTS: usize = 3;
/// Interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(2);

/// How a program shows that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Its standard output says that it accepts connections, after it has loaded its data. Unlike
    /// the other signs, this one cannot come from another process on the port.
    Logged,
    /// It accepts connections, perhaps while it still loads its data.
    Listens,
    /// It replies to PING, perhaps with an error, but not with LOADING.
    Answers,
}

/// The error of a program that is not ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program is not installed.
    #[error(
        "{} is not installed (`make test` installs redis-server; or apt-get install redis-server, brew install redis)", .0.display()
    )]
    NotInstalled(PathBuf),
    /// The program cannot be executed, or its temporary folder or files cannot be created.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program's path or name.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program started, but did not become ready.
    #[error("{} {reason}, and was not ready on port {port}; its last lines:\n{log}", program.display())]
    NotReady {
        /// The program's path or name.
        program: PathBuf,
        /// The port on which it should have listened.
        port: u16,
        /// How the program ended, or how long it ran.
        reason: String,
        /// The last lines of its output.
        log: String,
    },
}

/// A program to start that takes redis-server's options.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    /// Program that runs `program`, with its options.
    tool: Vec<OsString>,
    file: Option<PathBuf>,
    options: Vec<OsString>,
    preloaded: Option<PathBuf>,
    folder: Option<PathBuf>,
    port: Option<u16>,
    ready: Ready,
}

impl Launch {
    /// Prepares a program: a path, or a name on the PATH.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            tool: Vec::new(),
            file: None,
            options: Vec::new(),
            preloaded: None,
            folder: None,
            port: None,
            ready: Ready::Logged,
        }
    }

    /// Adds words to the command line. Later options override earlier ones, and `--port` and
    /// `--dir`.
    pub fn options(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.options.extend(words.into_iter().map(Into::into));
        self
    }

    /// Sets a program that runs the program, such as Valgrind, and the options of that program.
    pub fn under(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.tool = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a library that is loaded before the program's own libraries.
    pub fn preload(mut self, library: Option<PathBuf>) -> Self {
        self.preloaded = library;
        self
    }

    /// Sets the configuration file.
    pub fn file(mut self, file: Option<&Path>) -> Self {
        self.file = file.map(Into::into);
        self
    }

    /// Sets the folder for the program's data; the default is a temporary folder.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the port; the default is a free port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the sign by which the program shows that it is ready; the default is [`Ready::Logged`].
    pub fn ready(mut self, ready: Ready) -> Self {
        self.ready = ready;
        self
    }

    /// Starts the program and blocks until it is ready.
    ///
    /// # Errors
    /// A [`LaunchError`], which quotes the program's output.
    pub fn start(&self) -> Result<Process, LaunchError> {
        Ok(self.start_with(|_| ())?.0)
    }

    /// Starts the program like [`Launch::start`], and calls `begun` before the process is ready.
    /// Calls `begun` again for each further port that it tries. Also returns the result of the last
    /// call.
    ///
    /// # Errors
    /// A [`LaunchError`], which quotes the program's output.
    pub fn start_with<T>(
        &self,
        begun: impl Fn(&Process) -> T,
    ) -> Result<(Process, T), LaunchError> {
        let mut ports = PORTS;
        loop {
            ports -= 1;
            match self.start_on(self.port.unwrap_or_else(free_port), &begun) {
                Err((_, true)) if self.port.is_none() && ports > 0 => {}
                other => return other.map_err(|(error, _)| error),
            }
        }
    }

    /// Starts the program. If it is not installed, prints a message and returns `None`.
    ///
    /// # Panics
    /// If the program does not start.
    #[track_caller]
    pub fn start_if_installed(&self) -> Option<Process> {
        match self.start() {
            Err(error @ LaunchError::NotInstalled(_)) => {
                eprintln!("skipped: {error}");
                None
            }
            other => Some(other.unwrap_or_else(|error| panic!("{error}"))),
        }
    }

    /// Starts the program on this port. The error includes true if the program has ended.
    fn start_on<T>(
        &self,
        port: u16,
        begun: impl Fn(&Process) -> T,
    ) -> Result<(Process, T), (LaunchError, bool)> {
        let program = || self.program.clone();
        let failed = |source| {
            let program = program();
            (LaunchError::Start { program, source }, false)
        };
        let folder = tempfile::Builder::new()
            .prefix("punctual-")
            .tempdir()
            .map_err(failed)?;
        let file = |name| File::create(folder.path().join(name)).map_err(failed);
        let mut command = match self.tool.split_first() {
            None => Command::new(&self.program),
            Some((tool, options)) => {
                let mut command = Command::new(tool);
                command.args(options).arg(&self.program);
                command
            }
        };
        let child = command
            .args(&self.file)
            .args(["--port", &port.to_string(), "--dir"])
            .arg(self.folder.as_deref().unwrap_or(folder.path()))
            .args(&self.options)
            .envs(self.preloaded.iter().map(|library| ("LD_PRELOAD", library)))
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => (LaunchError::NotInstalled(program()), false),
                _ => failed(error),
            })?;
        // From here on, the drop of this value kills the process.
        let mut process = Process {
            running: Running(child),
            port,
            folder,
        };
        let kept = begun(&process);
        let end = Instant::now() + PATIENCE;
        let reason = loop {
            if let Some(status) = process.try_exit() {
                break format!("has ended with {status}");
            }
            if process.is_ready(self.ready) {
                return Ok((process, kept));
            }
            if Instant::now() > end {
                break format!("was started {PATIENCE:?} ago");
            }
            thread::sleep(POLL);
        };
        let ended = process.try_exit().is_some();
        let error = LaunchError::NotReady {
            program: program(),
            port,
            reason,
            log: process.last_lines(),
        };
        Err((error, ended))
    }
}

/// A child process that is killed on drop.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is killed on drop, and then its temporary folder is removed.
#[derive(Debug)]
pub struct Process {
    running: Running,
    /// The port of 127.0.0.1 on which it listens.
    pub port: u16,
    folder: TempDir,
}

impl Process {
    /// Returns the path of a file or folder in the process's temporary folder. This folder is its
    /// `dir` unless the [`Launch`] sets another one.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Connects to the server.
    #[track_caller]
    pub fn wire(&self) -> Wire {
        Wire::to(self.port)
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.running.0.id()
    }

    /// Returns the server's log so far: its standard output, and the file `server.log` in its
    /// temporary folder.
    pub fn log(&self) -> String {
        ["stdout", "server.log"]
            .map(|name| self.read(name))
            .concat()
    }

    /// Returns the server's standard error so far.
    pub fn errors(&self) -> String {
        self.read("stderr")
    }

    /// Returns the last lines of the server's log and of its standard error.
    pub fn last_lines(&self) -> String {
        let files = ["stdout", "server.log", "stderr"];
        files.map(|name| last_lines(&self.path(name))).concat()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.running.0);
        kill_process(pid, signal).expect("the process runs");
    }

    /// Sends SIGSTOP, and waits until every thread has stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |stat: &str| {
            let state = stat.rsplit(") ").next();
            state.is_some_and(|state| state.starts_with('T'))
        };
        let stats = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
            tasks.map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap())
        };
        while !stats().all(|stat| is_stopped(&stat)) {
            thread::sleep(POLL);
        }
    }

    /// Returns the resident memory of the process in MiB.
    pub fn resident_mib(&self) -> f64 {
        mib(memory(self.id(), "VmRSS:"))
    }

    /// Returns the maximum resident memory of the process so far, in MiB.
    pub fn peak_mib(&self) -> f64 {
        mib(memory(self.id(), "VmHWM:"))
    }

    /// Blocks until the resident memory is at most `most_mib`, and returns it in MiB.
    #[track_caller]
    pub fn wait_for_resident_mib(&self, most_mib: f64) -> f64 {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.resident_mib();
            if now <= most_mib {
                return now;
            }
            assert!(
                Instant::now() < end,
                "{now:.1} MiB resident, expected at most {most_mib:.1}"
            );
            thread::sleep(10 * POLL);
        }
    }

    /// Returns the exit status of the process, or `None` while it runs.
    pub fn try_exit(&mut self) -> Option<ExitStatus> {
        self.running.0.try_wait().expect("a child")
    }

    /// Blocks until the process exits. Returns its exit status and its standard error.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE * 2;
        loop {
            if let Some(status) = self.try_exit() {
                return (status, self.errors());
            }
            assert!(Instant::now() < end, "the server does not exit");
            thread::sleep(POLL);
        }
    }

    /// Sends SIGTERM, and checks that the server exits with code 0 and without a panic.
    #[track_caller]
    pub fn stop(mut self) {
        let early = self.try_exit();
        assert_eq!(early, None, "it has ended:\n{}", self.last_lines());
        self.signal(Signal::TERM);
        let (status, errors) = self.wait_for_exit();
        assert!(
            status.success() && !errors.contains("panicked"),
            "{status}: {errors}"
        );
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        // Fails only if the process has ended.
        let _ = self.running.0.kill();
        self.running.0.wait().expect("a child");
    }

    fn is_ready(&self, how: Ready) -> bool {
        match how {
            Ready::Logged => self.read("stdout").contains("Ready to accept connections"),
            Ready::Listens => self.listens(),
            Ready::Answers => {
                let mut wire = Wire::try_to(self.port).ok().filter(|_| self.listens());
                let reply = wire.as_mut().and_then(|wire| {
                    wire.try_send(&["PING"]).ok()?;
                    wire.try_value().ok()
                });
                let loads = |text: &[u8]| text.starts_with(b"LOADING");
                reply.is_some_and(|reply| !reply.as_bytes().is_some_and(loads))
            }
        }
    }

    fn listens(&self) -> bool {
        // While no server listens on the port, the system may connect a socket to itself.
        let reached = |stream: TcpStream| stream.local_addr().ok() != stream.peer_addr().ok();
        TcpStream::connect(("127.0.0.1", self.port)).is_ok_and(reached)
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Returns the end of a log, to show why a program does not work.
pub fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    let tail = lines[lines.len().saturating_sub(8)..].iter();
    tail.map(|line| format!("  | {line}\n")).collect()
}

/// Returns the resident memory of a process in bytes; `None` if it has ended or the system is not
/// Linux.
pub fn resident_bytes(id: u32) -> Option<u64> {
    memory(id, "VmRSS:")
}

fn memory(id: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn mib(bytes: Option<u64>) -> f64 {
    bytes.expect("the process runs, on Linux") as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_is_quoted() {
        let launch = Launch::of("sh").file(Some(Path::new("/nowhere")));
        let error = launch.start().unwrap_err().to_string();
        assert!(
            error.contains("has ended with") && error.contains("/nowhere"),
            "{error}"
        );
        let missing = Launch::of("/nowhere/redis-server");
        assert!(missing.start_if_installed().is_none());
    }

    #[test]
    fn redis_server_answers_in_each_way() {
        for ready in [Ready::Logged, Ready::Listens, Ready::Answers] {
            let launch = Launch::of("redis-server")
                .options(["--save", ""])
                .ready(ready);
            let Some(mut process) = launch.start_if_installed() else {
                return;
            };
            assert_eq!(process.wire().run("SET a 1").as_bytes(), Some(&b"OK"[..]));
            assert!(process.resident_mib() > 1.0);
            let path = process.path("stdout");
            process.kill();
            assert!(process.try_exit().is_some());
            drop(process);
            assert!(!path.exists());
        }
    }
}
