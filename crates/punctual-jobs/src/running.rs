//! Runs a job from its lease to its acknowledgement.
//!
//! Each handler is a task of its own, so a panic ends only the handler. On a runtime with several
//! threads, leases are renewed even while a handler computes without awaiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::link::{Link, Pauses, transient};
use crate::queue::millis;
use crate::{Event, Failure, Job};

/// Error text of a job that had not ended when the grace period of a stopping worker was over.
const STOPPED: &str = "the worker stopped";

/// Listener of events.
pub(crate) type Listener = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// The connection and the settings that all jobs of a worker share.
pub(crate) struct JobRunner {
    pub(crate) link: Link,
    pub(crate) lease: Duration,
    pub(crate) listener: Listener,
}

/// A handler's task, which is aborted when this is dropped.
struct Handler(JoinHandle<Result<(), Failure>>);

impl Drop for Handler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl JobRunner {
    /// Awaits the handler of `job`, renews the lease meanwhile, and reports the result to the
    /// server. If `give_up` is ready first, aborts the handler and gives the job up.
    pub(crate) async fn run_job(
        &self,
        job: Job,
        handler: JoinHandle<Result<(), Failure>>,
        give_up: impl Future<Output = ()>,
    ) {
        let mut handler = Handler(handler);
        let mut give_up = pin!(give_up);
        let mut renewal = tokio::time::interval_at(Instant::now() + self.lease / 3, self.lease / 3);
        let result = loop {
            tokio::select! {
                ended = &mut handler.0 => break ended.unwrap_or_else(|error| Err(panicked(error))),
                () = &mut give_up => break Err(Failure::from(STOPPED)),
                _ = renewal.tick() => {
                    // After `None`, the next attempt may succeed. 0 means that the lease has ended
                    // or cannot be renewed.
                    if let Some(0) = self.send(&self.job_command("TOUCH", &job, &self.lease_words())).await {
                        (self.listener)(&Event::Lost { job: &job });
                        renewal.reset_after(Duration::from_secs(u64::from(u32::MAX)));
                    }
                }
            }
        };
        drop(handler);
        self.settle(&job, result).await;
    }

    /// Acknowledges the job, or gives it up after a failure. Tries again for as long as the lease
    /// can last.
    async fn settle(&self, job: &Job, result: Result<(), Failure>) {
        let command = match result {
            Ok(()) => self.job_command("ACK", job, &[]),
            Err(failure) => {
                (self.listener)(&Event::Failed {
                    job,
                    error: &failure.error,
                });
                let mut words = Vec::new();
                if let Some(delay) = failure.delay {
                    words.extend(["DELAY".to_owned(), millis(delay).to_string()]);
                }
                words.extend(["ERROR".to_owned(), failure.error]);
                self.job_command("NACK", job, &words)
            }
        };
        // If only the reply to the first ACK was lost, the second ACK finds an invalid token. The
        // worker then reports the job as lost, although it is done.
        let end = Instant::now() + self.lease;
        let mut pauses = Pauses::new();
        loop {
            match self.send(&command).await {
                Some(1..) => return,
                Some(_) => break,
                None if Instant::now() < end => pauses.pause().await,
                None => break,
            }
        }
        (self.listener)(&Event::Lost { job });
    }

    pub(crate) fn lease_words(&self) -> [String; 2] {
        ["LEASE".into(), millis(self.lease).to_string()]
    }

    fn job_command(&self, verb: &str, job: &Job, words: &[String]) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg(verb).arg(&job.queue).arg(&job.id);
        command.arg(job.token).arg(words);
        command
    }

    /// Sends a command, and returns the number of jobs that it changed. After an error, returns
    /// `None` if the command may succeed later, else 0.
    async fn send(&self, command: &Cmd) -> Option<i64> {
        match self.link.request(command).await {
            Ok(Value::Int(changed)) => Some(changed),
            Ok(_) => Some(0),
            Err(error) => {
                (self.listener)(&Event::Disconnected { error: &error });
                (!transient(&error)).then_some(0)
            }
        }
    }
}

/// Returns the failure of a handler that has panicked or was aborted.
fn panicked(error: JoinError) -> Failure {
    let Ok(panic) = error.try_into_panic() else {
        return Failure::from(STOPPED);
    };
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no text".to_owned(),
    };
    // Dropping the panic's payload may panic too.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    Failure::from(format!("the handler panicked: {text}"))
}
