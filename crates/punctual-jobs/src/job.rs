//! A job that a worker has leased, and the failure of its handler.

use std::fmt::Display;
use std::str::Utf8Error;
use std::time::{Duration, SystemTime};

use redis::{ErrorKind, RedisError, RedisResult, Value};

/// A job that the server has leased to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// Name of the queue.
    pub queue: Vec<u8>,
    /// ID of the job, unique in its queue.
    pub id: Vec<u8>,
    /// Token of the lease. The server refuses the token of a lease that has ended.
    pub token: i64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time at which the attempt was due.
    pub due: SystemTime,
    /// Payload that the producer has added.
    pub payload: Vec<u8>,
}

impl Job {
    /// Returns the payload as text.
    ///
    /// # Errors
    ///
    /// If the payload is not UTF-8.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.payload)
    }

    /// Parses the reply to JOB TAKE.
    pub(crate) fn all(reply: Value) -> RedisResult<Vec<Self>> {
        let jobs: Option<Vec<Taken>> = redis::from_owned_redis_value(reply)?;
        let jobs = jobs.unwrap_or_default().into_iter();
        jobs.map(|(queue, id, token, attempt, due_ms, payload)| {
            let due = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(due_ms));
            let due = due.ok_or(RedisError::from((
                ErrorKind::TypeError,
                "a job is due too late for this system's clock",
            )))?;
            Ok(Self {
                queue,
                id,
                token,
                attempt,
                due,
                payload,
            })
        })
        .collect()
    }
}

/// A job in a reply to JOB TAKE: queue, ID, token, attempt, due time in milliseconds, payload.
type Taken = (Vec<u8>, Vec<u8>, i64, u32, u64, Vec<u8>);

/// The error of a handler. The server stores its text with the job, and `JOB GET` shows it.
///
/// Any type that implements `Display` converts to a failure, so handlers may use `?`:
///
/// ```
/// use std::time::Duration;
///
/// use punctual_jobs::{Failure, Job};
///
/// async fn send(job: Job) -> Result<(), Failure> {
///     let address: u64 = job.text()?.parse()?;
///     if address == 0 {
///         return Err("no address".into());
///     }
///     Err(Failure::from("the mail server is busy").retry_in(Duration::from_secs(300)))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) error: String,
    pub(crate) delay: Option<Duration>,
}

impl Failure {
    /// Makes the job due again after `delay`, instead of after its backoff. The number of attempts
    /// does not change: a job whose last attempt failed is not tried again.
    #[must_use]
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

// `Failure` must not implement `Display`, or this would overlap with `From<T> for T`.
impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        // The alternate form includes the causes of an `anyhow::Error`.
        Self {
            error: format!("{error:#}"),
            delay: None,
        }
    }
}
