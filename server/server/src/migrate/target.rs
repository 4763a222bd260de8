//! The conversation with the target of a migration. Only this file blocks on its socket, each time for `timeout` at most.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use punctual_resp::encode_command;
use punctual_store::Error;

use crate::tls::Tls;
use crate::tls::channel::Channel;
use crate::world::World;
use crate::world::clock::ServerClock;

/// Longest line of a reply; RESTORE replies with one line.
const LINE_MAX: u64 = 1024;
/// Size of the write buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// Where keys go, and how.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) db: i64,
    /// Arguments of AUTH.
    pub(crate) auth: Vec<Vec<u8>>,
    /// Longest wait for the socket.
    pub(crate) timeout: Duration,
    /// Replace existing keys.
    pub(crate) replace: bool,
    /// Encrypts the connection.
    pub(crate) tls: Option<Arc<Tls>>,
}

/// A key to send.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) key: Box<[u8]>,
    /// Payload of DUMP; `None` deletes an earlier copy.
    pub(crate) payload: Option<Vec<u8>>,
    /// Deadline in unix ms.
    pub(crate) deadline_ms: Option<u64>,
    /// The target has an earlier copy, which this one replaces.
    pub(crate) again: bool,
    /// The target has accepted it.
    pub(crate) accepted: bool,
}

/// Failure of a transfer.
#[derive(Debug)]
pub(crate) enum Failure {
    Connecting,
    Writing,
    Reading,
    /// The target's error, without its `-`.
    Reply(Vec<u8>),
}

impl Failure {
    /// Returns Redis's error.
    pub(crate) fn error(&self) -> Error {
        match self {
            Self::Connecting => Error::fixed("IOERR error or timeout connecting to the client"),
            Self::Writing => Error::fixed("IOERR error or timeout writing to target instance"),
            Self::Reading => Error::fixed("IOERR error or timeout reading to target instance"),
            Self::Reply(text) => Error::Bytes(
                [b"ERR Target instance replied with error: ", &text[..]]
                    .concat()
                    .into(),
            ),
        }
    }
}

/// Sends the parcels and marks those that the target accepts. Returns the first failure; after one of the socket, the
/// parcels that follow are not accepted. Blocks.
pub(crate) fn transfer(
    target: &Target,
    parcels: &mut [Parcel],
    clock: &ServerClock,
) -> Option<Failure> {
    let mut conversation = match Conversation::open(clock.world, target) {
        Ok(conversation) => conversation,
        Err(failure) => return Some(failure),
    };
    match conversation.exchange(target, parcels, clock) {
        Ok(refused) => refused,
        Err(failure) => Some(failure),
    }
}

struct Conversation {
    reader: BufReader<Channel>,
    /// Bytes to send.
    output: Vec<u8>,
}

impl Conversation {
    fn open(world: World, target: &Target) -> Result<Self, Failure> {
        let addresses = (target.host.as_str(), target.port).to_socket_addrs();
        let mut failure = Failure::Connecting;
        for address in addresses.map_err(|_| Failure::Connecting)? {
            match TcpStream::connect_timeout(&address, target.timeout) {
                Ok(stream) => {
                    return Self::over(world, stream, target).map_err(|_| Failure::Connecting);
                }
                // Redis connects without blocking, so a refused connection shows up as an error of the first write.
                Err(e) if e.kind() != ErrorKind::TimedOut => failure = Failure::Writing,
                Err(_) => failure = Failure::Connecting,
            }
        }
        Err(failure)
    }

    fn over(world: World, stream: TcpStream, target: &Target) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(target.timeout))?;
        stream.set_write_timeout(Some(target.timeout))?;
        let mut channel = Channel {
            world,
            stream,
            session: None,
        };
        if let Some(tls) = &target.tls {
            channel.session = Some(Box::new(tls.connect()?));
            channel.shake_hands()?;
        }
        Ok(Self {
            reader: BufReader::new(channel),
            output: Vec::new(),
        })
    }

    /// Returns the first error of the target.
    fn exchange(
        &mut self,
        target: &Target,
        parcels: &mut [Parcel],
        clock: &ServerClock,
    ) -> Result<Option<Failure>, Failure> {
        // Unlike Redis, no key is sent before both have succeeded: it would arrive in the wrong database.
        let mut greetings = 1;
        if !target.auth.is_empty() {
            let words = [&[b"AUTH".to_vec()][..], &target.auth].concat();
            self.send(&words)?;
            greetings += 1;
        }
        self.send(&[b"SELECT", itoa::Buffer::new().format(target.db).as_bytes()])?;
        self.flush()?;
        let mut refused = None;
        for _ in 0..greetings {
            let reply = self.receive()?;
            refused = refused.or(refusal(reply));
        }
        if refused.is_some() {
            return Ok(refused);
        }
        for parcel in parcels.iter() {
            let Some(payload) = &parcel.payload else {
                self.send(&[b"DEL", &*parcel.key])?;
                continue;
            };
            let now_ms = clock.now().read_ms();
            let ttl = parcel
                .deadline_ms
                .map_or(0, |at| at.saturating_sub(now_ms).max(1));
            let mut buffer = itoa::Buffer::new();
            let ttl = buffer.format(ttl).as_bytes();
            let words: [&[u8]; 5] = [b"RESTORE", &parcel.key, ttl, payload, b"REPLACE"];
            let count = if target.replace || parcel.again { 5 } else { 4 };
            self.send(&words[..count])?;
        }
        self.flush()?;
        for parcel in parcels {
            let reply = self.receive()?;
            parcel.accepted = !reply.starts_with(b"-");
            refused = refused.or(refusal(reply));
        }
        Ok(refused)
    }

    fn send(&mut self, words: &[impl AsRef<[u8]>]) -> Result<(), Failure> {
        encode_command(&mut self.output, words);
        if self.output.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let channel = self.reader.get_mut();
        let written = channel.write_all(&self.output);
        self.output.clear();
        self.output.shrink_to(BUFFER_BYTES);
        written
            .and_then(|()| channel.flush())
            .map_err(|_| Failure::Writing)
    }

    /// Returns a reply of one line, without the line's end.
    fn receive(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(LINE_MAX);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|_| Failure::Reading)?;
        let text = line.strip_suffix(b"\n").ok_or(Failure::Reading)?;
        Ok(text.strip_suffix(b"\r").unwrap_or(text).to_vec())
    }
}

fn refusal(reply: Vec<u8>) -> Option<Failure> {
    Some(Failure::Reply(reply.strip_prefix(b"-")?.to_vec()))
}
