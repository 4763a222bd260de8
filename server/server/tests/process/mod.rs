//! Runs the binary as a child process, to measure its memory and to detect any panic.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use punctual_harness::{Launch, Ready, Wire};
pub use punctual_harness::{PATIENCE, Process};

/// Starts servers in child processes, without save points.
pub trait Start: Sized {
    /// Starts the binary on a free port with these options.
    fn start(options: &[&str]) -> Self {
        Self::with_file(None, options)
    }

    /// Starts the binary on a free port with a configuration file and these options.
    fn with_file(file: Option<&Path>, options: &[&str]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_punctual"), file, options)
    }

    /// Starts a program that has Redis's options.
    fn start_program(program: &str, file: Option<&Path>, options: &[&str]) -> Self;

    /// Connects to the server.
    fn connect(&self) -> TcpStream;
}

impl Start for Process {
    #[track_caller]
    fn start_program(program: &str, file: Option<&Path>, options: &[&str]) -> Self {
        let launch = Launch::of(program)
            .file(file)
            .options(["--bind", "127.0.0.1", "--save", ""])
            .options(options)
            .ready(Ready::Listens);
        launch.start().unwrap_or_else(|error| panic!("{error}"))
    }

    fn connect(&self) -> TcpStream {
        connect(self.port)
    }
}

/// Connects to a local port, with timeouts for reads and writes.
pub fn connect(port: u16) -> TcpStream {
    Wire::to(port).stream
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
