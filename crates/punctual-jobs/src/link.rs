//! A connection to the server that is opened again after it was lost.
//!
//! The commands of several tasks share one connection. A task whose command fails with a
//! [`transient`] error drops the connection, unless another task has already replaced it. The next
//! command connects again.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

/// Time limit for opening a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for a reply, in addition to the time for which the command may wait.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// Minimum and maximum pause before another attempt.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A connection and its number. The link numbers its connections from 1.
type Connected = (u64, MultiplexedConnection);

pub(crate) struct Link {
    client: Client,
    config: AsyncConnectionConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connected: Option<Connected>,
    /// Number of connections opened so far.
    count: u64,
    /// Client ID of the connection, for CLIENT UNBLOCK. `None` if CLIENT ID is forbidden.
    client_id: Option<i64>,
}

impl Link {
    /// Returns a link for commands that wait at most `waits` in the server. It connects at the
    /// first command.
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
        // If the ACL rules forbid CLIENT ID, the worker works too, but stopping takes longer.
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

    /// Returns the client ID of the connection.
    pub(crate) async fn client_id(&self) -> Option<i64> {
        self.state.lock().await.client_id
    }

    /// Sends a command and returns its reply.
    pub(crate) async fn request(&self, command: &Cmd) -> RedisResult<Value> {
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

/// Returns true if the same command may succeed later or on another connection.
pub(crate) fn transient(error: &RedisError) -> bool {
    use ErrorKind::{BusyLoadingError, ClusterDown, IoError, MasterDown, ReadOnly, TryAgain};
    // After READONLY, the server has become a replica, and its name may resolve to the new primary.
    error.is_unrecoverable_error()
        || matches!(
            error.kind(),
            IoError | BusyLoadingError | MasterDown | ReadOnly | TryAgain | ClusterDown
        )
}

/// Pauses between attempts. Each pause is twice as long as the previous one, up to a maximum.
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
