//! Events of a worker that its handlers cannot observe.

use redis::RedisError;

use crate::Job;

/// An event of a worker, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The handler has returned an error or has panicked, or a stopping worker has given the job
    /// up.
    Failed {
        /// The job that failed.
        job: &'a Job,
        /// The error text, which the server stores with the job.
        error: &'a str,
    },
    /// The job's lease ended before the job was acknowledged, the job was deleted, or the server
    /// refused the worker's command. Another worker may have the job.
    Lost {
        /// The job whose lease is lost.
        job: &'a Job,
    },
    /// A command failed: the connection is lost, or the server refuses the command. The worker
    /// tries again if a later attempt may succeed. If the server refuses JOB TAKE, the worker
    /// instead ends with this error.
    Disconnected {
        /// The error of the command that failed.
        error: &'a RedisError,
    },
}
