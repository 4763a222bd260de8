//! A private redis-server and a keyspace of ours, which run the same commands.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_resp::{OwnedArgs, Protocol, Reply, decode, encode_command};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Store, StoreOptions, Turn, command};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Returns a random number generator and prints its seed; the environment variable `SEED` sets it.
pub fn random() -> StdRng {
    let given = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// A redis-server with a private socket, which stops when dropped.
struct Redis {
    process: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(name: &str) -> Option<Self> {
        let socket =
            std::env::temp_dir().join(format!("punctual-{name}-{}.sock", std::process::id()));
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { process, socket })
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

/// A redis-server and a keyspace of ours.
pub struct Both {
    _redis: Redis,
    stream: UnixStream,
    pub store: Store,
    unread: Vec<u8>,
}

impl Both {
    /// Starts an empty redis-server. Prints a message and returns `None` if it is not installed.
    pub fn start(name: &str) -> Option<Self> {
        let Some(redis) = Redis::start(name) else {
            eprintln!("no redis-server on this machine: nothing is compared");
            return None;
        };
        Some(Self {
            stream: connect(&redis.socket),
            _redis: redis,
            store: Store::new(StoreOptions {
                shards: 3,
                databases: 1,
            }),
            unread: Vec::new(),
        })
    }

    /// Returns redis-server's reply.
    pub fn theirs<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let mut request = Vec::new();
        encode_command(&mut request, words);
        self.stream.write_all(&request).unwrap();
        let mut part = [0; 64 << 10];
        loop {
            if let Some((_, len)) = decode(&self.unread).unwrap() {
                return self.unread.drain(..len).collect();
            }
            let read = self.stream.read(&mut part).unwrap();
            assert!(read > 0, "redis-server has closed the connection");
            self.unread.extend_from_slice(&part[..read]);
        }
    }

    /// Returns our reply.
    pub fn ours<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let args: OwnedArgs = words.iter().collect();
        let name = words[0].as_ref().to_ascii_lowercase();
        let command = command::find(&name).expect("a known command");
        let (mut out, mut sink) = (Vec::new(), Silent);
        let now = Now::from_ms(1_000_000);
        let mut turn = Turn::new(&self.store, now, &mut sink, Classes::none());
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        if let Err(error) = turn.run(command, 0, true, args.as_args(), &mut reply) {
            reply.error(error.bytes());
        }
        out
    }

    /// Runs a command on both, asserts that the replies are equal and returns them.
    #[track_caller]
    pub fn same<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let (theirs, ours) = (self.theirs(words), self.ours(words));
        if theirs != ours {
            let line: Vec<String> = words
                .iter()
                .map(|word| word.as_ref().escape_ascii().to_string())
                .collect();
            panic!(
                "{}\nredis-server: {}\nours:         {}",
                line.join(" "),
                theirs.escape_ascii(),
                ours.escape_ascii()
            );
        }
        theirs
    }

    /// As [`Both::same`], for a line of words separated by single spaces.
    #[track_caller]
    pub fn line(&mut self, line: &str) -> Vec<u8> {
        self.same(&line.split(' ').collect::<Vec<_>>())
    }
}
