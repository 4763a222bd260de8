//! `bench tracking`: what client-side caching costs the server.
//!
//! Clients in tracking mode read keys, and a writer then changes random keys at a steady pace. In the case `own` each client has keys of
//! its own and reads a key again as soon as its invalidation arrives. In the case `shared` all clients have read the same keys: at first
//! a write invalidates a key for all of them, and then for those that have read it since; for each write one of
//! the clients reads a random key. The invalidations that arrive are counted: both servers must send as many.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use punctual_resp::{Decoder, Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bars;
use crate::clock::{sleep_until, unix_micros};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::idle::raise_descriptor_limit;
use crate::launch::{self, Candidate, Server};
use crate::options::TrackingOptions;
use crate::process::{CpuTime, resident_bytes};
use crate::report::{self, Report, describe};
use crate::sheet::{Bound, Sheet, hundredths, ratios, spreads};
use crate::table::thousands;

/// Descriptors for other files and connections.
const SPARE: u64 = 200;
/// Time between two pieces of the writer's pipeline.
const STEP: Duration = Duration::from_millis(1);
/// Silence after which the last invalidation has arrived, and until which the server sleeps.
const SETTLE: Duration = Duration::from_millis(200);

/// Who has read which keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Own,
    Shared,
}

impl Case {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

/// Results of one server in one round.
#[derive(Debug)]
struct Run {
    /// Server CPU from the first write to the last message.
    cpu: Duration,
    writes: u64,
    invalidations: u64,
    reads: u64,
    /// Growth of resident memory, in bytes, for each key that a client has read.
    bytes_per_item: f64,
}

/// How far the writer is.
#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    done: AtomicBool,
}

/// A client in tracking mode.
struct Reader {
    stream: TcpStream,
    decoder: Decoder,
    /// Encoded reads that wait for the end of the event.
    reads: Vec<u8>,
}

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &TrackingOptions, report: &mut Report) -> Result<()> {
    let clients = u64::from(options.clients());
    raise_descriptor_limit(clients + SPARE)?;
    let most = (clients + SPARE / 2).to_string();
    let keys_max = (clients * u64::from(options.keys())).to_string();
    let settings = [
        ("maxclients", most.as_str()),
        ("tracking-table-max-keys", &keys_max),
    ];
    let (candidates, mut notes) =
        launch::fresh_candidates(&options.target, "a table of read keys")?;
    notes
        .push("one server after the other; CPU: user + system time of the server's process".into());
    notes.push(format!(
        "{} round(s); medians, with (least..greatest)",
        options.rounds()
    ));
    let servers = launch::open_all(&candidates, &settings)?;
    report.header(
        &format!(
            "Client-side caching: {} clients x {} keys, {} writes a second for {} s",
            thousands(clients as f64),
            thousands(f64::from(options.keys())),
            thousands(f64::from(options.rate())),
            options.seconds().as_secs_f64(),
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    for case in [Case::Own, Case::Shared] {
        let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.rounds() {
            for (at, candidate) in candidates.iter().enumerate() {
                let run = once(options, case, candidate, &settings, round)?;
                record(report, &servers[at], case, round, &run)?;
                runs[at].push(run);
            }
        }
        print_sheet(report, case, &servers, &runs);
    }
    Ok(())
}

fn system(source: std::io::Error) -> Error {
    Error::System {
        doing: "watching sockets",
        source,
    }
}

/// Returns the name of a key: that of a client in the case `own`.
fn key(case: Case, client: u32, number: u32) -> String {
    match case {
        Case::Own => format!("pb:track:{client:05}:{number:05}"),
        Case::Shared => format!("pb:track:{number:05}"),
    }
}

fn once(
    options: &TrackingOptions,
    case: Case,
    candidate: &Candidate,
    settings: &[(&str, &str)],
    round: u32,
) -> Result<Run> {
    let server = candidate.open(settings)?;
    let pid = server
        .pid
        .ok_or_else(|| Error::Invalid("the server's CPU time cannot be read".into()))?;
    let (clients, keys) = (options.clients(), options.keys());
    let mut control = server.client()?;
    let owners = if case == Case::Own { clients } else { 1 };
    let bar = report::progress(
        u64::from(owners) + u64::from(clients),
        &format!("{}: {}", server.label, case.name()),
    );
    for client in 0..owners {
        let mut words = vec!["MSET".to_owned()];
        for number in 0..keys {
            words.extend([key(case, client, number), "0".repeat(32)]);
        }
        control.expect(&words)?;
        bar.inc(1);
    }
    let mut poll = Poll::new().map_err(system)?;
    let mut joined = Vec::with_capacity(clients as usize);
    for _ in 0..clients {
        let mut client = server.client()?;
        client.expect(&["HELLO", "3"])?;
        client.expect(&["CLIENT", "TRACKING", "on"])?;
        joined.push(client);
    }
    let before_bytes = resident_bytes(pid).unwrap_or(0);
    let mut readers = Vec::with_capacity(clients as usize);
    for (number, mut client) in (0..clients).zip(joined) {
        // In pieces, so that neither server keeps large buffers.
        for piece in (0..keys).collect::<Vec<_>>().chunks(100) {
            let mut words = vec!["MGET".to_owned()];
            words.extend(piece.iter().map(|n| key(case, number, *n)));
            client.expect(&words)?;
        }
        let stream = client.into_stream();
        stream.set_nonblocking(true).map_err(system)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, Token(number as usize), Interest::READABLE)
            .map_err(system)?;
        readers.push(Reader {
            stream,
            decoder: Decoder::new(),
            reads: Vec::new(),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let items = f64::from(clients) * f64::from(keys);
    let after_bytes = resident_bytes(pid).unwrap_or(0);
    let bytes_per_item = after_bytes.saturating_sub(before_bytes) as f64 / items;
    std::thread::sleep(SETTLE);
    let cpu_before = CpuTime::of(pid);
    let progress = Progress::default();
    let (written, read) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = write_keys(options, case, &server, round, &progress);
            progress.done.store(true, Ordering::Release);
            written
        });
        let read = read_keys(options, case, &server, &mut poll, &mut readers, &progress);
        match writer.join() {
            Ok(written) => (written, read),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let (writes, (invalidations, reads)) = (written?, read?);
    let cpu = CpuTime::of(pid).zip(cpu_before);
    let cpu = cpu.map(|(now, then)| now.since(&then));
    Ok(Run {
        cpu: cpu.ok_or_else(|| Error::Invalid("the server's CPU time cannot be read".into()))?,
        writes,
        invalidations,
        reads,
        bytes_per_item,
    })
}

/// Writes random keys at the pace of the options. Returns how many.
fn write_keys(
    options: &TrackingOptions,
    case: Case,
    server: &Server,
    round: u32,
    progress: &Progress,
) -> Result<u64> {
    let mut random = ChaCha8Rng::seed_from_u64(round.into());
    let mut client = server.client()?;
    let value = "1".repeat(32);
    let steps = (options.seconds().as_micros() / STEP.as_micros()) as u64;
    let all = (f64::from(options.rate()) * options.seconds().as_secs_f64()) as u64;
    let (begun, mut written, mut bytes) = (unix_micros(), 0, Vec::new());
    for step in 1..=steps {
        let until = all * step / steps;
        bytes.clear();
        for _ in written..until {
            let owner = random.random_range(0..options.clients());
            let name = key(case, owner, random.random_range(0..options.keys()));
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

/// Receives invalidations, and reads keys again, until the writer is done and nothing more arrives. Returns the numbers of both.
fn read_keys(
    options: &TrackingOptions,
    case: Case,
    server: &Server,
    poll: &mut Poll,
    readers: &mut [Reader],
    progress: &Progress,
) -> Result<(u64, u64)> {
    let broken = |source| Error::Broken {
        doing: "reading from",
        addr: server.addr,
        source,
    };
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut events = Events::with_capacity(1024);
    let mut inbox = vec![0; 64 << 10];
    let (mut invalidations, mut reads) = (0, 0);
    let mut heard = Instant::now();
    loop {
        let over = progress.done.load(Ordering::Acquire);
        let read_all = case == Case::Own || reads == progress.written.load(Ordering::Acquire);
        if over && read_all && heard.elapsed() > SETTLE {
            return Ok((invalidations, reads));
        }
        match poll.poll(&mut events, Some(STEP)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled.map_err(system)?,
        }
        for event in &events {
            heard = Instant::now();
            let reader = &mut readers[event.token().0];
            loop {
                match reader.stream.read(&mut inbox) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(count) if count > 0 => reader.decoder.feed(&inbox[..count]),
                    ended => {
                        let source = ended.err().unwrap_or(ErrorKind::UnexpectedEof.into());
                        return Err(broken(source));
                    }
                }
            }
            while let Some(value) = reader.next(server)? {
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
            reader.send(server)?;
        }
        if case == Case::Shared {
            let due = progress.written.load(Ordering::Acquire);
            while reads < due {
                reads += 1;
                let reader = &mut readers[random.random_range(0..options.clients()) as usize];
                let name = key(case, 0, random.random_range(0..options.keys()));
                encode_command(&mut reader.reads, &["GET", &name]);
                reader.send(server)?;
            }
        }
    }
}

impl Reader {
    fn next(&mut self, server: &Server) -> Result<Option<Value>> {
        self.decoder.next_value().map_err(|error| Error::NotResp {
            addr: server.addr,
            reason: error.to_string(),
        })
    }

    /// Sends the reads, which fit into the socket's buffer.
    fn send(&mut self, server: &Server) -> Result<()> {
        if self.reads.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write_all(&self.reads);
        self.reads.clear();
        sent.map_err(|source| Error::Broken {
            doing: "writing to",
            addr: server.addr,
            source,
        })
    }
}

fn record(report: &mut Report, server: &Server, case: Case, round: u32, run: &Run) -> Result<()> {
    for (metric, unit, value) in [
        ("server_cpu", "s", run.cpu.as_secs_f64()),
        ("writes", "commands", run.writes as f64),
        ("reads", "commands", run.reads as f64),
        ("invalidations", "messages", run.invalidations as f64),
        ("bytes_per_item", "bytes", run.bytes_per_item),
    ] {
        report.record(Measurement {
            benchmark: "tracking",
            server: &server.product,
            case: case.name(),
            round,
            metric,
            unit,
            value,
        })?;
    }
    Ok(())
}

fn print_sheet(report: &mut Report, case: Case, servers: &[Server], runs: &[Vec<Run>]) {
    let title = match case {
        Case::Own => "keys of their own",
        Case::Shared => "the same keys",
    };
    let mut sheet = Sheet::new(title, servers);
    let of = |value: &dyn Fn(&Run) -> f64| spreads(runs, |run| Some(value(run)));
    sheet.shown("writes", &of(&|run| run.writes as f64), thousands);
    sheet.shown("reads", &of(&|run| run.reads as f64), thousands);
    sheet.shown(
        "invalidations",
        &of(&|run| run.invalidations as f64),
        thousands,
    );
    sheet.shown(
        "bytes per key and client",
        &of(&|run| run.bytes_per_item),
        hundredths,
    );
    let per_write = |run: &Run| run.cpu.as_secs_f64() * 1e6 / run.writes as f64;
    sheet.shown("server CPU, µs per write", &of(&per_write), hundredths);
    if let Some(reference) = launch::reference(servers) {
        let base = |at| (at != reference).then_some(reference);
        let found = ratios(runs, base, |one, base| {
            Some(one.cpu.as_secs_f64() / base.cpu.as_secs_f64())
        });
        let name = format!("ratio to {}", servers[reference].label);
        sheet.ratio(
            report,
            &name,
            &found,
            Bound::AtMost(bars::TRACKING_CPU_RATIO),
        );
    }
    say!("{sheet}");
}
