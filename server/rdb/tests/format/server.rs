//! A private redis-server, which loads a snapshot if the test has one.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use punctual_harness::{Launch, Process, Wire};
use punctual_resp::Value;
use tempfile::TempDir;

use crate::contents::{Plain, Text};
use crate::streams;

/// A redis-server and a connection to it. Dropping it stops the server.
pub struct Server {
    wire: Wire,
    _process: Process,
    folder: TempDir,
}

impl Server {
    /// Starts a server that loads `snapshot`. Returns `None` if redis-server is not installed.
    pub fn start(snapshot: Option<&[u8]>) -> Option<Self> {
        Self::start_with(snapshot, &[])
    }

    /// Starts a server with additional settings.
    pub fn start_with(snapshot: Option<&[u8]>, settings: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(snapshot) = snapshot {
            std::fs::write(folder.path().join("dump.rdb"), snapshot).expect("a file");
        }
        let process = Launch::of("redis-server")
            .options(["--save", "", "--enable-debug-command", "yes"])
            .options(["--sanitize-dump-payload", "yes"])
            .options(["--crash-log-enabled", "no"])
            .options(settings)
            .folder(folder.path())
            .start_if_installed()?;
        Some(Self {
            wire: process.wire(),
            _process: process,
            folder,
        })
    }

    /// Returns the path of a file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn keys(&mut self) -> Vec<Text> {
        texts(self.run("KEYS *"))
    }

    /// Returns a key's value, which it reads with commands such as GET, or `None` for types that
    /// tests do not compare.
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

    /// Restores a payload to the key `key`. Returns whether the server accepted the payload.
    pub fn restore(&mut self, key: &[u8], payload: &[u8]) -> bool {
        let command: [&[u8]; 5] = [b"RESTORE", key, b"0", payload, b"REPLACE"];
        !self.ask(&command).is_error()
    }
}

impl Deref for Server {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
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
