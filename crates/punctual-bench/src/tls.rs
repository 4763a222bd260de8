//! `bench tls`: the server's CPU time per encrypted command and per new encrypted connection.
//!
//! The connections of a round send a batch each, then each waits for its replies, which have a fixed size. New connections come
//! at a constant rate, with a full handshake, a PING and an end each; meanwhile a client on the plain port waits for PINGs,
//! which shows how long handshakes keep the event loop from its work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::bars;
use crate::client;
use crate::error::{Error, Result};
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::TlsOptions;
use crate::process::CpuTime;
use crate::report::{Report, describe};
use crate::sheet::{Bound, Sheet, ratios, spreads};
use crate::table::{millis, thousands};

/// New connections a second.
const RATE: u64 = 1_000;
/// The key, its value and the reply.
const KEY: &str = "tls:key";
const VALUE: &str = "abc";
const REPLY: usize = "$3\r\nabc\r\n".len();
/// Time in which an idle server's CPU time is accounted for.
const SETTLE: Duration = Duration::from_millis(20);

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Results of one server in one round.
struct Run {
    /// Microseconds of CPU per GET, for each of [`bars::TLS_CPU_RATIO`].
    gets: Vec<Option<f64>>,
    /// Microseconds of CPU per connection.
    connection: Option<f64>,
    /// Nanoseconds of PINGs on the plain port.
    pings: Histogram<u64>,
}

/// A server and its encrypted port.
struct Listening {
    server: Server,
    addr: SocketAddr,
}

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &TlsOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::fresh_candidates(&options.target, "bench tls")?;
    let folder = tempfile::tempdir().map_err(system("making a directory"))?;
    let config = Arc::new(certificates(folder.path(), options.rsa)?);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("server.crt"), path("server.key"));
    let mut all = Vec::new();
    for candidate in &candidates {
        let port = launch::free_port().map_err(system("finding a free port"))?;
        let server = candidate.open(&[
            ("tls-port", &port.to_string()),
            ("tls-cert-file", &certificate),
            ("tls-key-file", &key),
            ("tls-auth-clients", "no"),
        ])?;
        server.client()?.expect(&["SET", KEY, VALUE])?;
        let addr = SocketAddr::new(server.addr.ip(), port);
        all.push(Listening { server, addr });
    }
    notes.push(format!(
        "{} round(s), alternating servers; medians, with (least..greatest); ratios are medians of each round's own ratio",
        options.rounds()
    ));
    notes.push("CPU: user + system time of the server's process; no session is resumed".into());
    report.header(
        &format!(
            "TLS 1.3, {}: {} GETs on {} connections, {} new connections a second over {} s",
            if options.rsa { "RSA 2048" } else { "P-256" },
            thousands(options.requests() as f64),
            options.clients,
            thousands(RATE as f64),
            options.seconds()
        ),
        &all.iter()
            .map(|one| describe(&one.server))
            .collect::<Vec<_>>(),
        &notes,
    );
    let mut runs: Vec<Vec<Run>> = all.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds() {
        let mut order: Vec<usize> = (0..all.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for at in order {
            let run = once(options, &all[at], &config)?;
            record(report, &all[at].server, round, &run)?;
            runs[at].push(run);
        }
    }
    let servers: Vec<Server> = all.into_iter().map(|one| one.server).collect();
    print_sheet(report, &servers, &runs);
    Ok(())
}

fn system(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

/// Writes a server's certificate and key, and returns what clients need to trust it.
fn certificates(folder: &Path, rsa: bool) -> Result<ClientConfig> {
    let make = |name: &str| {
        if !rsa {
            return KeyPair::generate().map_err(invalid);
        }
        let output = Command::new("openssl")
            .args([
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                "rsa_keygen_bits:2048",
            ])
            .output()
            .map_err(system("running openssl"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let key = KeyPair::from_pem(&text).map_err(invalid)?;
        std::fs::write(folder.join(format!("{name}.key")), &*text)
            .map_err(system("writing a key"))?;
        Ok(key)
    };
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = make("ca")?;
    let root = authority.self_signed(&authority_key).map_err(invalid)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = make("server")?;
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .and_then(|params| params.signed_by(&key, &issuer))
        .map_err(invalid)?;
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).map_err(system("writing a certificate"))
    };
    write("server.crt", certificate.pem())?;
    if !rsa {
        write("server.key", key.serialize_pem())?;
    }
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).map_err(invalid)?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(invalid)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn connect(addr: SocketAddr, config: &Arc<ClientConfig>) -> Result<Encrypted> {
    let name = ServerName::try_from("localhost").map_err(invalid)?;
    let session = ClientConnection::new(Arc::clone(config), name).map_err(invalid)?;
    let mut stream = StreamOwned::new(session, client::connect(addr)?);
    let mut reply = [0; 7];
    stream
        .write_all(b"PING\r\n")
        .and_then(|()| stream.read_exact(&mut reply))
        .map_err(|source| Error::Broken {
            doing: "shaking hands with",
            addr,
            source,
        })?;
    Ok(stream)
}

/// Returns the server's CPU time of `work`, in microseconds per piece.
fn cpu_per(server: &Server, pieces: u64, work: impl FnOnce() -> Result<()>) -> Result<Option<f64>> {
    let read = || {
        std::thread::sleep(SETTLE);
        server.pid.and_then(CpuTime::of)
    };
    let before = read();
    work()?;
    let (before, after) = (before, read());
    Ok(before
        .zip(after)
        .map(|(before, after)| after.since(&before).as_secs_f64() * 1e6 / pieces as f64))
}

fn once(options: &TlsOptions, one: &Listening, config: &Arc<ClientConfig>) -> Result<Run> {
    let Listening { server, addr } = one;
    let mut streams = (0..options.clients)
        .map(|_| connect(*addr, config))
        .collect::<Result<Vec<_>>>()?;
    let broken = |source| Error::Broken {
        doing: "driving",
        addr: *addr,
        source,
    };
    let mut gets = Vec::new();
    for (pipeline, _) in bars::TLS_CPU_RATIO {
        let mut batch = Vec::new();
        for _ in 0..pipeline {
            punctual_resp::encode_command(&mut batch, &["GET", KEY]);
        }
        let mut replies = vec![0; REPLY * pipeline as usize];
        let each = u64::from(options.clients) * u64::from(pipeline);
        let turns = options.requests().div_ceil(each);
        let cpu = cpu_per(server, turns * each, || {
            for _ in 0..turns {
                for stream in &mut streams {
                    stream.write_all(&batch).map_err(broken)?;
                }
                for stream in &mut streams {
                    stream.read_exact(&mut replies).map_err(broken)?;
                }
            }
            Ok(())
        })?;
        if !replies.ends_with(b"$3\r\nabc\r\n") {
            return Err(Error::Invalid("a GET has another reply".into()));
        }
        gets.push(cpu);
    }
    drop(streams);
    let done = AtomicBool::new(false);
    let (connection, pings) = std::thread::scope(|scope| {
        let pings = scope.spawn(|| ping(server, &done));
        let count = RATE * options.seconds();
        let cpu = cpu_per(server, count, || {
            let begun = Instant::now();
            for number in 0..count {
                let due = Duration::from_nanos(number * (1_000_000_000 / RATE));
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
                let mut stream = connect(*addr, config)?;
                stream.conn.send_close_notify();
                // The server may have ended the connection already.
                let _ = stream.flush();
            }
            let late = begun.elapsed().as_secs_f64() / options.seconds() as f64;
            match late > 1.25 {
                true => Err(Error::Invalid(format!(
                    "only {:.0} connections a second",
                    RATE as f64 / late
                ))),
                false => Ok(()),
            }
        });
        done.store(true, Ordering::Relaxed);
        (cpu, pings.join())
    });
    let pings = pings.map_err(|_| Error::Invalid("the thread of the PINGs panicked".into()))?;
    Ok(Run {
        gets,
        connection: connection?,
        pings: pings?,
    })
}

/// Sends a PING on the plain port each millisecond.
fn ping(server: &Server, done: &AtomicBool) -> Result<Histogram<u64>> {
    let mut latency = latency_histogram();
    let mut client = server.client()?;
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.expect(&["PING"])?;
        latency.saturating_record(begun.elapsed().as_nanos() as u64);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(latency)
}

fn p99_ms(run: &Run) -> Option<f64> {
    Some(run.pings.value_at_percentile(99.0) as f64 / 1e6)
}

fn record(report: &mut Report, server: &Server, round: u32, run: &Run) -> Result<()> {
    for ((pipeline, _), cpu) in bars::TLS_CPU_RATIO.iter().zip(&run.gets) {
        let case = format!("get pipeline={pipeline}");
        let figures = [("cpu_per_command", "us", *cpu)];
        report.record_all("tls", &server.product, &case, round, figures)?;
    }
    let figures = [
        ("cpu_per_connection", "us", run.connection),
        ("plain_ping_p99", "ms", p99_ms(run)),
    ];
    report.record_all("tls", &server.product, "connections", round, figures)
}

fn print_sheet(report: &mut Report, servers: &[Server], runs: &[Vec<Run>]) {
    let reference = launch::reference(servers);
    let base = |at| reference.filter(|base| *base != at);
    let mut sheet = Sheet::new("server CPU", servers);
    let micros = |value: f64| format!("{value:.2}");
    type Cpu<'c> = Box<dyn Fn(&Run) -> Option<f64> + 'c>;
    let mut rows: Vec<(String, f64, Cpu<'_>)> = Vec::new();
    for (at, (pipeline, bound)) in bars::TLS_CPU_RATIO.into_iter().enumerate() {
        let name = format!("GET, pipeline {pipeline}");
        rows.push((name, bound, Box::new(move |run: &Run| run.gets[at])));
    }
    let name = "new connection".to_owned();
    rows.push((
        name,
        bars::TLS_CONNECTION_RATIO,
        Box::new(|run: &Run| run.connection),
    ));
    for (name, bound, cpu) in rows {
        sheet.shown(&format!("{name}, µs"), &spreads(runs, &cpu), micros);
        let ratio = ratios(runs, base, |one, base| Some(cpu(one)? / cpu(base)?));
        let name = format!("{name}, by redis-server's");
        sheet.ratio(report, &name, &ratio, Bound::AtMost(bound));
    }
    let p99 = spreads(runs, p99_ms);
    sheet.within(
        report,
        "plain PING meanwhile, p99 ms",
        &p99,
        bars::TLS_PLAIN_PING_P99,
    );
    let max = spreads(runs, |run| Some(run.pings.max() as f64 / 1e6));
    sheet.shown("plain PING meanwhile, max ms", &max, millis);
    say!("{sheet}");
}
