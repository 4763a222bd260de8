//! The HTTP port: metrics for Prometheus, and a page that shows timers, queues and lateness.
//!
//! Ground rules: one thread with its own executor serves all connections. It requests figures and
//! keys from the event loops ([`link`]), and reads statistics from [`Shared`]. Only the count of
//! the values' sizes ([`sizes`]) locks shards, one at a time and for 512 records. The number of
//! connections and the life of a connection are limited. If there are too many connections, the
//! oldest one is closed.

mod api;
mod exposition;
mod gate;
mod json;
mod link;
mod metrics;
mod respond;
mod shards;
mod sizes;

use crate::world::JoinHandle;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use self::respond::Site;
use crate::config::MetricsSettings;
use crate::log;
use crate::node::Shared;

/// Maximum wait for the head of a request, including the idle time after the previous request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum life of a connection. A browser then opens another connection.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time after [`LIFETIME`] in which the response that is being sent may end.
const GRACE: Duration = Duration::from_secs(10);
/// Delay before the next attempt after accepting has failed, for example at the limit of open
/// files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Maximum size of the head of a request in bytes.
const HEAD_MAX: usize = 16 << 10;

/// The thread of the HTTP port. Dropping it stops the thread.
pub(crate) struct Http {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Starts the thread. Returns `None` if there is no address to listen on.
    ///
    /// # Errors
    /// Returns an error if the system refuses a resource.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        listeners: Vec<StdListener>,
    ) -> io::Result<Option<Self>> {
        let Some(first) = listeners.first() else {
            return Ok(None);
        };
        let addr = first.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let site = Arc::new(Site::new(Arc::clone(shared)));
        let thread = shared.world.spawn("punctual-http", move || {
            runtime.block_on(async {
                let places = Arc::new(Places::default());
                for listener in listeners {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => {
                            let (site, places) = (Arc::clone(&site), Arc::clone(&places));
                            tokio::spawn(accept(listener, site, places));
                        }
                        Err(e) => log::warning!(
                            site.shared.logger,
                            "Can't accept connections on the metrics port: {e}"
                        ),
                    }
                }
                // The wait ends when the sender is dropped.
                let _ = stopped.await;
            });
        })?;
        log::notice!(
            shared.logger,
            "Metrics and the page are on http://{addr}, {}",
            match shared.settings().metrics.password {
                Some(_) => "with a password",
                None => "read-only",
            }
        );
        Ok(Some(Self {
            addr,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// Returns the first address that the thread listens on.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic.
            let _ = thread.join();
        }
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Places(Mutex<VecDeque<AbortHandle>>);

impl Places {
    /// Adds a connection. Closes the oldest connection if there are too many, so that a client with
    /// many open connections does not keep others out.
    fn add(&self, connection: AbortHandle) {
        let mut all = self.0.lock();
        all.retain(|one| !one.is_finished());
        all.push_back(connection);
        if all.len() > MetricsSettings::CONNECTIONS_MAX
            && let Some(oldest) = all.pop_front()
        {
            oldest.abort();
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>, places: Arc<Places>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let connection = tokio::spawn(serve(stream, peer, Arc::clone(&site)));
                places.add(connection.abort_handle());
            }
            Err(e) => {
                log::warning!(site.shared.logger, "Accepting client connection: {e}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, site: Arc<Site>) {
    // If this fails, responses only arrive later.
    let _ = stream.set_nodelay(true);
    let respond = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.respond(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), respond);
    let mut connection = pin!(connection);
    // An error means that the peer has disconnected, is too slow, or sends no HTTP.
    if timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(GRACE, connection).await;
    }
}
