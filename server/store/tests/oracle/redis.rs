//! A private redis-server. Other crates include this file in their tests.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_resp::{decode, encode_command};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Returns a random number generator and prints its seed. The environment variable `SEED` sets it, else
/// `PROPTEST_RNG_SEED`, by which CI takes the same cases each time.
pub fn random() -> StdRng {
    let given = ["SEED", "PROPTEST_RNG_SEED"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// A redis-server with a private socket, which stops when dropped.
pub struct Redis {
    process: Child,
    socket: PathBuf,
    stream: Option<UnixStream>,
    unread: Vec<u8>,
}

impl Redis {
    /// Starts an empty server. Prints a message and returns `None` if it is not installed.
    pub fn start(name: &str) -> Option<Self> {
        let socket =
            std::env::temp_dir().join(format!("punctual-{name}-{}.sock", std::process::id()));
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            eprintln!("no redis-server on this machine: nothing is compared");
            return None;
        };
        let mut redis = Self {
            process,
            socket,
            stream: None,
            unread: Vec::new(),
        };
        redis.stream = Some(connect(&redis.socket));
        Some(redis)
    }

    /// Returns the reply to a command.
    pub fn reply<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let stream = self.stream.as_mut().expect("connected at the start");
        let mut request = Vec::new();
        encode_command(&mut request, words);
        stream.write_all(&request).unwrap();
        let mut part = [0; 64 << 10];
        loop {
            if let Some((_, len)) = decode(&self.unread).unwrap() {
                return self.unread.drain(..len).collect();
            }
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "redis-server has closed the connection");
            self.unread.extend_from_slice(&part[..read]);
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn connect(socket: &Path) -> UnixStream {
    for _ in 0..500 {
        if let Ok(stream) = UnixStream::connect(socket) {
            let limit = Some(Duration::from_secs(30));
            stream.set_read_timeout(limit).unwrap();
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("redis-server does not listen on {}", socket.display());
}
