//! The binary as a process of its own: its memory can be measured, and a panic anywhere in it is found.

#![allow(dead_code, reason = "each program uses its own part")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;

/// Longer than any answer takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server in a process of its own.
pub struct Process {
    child: Child,
    pub port: u16,
    complaints: Option<JoinHandle<String>>,
    /// Where it keeps its files, unless the options say otherwise.
    folder: TempDir,
}

impl Process {
    /// Starts the binary on a free port with these options.
    pub fn start(options: &[&str]) -> Self {
        // The port is free when the binary starts, unless somebody is very quick.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dir"])
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut process = Self {
            child,
            port,
            complaints: Some(complaints),
            folder,
        };
        let end = Instant::now() + PATIENCE;
        // A connection may get the port for both of its ends before the server has it.
        let reached = |s: TcpStream| s.local_addr().unwrap() != s.peer_addr().unwrap();
        while !TcpStream::connect(("127.0.0.1", port)).is_ok_and(reached) {
            let exit = process.child.try_wait().unwrap();
            assert!(exit.is_none(), "{exit:?}: {}", process.complaints());
            assert!(Instant::now() < end, "does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// What it has resident, in MiB.
    pub fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .unwrap();
        let kib: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
        kib / 1024.0
    }

    /// Waits until it has no more than so much resident; how much it has then.
    #[track_caller]
    pub fn settles_at(&self, most_mib: f64) -> f64 {
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

    /// How many files and sockets it has open.
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id());
        fs::read_dir(path).unwrap().count()
    }

    /// Sends SIGTERM and waits for a clean end: no panic, exit code 0.
    #[track_caller]
    pub fn stop(mut self) {
        assert_eq!(
            self.child.try_wait().unwrap(),
            None,
            "it has ended by itself: {}",
            self.complaints()
        );
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "does not stop");
            std::thread::sleep(Duration::from_millis(5));
        };
        let complaints = self.complaints();
        assert!(
            status.success() && !complaints.contains("panicked"),
            "{status}: {complaints}"
        );
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended by itself; how, and what it wrote to its standard error.
    #[track_caller]
    pub fn ended(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE * 2;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.complaints());
            }
            assert!(Instant::now() < end, "does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What its file `server.log` has, if it was started with `--logfile server.log`.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// All that it wrote to its standard error; only once it has ended.
    fn complaints(&mut self) -> String {
        self.complaints
            .take()
            .map_or(String::new(), |c| c.join().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection whose reads and writes do not wait forever.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends bytes and expects exactly these in return.
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

/// Reads until the server closes the connection; a reset counts as that.
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

/// Lets this process have that many files open, or as many as the system allows; how many that is.
pub fn make_room_for_files(wanted: u64) -> u64 {
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
