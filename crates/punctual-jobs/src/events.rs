//! Events of a worker that no handler sees.

use redis::RedisError;

use crate::Job;

/// An event of a worker, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The handler has given the job up: its error or panic.
    Failed {
        /// The job.
        job: &'a Job,
        /// The text that the server keeps.
        error: &'a str,
    },
    /// The job's lease ended while the handler ran, or the job was deleted. Another worker may have
    /// the job.
    Lost {
        /// The job.
        job: &'a Job,
    },
    /// The connection failed, or the server cannot serve now. The worker tries again.
    Disconnected {
        /// The error.
        error: &'a RedisError,
    },
}
