//! The producer, which adds jobs to a queue.

use std::time::{Duration, SystemTime};

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult};

/// A job queue of the server, to which a program adds jobs.
///
/// `C` is any connection of redis that can be cloned: a `MultiplexedConnection`, or a
/// `ConnectionManager`, which reconnects.
#[derive(Debug, Clone)]
pub struct Queue<C> {
    connection: C,
    name: Vec<u8>,
}

impl<C: ConnectionLike + Clone> Queue<C> {
    /// Returns a producer for the queue with this name. Sends no command.
    pub fn new(connection: C, name: impl Into<Vec<u8>>) -> Self {
        Self {
            connection,
            name: name.into(),
        }
    }

    /// Returns a job with this payload, to set its options. [`Add::send`] adds the job to the
    /// queue.
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

/// A job to be added, with its options.
///
/// Durations and times are rounded up to milliseconds.
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
    // Separate from `words`, because the server accepts JITTER only right after BACKOFF.
    backoff: Vec<String>,
    jitter: Vec<String>,
}

/// Returns a duration in milliseconds, rounded up.
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

    /// Sets the ID, 1 to 512 bytes. Without an ID, the server chooses a number.
    ///
    /// If the connection fails during [`send`](Self::send), a job with an ID can be sent again: the
    /// server keeps at most one job with this ID.
    pub fn id(self, id: impl Into<Vec<u8>>) -> Self {
        self.name("ID", id.into())
    }

    /// Reserves the ID for at least this time, even if the job is done before. Without [`Add::id`],
    /// the ID is the SHA-1 of the payload.
    pub fn unique(self, time: Duration) -> Self {
        self.number("UNIQUE", millis(time))
    }

    /// Makes the job due after this time.
    pub fn delay(self, time: Duration) -> Self {
        self.number("DELAY", millis(time))
    }

    /// Makes the job due at this time. A time before 1970 counts as 1970.
    pub fn at(self, time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        self.number("AT", millis(since.unwrap_or_default()))
    }

    /// Sets the priority. Of the jobs that are due, a worker gets the job with the greatest
    /// priority first.
    pub fn priority(self, priority: i16) -> Self {
        self.number("PRIORITY", priority)
    }

    /// Sets the default lease, used by workers that request none. A [`Worker`](crate::Worker) of
    /// this crate always requests its own.
    pub fn lease(self, time: Duration) -> Self {
        self.number("LEASE", millis(time))
    }

    /// Sets the number of attempts after the first attempt. The server's default is 25.
    pub fn retry(self, attempts: u32) -> Self {
        self.number("RETRY", attempts)
    }

    /// Sets the pause between two attempts: `base`, doubled with each attempt, at most `max`.
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        let [base, max] = [base, max].map(|time| millis(time).to_string());
        self.backoff = vec!["BACKOFF".into(), base, max];
        self
    }

    /// Shortens each pause between two attempts by a random part of up to `percent`. The server
    /// refuses it without [`Add::backoff`].
    pub fn jitter(mut self, percent: u8) -> Self {
        self.jitter = vec!["JITTER".into(), percent.to_string()];
        self
    }

    /// Sets the lifetime: the server removes the job after this time. If a worker has leased the
    /// job, the server removes it at the end of the lease.
    pub fn ttl(self, time: Duration) -> Self {
        self.number("TTL", millis(time))
    }

    /// Sets the queue to which the server moves the job after its last attempt has failed.
    pub fn dead(self, queue: impl Into<Vec<u8>>) -> Self {
        self.name("DEAD", queue.into())
    }

    /// Sets the time for which the server keeps the job after it is done.
    pub fn keep(self, time: Duration) -> Self {
        self.number("KEEP", millis(time))
    }

    /// Returns the JOB ADD command, for a pipeline or a transaction.
    pub fn command(&self) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg("ADD").arg(&self.queue.name).arg(&self.payload);
        command.arg(&self.words).arg(&self.backoff);
        command.arg(&self.jitter);
        command
    }

    /// Adds the job to the queue. Returns the job's ID, or `None` if the ID is taken.
    ///
    /// # Errors
    ///
    /// If the server refuses an option, or if the connection fails. After a failure of the
    /// connection, the server may have added the job.
    pub async fn send(self) -> RedisResult<Option<Vec<u8>>> {
        let mut connection = self.queue.connection.clone();
        self.command().query_async(&mut connection).await
    }
}
