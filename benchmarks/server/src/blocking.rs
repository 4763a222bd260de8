//! `bench blocking`: the lateness of timeouts of blocking commands.
//!
//! Many clients send BLPOP on missing keys, each with its own timeout; the timeouts are uniformly
//! distributed. A TIME before the BLPOP returns the server's time at the start of the command.
//! Lateness is the time of reception minus this time and minus the timeout. One thread sends and
//! another thread receives, so that sending does not delay receiving.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll};
use punctual_resp::{Decoder, Value, encode_command};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::late::Late;
use crate::launch::{self, Program, Server};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;

/// Time after the last timeout until which replies are awaited.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);

/// A client that waits in BLPOP.
struct Waiting {
    stream: TcpStream,
    decoder: Decoder,
    timeout_us: u64,
    /// Expected time of the reply, in µs of Unix time; 0 until the reply to TIME arrives.
    due_us: u64,
}

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let clients = common.keys(1_000, 10_000);
    let longest_ms = common.seconds(3, 10).as_millis() as u64;
    let timeouts_ms = longest_ms.min(1_000)..=longest_ms;
    let most = launch::allow_clients(clients)?;
    let title = format!(
        "Timeouts of BLPOP: {} clients at once, {timeouts_ms:?} ms",
        thousands(clients as f64)
    );
    let note = "lateness = time of reception - (server time at the start of the command + timeout)";
    report.header(&title, programs, &[note]);
    let servers = launch::start_all(programs, &[("maxclients", &most)])?;
    let bars = [
        ("late p99, ms", Bar::AtMost(2.0)),
        ("missing", Bar::Never(0.0)),
        ("early", Bar::Never(0.0)),
    ];
    let mut sheet = Sheet::new("blocking", sheet::columns(programs));
    sheet.measure(
        report,
        "timeouts",
        &bars,
        common.rounds(1, 1),
        |at, round| once(&servers[at], clients, &timeouts_ms, round),
    )?;
    sheet.show(report)?;
    Ok(())
}

fn once(
    server: &Server,
    clients: u64,
    timeouts_ms: &RangeInclusive<u64>,
    round: u32,
) -> Result<Figures> {
    let mut poll = Poll::new().map_err(Error::system("watching sockets"))?;
    let mut random = ChaCha8Rng::seed_from_u64(round.into());
    let mut waiting = Vec::new();
    for token in 0..clients as usize {
        let mut client = server.client()?;
        client.expect(&["PING"])?;
        waiting.push(Waiting {
            stream: client.watched(&poll, token, Interest::READABLE)?,
            decoder: Decoder::new(),
            timeout_us: random.random_range(timeouts_ms.clone()) * 1000,
            due_us: 0,
        });
    }
    let copies = waiting
        .iter()
        .map(|one| Ok((one.timeout_us, copy(&one.stream)?)));
    let senders = copies
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(Error::system("copying sockets"))?;
    let mut late = Late::new(clients);
    let give_up = Instant::now() + Duration::from_millis(*timeouts_ms.end()) + TIME_LIMIT;
    let ((), cpu) = server.cpu_of(SETTLE, || {
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| send_all(server.addr, senders));
            let received = receive(server.addr, &mut poll, &mut waiting, give_up, &mut late);
            let sent = sender
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent.and(received)
        })
    })?;
    let mut figures = Figures::default();
    late.put(&mut figures);
    figures.put("server CPU, s", cpu);
    Ok(figures)
}

/// Returns a second descriptor of a socket, for the thread that sends.
fn copy(stream: &TcpStream) -> std::io::Result<std::net::TcpStream> {
    Ok(rustix::io::dup(stream)?.into())
}

/// Sends each client's commands. They fit into the socket's buffer, so the writes do not block.
fn send_all(addr: SocketAddr, senders: Vec<(u64, std::net::TcpStream)>) -> Result<()> {
    let mut bytes = Vec::new();
    for (number, (timeout_us, mut stream)) in senders.into_iter().enumerate() {
        bytes.clear();
        encode_command(&mut bytes, &["TIME"]);
        let (key, timeout) = (
            format!("pb:wait:{number}"),
            (timeout_us as f64 / 1e6).to_string(),
        );
        encode_command(&mut bytes, &["BLPOP", &key, &timeout]);
        stream
            .write_all(&bytes)
            .map_err(Error::broken("writing to", addr))?;
    }
    Ok(())
}

/// Receives the replies until all have arrived or until `give_up`.
fn receive(
    addr: SocketAddr,
    poll: &mut Poll,
    waiting: &mut [Waiting],
    give_up: Instant,
    late: &mut Late,
) -> Result<()> {
    let mut events = Events::with_capacity(1024);
    while late.count() < waiting.len() as u64 && Instant::now() < give_up {
        match poll.poll(&mut events, Some(TIME_LIMIT)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled.map_err(Error::system("watching sockets"))?,
        }
        for event in &events {
            let client = &mut waiting[event.token().0];
            read_available(&mut client.stream, &mut client.decoder, addr)?;
            let now_us = unix_micros();
            while let Some(value) = next_value(&mut client.decoder, addr)? {
                match instant(&value) {
                    Some(began_us) if client.due_us == 0 => {
                        client.due_us = began_us + client.timeout_us
                    }
                    None if value.is_null() && client.due_us > 0 => {
                        late.record(now_us, client.due_us)
                    }
                    _ => return Err(Error::Invalid(format!("TIME or BLPOP: {value:?}"))),
                }
            }
        }
    }
    Ok(())
}

/// Reads the available bytes of a socket into a decoder.
pub(crate) fn read_available(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
    addr: SocketAddr,
) -> Result<()> {
    let mut inbox = [0; 16 << 10];
    loop {
        match stream.read(&mut inbox) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(count) if count > 0 => decoder.feed(&inbox[..count]),
            ended => {
                let source = ended.err().unwrap_or(ErrorKind::UnexpectedEof.into());
                return Err(Error::broken("reading from", addr)(source));
            }
        }
    }
}

/// Returns the next complete reply.
pub(crate) fn next_value(decoder: &mut Decoder, addr: SocketAddr) -> Result<Option<Value>> {
    decoder.next_value().map_err(|error| Error::NotResp {
        addr,
        reason: error.to_string(),
    })
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
