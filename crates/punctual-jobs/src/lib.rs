//! Workers and producers for the job queues of a Punctual server.
//!
//! The server leases a job to one worker at a time. If the job's handler fails or its lease ends,
//! the server makes the job due again. docs/jobs.md of the repository has the rules.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use punctual_jobs::{Job, Queue, Worker};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> redis::RedisResult<()> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//!
//! let queue = Queue::new(client.get_multiplexed_async_connection().await?, "mails");
//! queue.add("welcome:17").delay(Duration::from_secs(60)).send().await?;
//!
//! Worker::new(client, ["mails"], |job: Job| async move {
//!     println!("{}", job.text()?);
//!     Ok(())
//! })
//! .concurrency(8)
//! .run() // until SIGTERM or SIGINT
//! .await
//! # }
//! ```
//!
//! Workers and producers run on the tokio runtime of their caller, whose I/O and time drivers must
//! be enabled. The server's clock decides when a job is due. The clock of this machine only decides
//! when the worker renews a lease.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod events;
mod job;
mod link;
mod queue;
mod running;
mod worker;

pub use events::Event;
pub use job::{Failure, Job};
pub use queue::{Add, Queue};
pub use redis;
pub use worker::Worker;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
