//! Receives `expired` or `hexpired` events on a separate thread, and measures their lateness.
//!
//! The receiver must not add to the lateness: it only reads into a large buffer, takes the time
//! once after each read, and parses the messages in place.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_resp::reply_len;

use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::keyload::DUE_NAME;
use crate::late::Late;
use crate::launch::Server;

/// The expected events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The event's name.
    pub(crate) event: &'static str,
    /// Number of names of keys or hashes. Each name contains its number, which is less than this.
    pub(crate) names: u64,
    /// Number of events per name: 1 for a key, the number of fields for a hash.
    pub(crate) each: u8,
    /// Time between two deadlines of a name. The first event of a name is due at the deadline in
    /// the name.
    pub(crate) step_ms: u64,
}

impl Expected {
    /// Returns the channel in database 0.
    fn channel(&self) -> String {
        format!("__keyevent@0__:{}", self.event)
    }

    /// Returns the bytes of a message before the key's length.
    fn message(&self) -> Vec<u8> {
        let channel = self.channel();
        format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n", channel.len()).into_bytes()
    }

    /// Returns the number of all events.
    pub(crate) fn all(&self) -> u64 {
        self.names * u64::from(self.each)
    }
}

/// Size of the read buffer in bytes.
const BUFFER: usize = 1 << 20;

/// Returns the deadline and number in a name from [`due_name`].
fn parse_key(name: &[u8]) -> Option<(u64, u64)> {
    if name.len() != DUE_NAME || !name.starts_with(b"pb:") || name[16] != b':' {
        return None;
    }
    Some((parse_digits(&name[3..16])?, parse_digits(&name[17..26])?))
}

fn parse_digits(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0u64, |number, &byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// Results of the receiver.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) late: Late,
    expected: Expected,
    message: Vec<u8>,
    /// Number of received events, indexed by the name's number.
    seen: Vec<u8>,
}

/// A subscribed connection and its thread.
#[derive(Debug)]
pub(crate) struct Receiver {
    thread: Option<JoinHandle<Result<Received>>>,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

impl Receiver {
    /// Subscribes to the events. Blocks until the server has confirmed the subscription.
    pub(crate) fn subscribe(server: &Server, expected: Expected) -> Result<Self> {
        let addr = server.addr;
        let broken = Error::broken("subscribing at", addr);
        let mut stream = server.client()?.into_stream();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .map_err(&broken)?;
        let channel = expected.channel();
        let command = format!(
            "*2\r\n$9\r\nSUBSCRIBE\r\n${}\r\n{channel}\r\n",
            channel.len()
        );
        stream.write_all(command.as_bytes()).map_err(&broken)?;
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let (ready, confirmed): (Sender<()>, Inbox<()>) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("expired-events".into())
            .spawn({
                let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
                move || receive(stream, addr, expected, &stop, &count, &ready)
            })
            .map_err(&broken)?;
        let receiver = Self {
            thread: Some(thread),
            stop,
            count,
        };
        match confirmed.recv_timeout(Duration::from_secs(10)) {
            Ok(()) => Ok(receiver),
            // The thread has ended with an error, or the server does not reply.
            Err(_) => match receiver.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(broken(ErrorKind::TimedOut.into())),
            },
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Blocks until all events have arrived or until the unix time `until_ms`. Returns the lateness
    /// of the received events.
    pub(crate) fn wait(self, all: u64, until_ms: u64) -> Result<Late> {
        while self.count() < all && unix_micros() < until_ms * 1000 {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.finish()
    }

    /// Ends the thread and returns its results.
    fn finish(mut self) -> Result<Late> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("finish consumes the receiver");
        let received = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(received?.late)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Received {
    fn new(expected: Expected) -> Self {
        Self {
            late: Late::new(expected.all()),
            expected,
            message: expected.message(),
            seen: vec![0; expected.names as usize],
        }
    }

    /// Records one event. Events of other keys are ignored.
    fn event(&mut self, key: &[u8], now: u64) {
        let Some((deadline_ms, index)) = parse_key(key) else {
            return;
        };
        let Some(seen) = self.seen.get_mut(index as usize) else {
            return;
        };
        if *seen == self.expected.each {
            self.late.again += 1;
            return;
        }
        let due_ms = deadline_ms + u64::from(*seen) * self.expected.step_ms;
        *seen += 1;
        self.late.record(now, due_ms * 1000);
    }

    /// Records all complete messages. Returns their length in bytes.
    fn messages(&mut self, bytes: &[u8], now: u64) -> std::result::Result<usize, String> {
        /// Length of the end of a message with a key of this run: length, key, line end.
        const TAIL: usize = 5 + DUE_NAME + 2;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let head = self.message.len();
            let whole = head + TAIL;
            if rest.len() >= whole
                && rest.starts_with(&self.message)
                && rest[head..].starts_with(b"$26\r\n")
            {
                self.event(&rest[head + 5..whole - 2], now);
                at += whole;
            } else {
                match reply_len(rest) {
                    Ok(Some(length)) => at += length,
                    Ok(None) => break,
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
        Ok(at)
    }
}

/// Main function of the thread: reads until `stop` is true. The first reply is the confirmation of
/// the subscription.
fn receive(
    mut stream: TcpStream,
    addr: SocketAddr,
    expected: Expected,
    stop: &AtomicBool,
    count: &AtomicU64,
    ready: &Sender<()>,
) -> Result<Received> {
    let broken = Error::broken("receiving events from", addr);
    let mut received = Received::new(expected);
    let mut buffer = vec![0; BUFFER];
    let mut filled = 0;
    let mut confirmed = false;
    while !stop.load(Ordering::Relaxed) {
        let read = stream.read(&mut buffer[filled..]);
        let now = unix_micros();
        match read {
            Ok(0) => return Err(broken(ErrorKind::UnexpectedEof.into())),
            Ok(length) => filled += length,
            // The read timed out: check whether to stop.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(error)),
        }
        let taken = received
            .messages(&buffer[..filled], now)
            .map_err(|reason| Error::NotResp { addr, reason })?;
        if taken > 0 && !confirmed {
            if buffer[0] == b'-' {
                let answer = String::from_utf8_lossy(&buffer[1..taken])
                    .trim_end()
                    .to_owned();
                let command = format!("SUBSCRIBE {}", expected.channel());
                return Err(Error::Refused {
                    addr,
                    command,
                    answer,
                });
            }
            confirmed = true;
            // The receiver of the channel may have been dropped.
            let _ = ready.send(());
        }
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
        if filled == buffer.len() {
            let reason = format!("a message of more than {BUFFER} bytes");
            return Err(Error::NotResp { addr, reason });
        }
        count.store(received.late.count(), Ordering::Relaxed);
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyload::due_name;

    fn keys(names: u64) -> Expected {
        Expected {
            event: "expired",
            names,
            each: 1,
            step_ms: 0,
        }
    }

    fn message(key: &[u8]) -> Vec<u8> {
        message_of(&keys(1), key)
    }

    fn message_of(expected: &Expected, key: &[u8]) -> Vec<u8> {
        let mut bytes = expected.message();
        bytes.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    #[test]
    fn names_carry_deadline_and_number() {
        let name = due_name(1_718_000_000_123, 999_999_999);
        assert_eq!(&name, b"pb:1718000000123:999999999");
        assert_eq!(parse_key(&name), Some((1_718_000_000_123, 999_999_999)));
        assert_eq!(parse_key(b"pb:171800000012x:999999999"), None);
        assert_eq!(parse_key(b"short"), None);
    }

    #[test]
    fn messages_cut_anywhere_count_once() {
        let deadline_ms = 5_000;
        let mut bytes =
            b"*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n".to_vec();
        for index in 0..3 {
            bytes.extend(message(&due_name(deadline_ms, index)));
        }
        bytes.extend(message(b"somebody else's"));
        bytes.extend(message(&due_name(deadline_ms, 1)));
        for cut in 0..bytes.len() {
            let mut received = Received::new(keys(100));
            let taken = received.messages(&bytes[..cut], 5_000_250).unwrap();
            let rest = received.messages(&bytes[taken..], 5_000_250).unwrap();
            assert_eq!(taken + rest, bytes.len());
            assert_eq!((received.late.count(), received.late.wrong()), (3, 98.0));
            assert_eq!(received.late.ms(3.0), 0.25);
        }
    }

    #[test]
    fn early_events_are_seen() {
        let mut received = Received::new(keys(1));
        received.messages(&message(&due_name(5, 0)), 4_999).unwrap();
        assert_eq!(received.late.wrong(), 1.0);
        // A number beyond this run's keys belongs to another run.
        received
            .messages(&message(&due_name(5, 64)), 6_000)
            .unwrap();
        assert_eq!((received.late.count(), received.late.wrong()), (1, 1.0));
    }

    #[test]
    fn fields_of_a_hash_are_told_apart_by_their_order() {
        let hashes = Expected {
            event: "hexpired",
            names: 2,
            each: 2,
            step_ms: 50,
        };
        assert_eq!(hashes.all(), 4);
        let mut received = Received::new(hashes);
        let mut event = |index, now_ms: u64| {
            let bytes = message_of(&hashes, &due_name(1_000, index));
            received.messages(&bytes, now_ms * 1000).unwrap();
            // Number of received events; number of missing, early and repeated events.
            (received.late.count(), received.late.wrong())
        };
        assert_eq!(event(0, 1_001), (1, 3.0));
        assert_eq!(event(1, 1_000), (2, 2.0));
        assert_eq!(event(0, 1_049), (3, 2.0));
        assert_eq!(event(0, 1_060), (3, 3.0));
        assert_eq!(event(1, 1_052), (4, 2.0));
    }
}
