//! The connection to the target of a migration, and the protocol over it.

use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token};
use punctual_resp::encode_command;
use punctual_store::Error;
use punctual_store::value::Value;

use crate::migrate::kept::{Endpoint, Kept};
use crate::net::dial::{Conversation, Dial, DialError, Step, take_lines};
use crate::tls::Tls;
use crate::world::clock::ServerClock;

/// Maximum length of a line of a reply in bytes. RESTORE replies with one line.
const LINE_MAX: usize = 1024;
/// Size of the output in bytes at which no more commands are added.
const OUTPUT_BYTES: usize = 64 << 10;

/// The server that receives the keys, and options of the transfer.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) db: i64,
    /// Arguments of AUTH.
    pub(crate) auth: Vec<Vec<u8>>,
    /// Maximum time without progress of the connection.
    pub(crate) timeout: Duration,
    /// REPLACE: existing keys are replaced.
    pub(crate) replace: bool,
    /// The target is a node of this server's cluster, so the keys arrive in a slot that moves.
    pub(crate) in_cluster: bool,
    /// Encrypts the connection, if set.
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Target {
    /// Returns the key under which a connection to this target is kept.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            host: self.host.clone(),
            port: self.port,
            auth: self.auth.clone(),
            encrypted: self.tls.is_some(),
        }
    }
}

/// A key to send, with its value.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) key: Box<[u8]>,
    /// Payload of DUMP; `None` deletes the copy that the target has.
    pub(crate) payload: Option<Vec<u8>>,
    /// Deadline in unix ms.
    pub(crate) deadline_ms: Option<u64>,
    /// The target has an earlier copy, which this parcel replaces.
    pub(crate) again: bool,
    /// The target has accepted the parcel.
    pub(crate) accepted: bool,
}

/// Failure of a transfer.
#[derive(Debug)]
pub(crate) enum Failure {
    Connecting,
    Writing,
    Reading,
    /// Error reply of the target, without its `-`.
    Reply(Vec<u8>),
}

impl Failure {
    /// Returns Redis's error text.
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

/// The parcels of a migration, and the state of the connection to its target.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) target: Target,
    pub(crate) parcels: Vec<Parcel>,
    /// First error reply of the target, or the error of the connection. After an error of the
    /// connection no further parcel is accepted.
    pub(crate) failure: Option<Failure>,
    /// Database that is selected on a connection that an earlier migration has used.
    reused: Option<i64>,
    /// AUTH and SELECT have been sent, if they are needed.
    setup_sent: bool,
    /// Number of replies to AUTH and SELECT that are still expected.
    setup_replies: usize,
    /// Number of parcels that have been sent.
    sent: usize,
    /// Number of parcels whose reply has arrived.
    replied: usize,
}

impl Transfer {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            parcels: Vec::new(),
            failure: None,
            reused: None,
            setup_sent: false,
            setup_replies: 0,
            sent: 0,
            replied: 0,
        }
    }

    /// Resets the state for a new connection.
    pub(crate) fn begin(&mut self) {
        self.failure = None;
        (self.reused, self.setup_sent) = (None, false);
        (self.setup_replies, self.sent, self.replied) = (0, 0, 0);
    }

    /// Begins on a kept connection, on which this database is selected.
    pub(crate) fn begin_on_kept(&mut self, db: i64) {
        self.begin();
        self.reused = Some(db);
        self.setup_sent = db == self.target.db;
    }

    /// Returns whether a kept connection has ended before the target answered, so that a new
    /// connection may succeed. The target has probably closed it while it was unused.
    pub(crate) fn may_redial(&self, error: &DialError) -> bool {
        let (DialError::Connecting(error) | DialError::Writing(error) | DialError::Reading(error)) =
            error;
        self.reused.is_some() && self.replied == 0 && error.kind() != io::ErrorKind::TimedOut
    }

    /// Returns the connection for a later migration, if the target has answered everything.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let answered = self.setup_replies == 0 && self.replied == self.parcels.len();
        let lost = matches!(self.failure, Some(Failure::Reading));
        (answered && !lost).then(|| Kept {
            endpoint: self.target.endpoint(),
            db: self.target.db,
        })
    }

    /// Ends the transfer with an error of the connection.
    pub(crate) fn fail(&mut self, error: &DialError) {
        self.failure = Some(match error {
            // Redis connects without blocking and reports a refused connection as an error of the
            // first write.
            DialError::Connecting(error) if error.raw_os_error().is_none() => Failure::Connecting,
            DialError::Connecting(_) | DialError::Writing(_) => Failure::Writing,
            DialError::Reading(_) => Failure::Reading,
        });
    }

    /// Opens a connection and sends the parcels. Blocks until all replies have arrived, the
    /// connection breaks, or the target has been silent for too long.
    pub(crate) fn run(&mut self, clock: &ServerClock) {
        self.begin();
        if let Err(error) = self.run_connection(clock) {
            self.fail(&error);
        }
    }

    fn run_connection(&mut self, clock: &ServerClock) -> Result<(), DialError> {
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
        if !self.setup_sent {
            self.setup_sent = true;
            self.setup_replies = 1;
            if !self.target.auth.is_empty() && self.reused.is_none() {
                let words = [&[b"AUTH".to_vec()][..], &self.target.auth].concat();
                encode_command(output, &words);
                self.setup_replies += 1;
            }
            let mut db = itoa::Buffer::new();
            encode_command(output, &[b"SELECT", db.format(self.target.db).as_bytes()]);
        }
        // Unlike Redis, no key is sent before SELECT has succeeded: the key would be stored in the
        // wrong database.
        while self.setup_replies == 0
            && output.len() < OUTPUT_BYTES
            && let Some(parcel) = self.parcels.get(self.sent)
        {
            self.sent += 1;
            let Some(payload) = &parcel.payload else {
                encode_deletion(output, &parcel.key, self.target.in_cluster);
                continue;
            };
            let ttl = parcel
                .deadline_ms
                .map_or(0, |at| at.saturating_sub(now_ms).max(1));
            let mut buffer = itoa::Buffer::new();
            let ttl = buffer.format(ttl).as_bytes();
            let name: &[u8] = match self.target.in_cluster {
                true => b"RESTORE-ASKING",
                false => b"RESTORE",
            };
            let words: [&[u8]; 5] = [name, &parcel.key, ttl, payload, b"REPLACE"];
            let replaces = self.target.replace || parcel.again;
            encode_command(output, &words[..if replaces { 5 } else { 4 }]);
        }
    }

    fn read_input(&mut self, input: &mut Vec<u8>) -> bool {
        take_lines(input, |reply| {
            let refusal = reply
                .strip_prefix(b"-")
                .map(|text| Failure::Reply(text.to_vec()));
            if self.setup_replies > 0 {
                self.setup_replies -= 1;
            } else if let Some(parcel) = self.parcels.get_mut(self.replied) {
                parcel.accepted = refusal.is_none();
                self.replied += 1;
            }
            self.failure = self.failure.take().or(refusal);
            true
        });
        if input.len() > LINE_MAX {
            self.failure = Some(Failure::Reading);
            return true;
        }
        let refused = self.replied == 0 && self.failure.is_some();
        self.setup_replies == 0 && (refused || self.replied == self.parcels.len())
    }
}

/// Appends the command that deletes the target's copy of a key. A node that imports the slot
/// refuses DEL without ASKING. There, a value that expired long ago replaces the copy, which
/// deletes the key.
fn encode_deletion(output: &mut Vec<u8>, key: &[u8], in_cluster: bool) {
    if in_cluster {
        let payload = Value::string(b"").dump();
        let words: [&[u8]; 6] = [
            b"RESTORE-ASKING",
            key,
            b"1",
            &payload,
            b"ABSTTL",
            b"REPLACE",
        ];
        encode_command(output, &words);
    } else {
        encode_command(output, &[b"DEL", key]);
    }
}
