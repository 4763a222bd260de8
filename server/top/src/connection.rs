//! One connection to a server, which sends commands in a batch and returns their replies in order.
//!
//! Ground rules: one thread owns the connection. A TCP connect, a read and a write each take at
//! most [`WAIT_MAX`], so a server that hangs causes an error. After an error, the caller drops the
//! connection and opens a new one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use punctual_resp::{Decoder, Value, encode_command};
use rustls::ClientConfig;

use crate::options::Options;
use crate::tls;

/// Maximum time to wait for a TCP connection, for a write, or for bytes of a reply.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A stream of bytes in both directions: a TCP, TLS or Unix socket.
trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// The address and the credentials of a server.
pub struct Target {
    options: Options,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Returns the target of the options. Reads the files for TLS, and the password from the
    /// environment variable `REDISCLI_AUTH` if the options have none.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(mut options: Options) -> io::Result<Self> {
        if options.password.is_none() {
            options.password = std::env::var("REDISCLI_AUTH").ok();
        }
        let tls = options.tls.then(|| tls::config(&options)).transpose()?;
        Ok(Self { options, tls })
    }

    /// Returns the server's address for messages: `HOST:PORT`, or the path of a Unix socket.
    pub fn address(&self) -> String {
        self.options.address()
    }

    fn tcp(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::other("the host has no address");
        for address in (self.options.host.as_str(), self.options.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, WAIT_MAX) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(WAIT_MAX))?;
                    stream.set_write_timeout(Some(WAIT_MAX))?;
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
            stream.set_read_timeout(Some(WAIT_MAX))?;
            stream.set_write_timeout(Some(WAIT_MAX))?;
            return Ok(Box::new(stream));
        }
        let stream = self.tcp()?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(config) => Box::new(tls::encrypt(&self.options, Arc::clone(config), stream)?),
        })
    }

    /// Connects, authenticates, and selects the database.
    ///
    /// # Errors
    /// An error of the socket, or the error reply of the server.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection {
            stream: self.stream()?,
            decoder: Decoder::new(),
        };
        let (user, database) = (&self.options.user, self.options.database.to_string());
        let mut first = Vec::new();
        match &self.options.password {
            // Servers before Redis 6 have no users.
            Some(password) if user == "default" => first.push(vec!["AUTH", password]),
            Some(password) => first.push(vec!["AUTH", user, password]),
            None if user != "default" => {
                return Err(io::Error::other(
                    "a user needs a password: set REDISCLI_AUTH or --pass",
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

/// A connection to a server.
pub struct Connection {
    stream: Box<dyn Duplex>,
    decoder: Decoder,
}

impl Connection {
    /// Sends commands, and returns their replies in the same order.
    ///
    /// # Errors
    /// An error of the socket, or a reply that is not RESP.
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

/// Returns a reply as printable text. The text is empty for arrays and nulls.
pub(crate) fn text(value: &Value) -> String {
    match (value.as_bytes(), value.as_int()) {
        (_, Some(number)) => number.to_string(),
        (Some(bytes), None) => printable(bytes),
        (None, None) => String::new(),
    }
}

/// Returns bytes as text without control characters, because names and arguments may contain any
/// bytes that clients have sent.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}
