//! Starts a real redis-server to compare with.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A redis-server that is killed on drop, in a folder of its own.
pub struct Redis {
    process: Child,
    pub port: u16,
    /// Its folder, unless the options set another.
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Starts redis-server with these options. Panics if it is not installed.
    #[track_caller]
    pub fn start(options: &[&str]) -> Self {
        Self::start_program(Path::new("redis-server"), options)
    }

    /// Starts a server that `scripts/setup peers` installs. Returns `None` if it is not installed.
    pub fn start_peer(program: &str) -> Option<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_punctual"))
            .ancestors()
            .nth(2)?;
        let program = target.join("peers").join(program);
        if !program.exists() {
            eprintln!(
                "skipped without {}: scripts/setup peers installs it",
                program.display()
            );
            return None;
        }
        Some(Self::start_program(&program, &[]))
    }

    #[track_caller]
    fn start_program(program: &Path, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // If another process takes the free port first, redis-server exits at once; try another port.
        for _ in 0..20 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let spawned = Command::new(program)
                .args([
                    "--port",
                    &port.to_string(),
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                ])
                .args(options)
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut process =
                spawned.expect("redis-server is not installed: `make test` installs it");
            let end = Instant::now() + Duration::from_secs(20);
            while Instant::now() < end && process.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self {
                        process,
                        port,
                        _folder: folder,
                    };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("redis-server does not start");
    }
}

impl Redis {
    /// Sends a signal to the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
