//! The load generator: many connections on one thread, a fixed number of commands in flight on
//! each.
//!
//! As in redis-benchmark, a connection sends a batch, waits for all its replies, and sends the next
//! batch. The generator must be faster than the servers. So commands are encoded once, and only
//! their numbers are rewritten in place; a batch is one `write`; replies are measured but not
//! decoded; and after a read that does not fill the buffer, no second read follows.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll};
use punctual_resp::ReplyScan;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::ClockId;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::late::histogram;
use crate::process::own_cpu;
use crate::workload::{Draw, Template};

/// Size of the read buffer in bytes, larger than the replies of a usual batch.
const READ_SIZE: usize = 256 * 1024;

/// Time without replies after which a server counts as broken.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Parameters of a load.
#[derive(Debug, Clone)]
pub(crate) struct Load<'a> {
    /// The command.
    pub(crate) template: &'a Template,
    /// Number of commands in flight on each connection.
    pub(crate) pipeline: u32,
    /// Total number of commands, rounded up to whole batches.
    pub(crate) requests: u64,
    /// The range of the numbers that replace placeholders.
    pub(crate) keys: Range<u64>,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
    /// While this flag is true, no further batch begins, even if commands are left.
    pub(crate) stop: Option<&'a AtomicBool>,
}

/// Results of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Number of commands with replies.
    pub(crate) requests: u64,
    /// Time from the first byte sent to the last byte received.
    pub(crate) wall: Duration,
    /// Nanoseconds from the sending of a batch to its last reply.
    pub(crate) latency: Histogram<u64>,
    /// CPU time of the generator's thread.
    pub(crate) generator_cpu: Duration,
    /// Number of batches of each connection.
    pub(crate) shares: Vec<u64>,
    /// Number of error replies.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Open connections, ready to send.
#[derive(Debug)]
pub(crate) struct Generator {
    addr: SocketAddr,
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    inbox: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    batch: Template,
    /// Bytes of `batch` already sent.
    written: usize,
    /// True while a batch is in flight.
    active: bool,
    /// Number of outstanding replies.
    pending: u32,
    sent_at: Instant,
    /// Number of batches that the connection has completed in the run.
    batches: u64,
    /// The received part of an incomplete reply.
    rest: Vec<u8>,
    scan: ReplyScan,
}

/// The state and counts of a run that all connections share.
struct Tally {
    batches_left: u64,
    busy: usize,
    rng: ChaCha8Rng,
    keys: Range<u64>,
    /// The next number for [`Draw::Next`].
    next: u64,
    outcome: Outcome,
}

/// Draws a number below `count` by Zipf's law with exponent 1: the probability of k is proportional
/// to 1 / (k + 1).
///
/// For a uniform random `u` below 1, the probability that `(count + 1)^u` is in [k + 1, k + 2) is
/// proportional to ln(1 + 1 / (k + 1)). Rejection sampling corrects it to 1 / (k + 1). O(1): fewer
/// than 1.5 attempts on average, of two random numbers each.
fn zipf(rng: &mut ChaCha8Rng, count: u64) -> u64 {
    let bound = (count as f64 + 1.0).ln();
    loop {
        let k = (rng.random::<f64>() * bound).exp() as u64;
        let rank = k.clamp(1, count) as f64;
        // At most ln(2), at k = 1.
        let accepted = std::f64::consts::LN_2 / (rank * (1.0 / rank).ln_1p());
        if rng.random::<f64>() < accepted {
            return rank as u64 - 1;
        }
    }
}

impl Generator {
    /// Opens connections. Each sends one command, so that the server has finished its work for new
    /// connections.
    pub(crate) fn connect(addr: SocketAddr, clients: u32) -> Result<Self> {
        let poll = Poll::new().map_err(Error::system("watching sockets"))?;
        let mut connections = Vec::new();
        for token in 0..clients as usize {
            let mut client = Client::connect(addr)?;
            client.expect(&["PING"])?;
            connections.push(Connection {
                stream: client.watched(&poll, token, Interest::READABLE | Interest::WRITABLE)?,
                batch: Template::new(&[], 0),
                written: 0,
                active: false,
                pending: 0,
                sent_at: Instant::now(),
                batches: 0,
                rest: Vec::new(),
                scan: ReplyScan::new(),
            });
        }
        Ok(Self {
            addr,
            poll,
            events: Events::with_capacity(1024),
            connections,
            inbox: vec![0; READ_SIZE],
        })
    }

    /// Runs a load on another thread while `work` runs, and returns the results of both.
    pub(crate) fn run_while<T>(
        &mut self,
        load: &Load<'_>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Outcome)> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = Load {
                requests: u64::MAX,
                stop: Some(&stop),
                ..load.clone()
            };
            let running = scope.spawn(move || self.run(&load));
            let done = work();
            stop.store(true, Ordering::Relaxed);
            let outcome = running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((done?, outcome?))
        })
    }

    /// Runs a load and returns its results.
    pub(crate) fn run(&mut self, load: &Load<'_>) -> Result<Outcome> {
        let begun = Instant::now();
        let cpu_before = own_cpu(ClockId::ThreadCPUTime);
        let mut tally = Tally {
            batches_left: load.requests.div_ceil(u64::from(load.pipeline)),
            busy: 0,
            rng: ChaCha8Rng::seed_from_u64(load.seed),
            next: load.keys.start,
            keys: load.keys.clone(),
            outcome: Outcome::new(),
        };
        let addr = self.addr;
        let broken = Error::broken("driving", addr);
        for (number, connection) in self.connections.iter_mut().enumerate() {
            // If the template is a mix of commands, each connection begins with another command.
            connection.batch = load.template.repeat(number, load.pipeline as usize);
            connection.batches = 0;
            connection.next_batch(load, &mut tally).map_err(&broken)?;
        }
        while tally.busy > 0 {
            match self.poll.poll(&mut self.events, Some(TIME_LIMIT)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.map_err(&broken)?,
            }
            if self.events.is_empty() {
                return Err(broken(ErrorKind::TimedOut.into()));
            }
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                if event.is_writable() && connection.written < connection.batch.bytes().len() {
                    connection.write().map_err(&broken)?;
                }
                if event.is_readable() || event.is_read_closed() {
                    connection.read(&mut self.inbox, &mut tally, addr)?;
                    if connection.active && connection.pending == 0 {
                        connection.finish_batch(load, &mut tally).map_err(&broken)?;
                    }
                }
            }
        }
        let mut outcome = tally.outcome;
        outcome.shares = self
            .connections
            .iter()
            .map(|connection| connection.batches)
            .collect();
        outcome.generator_cpu = own_cpu(ClockId::ThreadCPUTime).saturating_sub(cpu_before);
        outcome.wall = begun.elapsed();
        match &outcome.first_error {
            Some(text) => Err(Error::Refused {
                addr,
                command: format!("{} of {} commands", outcome.errors, outcome.requests),
                answer: text.clone(),
            }),
            None => Ok(outcome),
        }
    }
}

impl Outcome {
    /// Returns the smallest number of batches of a connection, divided by the mean over all
    /// connections.
    pub(crate) fn least_share(&self) -> f64 {
        let least = self.shares.iter().min().copied().unwrap_or_default();
        let all: u64 = self.shares.iter().sum();
        (least * self.shares.len() as u64) as f64 / all.max(1) as f64
    }

    fn new() -> Self {
        Self {
            requests: 0,
            wall: Duration::ZERO,
            latency: histogram(),
            shares: Vec::new(),
            generator_cpu: Duration::ZERO,
            errors: 0,
            first_error: None,
        }
    }

    /// Returns the number of commands per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }

    /// Returns a percentile of the latency of batches, in milliseconds.
    pub(crate) fn ms(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e6
    }
}

impl Connection {
    /// Begins the next batch, unless all batches have begun or the load was stopped.
    fn next_batch(&mut self, load: &Load<'_>, tally: &mut Tally) -> std::io::Result<()> {
        if tally.batches_left == 0 || load.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            // Marks the batch as written: a later writable event must not write it again.
            self.written = self.batch.bytes().len();
            return Ok(());
        }
        tally.batches_left -= 1;
        tally.busy += 1;
        let (rng, keys) = (&mut tally.rng, tally.keys.clone());
        self.batch.fill(|draw| match draw {
            Draw::Even => rng.random_range(keys.clone()),
            Draw::Zipf => keys.start + zipf(rng, keys.end - keys.start),
            Draw::Next => {
                tally.next += 1;
                tally.next - 1
            }
        });
        self.written = 0;
        self.active = true;
        self.pending = load.pipeline;
        self.sent_at = Instant::now();
        self.write()
    }

    /// Counts a complete batch, and begins the next.
    fn finish_batch(&mut self, load: &Load<'_>, tally: &mut Tally) -> std::io::Result<()> {
        let nanos = u64::try_from(self.sent_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        tally.outcome.latency.saturating_record(nanos);
        tally.outcome.requests += u64::from(load.pipeline);
        tally.busy -= 1;
        self.batches += 1;
        self.active = false;
        self.next_batch(load, tally)
    }

    fn write(&mut self) -> std::io::Result<()> {
        let bytes = self.batch.bytes();
        while self.written < bytes.len() {
            match self.stream.write(&bytes[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the available bytes. A read that does not fill the buffer has emptied the socket;
    /// later bytes cause a new readiness event.
    fn read(&mut self, inbox: &mut [u8], tally: &mut Tally, addr: SocketAddr) -> Result<()> {
        let broken = Error::broken("reading from", addr);
        loop {
            match self.stream.read(inbox) {
                Ok(0) => return Err(broken(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.count_replies(&inbox[..count], tally, addr)?;
                    if count < inbox.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Counts complete replies, and keeps the bytes of an incomplete reply.
    fn count_replies(
        &mut self,
        received: &[u8],
        tally: &mut Tally,
        addr: SocketAddr,
    ) -> Result<()> {
        let not_resp = |reason| Error::NotResp { addr, reason };
        let mut kept = std::mem::take(&mut self.rest);
        let bytes = if kept.is_empty() {
            received
        } else {
            kept.extend_from_slice(received);
            &kept
        };
        let mut at = 0;
        while at < bytes.len() {
            match self.scan.advance(&bytes[at..]) {
                Ok(Some(length)) => {
                    if self.pending == 0 {
                        return Err(not_resp("a reply without a command".into()));
                    }
                    if bytes[at] == b'-' {
                        tally.outcome.errors += 1;
                        if tally.outcome.first_error.is_none() {
                            let text = &bytes[at + 1..at + length - 2];
                            tally.outcome.first_error =
                                Some(String::from_utf8_lossy(text).into_owned());
                        }
                    }
                    self.pending -= 1;
                    at += length;
                }
                Ok(None) => break,
                Err(error) => return Err(not_resp(error.to_string())),
            }
        }
        if at < bytes.len() {
            self.rest = bytes[at..].to_vec();
        } else {
            kept.clear();
            self.rest = kept;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn zipf_follows_its_law() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0_u32; 1000];
        for _ in 0..1_000_000 {
            counts[zipf(&mut rng, 1000) as usize] += 1;
        }
        // The harmonic number of 1000.
        let all: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for k in [1, 2, 3, 10, 30] {
            let expected = 1e6 / f64::from(k) / all;
            let counted = f64::from(counts[k as usize - 1]);
            assert!(
                (counted / expected - 1.0).abs() < 0.05,
                "{k}: {counted} {expected}"
            );
        }
    }

    /// Replies to each `PING` with `+PONG`, byte by byte, so that replies arrive in pieces.
    fn byte_by_byte_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let _ = stream.set_nodelay(true);
                    let mut seen = Vec::new();
                    let mut buffer = [0; 1000];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        seen.extend_from_slice(&buffer[..count]);
                        while seen.len() >= 14 {
                            seen.drain(..14);
                            for byte in b"+PONG\r\n" {
                                if stream.write_all(&[*byte]).is_err() {
                                    return;
                                }
                            }
                        }
                    }
                });
            }
        });
        addr
    }

    #[test]
    fn counts_replies_that_come_in_pieces() {
        let addr = byte_by_byte_server();
        let template = Template::new(&["PING"], 0);
        let mut generator = Generator::connect(addr, 3).unwrap();
        let load = Load {
            template: &template,
            pipeline: 7,
            requests: 100,
            keys: 0..5,
            seed: 1,
            stop: None,
        };
        let outcome = generator.run(&load).unwrap();
        // 15 whole batches of 7.
        assert_eq!((outcome.requests, outcome.errors), (105, 0));
        assert_eq!(outcome.latency.len(), 15);
        // A load that is stopped at once has sent nothing or whole batches.
        let ((), stopped) = generator.run_while(&load, || Ok(())).unwrap();
        assert_eq!(stopped.requests % 7, 0);
    }
}
