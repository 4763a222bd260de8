//! `bench tracking`: the server's cost of client-side caching.
//!
//! Clients in tracking mode read keys. Then a writer changes random keys at a constant rate. In the
//! case `own`, each client has its own keys, and reads a key again as soon as its invalidation
//! arrives. In the case `shared`, all clients have read the same keys, so a write sends
//! invalidations to all clients that have read the key since its last invalidation; for each write,
//! one of the clients reads a random key. The table has the number of invalidations: all servers
//! must send about the same number.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll};
use punctual_resp::{Decoder, Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::blocking::{next_value, read_available};
use crate::clock::{sleep_until, unix_micros};
use crate::error::{Error, Result};
use crate::launch::{self, Program, Server};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;

/// Number of keys that each client reads. [`RATE`] is the number of writes per second.
const KEYS: u32 = 1_000;
const RATE: f64 = 10_000.0;
/// Interval at which the writer sends a part of its writes.
const STEP: Duration = Duration::from_millis(1);
/// Time without an invalidation after which a measurement ends: no more will arrive, and the server
/// sleeps.
const SETTLE: Duration = Duration::from_millis(200);

/// Which keys the clients read; see the head of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Own,
    Shared,
}

/// A load: the case, the number of clients, and the duration of the writes.
#[derive(Debug, Clone, Copy)]
struct Shape {
    case: Case,
    clients: u32,
    lasting: Duration,
}

/// The progress of the writer.
#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    done: AtomicBool,
}

/// A client in tracking mode.
struct Reader {
    stream: TcpStream,
    decoder: Decoder,
    /// Encoded reads to send after all received invalidations have been processed.
    reads: Vec<u8>,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let (clients, lasting) = (common.keys(100, 1_000), common.seconds(1, 5));
    let most = launch::allow_clients(clients)?;
    let keys_max = (clients * u64::from(KEYS)).to_string();
    let settings = [
        ("maxclients", most.as_str()),
        ("tracking-table-max-keys", &keys_max),
    ];
    let title = format!(
        "Client-side caching: {} clients x {KEYS} keys, {RATE} writes a second for {} s",
        thousands(clients as f64),
        lasting.as_secs_f64(),
    );
    report.header(&title, programs, &[]);
    let bars = [("server CPU per write, µs", Bar::RatioAtMost(0.7))];
    let mut sheet = Sheet::new("tracking", sheet::columns(programs));
    for (case, name) in [
        (Case::Own, "keys of their own"),
        (Case::Shared, "the same keys"),
    ] {
        let shape = Shape {
            case,
            clients: clients as u32,
            lasting,
        };
        sheet.measure(report, name, &bars, common.rounds(3, 3), |at, round| {
            once(&programs[at].start(&settings)?, shape, round)
        })?;
    }
    sheet.show(report)?;
    Ok(())
}

/// Returns the name of a key. In the case `own`, it contains the number of the client.
fn key(case: Case, client: u32, number: u32) -> String {
    match case {
        Case::Own => format!("pb:track:{client:05}:{number:05}"),
        Case::Shared => format!("pb:track:{number:05}"),
    }
}

fn once(server: &Server, shape: Shape, round: u32) -> Result<Figures> {
    let Shape { case, clients, .. } = shape;
    let mut control = server.client()?;
    for client in 0..if case == Case::Own { clients } else { 1 } {
        let mut words = vec!["MSET".to_owned()];
        for number in 0..KEYS {
            words.extend([key(case, client, number), "0".repeat(32)]);
        }
        control.expect(&words)?;
    }
    let mut poll = Poll::new().map_err(Error::system("watching sockets"))?;
    let mut joined = Vec::new();
    for _ in 0..clients {
        let mut client = server.client()?;
        client.expect(&["HELLO", "3"])?;
        client.expect(&["CLIENT", "TRACKING", "on"])?;
        joined.push(client);
    }
    let before = server.resident()?;
    let mut readers = Vec::new();
    for (number, mut client) in (0..clients).zip(joined) {
        // Reads the keys in parts, so that no server allocates large buffers.
        for piece in (0..KEYS).collect::<Vec<_>>().chunks(100) {
            let mut words = vec!["MGET".to_owned()];
            words.extend(piece.iter().map(|n| key(case, number, *n)));
            client.expect(&words)?;
        }
        readers.push(Reader {
            stream: client.watched(&poll, number as usize, Interest::READABLE)?,
            decoder: Decoder::new(),
            reads: Vec::new(),
        });
    }
    let grown = server.resident()?.saturating_sub(before) as f64;
    let progress = Progress::default();
    let ((writes, invalidations, reads), cpu) = server.cpu_of(SETTLE, || {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = write_keys(server, shape, round, &progress);
                progress.done.store(true, Ordering::Release);
                written
            });
            let read = read_keys(server.addr, shape, &mut poll, &mut readers, &progress);
            let written = writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (invalidations, reads) = read?;
            Ok((written?, invalidations, reads))
        })
    })?;
    Ok(Figures::from([
        ("writes", writes as f64),
        ("reads", reads as f64),
        ("invalidations", invalidations as f64),
        (
            "per key and client, bytes",
            grown / f64::from(clients * KEYS),
        ),
        ("server CPU per write, µs", cpu * 1e6 / writes as f64),
    ]))
}

/// Writes random keys at [`RATE`]. Returns the number of writes.
fn write_keys(server: &Server, shape: Shape, round: u32, progress: &Progress) -> Result<u64> {
    let mut random = ChaCha8Rng::seed_from_u64(round.into());
    let mut client = server.client()?;
    let value = "1".repeat(32);
    let steps = (shape.lasting.as_micros() / STEP.as_micros()) as u64;
    let all = (RATE * shape.lasting.as_secs_f64()) as u64;
    let (begun, mut written, mut bytes) = (unix_micros(), 0, Vec::new());
    for step in 1..=steps {
        let until = all * step / steps;
        bytes.clear();
        for _ in written..until {
            let owner = random.random_range(0..shape.clients);
            let name = key(shape.case, owner, random.random_range(0..KEYS));
            encode_command(&mut bytes, &["SET", &name, &value]);
        }
        client.send(&bytes)?;
        client.replies((until - written) as usize, "SET")?;
        written = until;
        progress.written.store(written, Ordering::Release);
        sleep_until(begun + step * STEP.as_micros() as u64);
    }
    Ok(written)
}

/// Receives invalidations, and reads keys again, until the writer is done and no more invalidations
/// arrive. Returns the number of invalidations and of reads.
fn read_keys(
    addr: SocketAddr,
    shape: Shape,
    poll: &mut Poll,
    readers: &mut [Reader],
    progress: &Progress,
) -> Result<(u64, u64)> {
    let case = shape.case;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut events = Events::with_capacity(1024);
    let (mut invalidations, mut reads) = (0, 0);
    let mut last_message = Instant::now();
    loop {
        let over = progress.done.load(Ordering::Acquire);
        let read_all = case == Case::Own || reads == progress.written.load(Ordering::Acquire);
        if over && read_all && last_message.elapsed() > SETTLE {
            return Ok((invalidations, reads));
        }
        match poll.poll(&mut events, Some(STEP)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled.map_err(Error::system("watching sockets"))?,
        }
        for event in &events {
            last_message = Instant::now();
            let reader = &mut readers[event.token().0];
            read_available(&mut reader.stream, &mut reader.decoder, addr)?;
            while let Some(value) = next_value(&mut reader.decoder, addr)? {
                let Value::Push(parts) = value else { continue };
                for name in parts.get(1).and_then(Value::as_slice).unwrap_or_default() {
                    invalidations += 1;
                    if case == Case::Own {
                        reads += 1;
                        let name = name.as_bytes().unwrap_or_default();
                        encode_command(&mut reader.reads, &[&b"GET"[..], name]);
                    }
                }
            }
            reader.send(addr)?;
        }
        if case == Case::Shared {
            let due = progress.written.load(Ordering::Acquire);
            while reads < due {
                reads += 1;
                let reader = &mut readers[random.random_range(0..shape.clients) as usize];
                let name = key(case, 0, random.random_range(0..KEYS));
                encode_command(&mut reader.reads, &["GET", &name]);
                reader.send(addr)?;
            }
        }
    }
}

impl Reader {
    /// Sends the reads. They fit into the socket's buffer, so the write does not block.
    fn send(&mut self, addr: SocketAddr) -> Result<()> {
        if self.reads.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.reads);
        self.reads.clear();
        sent.map_err(Error::broken("writing to", addr))
    }
}
