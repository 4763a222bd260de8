//! The conversation with the target of a migration.

use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token};
use punctual_resp::encode_command;
use punctual_store::Error;

use crate::net::dial::{Conversation, Dial, DialError, Step, take_lines};
use crate::tls::Tls;
use crate::world::clock::ServerClock;

/// Longest line of a reply; RESTORE replies with one line.
const LINE_MAX: usize = 1024;
/// Size of the output above which no command is added.
const OUTPUT_BYTES: usize = 64 << 10;

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

/// The parcels of a migration on their way to its target.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) target: Target,
    pub(crate) parcels: Vec<Parcel>,
    /// The first error of the target, or the error of the connection, after which no parcel is
    /// accepted.
    pub(crate) failure: Option<Failure>,
    /// AUTH and SELECT are said.
    greeted: bool,
    /// Number of their replies to come.
    greetings: usize,
    /// Number of parcels that are said.
    said: usize,
    /// Number of parcels with a reply.
    answered: usize,
}

impl Transfer {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            parcels: Vec::new(),
            failure: None,
            greeted: false,
            greetings: 0,
            said: 0,
            answered: 0,
        }
    }

    /// Begins the conversation anew.
    pub(crate) fn begin(&mut self) {
        self.failure = None;
        self.greeted = false;
        (self.greetings, self.said, self.answered) = (0, 0, 0);
    }

    /// Ends the conversation with an error of the connection.
    pub(crate) fn fail(&mut self, trouble: &DialError) {
        self.failure = Some(match trouble {
            // Redis connects without blocking, so a refused connection shows up as an error of the
            // first write.
            DialError::Connecting(error) if error.raw_os_error().is_none() => Failure::Connecting,
            DialError::Connecting(_) | DialError::Writing(_) => Failure::Writing,
            DialError::Reading(_) => Failure::Reading,
        });
    }

    /// Sends the parcels. Blocks as long as the target answers in time.
    pub(crate) fn run(&mut self, clock: &ServerClock) {
        self.begin();
        if let Err(trouble) = self.converse(clock) {
            self.fail(&trouble);
        }
    }

    fn converse(&mut self, clock: &ServerClock) -> Result<(), DialError> {
        let addresses = (self.target.host.as_str(), self.target.port).to_socket_addrs();
        let addresses = addresses.map_err(DialError::Connecting)?.collect();
        let mut poll = Poll::new().map_err(DialError::Connecting)?;
        let mut events = Events::with_capacity(1);
        let tls = self.target.tls.clone();
        let mut dial = Dial::begin(addresses, tls, poll.registry(), Token(0))?;
        let mut quiet_since = clock.world.stopwatch();
        loop {
            match dial.step(self, poll.registry(), clock.now().read_ms())? {
                Step::Over => return Ok(()),
                Step::Again => continue,
                Step::Wait => {}
            }
            if dial.has_moved() {
                quiet_since = clock.world.stopwatch();
            }
            let left = (self.target.timeout).saturating_sub(clock.world.since(quiet_since));
            if left.is_zero() {
                return Err(dial.timed_out());
            }
            match poll.poll(&mut events, Some(left)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(DialError::Reading(error));
                }
                _ => {}
            }
        }
    }
}

impl Conversation for Transfer {
    fn write_output(&mut self, now_ms: u64, output: &mut Vec<u8>) {
        if !self.greeted {
            self.greeted = true;
            self.greetings = 1;
            if !self.target.auth.is_empty() {
                let words = [&[b"AUTH".to_vec()][..], &self.target.auth].concat();
                encode_command(output, &words);
                self.greetings += 1;
            }
            let mut db = itoa::Buffer::new();
            encode_command(output, &[b"SELECT", db.format(self.target.db).as_bytes()]);
        }
        // Unlike Redis, no key is sent before both have succeeded: it would arrive in the wrong
        // database.
        while self.greetings == 0
            && output.len() < OUTPUT_BYTES
            && let Some(parcel) = self.parcels.get(self.said)
        {
            self.said += 1;
            let Some(payload) = &parcel.payload else {
                encode_command(output, &[b"DEL", &*parcel.key]);
                continue;
            };
            let ttl = parcel
                .deadline_ms
                .map_or(0, |at| at.saturating_sub(now_ms).max(1));
            let mut buffer = itoa::Buffer::new();
            let ttl = buffer.format(ttl).as_bytes();
            let words: [&[u8]; 5] = [b"RESTORE", &parcel.key, ttl, payload, b"REPLACE"];
            let replaces = self.target.replace || parcel.again;
            encode_command(output, &words[..if replaces { 5 } else { 4 }]);
        }
    }

    fn read_input(&mut self, input: &mut Vec<u8>) -> bool {
        take_lines(input, |reply| {
            let refusal = reply
                .strip_prefix(b"-")
                .map(|text| Failure::Reply(text.to_vec()));
            if self.greetings > 0 {
                self.greetings -= 1;
            } else if let Some(parcel) = self.parcels.get_mut(self.answered) {
                parcel.accepted = refusal.is_none();
                self.answered += 1;
            }
            self.failure = self.failure.take().or(refusal);
            true
        });
        if input.len() > LINE_MAX {
            self.failure = Some(Failure::Reading);
            return true;
        }
        let refused = self.answered == 0 && self.failure.is_some();
        self.greetings == 0 && (refused || self.answered == self.parcels.len())
    }
}
