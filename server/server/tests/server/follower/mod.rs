//! A client that acts as a replica and reads each byte of the stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use punctual_resp::{Value, decode, encode_command};

/// Timeout for each byte, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that requests the replication stream.
pub struct Follower {
    reader: BufReader<TcpStream>,
    /// Bytes of the stream that have not been decoded.
    rest: Vec<u8>,
    /// Offset of the last decoded byte.
    pub offset: i64,
}

/// Result of PSYNC.
#[derive(Debug, PartialEq, Eq)]
pub enum Synced {
    /// The reply was `+FULLRESYNC id offset`.
    Full(String, i64),
    /// The reply was `+CONTINUE id`.
    Continued(String),
}

impl Follower {
    /// Connects to a local port.
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            reader: BufReader::new(stream),
            rest: Vec::new(),
            offset: 0,
        }
    }

    /// Connects, and announces the capabilities of a replica of Redis 7.
    pub fn able(port: u16) -> Self {
        let mut follower = Self::open(port);
        for args in [
            &["PING"][..],
            &["REPLCONF", "listening-port", "7777"],
            &["REPLCONF", "capa", "eof", "capa", "psync2"],
        ] {
            follower.send(args);
            assert!(follower.line().starts_with('+'), "{args:?}");
        }
        follower
    }

    /// Sends a command.
    pub fn send(&mut self, args: &[&str]) {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, args);
        self.reader.get_mut().write_all(&bytes).unwrap();
    }

    /// Returns the next line that is not empty. The server sends empty lines as a sign of life.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "nothing but newlines");
            let mut line = String::new();
            let count = self.reader.read_line(&mut line).unwrap();
            assert!(count > 0, "closed");
            if !line.trim_end().is_empty() {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Sends PSYNC without waiting for the reply.
    pub fn ask(&mut self, id: &str, offset: i64) {
        self.send(&["PSYNC", id, &offset.to_string()]);
    }

    /// Returns the reply to [`Follower::ask`].
    #[track_caller]
    pub fn answer(&mut self) -> Synced {
        let line = self.line();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["+FULLRESYNC", id, offset] => {
                self.offset = offset.parse().unwrap();
                Synced::Full(id.to_owned(), self.offset)
            }
            ["+CONTINUE", id] => Synced::Continued(id.to_owned()),
            _ => panic!("{line}"),
        }
    }

    /// Returns the payload of a full synchronization, and the mark that ends it if the server did
    /// not announce its length.
    #[track_caller]
    pub fn payload(&mut self) -> (Vec<u8>, Option<String>) {
        let line = self.line();
        let Some(mark) = line.strip_prefix("$EOF:") else {
            let len: usize = line.strip_prefix('$').unwrap().parse().unwrap();
            let mut bytes = vec![0; len];
            self.reader.read_exact(&mut bytes).unwrap();
            return (bytes, None);
        };
        assert_eq!(mark.len(), 40);
        let mut bytes = Vec::new();
        while !bytes.ends_with(mark.as_bytes()) {
            let mut more = [0; 4096];
            let count = self.reader.read(&mut more).unwrap();
            assert!(count > 0, "closed in the payload");
            bytes.extend_from_slice(&more[..count]);
        }
        bytes.truncate(bytes.len() - mark.len());
        (bytes, Some(mark.to_owned()))
    }

    /// Requests a full synchronization, reads the payload, and acknowledges it. Also returns the
    /// replication ID.
    #[track_caller]
    pub fn synced(port: u16) -> (Self, String) {
        let mut follower = Self::able(port);
        follower.ask("?", -1);
        let Synced::Full(id, _) = follower.answer() else {
            panic!("not asked to continue");
        };
        follower.payload();
        follower.ack();
        (follower, id)
    }

    /// Acknowledges the decoded part of the stream.
    pub fn ack(&mut self) {
        let offset = self.offset.to_string();
        self.send(&["REPLCONF", "ACK", &offset]);
    }

    /// Returns the next command of the stream other than PING.
    #[track_caller]
    pub fn command(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "nothing but PINGs");
            if let Some((value, len)) = decode(&self.rest).unwrap() {
                self.rest.drain(..len);
                self.offset += len as i64;
                let words: Vec<_> = value.as_slice().unwrap().iter().map(word).collect();
                let command = words.join(" ");
                if !command.eq_ignore_ascii_case("ping") {
                    return command;
                }
                continue;
            }
            let mut more = [0; 64 << 10];
            let count = self.reader.read(&mut more).unwrap();
            assert!(count > 0, "closed after {} bytes", self.offset);
            self.rest.extend_from_slice(&more[..count]);
        }
    }

    /// Reads until the server closes the connection.
    #[track_caller]
    pub fn ends(&mut self) {
        let mut bytes = vec![0; 1 << 20];
        loop {
            match self.reader.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return,
                Err(e) => panic!("still open: {e}"),
            }
        }
    }
}

fn word(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned()
}
