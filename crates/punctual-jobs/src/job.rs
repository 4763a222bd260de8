//! A job in a worker's hands, and how it fails.

use std::fmt::Display;
use std::str::Utf8Error;
use std::time::{Duration, SystemTime};

use redis::{ErrorKind, RedisError, RedisResult, Value};

/// A job that a worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// Name of the queue.
    pub queue: Vec<u8>,
    /// ID of the job, unique in its queue.
    pub id: Vec<u8>,
    /// Proof of the lease: the server refuses the token of a lease that has ended.
    pub token: i64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time at which the attempt was due.
    pub due: SystemTime,
    /// What the producer added.
    pub payload: Vec<u8>,
}

impl Job {
    /// Returns the payload as text.
    ///
    /// # Errors
    ///
    /// The payload is not UTF-8.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.payload)
    }

    /// Reads the reply to JOB TAKE.
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

/// A job as the server writes it.
type Taken = (Vec<u8>, Vec<u8>, i64, u32, u64, Vec<u8>);

/// Reason why a handler gives a job up. The server keeps the text, and `JOB GET` shows it.
///
/// Any error that can be displayed turns into a failure, so handlers may use `?`:
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
    /// Makes the job due again after `delay`, instead of its backoff. The last attempt stays the
    /// last.
    #[must_use]
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

// A failure is not `Display` itself, or this would overlap with `From<T> for T`.
impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        // The alternate form has the causes of an `anyhow::Error`.
        Self {
            error: format!("{error:#}"),
            delay: None,
        }
    }
}
