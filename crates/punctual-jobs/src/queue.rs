//! The producer: adds jobs.

use std::time::{Duration, SystemTime};

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult};

/// A queue to which jobs are added.
///
/// `C` is any connection of redis that can be cloned: a `MultiplexedConnection`, or a
/// `ConnectionManager`, which reconnects.
#[derive(Debug, Clone)]
pub struct Queue<C> {
    connection: C,
    name: Vec<u8>,
}

impl<C: ConnectionLike + Clone> Queue<C> {
    /// Makes a producer for the queue with this name. Sends nothing.
    pub fn new(connection: C, name: impl Into<Vec<u8>>) -> Self {
        Self {
            connection,
            name: name.into(),
        }
    }

    /// Begins a job. [`Add::send`] adds it.
    #[must_use = "nothing is sent before `send`"]
    pub fn add(&self, payload: impl Into<Vec<u8>>) -> Add<'_, C> {
        Add {
            queue: self,
            payload: payload.into(),
            words: Vec::new(),
            backoff: Vec::new(),
            jitter: Vec::new(),
        }
    }
}

/// A job that is about to be added.
///
/// Times are sent in milliseconds, rounded up.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(client: redis::Client) -> redis::RedisResult<()> {
/// # let connection = client.get_multiplexed_async_connection().await?;
/// let queue = punctual_jobs::Queue::new(connection, "mails");
/// let id = queue
///     .add("remind:17")
///     .id("r17")
///     .delay(Duration::from_secs(3600))
///     .retry(3)
///     .backoff(Duration::from_secs(1), Duration::from_secs(60))
///     .send()
///     .await?;
/// assert!(id.is_some(), "the ID r17 was free");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is sent before `send`"]
pub struct Add<'a, C> {
    queue: &'a Queue<C>,
    payload: Vec<u8>,
    words: Vec<Vec<u8>>,
    // The server reads JITTER right after BACKOFF.
    backoff: Vec<String>,
    jitter: Vec<String>,
}

/// Returns the milliseconds of a time, rounded up.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl<C: ConnectionLike + Clone> Add<'_, C> {
    fn number(mut self, word: &str, number: impl ToString) -> Self {
        self.words
            .extend([word.into(), number.to_string().into_bytes()]);
        self
    }

    fn name(mut self, word: &str, name: Vec<u8>) -> Self {
        self.words.extend([word.into(), name]);
        self
    }

    /// Sets the ID, 1 to 512 bytes. Without one the server chooses a number.
    ///
    /// With an ID, a job whose addition failed on the way can be added again: at most one is there.
    pub fn id(self, id: impl Into<Vec<u8>>) -> Self {
        self.name("ID", id.into())
    }

    /// Keeps the ID taken for at least this time. Without [`Add::id`], the ID is the SHA-1 of the
    /// payload.
    pub fn unique(self, time: Duration) -> Self {
        self.number("UNIQUE", millis(time))
    }

    /// Makes the job due after this time.
    pub fn delay(self, time: Duration) -> Self {
        self.number("DELAY", millis(time))
    }

    /// Makes the job due at this time; a time before 1970 counts as 1970.
    pub fn at(self, time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        self.number("AT", millis(since.unwrap_or_default()))
    }

    /// Sets the priority. The greatest is first.
    pub fn priority(self, priority: i16) -> Self {
        self.number("PRIORITY", priority)
    }

    /// Sets the time that a worker has which asks for no other. [`Worker`](crate::Worker) asks for
    /// its own.
    pub fn lease(self, time: Duration) -> Self {
        self.number("LEASE", millis(time))
    }

    /// Sets the number of attempts after the first one. 25 by default.
    pub fn retry(self, attempts: u32) -> Self {
        self.number("RETRY", attempts)
    }

    /// Sets the time between two attempts: `base`, doubled with each attempt, at most `max`.
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        let [base, max] = [base, max].map(|time| millis(time).to_string());
        self.backoff = vec!["BACKOFF".into(), base, max];
        self
    }

    /// Makes the time between two attempts shorter by a random part of up to `percent`. Needs
    /// [`Add::backoff`].
    pub fn jitter(mut self, percent: u8) -> Self {
        self.jitter = vec!["JITTER".into(), percent.to_string()];
        self
    }

    /// Removes the job after this time, unless a worker has it then.
    pub fn ttl(self, time: Duration) -> Self {
        self.number("TTL", millis(time))
    }

    /// Sets the queue where the job goes after its last attempt.
    pub fn dead(self, queue: impl Into<Vec<u8>>) -> Self {
        self.name("DEAD", queue.into())
    }

    /// Sets how long the job can be read when it is done.
    pub fn keep(self, time: Duration) -> Self {
        self.number("KEEP", millis(time))
    }

    /// Returns the command, to send it in a pipeline or a transaction.
    pub fn command(&self) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg("ADD").arg(&self.queue.name).arg(&self.payload);
        command.arg(&self.words).arg(&self.backoff);
        command.arg(&self.jitter);
        command
    }

    /// Adds the job, and returns its ID, or `None` if the ID is taken.
    ///
    /// # Errors
    ///
    /// The server refuses an option, or the connection fails. In the second case the job may have
    /// been added.
    pub async fn send(self) -> RedisResult<Option<Vec<u8>>> {
        let mut connection = self.queue.connection.clone();
        self.command().query_async(&mut connection).await
    }
}
