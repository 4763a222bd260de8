//! The load generator: many connections on one thread, a fixed number of commands in flight on
//! each.
//!
//! As in redis-benchmark, a connection sends a batch, waits for all its replies, and sends the next. The generator must
//! not limit a run: commands are encoded once and only their numbers are rewritten in place, a batch is one `write`,
//! replies are measured but not decoded, and a short read avoids another system call.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use punctual_resp::ReplyScan;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::process;
use crate::workload::{Draw, Template};

/// Size of the read buffer, larger than a usual batch of replies.
const READ_SIZE: usize = 256 * 1024;

/// Time without replies after which a server counts as broken.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Parameters of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load<'a> {
    /// The command.
    pub(crate) template: &'a Template,
    /// Commands in flight on each connection.
    pub(crate) pipeline: u32,
    /// Total number of commands, rounded up to whole batches.
    pub(crate) requests: u64,
    /// Exclusive upper bound of the random numbers; `None` for always 0.
    pub(crate) keyspace: Option<u64>,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
    /// Instant from which no batch begins, even if commands are left.
    pub(crate) end: Option<Instant>,
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
    /// CPU time of the generator's threads.
    pub(crate) generator_cpu: Duration,
    /// Batches of each connection.
    pub(crate) shares: Vec<u64>,
    /// Error replies, and the first of them.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Creates a histogram from 1 ns to 100 s with three significant digits.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are in order")
}

/// Open connections, ready to send.
#[derive(Debug)]
pub(crate) struct Generator {
    addr: SocketAddr,
    parts: Vec<Part>,
}

/// The connections of one thread.
#[derive(Debug)]
struct Part {
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
    /// A batch is in flight.
    active: bool,
    /// Number of outstanding replies.
    pending: u32,
    sent_at: Instant,
    /// Number of complete batches of the run.
    batches: u64,
    /// The received part of an incomplete reply.
    rest: Vec<u8>,
    scan: ReplyScan,
}

/// Counts of one thread's run.
struct Tally {
    batches_left: u64,
    busy: usize,
    rng: ChaCha8Rng,
    keyspace: Option<u64>,
    end: Option<Instant>,
    outcome: Outcome,
}

/// Draws a number below `count` that follows Zipf's law with exponent 1: k with a frequency in proportion to 1 / (k + 1).
///
/// `(count + 1)^u` for an even `u` is in [k + 1, k + 2) with a frequency in proportion to ln(1 + 1 / (k + 1)); rejection makes
/// that exact. O(1), fewer than 1.5 draws on average.
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
    /// Opens `clients` connections, distributed over `threads` threads. Each sends one command, so that the server has
    /// finished its work for new connections.
    pub(crate) fn connect(
        addr: SocketAddr,
        password: Option<&str>,
        clients: u32,
        threads: u32,
    ) -> Result<Self> {
        let system = |source| Error::System {
            doing: "watching sockets",
            source,
        };
        let threads = threads.clamp(1, clients);
        let mut parts = Vec::new();
        for thread in 0..threads {
            let share = clients / threads + u32::from(thread < clients % threads);
            let poll = Poll::new().map_err(system)?;
            let mut connections = Vec::new();
            for token in 0..share {
                let mut client = Client::connect(addr, password)?;
                client.expect(&["PING"])?;
                let stream = client.into_stream();
                stream.set_nonblocking(true).map_err(system)?;
                let mut stream = TcpStream::from_std(stream);
                poll.registry()
                    .register(
                        &mut stream,
                        Token(token as usize),
                        Interest::READABLE | Interest::WRITABLE,
                    )
                    .map_err(system)?;
                connections.push(Connection {
                    stream,
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
            parts.push(Part {
                addr,
                poll,
                events: Events::with_capacity(1024),
                connections,
                inbox: vec![0; READ_SIZE],
            });
        }
        Ok(Self { addr, parts })
    }

    /// Runs a load and returns its results.
    pub(crate) fn run(&mut self, load: Load<'_>) -> Result<Outcome> {
        let batches = load.requests.div_ceil(u64::from(load.pipeline));
        let threads = self.parts.len() as u64;
        let begun = Instant::now();
        let outcomes: Vec<Result<Outcome>> = if let [part] = self.parts.as_mut_slice() {
            vec![part.run(load, batches, load.seed)]
        } else {
            std::thread::scope(|scope| {
                let running: Vec<_> = (0..)
                    .zip(&mut self.parts)
                    .map(|(number, part)| {
                        let share = batches / threads + u64::from(number < batches % threads);
                        scope.spawn(move || part.run(load, share, load.seed ^ (number << 48)))
                    })
                    .collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                running.into_iter().map(join).collect()
            })
        };
        let mut total = Outcome::new();
        for outcome in outcomes {
            total.add(outcome?);
        }
        total.wall = begun.elapsed();
        match &total.first_error {
            Some(text) => Err(Error::Refused {
                addr: self.addr,
                command: format!("{} of {} commands", total.errors, total.requests),
                answer: text.clone(),
            }),
            None => Ok(total),
        }
    }
}

impl Outcome {
    /// Returns the number of batches of the connection that was served least, by the mean of all.
    pub(crate) fn least_share(&self) -> f64 {
        let least = self.shares.iter().min().copied().unwrap_or_default();
        let all: u64 = self.shares.iter().sum();
        (least * self.shares.len() as u64) as f64 / all.max(1) as f64
    }

    fn new() -> Self {
        Self {
            requests: 0,
            wall: Duration::ZERO,
            latency: latency_histogram(),
            shares: Vec::new(),
            generator_cpu: Duration::ZERO,
            errors: 0,
            first_error: None,
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.latency += other.latency;
        self.shares.extend(other.shares);
        self.generator_cpu += other.generator_cpu;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

impl Part {
    fn run(&mut self, load: Load<'_>, batches: u64, seed: u64) -> Result<Outcome> {
        let cpu_before = process::own_thread_cpu();
        let mut tally = Tally {
            batches_left: batches,
            busy: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            keyspace: load.keyspace,
            end: load.end,
            outcome: Outcome::new(),
        };
        let addr = self.addr;
        let broken = |source| Error::Broken {
            doing: "driving",
            addr,
            source,
        };
        for (number, connection) in self.connections.iter_mut().enumerate() {
            // Of a mix, each connection begins with another command.
            connection.batch = load.template.repeat(number, load.pipeline as usize);
            connection.batches = 0;
            connection
                .next_batch(load.pipeline, &mut tally)
                .map_err(broken)?;
        }
        while tally.busy > 0 {
            match self.poll.poll(&mut self.events, Some(TIME_LIMIT)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.map_err(broken)?,
            }
            if self.events.is_empty() {
                return Err(broken(ErrorKind::TimedOut.into()));
            }
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                if event.is_writable() && connection.written < connection.batch.bytes().len() {
                    connection.write().map_err(broken)?;
                }
                if event.is_readable() || event.is_read_closed() {
                    connection.read(&mut self.inbox, &mut tally, addr)?;
                    if connection.active && connection.pending == 0 {
                        connection
                            .finish_batch(load.pipeline, &mut tally)
                            .map_err(broken)?;
                    }
                }
            }
        }
        let shares = self.connections.iter().map(|connection| connection.batches);
        tally.outcome.shares = shares.collect();
        tally.outcome.generator_cpu = process::own_thread_cpu().saturating_sub(cpu_before);
        Ok(tally.outcome)
    }
}

impl Connection {
    /// Begins the next batch, if there is one.
    fn next_batch(&mut self, pipeline: u32, tally: &mut Tally) -> std::io::Result<()> {
        let now = Instant::now();
        if tally.batches_left == 0 || tally.end.is_some_and(|end| now >= end) {
            // Nothing to send: a later writable event must not write the batch again.
            self.written = self.batch.bytes().len();
            return Ok(());
        }
        tally.batches_left -= 1;
        tally.busy += 1;
        if let Some(keyspace) = tally.keyspace {
            let rng = &mut tally.rng;
            self.batch.fill(|draw| match draw {
                Draw::Even => rng.random_range(0..keyspace),
                Draw::Zipf => zipf(rng, keyspace),
            });
        }
        self.written = 0;
        self.active = true;
        self.pending = pipeline;
        self.sent_at = now;
        self.write()
    }

    /// Counts a complete batch, and begins the next.
    fn finish_batch(&mut self, pipeline: u32, tally: &mut Tally) -> std::io::Result<()> {
        let nanos = u64::try_from(self.sent_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        tally.outcome.latency.saturating_record(nanos);
        tally.outcome.requests += u64::from(pipeline);
        tally.busy -= 1;
        self.batches += 1;
        self.active = false;
        self.next_batch(pipeline, tally)
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

    /// Reads the available bytes. A short read has emptied the socket: later bytes cause a new readiness event.
    fn read(&mut self, inbox: &mut [u8], tally: &mut Tally, addr: SocketAddr) -> Result<()> {
        let broken = |source| Error::Broken {
            doing: "reading from",
            addr,
            source,
        };
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

    /// Counts complete replies, and keeps the bytes of an incomplete one.
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
                        return Err(not_resp("a reply that nothing asked for".into()));
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
        for threads in [1, 2] {
            let mut generator = Generator::connect(addr, None, 3, threads).unwrap();
            let outcome = generator
                .run(Load {
                    template: &template,
                    pipeline: 7,
                    requests: 100,
                    keyspace: Some(5),
                    seed: 1,
                    end: None,
                })
                .unwrap();
            // 15 whole batches of 7.
            assert_eq!(outcome.requests, 105);
            assert_eq!(outcome.latency.len(), 15);
            assert_eq!(outcome.errors, 0);
        }
    }
}
