//! A client that sends commands and compares replies, either as values or as exact bytes.
//!
//! In expected bytes, `|` stands for a line end. Methods that take a line send it as an inline
//! command; methods that take words send an array.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use punctual_resp::{Value, decode, encode_command, reply_len};

use crate::PATIENCE;

/// Time without a byte after which [`Wire::expect_silence`] succeeds.
const SILENCE: Duration = Duration::from_millis(60);

/// A blocking client on one connection.
#[derive(Debug)]
pub struct Wire<S = TcpStream> {
    /// The connection itself. Bytes that a caller reads from it directly are missing in later
    /// replies.
    pub stream: S,
    buffer: Vec<u8>,
}

impl Wire {
    /// Connects to a local port.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn try_to(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Connects to a local port.
    #[track_caller]
    pub fn to(port: u16) -> Self {
        Self::try_to(port).unwrap()
    }

    /// Returns the client's own port.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// Checks that all bytes so far have been taken, and that no byte arrives for a short time.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        self.stream.set_read_timeout(Some(SILENCE)).unwrap();
        let mut bytes = [0; 4096];
        let read = self.stream.read(&mut bytes);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match read {
            Ok(n) => panic!("{:?}", String::from_utf8_lossy(&bytes[..n])),
            Err(e) => assert!(
                matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{e}"
            ),
        }
        assert!(self.buffer.is_empty(), "{:?}", self.shown());
    }
}

impl<S: Read + Write> Wire<S> {
    /// Creates a client on a connection.
    pub fn over(stream: S) -> Self {
        let buffer = Vec::new();
        Self { stream, buffer }
    }

    /// Sends lines in one write.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn try_send(&mut self, lines: &[impl AsRef<str>]) -> io::Result<()> {
        let line = |line: &_| format!("{}\r\n", AsRef::<str>::as_ref(line));
        let text: String = lines.iter().map(line).collect();
        self.stream.write_all(text.as_bytes())
    }

    /// Sends lines in one write.
    #[track_caller]
    pub fn send(&mut self, lines: &[impl AsRef<str>]) {
        self.try_send(lines).unwrap();
    }

    /// Sends lines in one write and checks that these bytes arrive. If more bytes arrive, the next
    /// check fails.
    #[track_caller]
    pub fn expect(&mut self, lines: &[&str], answer: &str) {
        self.send(lines);
        self.receive(answer);
    }

    /// Sends a line and checks that the reply is `ERR` with this text.
    #[track_caller]
    pub fn expect_error(&mut self, line: &str, error: &str) {
        assert_eq!(self.text(line), format!("ERR {error}"));
    }

    /// Checks that these bytes arrive.
    #[track_caller]
    pub fn receive(&mut self, answer: &str) {
        let wanted = answer.replace('|', "\r\n");
        while self.buffer.len() < wanted.len() {
            assert!(
                self.read_more(),
                "closed after {:?}, expected {answer:?}",
                self.shown()
            );
            let common = self.buffer.len().min(wanted.len());
            assert_eq!(
                String::from_utf8_lossy(&self.buffer[..common]),
                wanted[..common],
                "unexpected"
            );
        }
        assert_eq!(
            String::from_utf8_lossy(&self.buffer[..wanted.len()]),
            wanted
        );
        self.buffer.drain(..wanted.len());
    }

    /// Sends a command and returns its reply. The words may have any bytes.
    #[track_caller]
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        self.write(words);
        self.value()
    }

    /// Sends a command and returns the bytes of its reply. The words may have any bytes.
    #[track_caller]
    pub fn raw(&mut self, words: &[impl AsRef<[u8]>]) -> Vec<u8> {
        self.write(words);
        loop {
            if let Some(len) = reply_len(&self.buffer).unwrap() {
                return self.buffer.drain(..len).collect();
            }
            assert!(self.read_more(), "closed after {:?}", self.shown());
        }
    }

    /// Sends a command that must succeed, and returns its reply.
    #[track_caller]
    pub fn succeed(&mut self, words: &[impl AsRef<[u8]>]) -> Value {
        let reply = self.ask(words);
        assert!(!reply.is_error(), "{reply:?}");
        reply
    }

    /// Sends a line that must succeed, and returns its reply.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        self.send(&[line]);
        let reply = self.value();
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    }

    /// Sends a line and returns the text of the reply or error.
    #[track_caller]
    pub fn text(&mut self, line: &str) -> String {
        self.send(&[line]);
        let value = self.value();
        let text = value.as_bytes().unwrap_or_else(|| panic!("{value:?}"));
        String::from_utf8_lossy(text).into_owned()
    }

    /// Returns a field of a section of INFO.
    #[track_caller]
    pub fn info(&mut self, section: &str, name: &str) -> String {
        let text = self.text(&format!("INFO {section}"));
        let field = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
        let found = text.lines().find_map(field);
        found.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Sends a line and returns the integer of the reply.
    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        self.send(&[line]);
        let value = self.value();
        value
            .as_int()
            .unwrap_or_else(|| panic!("{line}: {value:?}"))
    }

    /// Returns the next reply or message.
    #[track_caller]
    pub fn value(&mut self) -> Value {
        match self.try_value() {
            Ok(value) => value,
            Err(error) => panic!("{error} after {:?}", self.shown()),
        }
    }

    /// Returns the next reply or message.
    ///
    /// # Errors
    /// The error of the connection; `UnexpectedEof` if the server has closed it.
    ///
    /// # Panics
    /// If the bytes are not RESP.
    #[track_caller]
    pub fn try_value(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, len)) = decode(&self.buffer).unwrap() {
                self.buffer.drain(..len);
                return Ok(value);
            }
            if self.try_read_more()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads until the server closes the connection, and returns the number of bytes.
    #[track_caller]
    pub fn ends(&mut self) -> usize {
        let mut count = self.buffer.len();
        let mut bytes = vec![0; 1 << 20];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return count,
                Ok(n) => count += n,
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return count,
                Err(e) => panic!("still open: {e}"),
            }
        }
    }

    #[track_caller]
    fn write(&mut self, words: &[impl AsRef<[u8]>]) {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, words);
        self.stream.write_all(&bytes).unwrap();
    }

    #[track_caller]
    fn read_more(&mut self) -> bool {
        match self.try_read_more() {
            Ok(count) => count > 0,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => false,
            Err(e) => panic!("{e} after {:?}", self.shown()),
        }
    }

    fn try_read_more(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                // A stop and a continuation of this process end a read that has a time limit.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let count = read?;
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return Ok(count);
                }
            }
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.buffer).replace("\r\n", "|")
    }
}
