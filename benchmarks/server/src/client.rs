//! A small blocking client with one connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mio::{Interest, Poll, Token};
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
    /// Connects to a server.
    pub(crate) fn connect(addr: SocketAddr) -> Result<Self> {
        Ok(Self {
            addr,
            stream: connect(addr)?,
            decoder: Decoder::new(),
            outbox: Vec::new(),
            inbox: vec![0; 64 * 1024],
        })
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

    /// Returns a section of INFO.
    pub(crate) fn info(&mut self, section: &str) -> Result<String> {
        let info = self.expect(&["INFO", section])?;
        Ok(String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned())
    }

    /// Returns a number in a section of INFO, or 0 if INFO has no such field.
    pub(crate) fn info_number(&mut self, section: &str, name: &str) -> Result<u64> {
        let info = self.info(section)?;
        Ok(field(&info, name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0))
    }

    /// Writes the bytes of complete commands.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream
            .write_all(bytes)
            .map_err(|source| Error::broken("writing to", self.addr)(source))
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
            let count = read.map_err(|source| Error::broken("reading from", self.addr)(source))?;
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

    /// Makes the socket non-blocking, registers it in `poll` with this token, and returns it.
    pub(crate) fn watched(
        self,
        poll: &Poll,
        token: usize,
        interest: Interest,
    ) -> Result<mio::net::TcpStream> {
        let system = Error::system("watching sockets");
        self.stream.set_nonblocking(true).map_err(&system)?;
        let mut stream = mio::net::TcpStream::from_std(self.stream);
        poll.registry()
            .register(&mut stream, Token(token), interest)
            .map_err(&system)?;
        Ok(stream)
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
            answer: text_of(&answer),
        })
    }
}

/// Returns the text of a reply: a bulk string, a status or an error.
pub(crate) fn text_of(answer: &Value) -> String {
    String::from_utf8_lossy(answer.as_bytes().unwrap_or_default()).into_owned()
}

/// Returns the value of a field of INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info_have_whole_names() {
        let info = "# P\r\naof_rewrite_in_progress:0\r\naof_rewrite:7\r\n";
        assert_eq!(field(info, "aof_rewrite"), Some("7"));
        assert_eq!(field(info, "aof"), None);
    }
}
