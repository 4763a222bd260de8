//! Requests of the HTTP thread to the event loops: for figures by an order, for keys over a
//! connection, as any client.
//!
//! A connection is one end of a pair of sockets, whose other end a loop serves. One request of HTTP
//! has one connection, so nothing of a former request is left in it, and a request whose time is up
//! drops it in the middle of a reply.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_resp::{DecodeError, Decoder, Value, encode_command};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::config::MetricsSettings;
use crate::net::listener::Arrival;
use crate::net::socket::Socket;
use crate::node::Shared;
use crate::node::order::Order;
use crate::observe::figures::Figures;

/// Time limit of a place among them, and of replies.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the server cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error("the server did not answer within {} s", PATIENCE.as_secs())]
    Busy,
    #[error("the server's reply cannot be read: {0}")]
    Reply(#[from] DecodeError),
    /// The answer without which nothing can be shown is an error.
    #[error("{0}")]
    Refused(String),
}

/// A command: its words.
pub(super) type Words = Vec<Vec<u8>>;

/// Returns the words of a command.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Words {
    words.map(|word| word.as_bytes().to_vec()).into()
}

/// A connection.
pub(super) struct Link<'a> {
    stream: UnixStream,
    replies: Decoder,
    _place: SemaphorePermit<'a>,
    asked: &'a AtomicU64,
}

impl<'a> Link<'a> {
    /// Opens a connection to the loop whose turn it is.
    fn open(links: &'a Links, place: SemaphorePermit<'a>) -> Result<Self, LinkError> {
        let shared = &links.shared;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let arrival = Arrival {
            addr: "metrics:0".to_owned(),
            laddr: "metrics:0".to_owned(),
            fd: theirs.as_raw_fd(),
            unix: true,
            local: true,
            own: true,
            socket: Socket::Unix(mio::net::UnixStream::from_std(theirs)),
        };
        // The limit of clients is no reason not to see what they do.
        shared.clients.registry.admit(usize::MAX);
        links.order(Order::Serve(arrival));
        Ok(Self {
            stream: UnixStream::from_std(ours)?,
            replies: Decoder::new(),
            _place: place,
            asked: &links.asked,
        })
    }

    /// Sends commands at once and returns their replies in order.
    pub(super) async fn ask(&mut self, commands: &[Words]) -> Result<Vec<Value>, LinkError> {
        let asked = async {
            let mut bytes = Vec::new();
            for command in commands {
                encode_command(&mut bytes, command);
            }
            self.asked
                .fetch_add(commands.len() as u64, Ordering::Relaxed);
            self.stream.write_all(&bytes).await?;
            let mut replies = Vec::with_capacity(commands.len());
            while replies.len() < commands.len() {
                if let Some(reply) = self.replies.next_value()? {
                    replies.push(reply);
                    continue;
                }
                bytes.clear();
                if self.stream.read_buf(&mut bytes).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                self.replies.feed(&bytes);
            }
            Ok(replies)
        };
        timeout(PATIENCE, asked)
            .await
            .unwrap_or(Err(LinkError::Busy))
    }
}

/// Opens connections, a few at a time, and asks for figures.
pub(super) struct Links {
    shared: Arc<Shared>,
    free: Semaphore,
    figures: Semaphore,
    asked: AtomicU64,
}

impl Links {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            free: Semaphore::new(MetricsSettings::LINKS_MAX),
            figures: Semaphore::new(MetricsSettings::LINKS_MAX),
            asked: AtomicU64::new(0),
        }
    }

    /// Sends an order to the loop whose turn it is.
    fn order(&self, order: Order) {
        let mailboxes = &self.shared.mailboxes;
        let next = self
            .shared
            .clients
            .next_loop
            .fetch_add(1, Ordering::Relaxed);
        mailboxes[next % mailboxes.len()].order(order);
    }

    /// Returns the figures of INFO EVERYTHING.
    ///
    /// # Errors
    /// A script is busy, or no loop has answered in time.
    pub(super) async fn figures(&self) -> Result<Figures, LinkError> {
        let answered = async {
            // The semaphore is never closed.
            let _place = self.figures.acquire().await;
            let (answer, figures) = oneshot::channel();
            self.order(Order::Figures(answer));
            figures.await
        };
        let answered = timeout(PATIENCE, answered).await;
        match answered.map_err(|_| LinkError::Busy)? {
            Ok(figures) => figures.map_err(|error| {
                LinkError::Refused(String::from_utf8_lossy(&error.bytes()).into_owned())
            }),
            // The loop has ended.
            Err(_) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// Returns the number of commands so far, which are no client's.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections, which are no client's either.
    pub(super) fn open(&self) -> usize {
        MetricsSettings::LINKS_MAX - self.free.available_permits()
    }

    /// Asks over a connection of its own, in database `db`.
    ///
    /// # Errors
    /// There is no reply, or no such database. Replies may be errors.
    pub(super) async fn ask(&self, db: usize, commands: &[Words]) -> Result<Vec<Value>, LinkError> {
        let mut link = self.in_database(db).await?;
        link.ask(commands).await
    }

    /// Returns a connection that has selected a database.
    ///
    /// # Errors
    /// As [`Links::ask`].
    pub(super) async fn in_database(&self, db: usize) -> Result<Link<'_>, LinkError> {
        let place = timeout(PATIENCE, self.free.acquire()).await;
        // The semaphore is never closed.
        let place = place.ok().and_then(Result::ok).ok_or(LinkError::Busy)?;
        let mut link = Link::open(self, place)?;
        if db > 0 {
            let replies = link.ask(&[words(["SELECT", &db.to_string()])]).await?;
            if let Some(Value::Error(text)) = replies.first() {
                let text = String::from_utf8_lossy(text).into_owned();
                return Err(LinkError::Refused(text));
            }
        }
        Ok(link)
    }
}
