//! Runs the binary as a child process, to measure its memory and to detect any panic.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;

/// Timeout for a reply, generous for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a child process.
pub struct Process {
    child: Child,
    pub port: u16,
    stderr_reader: Option<JoinHandle<String>>,
    /// The server's `dir`, unless the options set another.
    folder: TempDir,
}

impl Process {
    /// Starts the binary on a free port with these options.
    pub fn start(options: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_punctual"), None, options)
    }

    /// Starts the binary on a free port with a configuration file and these options.
    pub fn with_file(file: Option<&Path>, options: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_punctual"), file, options)
    }

    /// Starts a program that has Redis's options.
    pub fn start_program(program: &str, file: Option<&Path>, options: &[&str]) -> Self {
        // The port is most likely still free when the binary starts.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .args(file)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dir"])
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let stderr_reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut process = Self {
            child,
            port,
            stderr_reader: Some(stderr_reader),
            folder,
        };
        let end = Instant::now() + PATIENCE;
        // Before the server listens, the connection may connect to itself.
        let reached = |s: TcpStream| s.local_addr().unwrap() != s.peer_addr().unwrap();
        while !TcpStream::connect(("127.0.0.1", port)).is_ok_and(reached) {
            let exit = process.child.try_wait().unwrap();
            assert!(exit.is_none(), "{exit:?}: {}", process.stderr_text());
            assert!(Instant::now() < end, "the server accepts no connection");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Sends SIGSTOP, and waits until every thread has stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |stat: &str| {
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        };
        let stats = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
            tasks.map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap())
        };
        while !stats().all(|stat| is_stopped(&stat)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        self.memory_mib("VmRSS:")
    }

    /// Returns the largest resident memory so far, in MiB.
    pub fn peak_mib(&self) -> f64 {
        self.memory_mib("VmHWM:")
    }

    fn memory_mib(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        let kib: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
        kib / 1024.0
    }

    /// Blocks until at most `most_mib` are resident, and returns the resident MiB.
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
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGTERM and expects a clean exit: no panic, exit code 0.
    #[track_caller]
    pub fn stop(mut self) {
        assert_eq!(
            self.child.try_wait().unwrap(),
            None,
            "the server has exited early: {}",
            self.stderr_text()
        );
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the server does not stop");
            std::thread::sleep(Duration::from_millis(5));
        };
        let stderr = self.stderr_text();
        assert!(
            status.success() && !stderr.contains("panicked"),
            "{status}: {stderr}"
        );
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Blocks until the process exits; returns its status and standard error.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE * 2;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.stderr_text());
            }
            assert!(Instant::now() < end, "the server does not exit");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the contents of `server.log`, for servers started with `--logfile server.log`.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// Returns the standard error. Call only after the process has exited.
    fn stderr_text(&mut self) -> String {
        self.stderr_reader
            .take()
            .map_or(String::new(), |c| c.join().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects to a local port, with timeouts for reads and writes.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends `request` and expects exactly `answer`.
#[track_caller]
pub fn exchange(stream: &mut TcpStream, request: &[u8], answer: &[u8]) {
    stream.write_all(request).unwrap();
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(
        got.escape_ascii().to_string(),
        answer.escape_ascii().to_string()
    );
}

/// Reads until the server closes or resets the connection.
#[track_caller]
pub fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(e) => panic!("still open ({e}) after {}", all.escape_ascii()),
        }
    }
}

/// Raises this process's limit of open files to `wanted` or the hard limit, and returns the new limit.
pub fn raise_open_file_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let possible = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|current| current < possible) {
        let raised = Rlimit {
            current: Some(possible),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
    possible
}
