//! A job from its lease to its acknowledgement.
//!
//! The handler is a task of its own, so the lease is renewed also while it computes (on a runtime
//! of several threads), and a panic ends nothing else.

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

/// Error of a job that did not end within the time that a stopping worker has.
const STOPPED: &str = "the worker stopped";

/// Listener of events.
pub(crate) type Listener = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What the jobs of a worker share.
pub(crate) struct Desk {
    pub(crate) link: Link,
    pub(crate) lease: Duration,
    pub(crate) listener: Listener,
}

/// Ends the handler with the future that awaits it.
struct Handler(JoinHandle<Result<(), Failure>>);

impl Drop for Handler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Desk {
    /// Awaits the handler of `job`, renews the lease meanwhile, and tells the server how it ended.
    /// `give_up` ends the wait.
    pub(crate) async fn see_through(
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
                    // A lease that cannot be renewed now may be later.
                    if let Some(0) = self.tell(&self.about("TOUCH", &job, &self.lease_words())).await {
                        (self.listener)(&Event::Lost { job: &job });
                        renewal.reset_after(Duration::from_secs(u64::from(u32::MAX)));
                    }
                }
            }
        };
        drop(handler);
        self.settle(&job, result).await;
    }

    /// Acknowledges the job or gives it up, for as long as its lease can last.
    async fn settle(&self, job: &Job, result: Result<(), Failure>) {
        let command = match result {
            Ok(()) => self.about("ACK", job, &[]),
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
                self.about("NACK", job, &words)
            }
        };
        // The token makes a second ACK harmless.
        let end = Instant::now() + self.lease;
        let mut pauses = Pauses::new();
        loop {
            match self.tell(&command).await {
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

    fn about(&self, verb: &str, job: &Job, words: &[String]) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg(verb).arg(&job.queue).arg(&job.id);
        command.arg(job.token).arg(words);
        command
    }

    /// Sends a command, and returns the number of jobs that it changed; `None` if it may succeed
    /// later.
    async fn tell(&self, command: &Cmd) -> Option<i64> {
        match self.link.ask(command).await {
            Ok(Value::Int(changed)) => Some(changed),
            Ok(_) => Some(0),
            Err(error) => {
                (self.listener)(&Event::Disconnected { error: &error });
                (!transient(&error)).then_some(0)
            }
        }
    }
}

/// Returns the failure of a handler that did not return.
fn panicked(error: JoinError) -> Failure {
    let Ok(panic) = error.try_into_panic() else {
        return Failure::from(STOPPED);
    };
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no text".to_owned(),
    };
    // The drop of a panic's value may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    Failure::from(format!("the handler panicked: {text}"))
}
