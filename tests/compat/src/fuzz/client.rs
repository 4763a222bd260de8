//! Clients of the fuzzer: sessions that expect every reply, and short-lived connections that close
//! at any point.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use punctual_resp::{Decoder, Value, encode_command};

use super::grammar::Grammar;
use super::{Options, words};
use crate::command::Command;
use crate::draw::Draw;

/// Number of commands of a session that a report shows.
const SHOWN: usize = 20;

/// Maximum time for which a report waits for late replies.
const LATE: Duration = Duration::from_secs(30);

/// The reason why a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// The server has closed the connection, or does not accept one.
    Closed,
    /// No byte has arrived for [`Options::silence`] while a reply was due.
    Silent,
    /// The reply is not RESP.
    Malformed(String),
}

/// Numbers of replies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replies {
    pub(super) all: u64,
    pub(super) errors: u64,
}

/// A connection that waits for its replies.
pub(super) struct Session {
    stream: TcpStream,
    decoder: Decoder,
    tags: u64,
    /// The last [`SHOWN`] commands.
    pub(super) recent: VecDeque<Command>,
    pub(super) replies: Replies,
}

impl Session {
    pub(super) fn connect(options: &Options) -> Result<Self, End> {
        Ok(Self {
            stream: connect(options).ok_or(End::Closed)?,
            decoder: Decoder::new(),
            tags: 0,
            recent: VecDeque::new(),
            replies: Replies::default(),
        })
    }

    /// Sends commands and a PING, in several writes if `divided`, and reads all replies up to the
    /// PING's reply.
    pub(super) fn exchange(
        &mut self,
        draw: &mut Draw,
        mut batch: Vec<Command>,
        divided: bool,
    ) -> Result<(), End> {
        self.tags += 1;
        if batch.iter().any(hides_replies) {
            // A CLIENT REPLY SKIP before may suppress the reply of the first RESET.
            batch.extend([Command::of(&["RESET"]), Command::of(&["RESET"])]);
        }
        batch.push(Command::of(&["PING", &self.tag()]));
        let mut bytes = Vec::new();
        for command in &batch {
            encode_command(&mut bytes, command.args());
        }
        self.recent.extend(batch);
        self.recent.drain(..self.recent.len().saturating_sub(SHOWN));
        let pieces = if divided { draw.count(2..=4) } else { 1 };
        for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
            self.stream.write_all(piece).map_err(|error| end(&error))?;
            if divided {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.read_until_tag()
    }

    /// Reads replies up to the reply of the last PING.
    fn read_until_tag(&mut self) -> Result<(), End> {
        let tag = self.tag();
        let mut part = vec![0; 64 << 10];
        loop {
            match self.decoder.next_value() {
                Ok(None) => {}
                Ok(Some(value)) => {
                    self.replies.all += 1;
                    self.replies.errors += u64::from(value.is_error());
                    if contains(&value, tag.as_bytes()) {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => return Err(End::Malformed(error.to_string())),
            }
            match self.stream.read(&mut part) {
                Ok(0) => return Err(End::Closed),
                Ok(len) => self.decoder.feed(&part[..len]),
                Err(error) => return Err(end(&error)),
            }
        }
    }

    /// Waits for replies that have not arrived in time. Returns a text that says when they came.
    pub(super) fn wait_longer(&mut self, began: Instant) -> String {
        let mut ended = Err(End::Silent);
        while matches!(ended, Err(End::Silent)) && began.elapsed() < LATE {
            ended = self.read_until_tag();
        }
        let waited = began.elapsed();
        match ended {
            Ok(()) => format!("The replies came {waited:?} later."),
            Err(end) => format!("The replies did not come within another {waited:?} ({end:?})."),
        }
    }

    /// Returns the argument of the last PING.
    fn tag(&self) -> String {
        format!("tag {}", self.tags)
    }
}

fn connect(options: &Options) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&options.address, options.silence).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(options.silence)).ok()?;
    stream.set_write_timeout(Some(options.silence)).ok()?;
    Some(stream)
}

fn end(error: &std::io::Error) -> End {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => End::Silent,
        _ => End::Closed,
    }
}

/// Returns true if PING may have no usual reply after this command.
fn hides_replies(command: &Command) -> bool {
    match &*command.name() {
        "MULTI" | "MONITOR" | "AUTH" | "HELLO" => true,
        _ => sets_replies(command),
    }
}

/// Returns true for CLIENT REPLY.
fn sets_replies(command: &Command) -> bool {
    command.name() == "CLIENT" && command.word(1) == "REPLY"
}

fn contains(value: &Value, tag: &[u8]) -> bool {
    let parts = value.as_slice();
    value.as_bytes() == Some(tag)
        || parts.is_some_and(|parts| parts.iter().any(|part| contains(part, tag)))
}

/// Returns the commands that a session sends next.
pub(super) fn batch(draw: &mut Draw, grammar: &Grammar) -> Vec<Command> {
    let len = draw.weighted(&[(6, 1_usize), (4, 3), (2, 10), (1, 40)]);
    let mut commands: Vec<Command> = (0..len).map(|_| grammar.command(draw)).collect();
    if draw.chance(12) {
        commands.insert(0, Command::of(&["MULTI"]));
        match draw.between(0..=9) {
            0 => {}
            1 => commands.push(Command::of(&["DISCARD"])),
            _ => commands.push(Command::of(&["EXEC"])),
        }
        if draw.chance(40) {
            let watched = draw.any_keys(3);
            let mut watch = Command::new("WATCH");
            watch.extend(watched);
            commands.insert(0, watch);
        }
    }
    if draw.chance(6) {
        commands.push(Command::of(&["RESET"]));
    }
    if commands.iter().any(|command| command.name() == "EXEC") {
        // CLIENT REPLY suppresses replies within EXEC's array, in Redis as well: the array would
        // never be complete.
        commands.retain(|command| !sets_replies(command));
    }
    commands
}

/// Commands that block forever, and commands that change the state of the connection until it is
/// closed. Words with `$` mean the same as in the grammar's templates.
const FOR_EVER: &str = "\
BLPOP $list $list 0
BLMOVE $list $list LEFT LEFT 0
BZPOPMAX $zset 0
XREAD BLOCK 0 STREAMS $stream events:$n $ $
XREADGROUP GROUP g0 c$n BLOCK 0 STREAMS $stream >
JOB TAKE queue:$n queue:$n BLOCK 0
WAIT 1 0
SUBSCRIBE ch0 ch1
MULTI";

/// A short-lived connection. The run closes it at the time `until` and does not read its replies.
pub(super) struct Parked {
    _stream: TcpStream,
    pub(super) until: Instant,
}

/// Opens a connection, sends something, and does not wait for the reply.
pub(super) fn short_lived(draw: &mut Draw, grammar: &Grammar, options: &Options) -> Option<Parked> {
    let mut stream = connect(options)?;
    let mut bytes = Vec::new();
    let mut stay_ms = draw.weighted(&[(3, 0), (2, 20), (1, 300)]);
    for _ in 0..draw.weighted(&[(2, 0), (3, 1), (1, 8)]) {
        encode_command(&mut bytes, grammar.command(draw).args());
    }
    match draw.between(0..=99) {
        // A part of a command.
        0..=29 => {
            encode_command(&mut bytes, grammar.command(draw).args());
            bytes.truncate(bytes.len() - draw.count(1..=bytes.len()));
        }
        // A command that blocks, subscribes or begins a transaction.
        30..=59 => {
            let templates: Vec<&str> = FOR_EVER.lines().collect();
            let template = draw.pick(&templates);
            encode_command(&mut bytes, words::fill(draw, template).args());
            if draw.chance(2) {
                (0..3_000).for_each(|_| {
                    encode_command(&mut bytes, &["SET", "behind", "a command that waits"])
                });
            }
            stay_ms = draw.between(0..=400);
        }
        // Commands whose replies stay unread.
        60..=79 => (0..200).for_each(|_| encode_command(&mut bytes, &["ECHO", &"x".repeat(1_000)])),
        80..=84 => bytes.extend((0..draw.count(1..=300)).map(|_| draw.bits() as u8)),
        _ => {}
    }
    // The write fails if the server closes the connection before it has read all bytes.
    let _ = stream.write_all(&bytes);
    let until = Instant::now() + Duration::from_millis(stay_ms.unsigned_abs());
    Some(Parked {
        _stream: stream,
        until,
    })
}
