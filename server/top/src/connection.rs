//! One connection to a server: commands in a batch, their replies in order.
//!
//! Ground rules: one thread owns it. Connecting and each read and write wait at most [`PATIENCE`],
//! so a server that hangs is noticed. After an error the connection is given up; the caller opens
//! another one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use punctual_resp::{Decoder, Value, encode_command};
use rustls::ClientConfig;

use crate::options::Options;
use crate::tls;

/// Longest wait for a connection, or for bytes of a reply.
const PATIENCE: Duration = Duration::from_secs(5);

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// How to reach a server.
pub struct Target {
    options: Options,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// That of a file.
    pub fn new(mut options: Options) -> io::Result<Self> {
        if options.password.is_none() {
            options.password = std::env::var("REDISCLI_AUTH").ok();
        }
        let tls = options.tls.then(|| tls::config(&options)).transpose()?;
        Ok(Self { options, tls })
    }

    /// Returns the server as people write it.
    pub fn address(&self) -> String {
        self.options.address()
    }

    fn tcp(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::other("the host has no address");
        for address in (self.options.host.as_str(), self.options.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn stream(&self) -> io::Result<Box<dyn Duplex>> {
        if let Some(path) = &self.options.socket {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            return Ok(Box::new(stream));
        }
        let stream = self.tcp()?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(config) => Box::new(tls::encrypt(&self.options, Arc::clone(config), stream)?),
        })
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// That of the socket, or the server's refusal.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection {
            stream: self.stream()?,
            decoder: Decoder::new(),
        };
        let (user, database) = (&self.options.user, self.options.database.to_string());
        let mut first = Vec::new();
        match &self.options.password {
            // Older servers know no users.
            Some(password) if user == "default" => first.push(vec!["AUTH", password]),
            Some(password) => first.push(vec!["AUTH", user, password]),
            None if user != "default" => {
                return Err(io::Error::other(
                    "a user needs a password: REDISCLI_AUTH or --pass",
                ));
            }
            None => {}
        }
        if database != "0" {
            first.push(vec!["SELECT", &database]);
        }
        let refused = connection.ask(&first)?.into_iter().find(Value::is_error);
        refused.map_or(Ok(connection), |error| Err(io::Error::other(text(&error))))
    }
}

/// A connection.
pub struct Connection {
    stream: Box<dyn Duplex>,
    decoder: Decoder,
}

impl Connection {
    /// Sends commands, and returns the reply of each.
    ///
    /// # Errors
    /// That of the socket, or that the server speaks another protocol.
    pub fn ask(&mut self, commands: &[Vec<&str>]) -> io::Result<Vec<Value>> {
        let mut out = Vec::new();
        for words in commands {
            encode_command(&mut out, words);
        }
        self.stream.write_all(&out)?;
        self.stream.flush()?;
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> io::Result<Value> {
        let mut bytes = [0; 16 << 10];
        loop {
            if let Some(value) = self.decoder.next_value().map_err(io::Error::other)? {
                return Ok(value);
            }
            let count = match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::Error::other("the server has closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other("the server does not reply"));
                }
                Err(error) => return Err(error),
            };
            self.decoder.feed(&bytes[..count]);
        }
    }
}

/// Returns a reply as printable text.
pub(crate) fn text(value: &Value) -> String {
    match (value.as_bytes(), value.as_int()) {
        (_, Some(number)) => number.to_string(),
        (Some(bytes), None) => printable(bytes),
        (None, None) => String::new(),
    }
}

/// Returns bytes as text that a terminal may show: names and arguments are whatever clients have
/// sent.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}
