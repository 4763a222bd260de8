//! The job: a server and its clients in one process, on one thread. Every reply is verified.

use std::error::Error;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_quinn::{PunctualRuntime, Stats};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, Runtime, SendStream,
    ServerConfig, TokioRuntime, TransportConfig,
};
use rustix::time::{ClockId, clock_gettime};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::metered::{Calls, Meter, Metered};

pub type Failure = Box<dyn Error + Send + Sync>;

/// The timers on which a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Timers {
    Tokio,
    Punctual,
}

/// The parameters of a job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub connections: usize,
    /// Bytes transferred over each connection.
    pub transfer: u64,
    /// Number of sequential requests over each connection.
    pub requests: usize,
    /// Time in which the connections only keep themselves alive.
    pub idle: Duration,
    pub keep_alive: Duration,
}

/// The measurements of a part of the job.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    pub wall: Duration,
    /// CPU time of the process.
    pub cpu: Duration,
    /// Number of calls to timers.
    pub calls: u64,
    /// Time in these calls.
    pub calls_time: Duration,
    /// The counts of Punctual's driver.
    pub stats: Option<Stats>,
}

/// The measurements of each part of a job.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub connect: Measurement,
    pub transfer: Measurement,
    pub requests: Measurement,
    pub idle: Measurement,
}

/// Number of connections that make requests or transfer at the same time. The kernel's receive buffer is the
/// bottleneck of loopback: with many more, packets are lost.
const BUSY: usize = 32;
const REPLY_LENGTH: u64 = 64;
/// Replies repeat a block of this length.
const BLOCK: usize = 1 << 16;

/// Runs the job on its own thread and tokio runtime.
pub fn run(job: Job, timers: Timers, meter: &Arc<Meter>) -> Result<Outcome, Failure> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let punctual = match timers {
        Timers::Tokio => None,
        Timers::Punctual => Some(PunctualRuntime::metered(tokio.handle().clone())),
    };
    let runtime: Arc<dyn Runtime> = match &punctual {
        None => Arc::new(Metered {
            runtime: TokioRuntime,
            meter: meter.clone(),
        }),
        Some(punctual) => Arc::new(Metered {
            runtime: punctual.clone(),
            meter: meter.clone(),
        }),
    };
    let stopwatch = Stopwatch { meter, punctual };
    tokio.block_on(all_parts(job, runtime, &stopwatch))
}

async fn all_parts(
    job: Job,
    runtime: Arc<dyn Runtime>,
    stopwatch: &Stopwatch<'_>,
) -> Result<Outcome, Failure> {
    let (server_config, client_config) = configs(job.keep_alive)?;
    let block: Arc<[u8]> = block().into();
    let server = endpoint(Some(server_config), runtime.clone())?;
    let address = server.local_addr()?;
    tokio::spawn(serve(server.clone(), block.clone()));
    let client = endpoint(None, runtime)?;

    let mut connections = Vec::new();
    let connecting = async {
        let opened = each(0..job.connections, |_| {
            let (client, config) = (client.clone(), client_config.clone());
            async move { Ok(client.connect_with(config, address, "localhost")?.await?) }
        });
        connections = opened.await?;
        Ok(())
    };
    let connect = stopwatch.measure(connecting).await?;

    let block = &block;
    let asked = |length: u64, times: usize| {
        each(connections.clone(), move |connection: Connection| {
            let block = block.clone();
            async move {
                for offset in 0..times {
                    ask(&connection, &block, length, offset as u64).await?;
                }
                Ok(())
            }
        })
    };
    let transfer = stopwatch.measure(asked(job.transfer, 1)).await?;
    let requests = stopwatch.measure(asked(REPLY_LENGTH, job.requests)).await?;
    let idling = async {
        tokio::time::sleep(job.idle).await;
        Ok(())
    };
    let idle = stopwatch.measure(idling).await?;
    for connection in &connections {
        if let Some(reason) = connection.close_reason() {
            return Err(format!("a connection did not stay alive: {reason}").into());
        }
    }

    client.close(0u32.into(), b"done");
    client.wait_idle().await;
    server.close(0u32.into(), b"done");
    server.wait_idle().await;
    Ok(Outcome {
        connect,
        transfer,
        requests,
        idle,
    })
}

/// Runs `work` for each item, for some at a time.
async fn each<I, T, F>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> F,
) -> Result<Vec<T>, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let busy = Arc::new(Semaphore::new(BUSY));
    let mut tasks = JoinSet::new();
    for item in items {
        let (busy, work) = (busy.clone(), work(item));
        tasks.spawn(async move {
            let _permit = busy.acquire_owned().await?;
            work.await
        });
    }
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result??);
    }
    Ok(results)
}

/// Requests `length` bytes of the repeated block from `offset` on, and verifies every one.
async fn ask(
    connection: &Connection,
    block: &[u8],
    length: u64,
    offset: u64,
) -> Result<(), Failure> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let mut request = [0; 16];
    request[..8].copy_from_slice(&length.to_be_bytes());
    request[8..].copy_from_slice(&offset.to_be_bytes());
    send.write_all(&request).await?;
    send.finish()?;

    let mut got = 0;
    while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
        let mut bytes = &chunk.bytes[..];
        while !bytes.is_empty() {
            let expected = piece(block, offset + got, bytes.len() as u64);
            let (head, rest) = bytes.split_at(expected.len());
            if head != expected {
                return Err(format!("wrong bytes within {BLOCK} of byte {got}").into());
            }
            got += head.len() as u64;
            bytes = rest;
        }
    }
    match got == length {
        true => Ok(()),
        false => Err(format!("a reply of {got} bytes instead of {length}").into()),
    }
}

/// Returns at most `length` bytes of the repeated block, from `offset` on.
fn piece(block: &[u8], offset: u64, length: u64) -> &[u8] {
    let rest = &block[(offset % BLOCK as u64) as usize..];
    &rest[..rest.len().min(length as usize)]
}

fn block() -> Vec<u8> {
    // Any bytes that do not repeat within a packet: a multiplicative generator (Lehmer, 1951).
    let mut state: u32 = 1;
    let mut byte = || {
        state = (u64::from(state) * 48_271 % 0x7fff_ffff) as u32;
        (state >> 8) as u8
    };
    (0..BLOCK).map(|_| byte()).collect()
}

async fn serve(endpoint: Endpoint, block: Arc<[u8]>) {
    while let Some(incoming) = endpoint.accept().await {
        let block = block.clone();
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((send, receive)) = connection.accept_bi().await {
                tokio::spawn(reply(send, receive, block.clone()));
            }
            Ok::<(), Failure>(())
        });
    }
}

async fn reply(
    mut send: SendStream,
    mut receive: RecvStream,
    block: Arc<[u8]>,
) -> Result<(), Failure> {
    let mut request = [0; 16];
    receive.read_exact(&mut request).await?;
    let [mut length, mut offset] = [0, 8].map(|at| {
        let mut number = [0; 8];
        number.copy_from_slice(&request[at..at + 8]);
        u64::from_be_bytes(number)
    });
    while length > 0 {
        let piece = piece(&block, offset, length);
        send.write_all(piece).await?;
        offset += piece.len() as u64;
        length -= piece.len() as u64;
    }
    Ok(send.finish()?)
}

fn endpoint(config: Option<ServerConfig>, runtime: Arc<dyn Runtime>) -> Result<Endpoint, Failure> {
    let socket = std::net::UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        config,
        socket,
        runtime,
    )?)
}

/// Returns a server with a new certificate, and a client that trusts it.
fn configs(keep_alive: Duration) -> Result<(ServerConfig, ClientConfig), Failure> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(keep_alive));
    client.transport_config(Arc::new(transport));
    Ok((server, client))
}

/// Measures parts of the job.
struct Stopwatch<'a> {
    meter: &'a Meter,
    punctual: Option<PunctualRuntime>,
}

impl Stopwatch<'_> {
    async fn measure<T>(
        &self,
        part: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Measurement, Failure> {
        let read = || (Instant::now(), cpu_time(), self.meter.calls(), self.stats());
        let (wall, cpu, calls, stats) = read();
        part.await?;
        let after = read();
        let calls: Calls = after.2.since(calls);
        Ok(Measurement {
            wall: after.0 - wall,
            cpu: after.1.saturating_sub(cpu),
            calls: calls.count,
            calls_time: Duration::from_nanos(calls.nanos(self.meter) as u64),
            stats: after
                .3
                .zip(stats)
                .map(|(after, before)| after.since(before)),
        })
    }

    fn stats(&self) -> Option<Stats> {
        self.punctual.as_ref().map(PunctualRuntime::stats)
    }
}

/// Returns the CPU time of the process so far, in user mode and in the kernel.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
