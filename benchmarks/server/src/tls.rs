//! `bench tls`: the server's CPU time per encrypted command and per new encrypted connection.
//!
//! GETs: each connection sends a batch; then each connection reads its replies, which have a fixed
//! size. New connections are opened at a constant rate; each makes a full handshake, sends a PING
//! and closes. Meanwhile a client on the port without TLS sends PINGs: their latency shows how long
//! handshakes block the event loop.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client;
use crate::error::{Error, Result};
use crate::late::histogram;
use crate::launch::{self, Program, Server};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;

/// Number of connections that send GETs.
const CLIENTS: usize = 50;
/// Pipeline depths of the GETs, each with the name of its figure, and the limit for the ratio of
/// Punctual's CPU time to another server's.
const CPU_RATIOS: [(u64, &str, f64); 2] = [(1, "GET, P=1, µs", 0.9), (16, "GET, P=16, µs", 0.8)];
/// Number of new connections per second.
const RATE: u64 = 1_000;
/// The key that the GETs read; [`REPLY`] is the reply with its value.
const KEY: &str = "tls:key";
const VALUE: &str = "abc";
const REPLY: &[u8] = b"$3\r\nabc\r\n";
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let (requests, seconds) = (
        common.usual(100_000, 1_000_000),
        common.seconds(2, 10).as_secs(),
    );
    let folder = launch::temporary_directory()?;
    let config = Arc::new(certificates(folder.path())?);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("server.crt"), path("server.key"));
    let mut servers = Vec::new();
    for program in programs {
        let port = punctual_harness::free_port();
        let server = program.start(&[
            ("tls-port", &port.to_string()),
            ("tls-cert-file", &certificate),
            ("tls-key-file", &key),
            ("tls-auth-clients", "no"),
        ])?;
        server.client()?.expect(&["SET", KEY, VALUE])?;
        servers.push((SocketAddr::new(server.addr.ip(), port), server));
    }
    let title = format!(
        "TLS 1.3, P-256: {} GETs on {CLIENTS} connections, {RATE} new connections a second over {seconds} s",
        thousands(requests as f64)
    );
    report.header(&title, programs, &["no session is resumed"]);
    let mut bars: Vec<_> = CPU_RATIOS
        .iter()
        .map(|(_, name, bound)| (*name, Bar::RatioAtMost(*bound)))
        .collect();
    bars.extend([
        ("new connection, µs", Bar::RatioAtMost(1.0)),
        ("plain PING meanwhile p99, ms", Bar::AtMost(1.0)),
    ]);
    let mut sheet = Sheet::new("tls", sheet::columns(programs));
    sheet.measure(report, "server CPU", &bars, common.rounds(2, 5), |at, _| {
        let (addr, server) = &servers[at];
        let mut figures = gets(server, *addr, &config, requests)?;
        connections(server, *addr, &config, seconds, &mut figures)?;
        Ok(figures)
    })?;
    sheet.show(report)?;
    Ok(())
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

/// Writes a server's certificate and key into the folder. Returns the configuration of clients,
/// which trust the certificate.
fn certificates(folder: &Path) -> Result<ClientConfig> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().map_err(invalid)?;
    let root = authority.self_signed(&authority_key).map_err(invalid)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().map_err(invalid)?;
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .and_then(|params| params.signed_by(&key, &issuer))
        .map_err(invalid)?;
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).map_err(Error::system("writing a certificate"))
    };
    write("server.crt", certificate.pem())?;
    write("server.key", key.serialize_pem())?;
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
        .map_err(Error::broken("shaking hands with", addr))?;
    Ok(stream)
}

/// Measures encrypted GETs.
fn gets(
    server: &Server,
    addr: SocketAddr,
    config: &Arc<ClientConfig>,
    requests: u64,
) -> Result<Figures> {
    let streams = (0..CLIENTS).map(|_| connect(addr, config));
    let mut streams = streams.collect::<Result<Vec<_>>>()?;
    let broken = Error::broken("driving", addr);
    let mut figures = Figures::default();
    for (pipeline, name, _) in CPU_RATIOS {
        let mut batch = Vec::new();
        for _ in 0..pipeline {
            punctual_resp::encode_command(&mut batch, &["GET", KEY]);
        }
        let mut replies = vec![0; REPLY.len() * pipeline as usize];
        let each = CLIENTS as u64 * pipeline;
        let turns = requests.div_ceil(each);
        let ((), cpu) = server.cpu_of(SETTLE, || {
            for _ in 0..turns {
                for stream in &mut streams {
                    stream.write_all(&batch).map_err(&broken)?;
                }
                for stream in &mut streams {
                    stream.read_exact(&mut replies).map_err(&broken)?;
                }
            }
            Ok(())
        })?;
        if !replies.ends_with(REPLY) {
            return Err(Error::Invalid("a GET got an unexpected reply".into()));
        }
        figures.put(name, cpu * 1e6 / (turns * each) as f64);
    }
    Ok(figures)
}

/// Measures new connections, and PINGs on the plain port meanwhile.
fn connections(
    server: &Server,
    addr: SocketAddr,
    config: &Arc<ClientConfig>,
    seconds: u64,
    figures: &mut Figures,
) -> Result<()> {
    let (count, done) = (RATE * seconds, AtomicBool::new(false));
    let (connected, pings) = std::thread::scope(|scope| {
        let pings = scope.spawn(|| ping(server, &done));
        let connected = server.cpu_of(SETTLE, || {
            let begun = Instant::now();
            for number in 0..count {
                let due = Duration::from_nanos(number * (1_000_000_000 / RATE));
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
                let mut stream = connect(addr, config)?;
                stream.conn.send_close_notify();
                // The flush fails if the server has already closed the connection.
                let _ = stream.flush();
            }
            let rate = count as f64 / begun.elapsed().as_secs_f64();
            match rate * 1.25 < RATE as f64 {
                true => Err(Error::Invalid(format!(
                    "only {rate:.0} connections a second"
                ))),
                false => Ok(()),
            }
        });
        done.store(true, Ordering::Relaxed);
        let pings = pings
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (connected, pings)
    });
    let (((), cpu), pings) = (connected?, pings?);
    figures.put("new connection, µs", cpu * 1e6 / count as f64);
    for (name, percentile) in [("p99", 99.0), ("max", 100.0)] {
        let ms = pings.value_at_percentile(percentile) as f64 / 1e6;
        figures.put(format!("plain PING meanwhile {name}, ms"), ms);
    }
    Ok(())
}

/// Sends a PING on the port without TLS each millisecond. Returns the latencies in ns.
fn ping(server: &Server, done: &AtomicBool) -> Result<Histogram<u64>> {
    let mut latency = histogram();
    let mut client = server.client()?;
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.expect(&["PING"])?;
        latency.saturating_record(begun.elapsed().as_nanos() as u64);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(latency)
}
