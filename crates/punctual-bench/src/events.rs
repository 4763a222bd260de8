//! Receives `expired` events and takes their lateness, on a thread of its own.
//!
//! The receiver must not be what is late: it does nothing but read into a large buffer, take the
//! time once as the read returns, and step through the messages in place. How many messages a read
//! brought, and the thread's own CPU time, are kept to show that it was idle most of the time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Inbox, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_resp::reply_len;

use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::launch::Server;
use crate::process;
use crate::workload::write_digits;

/// The channel of expired events of database 0.
const CHANNEL: &str = "__keyevent@0__:expired";

/// Everything of a message that stands before the key's length.
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n";

/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// Bytes of a key that carries its deadline: `pb:`, 13 digits of unix milliseconds, `:`, 9 digits.
const KEY: usize = 26;

/// A key's name: its deadline in unix milliseconds and its number.
pub(crate) fn key_name(deadline_ms: u64, index: u64) -> [u8; KEY] {
    let mut name = *b"pb:0000000000000:000000000";
    write_digits(&mut name[3..16], deadline_ms);
    write_digits(&mut name[17..26], index);
    name
}

/// The deadline and number of a key that [`key_name`] made.
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

/// What the receiver saw.
#[derive(Debug)]
pub(crate) struct Received {
    /// Microseconds from deadline to reception.
    pub(crate) lateness: Histogram<u64>,
    /// Different keys whose event came.
    pub(crate) keys: u64,
    /// Events for a key whose event had come already.
    pub(crate) repeated: u64,
    /// Events that came before the deadline.
    pub(crate) early: u64,
    /// Events for keys that are not this run's.
    pub(crate) foreign: u64,
    /// Reads that brought something, and the most messages that one brought.
    pub(crate) reads: u64,
    pub(crate) most_in_one_read: u64,
    /// CPU time of the receiving thread.
    pub(crate) cpu: Duration,
    /// Unix microseconds of the last event.
    pub(crate) last_at: u64,
    /// One bit for each key.
    seen: Vec<u64>,
}

/// A subscribed connection and its thread.
#[derive(Debug)]
pub(crate) struct Receiver {
    thread: Option<JoinHandle<Result<Received>>>,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

impl Receiver {
    /// Subscribes; returns once the server has confirmed it. Keys are numbered below `keys`.
    pub(crate) fn subscribe(server: &Server, keys: u64) -> Result<Self> {
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
        let command = format!(
            "*2\r\n$9\r\nSUBSCRIBE\r\n${}\r\n{CHANNEL}\r\n",
            CHANNEL.len()
        );
        stream.write_all(command.as_bytes()).map_err(broken)?;
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let (ready, confirmed): (Sender<()>, Inbox<()>) = channel();
        let thread = std::thread::Builder::new()
            .name("expired-events".into())
            .spawn({
                let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
                move || receive(stream, addr, keys, &stop, &count, &ready)
            })
            .map_err(broken)?;
        let receiver = Self {
            thread: Some(thread),
            stop,
            count,
        };
        match confirmed.recv_timeout(Duration::from_secs(10)) {
            Ok(()) => Ok(receiver),
            // It ended, and says why, or the server keeps silent.
            Err(_) => match receiver.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(broken(ErrorKind::TimedOut.into())),
            },
        }
    }

    /// Different keys whose event has come so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends the thread and returns what it saw.
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
    fn new(keys: u64) -> Self {
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
            seen: vec![0; usize::try_from(keys.div_ceil(64)).unwrap_or(0)],
        }
    }

    /// Takes one event.
    fn event(&mut self, key: &[u8], now: u64) {
        let Some((deadline_ms, index)) = parse_key(key) else {
            self.foreign += 1;
            return;
        };
        let Some(word) = usize::try_from(index / 64)
            .ok()
            .and_then(|at| self.seen.get_mut(at))
        else {
            self.foreign += 1;
            return;
        };
        let bit = 1 << (index % 64);
        if *word & bit != 0 {
            self.repeated += 1;
            return;
        }
        *word |= bit;
        self.keys += 1;
        self.last_at = now;
        let deadline = deadline_ms * 1000;
        if now < deadline {
            self.early += 1;
        }
        self.lateness
            .saturating_record(now.saturating_sub(deadline));
    }

    /// Takes all whole messages; returns how many bytes they were.
    fn messages(&mut self, bytes: &[u8], now: u64) -> std::result::Result<usize, String> {
        /// The rest of a message with one of our keys: length, key, line end.
        const TAIL: usize = 5 + KEY + 2;
        let mut at = 0;
        let mut messages = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let whole = MESSAGE.len() + TAIL;
            if rest.len() >= whole
                && rest.starts_with(MESSAGE)
                && rest[MESSAGE.len()..].starts_with(b"$26\r\n")
            {
                self.event(&rest[MESSAGE.len() + 5..whole - 2], now);
                at += whole;
            } else {
                match reply_len(rest) {
                    Ok(Some(length)) => {
                        self.foreign += u64::from(rest.starts_with(MESSAGE));
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

/// The thread: reads until told to stop. The first reply is the confirmation.
fn receive(
    mut stream: TcpStream,
    addr: SocketAddr,
    keys: u64,
    stop: &AtomicBool,
    count: &AtomicU64,
    ready: &Sender<()>,
) -> Result<Received> {
    let broken = |source| Error::Broken {
        doing: "receiving events from",
        addr,
        source,
    };
    let mut received = Received::new(keys);
    let mut buffer = vec![0; BUFFER];
    let mut filled = 0;
    let mut confirmed = false;
    while !stop.load(Ordering::Relaxed) {
        let read = stream.read(&mut buffer[filled..]);
        let now = unix_micros();
        match read {
            Ok(0) => return Err(broken(ErrorKind::UnexpectedEof.into())),
            Ok(length) => filled += length,
            // The read's time limit: look whether to stop.
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
                let command = format!("SUBSCRIBE {CHANNEL}");
                return Err(Error::Refused {
                    addr,
                    command,
                    answer,
                });
            }
            confirmed = true;
            // The one who waits for it may have given up.
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

    fn message(key: &[u8]) -> Vec<u8> {
        let mut bytes = MESSAGE.to_vec();
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
            let mut received = Received::new(100);
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
        let mut received = Received::new(1);
        received.messages(&message(&key_name(5, 0)), 4_999).unwrap();
        assert_eq!(received.early, 1);
        // A number beyond this run's keys is somebody else's.
        received
            .messages(&message(&key_name(5, 64)), 6_000)
            .unwrap();
        assert_eq!(received.foreign, 1);
    }
}
