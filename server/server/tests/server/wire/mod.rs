//! A client that sends and expects exact bytes.
//!
//! Expected texts have `|` for a line end. Commands are sent inline.

pub mod pair;
pub mod redis;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_resp::{Value, decode, encode_command};
use punctual_server::Server;

/// Timeout for a reply, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time without a byte that counts as silence.
const SILENCE: Duration = Duration::from_millis(60);

/// One connection.
pub struct Wire {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub fn open(server: &Server) -> Self {
        Self::to(server.port())
    }

    /// Connects to a local port.
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Returns the local port.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// Sends lines in one write.
    pub fn send(&mut self, lines: &[&str]) {
        let text: String = lines.iter().map(|l| format!("{l}\r\n")).collect();
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Sends lines in one write and expects these bytes. Further bytes fail the next expectation.
    #[track_caller]
    pub fn expect(&mut self, lines: &[&str], answer: &str) {
        self.send(lines);
        self.receive(answer);
    }

    /// Sends a line and expects this error, without its `ERR`.
    #[track_caller]
    pub fn expect_error(&mut self, line: &str, error: &str) {
        assert_eq!(self.text(line), format!("ERR {error}"));
    }

    /// Expects these bytes.
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

    /// Sends a command of any bytes and returns its reply.
    #[track_caller]
    pub fn ask(&mut self, args: &[impl AsRef<[u8]>]) -> Value {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, args);
        self.stream.write_all(&bytes).unwrap();
        self.value()
    }

    /// Sends a line and returns the text of the reply or error.
    #[track_caller]
    pub fn text(&mut self, line: &str) -> String {
        self.send(&[line]);
        let value = self.value();
        String::from_utf8_lossy(value.as_bytes().unwrap_or_else(|| panic!("{value:?}")))
            .into_owned()
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
        loop {
            if let Some((value, len)) = decode(&self.buffer).unwrap() {
                self.buffer.drain(..len);
                return value;
            }
            assert!(self.read_more(), "closed after {:?}", self.shown());
        }
    }

    /// Expects that no byte arrives for [`SILENCE`].
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

    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(n) => {
                self.buffer.extend_from_slice(&bytes[..n]);
                n > 0
            }
            Err(e) if e.kind() == ErrorKind::ConnectionReset => false,
            Err(e) => panic!("{e} after {:?}", self.shown()),
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.buffer).replace("\r\n", "|")
    }
}

/// Returns the time of the system clock since the epoch.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Blocks until a condition holds that the server reaches asynchronously.
#[track_caller]
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "the condition still does not hold");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a field of a line of CLIENT LIST.
pub fn field<'l>(line: &'l str, name: &str) -> &'l str {
    line.split_whitespace()
        .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
}
