//! Receives `expired` or `hexpired` events on a separate thread, and measures their lateness.
//!
//! The receiver must not add to the lateness: it only reads into a large buffer, takes the time once after each read, and
//! parses the messages in place. It counts messages per read and its own CPU time, to show that it was idle most of the
//! time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_resp::reply_len;

use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::launch::Server;
use crate::process;
use crate::workload::write_digits;

/// The expected events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The event's name.
    pub(crate) event: &'static str,
    /// Number of names; each name has a number below it.
    pub(crate) names: u64,
    /// Number of events per name: 1 for a key, the number of fields for a hash.
    pub(crate) each: u8,
    /// Time between two deadlines of a name; its first event is due at the deadline in the name.
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

/// Size of the read buffer.
const BUFFER: usize = 1 << 20;

/// Length of a key's name: `pb:`, 13 digits of unix milliseconds, `:`, 9 digits.
const KEY: usize = 26;

/// Returns a key's name, which contains its deadline in unix milliseconds and its number.
pub(crate) fn key_name(deadline_ms: u64, index: u64) -> [u8; KEY] {
    let mut name = *b"pb:0000000000000:000000000";
    write_digits(&mut name[3..16], deadline_ms);
    write_digits(&mut name[17..26], index);
    name
}

/// Returns the deadline and number in a name from [`key_name`].
fn parse_key(name: &[u8]) -> Option<(u64, u64)> {
    if name.len() != KEY || !name.starts_with(b"pb:") || name[16] != b':' {
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
    /// Microseconds from deadline to reception.
    pub(crate) lateness: Histogram<u64>,
    /// Number of distinct keys or fields whose event arrived.
    pub(crate) keys: u64,
    /// Events of a name beyond the expected number.
    pub(crate) repeated: u64,
    /// Events before the deadline.
    pub(crate) early: u64,
    /// Events of keys that do not belong to this run.
    pub(crate) foreign: u64,
    /// Number of reads that returned data, and the largest number of messages in one read.
    pub(crate) reads: u64,
    pub(crate) most_in_one_read: u64,
    /// CPU time of the receiving thread.
    pub(crate) cpu: Duration,
    /// Unix microseconds of the last event.
    pub(crate) last_at: u64,
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
    /// Subscribes. Blocks until the server has confirmed it.
    pub(crate) fn subscribe(server: &Server, expected: Expected) -> Result<Self> {
        let addr = server.addr;
        let broken = move |source| Error::Broken {
            doing: "subscribing at",
            addr,
            source,
        };
        let mut stream = server.client()?.into_stream();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .map_err(broken)?;
        let channel = expected.channel();
        let command = format!(
            "*2\r\n$9\r\nSUBSCRIBE\r\n${}\r\n{channel}\r\n",
            channel.len()
        );
        stream.write_all(command.as_bytes()).map_err(broken)?;
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let (ready, confirmed): (Sender<()>, Inbox<()>) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("expired-events".into())
            .spawn({
                let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
                move || receive(stream, addr, expected, &stop, &count, &ready)
            })
            .map_err(broken)?;
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

    /// Returns the number of distinct keys or fields whose event has arrived.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends the thread and returns its results.
    pub(crate) fn finish(mut self) -> Result<Received> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("finish consumes the receiver");
        match thread.join() {
            Ok(received) => received,
            Err(panic) => std::panic::resume_unwind(panic),
        }
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
            lateness: Histogram::new_with_bounds(1, 86_400_000_000, 3)
                .expect("the bounds are in order"),
            keys: 0,
            repeated: 0,
            early: 0,
            foreign: 0,
            reads: 0,
            most_in_one_read: 0,
            cpu: Duration::ZERO,
            last_at: 0,
            expected,
            message: expected.message(),
            seen: vec![0; usize::try_from(expected.names).unwrap_or(0)],
        }
    }

    /// Records one event.
    fn event(&mut self, key: &[u8], now: u64) {
        let Some((deadline_ms, index)) = parse_key(key) else {
            self.foreign += 1;
            return;
        };
        let Some(seen) = usize::try_from(index)
            .ok()
            .and_then(|at| self.seen.get_mut(at))
        else {
            self.foreign += 1;
            return;
        };
        if *seen == self.expected.each {
            self.repeated += 1;
            return;
        }
        let deadline = (deadline_ms + u64::from(*seen) * self.expected.step_ms) * 1000;
        *seen += 1;
        self.keys += 1;
        self.last_at = now;
        if now < deadline {
            self.early += 1;
        }
        self.lateness
            .saturating_record(now.saturating_sub(deadline));
    }

    /// Records all complete messages. Returns their length in bytes.
    fn messages(&mut self, bytes: &[u8], now: u64) -> std::result::Result<usize, String> {
        /// Length of the end of a message with a key of this run: length, key, line end.
        const TAIL: usize = 5 + KEY + 2;
        let mut at = 0;
        let mut messages = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let head = self.message.len();
            let whole = head + TAIL;
            let is_message = rest.starts_with(&self.message);
            if rest.len() >= whole && is_message && rest[head..].starts_with(b"$26\r\n") {
                self.event(&rest[head + 5..whole - 2], now);
                at += whole;
            } else {
                match reply_len(rest) {
                    Ok(Some(length)) => {
                        self.foreign += u64::from(is_message);
                        at += length;
                    }
                    Ok(None) => break,
                    Err(error) => return Err(error.to_string()),
                }
            }
            messages += 1;
        }
        self.most_in_one_read = self.most_in_one_read.max(messages);
        Ok(at)
    }
}

/// Main function of the thread: reads until it is stopped. The first reply is the confirmation.
fn receive(
    mut stream: TcpStream,
    addr: SocketAddr,
    expected: Expected,
    stop: &AtomicBool,
    count: &AtomicU64,
    ready: &Sender<()>,
) -> Result<Received> {
    let broken = |source| Error::Broken {
        doing: "receiving events from",
        addr,
        source,
    };
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
        received.reads += 1;
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
        count.store(received.keys, Ordering::Relaxed);
    }
    received.cpu = process::own_thread_cpu();
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let name = key_name(1_718_000_000_123, 999_999_999);
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
            bytes.extend(message(&key_name(deadline_ms, index)));
        }
        bytes.extend(message(b"somebody else's"));
        bytes.extend(message(&key_name(deadline_ms, 1)));
        for cut in 0..bytes.len() {
            let mut received = Received::new(keys(100));
            let taken = received.messages(&bytes[..cut], 5_000_250).unwrap();
            let rest = received.messages(&bytes[taken..], 5_000_250).unwrap();
            assert_eq!(taken + rest, bytes.len());
            assert_eq!(
                (received.keys, received.foreign, received.repeated),
                (3, 1, 1)
            );
            assert_eq!((received.early, received.lateness.max()), (0, 250));
        }
    }

    #[test]
    fn early_events_are_seen() {
        let mut received = Received::new(keys(1));
        received.messages(&message(&key_name(5, 0)), 4_999).unwrap();
        assert_eq!(received.early, 1);
        // A number beyond this run's keys belongs to another run.
        received
            .messages(&message(&key_name(5, 64)), 6_000)
            .unwrap();
        assert_eq!(received.foreign, 1);
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
            let bytes = message_of(&hashes, &key_name(1_000, index));
            received.messages(&bytes, now_ms * 1000).unwrap();
            (
                received.keys,
                received.early,
                received.repeated,
                received.lateness.max(),
            )
        };
        assert_eq!(event(0, 1_001), (1, 0, 0, 1_000));
        assert_eq!(event(1, 1_000), (2, 0, 0, 1_000));
        assert_eq!(event(0, 1_049), (3, 1, 0, 1_000));
        assert_eq!(event(0, 1_060), (3, 1, 1, 1_000));
        assert_eq!(event(1, 1_052).0, 4);
    }
}
