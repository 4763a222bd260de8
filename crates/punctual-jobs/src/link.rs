//! A connection that is made again when it is lost.
//!
//! Commands of several tasks share one connection. A task that sees it fail forgets it, unless
//! another one has replaced it already; the next command connects.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

/// Time limit for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for a reply, beyond the time that the command waits.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// The shortest and the longest pause before another attempt.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A connection, and its number at this link.
type Connected = (u64, MultiplexedConnection);

pub(crate) struct Link {
    client: Client,
    config: AsyncConnectionConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connected: Option<Connected>,
    /// Connections so far.
    count: u64,
    /// The server's number of the connection, for CLIENT UNBLOCK.
    client_id: Option<i64>,
}

impl Link {
    /// Makes a link for commands that wait at most `waits`. It connects at its first command.
    pub(crate) fn new(client: Client, waits: Duration) -> Self {
        Self {
            client,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(CONNECT_LIMIT)
                .set_response_timeout(waits + REPLY_LIMIT),
            state: Mutex::default(),
        }
    }

    async fn connected(&self) -> RedisResult<Connected> {
        let mut state = self.state.lock().await;
        if let Some(connected) = &state.connected {
            return Ok(connected.clone());
        }
        let client = &self.client;
        let config = self.config.clone();
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut id = redis::cmd("CLIENT");
        id.arg("ID");
        // A user whose rules forbid CLIENT ID can work all the same; stopping takes longer.
        state.client_id = match id.query_async(&mut connection).await {
            Ok(id) => Some(id),
            Err(error) if transient(&error) => return Err(error),
            Err(_) => None,
        };
        state.count += 1;
        let connected = (state.count, connection);
        state.connected = Some(connected.clone());
        Ok(connected)
    }

    /// Returns the server's number of the connection.
    pub(crate) async fn client_id(&self) -> Option<i64> {
        self.state.lock().await.client_id
    }

    /// Sends a command and returns its reply.
    pub(crate) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let (number, mut connection) = self.connected().await?;
        let reply = connection.send_packed_command(command).await;
        let reply = reply.and_then(Value::extract_error);
        if reply.as_ref().is_err_and(transient) {
            let mut state = self.state.lock().await;
            if state.connected.as_ref().is_some_and(|(n, _)| *n == number) {
                state.connected = None;
            }
        }
        reply
    }
}

/// Returns true if the same command may succeed on another connection, or later.
pub(crate) fn transient(error: &RedisError) -> bool {
    use ErrorKind::{BusyLoadingError, ClusterDown, IoError, MasterDown, ReadOnly, TryAgain};
    // READONLY: the server has become a replica, and its name may lead to the new primary.
    error.is_unrecoverable_error()
        || matches!(
            error.kind(),
            IoError | BusyLoadingError | MasterDown | ReadOnly | TryAgain | ClusterDown
        )
}

/// Pauses that double.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(PAUSES.0)
    }

    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSES.1);
    }
}
