//! A small blocking client: one connection, commands in order, replies in order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use punctual_resp::{Decoder, Value, encode_command};

use crate::error::{Error, Result};

/// Time limit of one reply. It is long, because a server may stall during a benchmark.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    addr: SocketAddr,
    stream: TcpStream,
    decoder: Decoder,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

/// Connects a socket with TCP_NODELAY.
pub(crate) fn connect(addr: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5))
        .and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIME_LIMIT))?;
            stream.set_write_timeout(Some(TIME_LIMIT))?;
            Ok(stream)
        })
        .map_err(|source| Error::Connect { addr, source })?;
    Ok(stream)
}

impl Client {
    /// Connects, and authenticates if there is a password.
    pub(crate) fn connect(addr: SocketAddr, password: Option<&str>) -> Result<Self> {
        let mut client = Self {
            addr,
            stream: connect(addr)?,
            decoder: Decoder::new(),
            outbox: Vec::new(),
            inbox: vec![0; 64 * 1024],
        };
        if let Some(password) = password {
            let answer = client.command(&["AUTH", password])?;
            client.refuse_error("AUTH", answer)?;
        }
        Ok(client)
    }

    /// Sends one command and blocks until its reply, which may be an error.
    pub(crate) fn command(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value> {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.clear();
        encode_command(&mut outbox, words);
        let sent = self.send(&outbox);
        self.outbox = outbox;
        sent?;
        self.reply()
    }

    /// Sends one command. An error reply is an `Err`.
    pub(crate) fn expect(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value> {
        let answer = self.command(words)?;
        let name = words.first().map_or_else(String::new, |word| {
            String::from_utf8_lossy(word.as_ref()).into_owned()
        });
        self.refuse_error(&name, answer)
    }

    /// Sends one command whose reply is an integer.
    pub(crate) fn integer(&mut self, words: &[&str]) -> Result<i64> {
        let answer = self.expect(words)?;
        answer.as_int().ok_or_else(|| Error::Refused {
            addr: self.addr,
            command: words.join(" "),
            answer: format!("{answer:?}, where an integer was expected"),
        })
    }

    /// Returns the value of a setting; `None` for an unknown setting.
    pub(crate) fn setting(&mut self, name: &str) -> Result<Option<String>> {
        let answer = self.expect(&["CONFIG", "GET", name])?;
        let value = answer.as_slice().and_then(|pair| pair.get(1)?.as_bytes());
        Ok(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Writes the bytes of complete commands.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream
            .write_all(bytes)
            .map_err(|source| self.broken("writing to", source))
    }

    /// Blocks until the next reply.
    pub(crate) fn reply(&mut self) -> Result<Value> {
        loop {
            match self.decoder.next_value() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(error) => {
                    return Err(Error::NotResp {
                        addr: self.addr,
                        reason: error.to_string(),
                    });
                }
            }
            let read = match self.stream.read(&mut self.inbox) {
                Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            let count = read.map_err(|source| self.broken("reading from", source))?;
            self.decoder.feed(&self.inbox[..count]);
        }
    }

    /// Blocks until the next `count` replies. Returns the first error among them.
    pub(crate) fn replies(&mut self, count: usize, command: &str) -> Result<()> {
        let mut refused = None;
        for _ in 0..count {
            let value = self.reply()?;
            if value.is_error() && refused.is_none() {
                refused = Some(value);
            }
        }
        match refused {
            Some(value) => self.refuse_error(command, value).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the socket.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn refuse_error(&self, command: &str, answer: Value) -> Result<Value> {
        if !answer.is_error() {
            return Ok(answer);
        }
        Err(Error::Refused {
            addr: self.addr,
            command: command.to_owned(),
            answer: error_text(&answer),
        })
    }

    fn broken(&self, doing: &'static str, source: std::io::Error) -> Error {
        Error::Broken {
            doing,
            addr: self.addr,
            source,
        }
    }
}

/// Returns the text of an error reply.
pub(crate) fn error_text(answer: &Value) -> String {
    String::from_utf8_lossy(answer.as_bytes().unwrap_or_default()).into_owned()
}
