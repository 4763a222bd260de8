//! Requests of the HTTP thread to the event loops. The thread requests INFO's figures with a
//! message to a loop's mailbox. It runs other commands over a connection, as a client does.
//!
//! A connection is a pair of sockets, and an event loop serves the other end. Each HTTP request
//! that runs commands opens its own connection. So no selected database or unread reply is left
//! from an earlier request.

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

/// Maximum wait until another connection may be opened, and maximum wait for replies.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reason why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the server cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error("the server did not answer within {} s", PATIENCE.as_secs())]
    Busy,
    #[error("the server's reply cannot be read: {0}")]
    Reply(#[from] DecodeError),
    /// The server has answered with this error, so there is nothing to show.
    #[error("{0}")]
    Refused(String),
}

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// Converts texts to the words of a command.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Words {
    words.map(|word| word.as_bytes().to_vec()).into()
}

/// A connection to an event loop.
pub(super) struct Link<'a> {
    stream: UnixStream,
    replies: Decoder,
    _place: SemaphorePermit<'a>,
    commands_sent: &'a AtomicU64,
}

impl<'a> Link<'a> {
    /// Opens a connection to the next loop in turn.
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
        // `maxclients` does not limit these connections, so the page works at the limit too.
        shared.clients.registry.admit(usize::MAX);
        links.order(Order::Serve(arrival));
        Ok(Self {
            stream: UnixStream::from_std(ours)?,
            replies: Decoder::new(),
            _place: place,
            commands_sent: &links.commands_sent,
        })
    }

    /// Sends commands as one pipeline, and returns their replies in order.
    pub(super) async fn ask(&mut self, commands: &[Words]) -> Result<Vec<Value>, LinkError> {
        let replies = async {
            let mut bytes = Vec::new();
            for command in commands {
                encode_command(&mut bytes, command);
            }
            self.commands_sent
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
        timeout(PATIENCE, replies)
            .await
            .unwrap_or(Err(LinkError::Busy))
    }
}

/// Opens connections and requests figures, at most [`MetricsSettings::LINKS_MAX`] of each at a
/// time.
pub(super) struct Links {
    shared: Arc<Shared>,
    /// One permit for each connection that may still be opened.
    places: Semaphore,
    /// One permit for each request of figures that may still be sent.
    figures: Semaphore,
    /// Number of commands sent so far.
    commands_sent: AtomicU64,
}

impl Links {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            places: Semaphore::new(MetricsSettings::LINKS_MAX),
            figures: Semaphore::new(MetricsSettings::LINKS_MAX),
            commands_sent: AtomicU64::new(0),
        }
    }

    /// Sends an order to the next loop in turn.
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
    /// Returns an error if the loop does not answer in time or answers with an error, for example
    /// while a script is busy.
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

    /// Returns the number of commands sent so far. INFO counts them as commands of clients.
    pub(super) fn commands_sent(&self) -> u64 {
        self.commands_sent.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections. INFO counts them as clients.
    pub(super) fn open_connections(&self) -> usize {
        MetricsSettings::LINKS_MAX - self.places.available_permits()
    }

    /// Sends commands over a new connection, in database `db`. Returns their replies, including
    /// error replies.
    ///
    /// # Errors
    /// Returns an error if there is no reply, or no such database.
    pub(super) async fn ask(&self, db: usize, commands: &[Words]) -> Result<Vec<Value>, LinkError> {
        let mut link = self.in_database(db).await?;
        link.ask(commands).await
    }

    /// Returns a connection that has selected a database.
    ///
    /// # Errors
    /// Returns an error if the server does not answer, or has no such database.
    pub(super) async fn in_database(&self, db: usize) -> Result<Link<'_>, LinkError> {
        let place = timeout(PATIENCE, self.places.acquire()).await;
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
