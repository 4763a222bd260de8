//! `bench blocking`: the lateness of timeouts of blocking commands.
//!
//! Many clients send BLPOP on missing keys, each with its own timeout, uniformly distributed. A TIME before it returns
//! the server's time at the start of the command; lateness is the time of reception minus that time and the timeout. One
//! thread sends and another one receives, so that neither blocks the other.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use punctual_resp::{Decoder, Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bars;
use crate::clock::unix_micros;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::idle::raise_descriptor_limit;
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::BlockingOptions;
use crate::process::CpuTime;
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::table::{millis, thousands};

/// Descriptors for other files and connections.
const SPARE: u64 = 200;

/// Time after the last timeout after which a missing reply counts as missing.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The percentiles of the table, by name.
const COLUMNS: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Results of one server in one round.
#[derive(Debug)]
struct Run {
    /// Microseconds after the timeout.
    lateness: Histogram<u64>,
    /// Replies before the timeout.
    early: u64,
    /// Clients without a reply, or with a wrong one.
    missing: u64,
    /// Server CPU from the first command to the last reply.
    cpu: Option<Duration>,
}

/// Getter of a count of one run.
type Count = fn(&Run) -> u64;

/// A client that waits.
#[derive(Debug, Default)]
struct Waiting {
    decoder: Decoder,
    timeout_us: u64,
    /// Expected time of the reply, µs of unix time; 0 until the reply to TIME arrives.
    due_us: u64,
    done: bool,
}

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &BlockingOptions, report: &mut Report) -> Result<()> {
    // The servers inherit the limit, so it is raised before they start.
    raise_descriptor_limit(u64::from(options.clients()) + SPARE)?;
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let most = (u64::from(options.clients()) + SPARE / 2).to_string();
    let servers = launch::open_all(&candidates, &[("maxclients", &most)])?;
    notes.push(
        "one server after the other; lateness = time of reception - (server time at the start of the command + timeout)"
            .into(),
    );
    let (least, greatest) = options.timeouts();
    report.header(
        &format!(
            "Timeouts of BLPOP: {} clients at once, timeouts over {} to {} s; {} round(s)",
            thousands(f64::from(options.clients())),
            least.as_secs_f64(),
            greatest.as_secs_f64(),
            options.rounds()
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds() {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let run = once(options, server, round)?;
            record(report, server, round, &run)?;
            runs.push(run);
        }
    }
    print_sheet(report, &servers, &runs);
    Ok(())
}

fn system(source: std::io::Error) -> Error {
    Error::System {
        doing: "watching sockets",
        source,
    }
}

fn once(options: &BlockingOptions, server: &Server, round: u32) -> Result<Run> {
    let count = options.clients() as usize;
    let (least, greatest) = options.timeouts();
    let bar = report::progress(count as u64, &format!("{}: connecting", server.label));
    let mut poll = Poll::new().map_err(system)?;
    let mut streams = Vec::with_capacity(count);
    for token in 0..count {
        let mut client = server.client()?;
        client.expect(&["PING"])?;
        let stream = client.into_stream();
        stream.set_nonblocking(true).map_err(system)?;
        let mut stream = TcpStream::from_std(stream);
        let registry = poll.registry();
        registry
            .register(&mut stream, Token(token), Interest::READABLE)
            .map_err(system)?;
        streams.push(stream);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(round));
    let span = least.as_millis() as u64..=greatest.as_millis() as u64;
    let mut waiting: Vec<Waiting> = (0..count)
        .map(|_| Waiting {
            timeout_us: random.random_range(span.clone()) * 1000,
            ..Waiting::default()
        })
        .collect();
    let timeouts: Vec<u64> = waiting.iter().map(|w| w.timeout_us).collect();
    let cpu_before = server.pid.and_then(CpuTime::of);
    let mut run = Run {
        lateness: latency_histogram(),
        early: 0,
        missing: 0,
        cpu: None,
    };
    let bar = report::progress(count as u64, &format!("{}: waiting", server.label));
    let received = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(server, &streams, &timeouts));
        let give_up = Instant::now() + greatest + TIME_LIMIT;
        let received = receive(server, &mut poll, &streams, &mut waiting, give_up, &mut run);
        match sender.join() {
            Ok(sent) => sent.and(received),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    bar.finish_and_clear();
    received?;
    run.missing = waiting.iter().filter(|w| !w.done).count() as u64;
    let cpu = server.pid.and_then(CpuTime::of).zip(cpu_before);
    run.cpu = cpu.map(|(now, then)| now.since(&then));
    Ok(run)
}

/// Sends each client's commands, which fit into the socket's buffer.
fn send_all(server: &Server, streams: &[TcpStream], timeouts_us: &[u64]) -> Result<()> {
    let mut bytes = Vec::new();
    for (number, (mut stream, timeout_us)) in streams.iter().zip(timeouts_us).enumerate() {
        bytes.clear();
        encode_command(&mut bytes, &["TIME"]);
        let key = format!("pb:wait:{number}");
        let timeout = format!("{}", *timeout_us as f64 / 1e6);
        encode_command(&mut bytes, &["BLPOP", &key, &timeout]);
        stream.write_all(&bytes).map_err(|source| Error::Broken {
            doing: "writing to",
            addr: server.addr,
            source,
        })?;
    }
    Ok(())
}

/// Receives the replies until all have arrived or until `give_up`.
fn receive(
    server: &Server,
    poll: &mut Poll,
    streams: &[TcpStream],
    waiting: &mut [Waiting],
    give_up: Instant,
    run: &mut Run,
) -> Result<()> {
    let mut events = Events::with_capacity(1024);
    let mut inbox = [0; 4096];
    let mut left = waiting.len();
    while left > 0 {
        let patience = give_up.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return Ok(());
        }
        match poll.poll(&mut events, Some(patience)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled.map_err(system)?,
        }
        for event in &events {
            let Token(number) = event.token();
            let (mut stream, client) = (&streams[number], &mut waiting[number]);
            loop {
                let now_us = unix_micros();
                match stream.read(&mut inbox) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(count) if count > 0 => {
                        client.decoder.feed(&inbox[..count]);
                        left -= usize::from(client.take(server, now_us, run)?);
                    }
                    ended => {
                        let source = ended.err().unwrap_or(ErrorKind::UnexpectedEof.into());
                        return Err(Error::Broken {
                            doing: "reading from",
                            addr: server.addr,
                            source,
                        });
                    }
                }
            }
        }
    }
    Ok(())
}

impl Waiting {
    /// Handles the bytes received at `now_us`. Returns true if they complete the reply.
    fn take(&mut self, server: &Server, now_us: u64, run: &mut Run) -> Result<bool> {
        while let Some(value) = self.decoder.next_value().map_err(|error| Error::NotResp {
            addr: server.addr,
            reason: error.to_string(),
        })? {
            if self.due_us == 0
                && let Some(began_us) = instant(&value)
            {
                self.due_us = began_us + self.timeout_us;
            } else if value.is_null() && self.due_us > 0 {
                run.early += u64::from(now_us < self.due_us);
                run.lateness
                    .saturating_record(now_us.saturating_sub(self.due_us).max(1));
                self.done = true;
                return Ok(true);
            } else {
                return Err(Error::Refused {
                    addr: server.addr,
                    command: "TIME or BLPOP".into(),
                    answer: format!("{value:?}"),
                });
            }
        }
        Ok(false)
    }
}

/// Returns the time in a reply to TIME, in µs.
pub(crate) fn instant(value: &Value) -> Option<u64> {
    let [seconds, micros] = value.as_slice()? else {
        return None;
    };
    let number = |value: &Value| {
        std::str::from_utf8(value.as_bytes()?)
            .ok()?
            .parse::<u64>()
            .ok()
    };
    Some(number(seconds)? * 1_000_000 + number(micros)?)
}

/// Returns the lateness at a percentile in ms; `None` without replies.
fn lateness(run: &Run, percentile: f64) -> Option<f64> {
    let all = &run.lateness;
    (!all.is_empty()).then(|| all.value_at_percentile(percentile) as f64 / 1e3)
}

fn record(report: &mut Report, server: &Server, round: u32, run: &Run) -> Result<()> {
    let mut write = |metric: &str, unit: &str, value: f64| {
        report.record(Measurement {
            benchmark: "blocking",
            server: &server.product,
            case: "timeouts",
            round,
            metric,
            unit,
            value,
        })
    };
    for (name, percentile) in COLUMNS {
        if let Some(late) = lateness(run, percentile) {
            write(&format!("lateness_{name}"), "ms", late)?;
        }
    }
    write("answered", "clients", run.lateness.len() as f64)?;
    write("missing", "clients", run.missing as f64)?;
    write("early", "clients", run.early as f64)?;
    if let Some(cpu) = run.cpu {
        write("server_cpu", "s", cpu.as_secs_f64())?;
    }
    Ok(())
}

fn print_sheet(report: &mut Report, servers: &[Server], runs: &[Vec<Run>]) {
    let mut sheet = Sheet::new("lateness", servers);
    let of = |value: &dyn Fn(&Run) -> Option<f64>| spreads(runs, value);
    for (name, percentile) in COLUMNS {
        let late = of(&|run| lateness(run, percentile));
        let name_ms = format!("{name}, ms");
        if percentile == bars::BLOCKING_PERCENTILE {
            sheet.within(report, &name_ms, &late, bars::BLOCKING_LATENESS);
        } else {
            sheet.shown(&name_ms, &late, millis);
        }
    }
    let answered = of(&|run| Some(run.lateness.len() as f64));
    sheet.shown("answered", &answered, thousands);
    let counts: [(&str, Count); 2] = [
        ("replies missing", |run| run.missing),
        ("replies early", |run| run.early),
    ];
    for (name, count) in counts {
        sheet.none(report, name, &of(&|run| Some(count(run) as f64)));
    }
    let cpu = of(&|run| Some(run.cpu?.as_secs_f64()));
    sheet.shown("server CPU, s", &cpu, hundredths);
    say!("{sheet}");
}
