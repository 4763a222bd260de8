//! A timer runtime for quinn: all connections share one wheel, and the wheel sleeps on one tokio
//! timer.
//!
//! ```sh
//! cargo run --release --manifest-path benchmarks/timers/Cargo.toml --example quic -- 100   # connections
//! ```
//!
//! A QUIC connection has one timer and changes its deadline with nearly every packet. Here such a
//! change writes one record of the wheel. Wakers are woken and dropped after the lock is released,
//! because both may drop timers.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use punctual::{Epoch, TickScale, TimerKey, Wheel};
use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Runtime,
    ServerConfig, TokioRuntime, TransportConfig,
};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep_until};

/// Maximum number of timers that fire in one poll of the driver, so that other tasks can run.
const BATCH: usize = 1_024;

/// Maximum duration of a sleep of the driver, which sleeps so long while no timer is armed.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// A runtime for quinn: tokio's runtime, but with the timers of the wheel.
#[derive(Clone, Debug)]
struct WheelRuntime {
    tokio: Handle,
    shared: Arc<Shared>,
}

/// State of the timers and of their driver.
#[derive(Debug)]
struct Shared {
    epoch: Epoch,
    timers: Mutex<Timers>,
}

#[derive(Debug)]
struct Timers {
    /// Deadlines in microseconds, with the wakers of the tasks that wait for them.
    wheel: Wheel<Option<Waker>>,
    /// Tick until which the driver sleeps.
    wakeup: u64,
    /// The tokio timer of the driver.
    sleep: Pin<Box<Sleep>>,
    driver: Option<Waker>,
}

impl WheelRuntime {
    fn new(tokio: Handle) -> Self {
        let _entered = tokio.enter();
        let now = tokio::time::Instant::now();
        let shared = Arc::new(Shared {
            epoch: Epoch::new(now.into_std(), TickScale::MICROSECOND),
            timers: Mutex::new(Timers {
                wheel: Wheel::new(),
                wakeup: 0,
                sleep: Box::pin(sleep_until(now)),
                driver: None,
            }),
        });
        tokio.spawn(Driver(Arc::downgrade(&shared)));
        WheelRuntime {
            tokio: tokio.clone(),
            shared,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the driver wake up by `deadline`.
    fn wake_by(&self, timers: &mut Timers, deadline: u64) {
        if deadline < timers.wakeup
            && let Some(instant) = self.epoch.instant(deadline)
        {
            timers.wakeup = deadline;
            timers.sleep.as_mut().reset(instant.into());
        }
    }
}

impl Runtime for WheelRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let shared = self.shared.clone();
        let tick = shared.epoch.deadline(deadline);
        let mut timers = shared.lock();
        let key = timers.wheel.insert(tick, None);
        shared.wake_by(&mut timers, tick);
        drop(timers);
        Box::pin(Timer { shared, key })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tokio.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let _entered = self.tokio.enter();
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// A timer of quinn: a key of the wheel. The key is stale after the timer has fired.
#[derive(Debug)]
struct Timer {
    shared: Arc<Shared>,
    key: TimerKey,
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let Timer { shared, key } = &mut *self;
        let tick = shared.epoch.deadline(deadline);
        let mut timers = shared.lock();
        if !timers.wheel.reset(*key, tick) {
            *key = timers.wheel.insert(tick, None);
        }
        shared.wake_by(&mut timers, tick);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.shared.lock();
        let Some(waker) = timers.wheel.get_mut(self.key) else {
            return Poll::Ready(());
        };
        let mut replaced = None;
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            replaced = waker.replace(cx.waker().clone());
        }
        drop(timers);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = self.shared.lock().wheel.remove(self.key);
        drop(waker);
    }
}

/// The task that fires timers. It ends when the runtime and all timers have been dropped.
struct Driver(Weak<Shared>);

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.0.upgrade() else {
            return Poll::Ready(());
        };
        let now = tokio::time::Instant::now();
        let mut due = Vec::new();
        let mut timers = shared.lock();
        timers.driver = Some(cx.waker().clone());
        loop {
            let tick = shared.epoch.reading(now.into_std());
            while due.len() < BATCH
                && let Some(expired) = timers.wheel.pop_due(tick)
            {
                due.push(expired.value);
            }
            if due.len() == BATCH {
                cx.waker().wake_by_ref();
                break;
            }
            timers.wakeup = timers.wheel.next_deadline().unwrap_or(u64::MAX);
            let due_at = shared.epoch.instant(timers.wakeup);
            let longest = now.into_std() + SLEEP_MAX;
            let until = due_at.map_or(longest, |instant| instant.min(longest));
            timers.sleep.as_mut().reset(until.into());
            if Future::poll(timers.sleep.as_mut(), cx).is_pending() {
                break;
            }
        }
        drop(timers);
        due.into_iter().flatten().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let timers = self
            .timers
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = timers.driver.take() {
            driver.wake();
        }
    }
}

/// Pairs of connected clients and servers, and the endpoints that they need.
struct Loopback {
    pairs: Vec<(Connection, Connection)>,
    _endpoints: [Endpoint; 2],
}

async fn connect(
    runtime: Arc<dyn Runtime>,
    connections: usize,
    transport: TransportConfig,
) -> Result<Loopback, Box<dyn Error>> {
    let endpoint = |config| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        Endpoint::new(EndpointConfig::default(), config, socket, runtime.clone())
    };
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::new(transport));
    let server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let (listening, connecting) = (endpoint(Some(server))?, endpoint(None)?);
    let address = listening.local_addr()?;
    let mut pairs = Vec::new();
    for _ in 0..connections {
        let client = connecting.connect_with(config.clone(), address, "localhost")?;
        let accept = async {
            let incoming = listening.accept().await.ok_or("the endpoint is closed")?;
            Ok::<_, Box<dyn Error>>(incoming.await?)
        };
        let (client, server) = tokio::join!(client, accept);
        pairs.push((client?, server?));
    }
    Ok(Loopback {
        pairs,
        _endpoints: [listening, connecting],
    })
}

/// Sends `bytes` through a stream of each connection, one after the other, and waits for the
/// acknowledgements.
async fn transfer(loopback: &Loopback, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    for (client, server) in &loopback.pairs {
        let sending = async {
            let mut stream = client.open_uni().await?;
            stream.write_all(bytes).await?;
            stream.finish()?;
            stream.stopped().await?;
            Ok::<_, Box<dyn Error>>(())
        };
        let receiving = async {
            let mut stream = server.accept_uni().await?;
            Ok::<_, Box<dyn Error>>(stream.read_to_end(bytes.len()).await?)
        };
        let (sent, received) = tokio::join!(sending, receiving);
        sent?;
        if received? != bytes {
            return Err("other bytes have arrived".into());
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let connections = std::env::args()
        .nth(1)
        .map_or(Ok(100), |text| text.parse())?;
    let runtime = Arc::new(WheelRuntime::new(Handle::current()));
    let loopback = connect(runtime, connections, TransportConfig::default()).await?;
    transfer(&loopback, &[7; 1 << 16]).await?;
    println!("{connections} connections have each transferred 64 KiB with timers of one wheel");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::ConnectionError;

    /// Idle timeout: long enough for the part of the test with a running clock on a busy machine,
    /// and shorter than quinn's default of 30 s.
    const IDLE: Duration = Duration::from_secs(20);

    async fn one(configure: impl Fn(&mut TransportConfig)) -> Loopback {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IDLE.try_into().unwrap()));
        configure(&mut transport);
        let runtime = Arc::new(WheelRuntime::new(Handle::current()));
        connect(runtime, 1, transport).await.unwrap()
    }

    #[tokio::test]
    async fn an_idle_connection_ends_on_time() {
        let loopback = one(|_| {}).await;
        transfer(&loopback, &[7; 1 << 20]).await.unwrap();
        // From here on, the clock is stopped, and jumps from deadline to deadline.
        let quiet = tokio::time::Instant::now();
        tokio::time::pause();
        let (client, server) = &loopback.pairs[0];
        assert_eq!(client.closed().await, ConnectionError::TimedOut);
        assert!(quiet.elapsed() <= IDLE + Duration::from_secs(1));
        assert_eq!(server.closed().await, ConnectionError::TimedOut);
    }

    #[tokio::test]
    async fn keep_alives_keep_a_connection() {
        let keep_alive = |transport: &mut TransportConfig| {
            transport.keep_alive_interval(Some(IDLE / 5));
        };
        let loopback = one(keep_alive).await;
        tokio::time::pause();
        tokio::time::sleep(IDLE * 2).await;
        let (client, _) = &loopback.pairs[0];
        assert_eq!(client.close_reason(), None);
        assert!(client.stats().frame_tx.ping >= 5);
    }
}
