//! A private redis-server on a socket in a temporary directory.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use punctual_resp::{Decoder, Value, encode_command};
use tempfile::TempDir;

use crate::contents::{Plain, Text};
use crate::streams;

const START: Duration = Duration::from_secs(20);

pub struct Server {
    process: Child,
    link: UnixStream,
    decoder: Decoder,
    directory: TempDir,
}

impl Server {
    /// Starts a server that loads `snapshot`. Returns `None` if redis-server is not installed.
    pub fn start(snapshot: Option<&[u8]>) -> Option<Self> {
        Self::start_with(snapshot, &[])
    }

    /// Starts a server with additional settings.
    pub fn start_with(snapshot: Option<&[u8]>, settings: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        if let Some(snapshot) = snapshot {
            std::fs::write(directory.path().join("dump.rdb"), snapshot).expect("a file");
        }
        let socket = directory.path().join("socket");
        let log = directory.path().join("log");
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes"])
            .args([
                "--sanitize-dump-payload",
                "yes",
                "--crash-log-enabled",
                "no",
            ])
            .args(settings)
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path())
            .arg("--logfile")
            .arg(&log)
            .stdin(Stdio::null())
            .spawn();
        let mut process = match started {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("redis-server is not installed: nothing is compared");
                return None;
            }
            Err(error) => panic!("redis-server: {error}"),
        };
        let since = Instant::now();
        let link = loop {
            if let Ok(link) = UnixStream::connect(&socket) {
                break link;
            }
            let ended = process.try_wait().expect("a child");
            if ended.is_some() || since.elapsed() > START {
                let _ = process.kill();
                let log = std::fs::read_to_string(log).unwrap_or_default();
                panic!("redis-server did not start:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut server = Server {
            process,
            link,
            decoder: Decoder::new(),
            directory,
        };
        // Until the snapshot is loaded.
        while matches!(server.call(&["PING"]), Value::Error(_)) {
            assert!(since.elapsed() < START);
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    pub fn call(&mut self, command: &[impl AsRef<[u8]>]) -> Value {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, command);
        self.link.write_all(&bytes).expect("redis-server listens");
        let mut block = [0; 1 << 16];
        loop {
            if let Some(value) = self.decoder.next_value().expect("RESP") {
                return value;
            }
            let count = self.link.read(&mut block).expect("redis-server answers");
            assert!(count > 0, "redis-server closed the connection");
            self.decoder.feed(&block[..count]);
        }
    }

    /// Runs a command, given as words, that must succeed.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> Value {
        let words: Vec<_> = command.split_whitespace().collect();
        self.succeed(&words)
    }

    #[track_caller]
    pub fn succeed(&mut self, command: &[impl AsRef<[u8]>]) -> Value {
        let reply = self.call(command);
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        reply
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn keys(&mut self) -> Vec<Text> {
        texts(self.run("KEYS *"))
    }

    /// Returns a key's value by commands, or `None` for types that are not compared.
    pub fn value(&mut self, key: &[u8]) -> Option<Plain> {
        let kind = text(self.succeed(&[b"TYPE", key]));
        let mut ask = |command: &[&[u8]]| self.succeed(command);
        Some(match &kind[..] {
            b"string" => Plain::String(text(ask(&[b"GET", key]))),
            b"list" => Plain::List(texts(ask(&[b"LRANGE", key, b"0", b"-1"]))),
            b"set" => Plain::Set(texts(ask(&[b"SMEMBERS", key])).into_iter().collect()),
            b"hash" => Plain::Hash(
                texts(ask(&[b"HGETALL", key]))
                    .chunks(2)
                    .map(|pair| (pair[0].clone(), (pair[1].clone(), None)))
                    .collect(),
            ),
            b"zset" => Plain::Zset(
                texts(ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]))
                    .chunks(2)
                    .map(|pair| {
                        let score = std::str::from_utf8(&pair[1]).expect("text");
                        (pair[0].clone(), score.parse().expect("a number"))
                    })
                    .collect(),
            ),
            b"stream" => {
                let command: [&[u8]; 6] = [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"];
                Plain::Stream(streams::of_server(&ask(&command)))
            }
            _ => return None,
        })
    }

    /// Restores a payload to the key `key`. Returns whether it was accepted.
    pub fn restore(&mut self, key: &[u8], payload: &[u8]) -> bool {
        let command: [&[u8]; 5] = [b"RESTORE", key, b"0", payload, b"REPLACE"];
        !matches!(self.call(&command), Value::Error(_))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn text(value: Value) -> Text {
    match value {
        Value::Bulk(text) | Value::Simple(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn texts(value: Value) -> Vec<Text> {
    match value {
        Value::Array(values) => values.into_iter().map(text).collect(),
        other => panic!("{other:?} is no array"),
    }
}
