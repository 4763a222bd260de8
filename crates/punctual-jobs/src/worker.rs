//! The worker, which takes jobs from the server and runs their handlers.
//!
//! A worker has two connections: one waits in JOB TAKE, and the other sends all other commands,
//! because the server answers no command on a connection that waits. A worker that stops still
//! awaits the reply to JOB TAKE, because a reply on its way may lease jobs to the worker. To get
//! the reply soon, the worker ends the wait with CLIENT UNBLOCK.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, RedisResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::link::{Link, Pauses, transient};
use crate::queue::millis;
use crate::running::{JobRunner, Listener};
use crate::{Event, Failure, Job};

/// Maximum wait of a JOB TAKE. A worker whose user may not call CLIENT UNBLOCK may need this long
/// to stop.
const BLOCK: Duration = Duration::from_secs(2);
/// Pause between two CLIENT UNBLOCK commands. The first command has no effect if the server gets it
/// before the JOB TAKE.
const UNBLOCK_PAUSE: Duration = Duration::from_millis(20);
/// Maximum time in which a stopping worker gives up the jobs that have not ended within the grace
/// period.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(5);
/// Maximum COUNT that the server accepts in a JOB TAKE.
const COUNT_MAX: usize = 10_000;

/// A worker that runs the jobs of some queues.
///
/// A worker runs up to [`concurrency`](Self::concurrency) jobs at the same time, each handler in
/// its own task. The worker renews the lease of a job while its handler runs. Dropping the future
/// of [`Worker::run`] aborts the handlers; the server makes their jobs due again when their leases
/// end.
pub struct Worker<H> {
    client: Client,
    queues: Vec<Vec<u8>>,
    handler: Arc<H>,
    lease: Duration,
    concurrency: usize,
    grace: Duration,
    listener: Listener,
}

impl<H: std::fmt::Debug> std::fmt::Debug for Worker<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            queues, handler, ..
        } = self;
        f.debug_struct("Worker")
            .field("queues", queues)
            .field("handler", handler)
            .finish_non_exhaustive()
    }
}

impl<H, F> Worker<H>
where
    H: Fn(Job) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    /// Returns a worker that calls `handler` for each job of the queues. The worker takes jobs from
    /// the queues in the order in which they are named.
    ///
    /// # Panics
    ///
    /// If there are no queues.
    pub fn new<Q: Into<Vec<u8>>>(
        client: Client,
        queues: impl IntoIterator<Item = Q>,
        handler: H,
    ) -> Self {
        let queues: Vec<Vec<u8>> = queues.into_iter().map(Into::into).collect();
        assert!(!queues.is_empty(), "a worker needs at least one queue");
        Self {
            client,
            queues,
            handler: Arc::new(handler),
            lease: Duration::from_secs(30),
            concurrency: 1,
            grace: Duration::from_secs(25),
            listener: Arc::new(|_| {}),
        }
    }

    /// Sets the maximum number of jobs that run at the same time. The default is 1.
    ///
    /// # Panics
    ///
    /// If the number is zero.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        assert!(jobs > 0, "a worker runs at least one job");
        self.concurrency = jobs;
        self
    }

    /// Sets the lease: the time after which the server makes a job due again if this worker is
    /// gone. The default is 30 seconds.
    ///
    /// The worker renews the lease whenever a third of it has passed.
    ///
    /// # Panics
    ///
    /// If the lease is shorter than 3 milliseconds.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        assert!(
            time >= Duration::from_millis(3),
            "a lease is at least 3 milliseconds long"
        );
        self.lease = time;
        self
    }

    /// Sets the grace period: how long a stopping worker waits for running jobs. The default is 25
    /// seconds.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets the listener of events, which may write them to a log. The listener must not block.
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Arc::new(listener);
        self
    }

    /// Runs jobs until the process gets SIGTERM or SIGINT (on systems other than Unix: ctrl-C), and
    /// then stops like [`Worker::run_until`].
    ///
    /// # Errors
    ///
    /// If the system refuses a signal handler, and in the cases of [`Worker::run_until`].
    pub async fn run(self) -> RedisResult<()> {
        let signal = stop_signal()?;
        self.run_until(signal).await
    }

    /// Runs jobs until `stop` is ready.
    ///
    /// Then the worker takes no more jobs, and waits for the running jobs, at most for the [grace
    /// period](Self::grace). It gives up the jobs that have not ended by then: it aborts their
    /// handlers, and the server counts their attempts as failed.
    ///
    /// # Errors
    ///
    /// If the server refuses JOB TAKE: it does not support jobs, a key is not a queue, or the user
    /// lacks the permission. The worker first stops as described above. A failed connection is not
    /// an error but an [`Event::Disconnected`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> RedisResult<()> {
        let runner = Arc::new(JobRunner {
            link: Link::new(self.client.clone(), Duration::ZERO),
            lease: self.lease,
            listener: self.listener.clone(),
        });
        let (give_up, given_up) = watch::channel(());
        let mut running = JoinSet::new();
        let result = self.take_jobs(stop, &runner, &given_up, &mut running).await;
        let all = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            drop(give_up);
            let all = async { while running.join_next().await.is_some() {} };
            // If a NACK does not reach the server, the lease of its job ends by itself.
            let _ = tokio::time::timeout(GIVE_UP_LIMIT, all).await;
        }
        result
    }

    /// Takes jobs and starts their handlers until `stop` is ready or the server refuses JOB TAKE.
    async fn take_jobs(
        &self,
        stop: impl Future<Output = ()>,
        runner: &Arc<JobRunner>,
        given_up: &watch::Receiver<()>,
        running: &mut JoinSet<()>,
    ) -> RedisResult<()> {
        let waiting = Link::new(self.client.clone(), BLOCK);
        let mut stop = pin!(stop);
        let mut pauses = Pauses::new();
        loop {
            while running.try_join_next().is_some() {}
            let free = self.concurrency - running.len();
            if free == 0 {
                tokio::select! {
                    _ = running.join_next() => continue,
                    () = &mut stop => return Ok(()),
                }
            }
            let command = self.take_command(free);
            let mut reply = pin!(waiting.request(&command));
            let (reply, last) = tokio::select! {
                // Checks `stop` first: otherwise a worker that always finds jobs might not stop.
                biased;
                () = &mut stop => (self.unblock(runner, &waiting, reply).await, true),
                reply = &mut reply => (Some(reply), false),
            };
            match reply.map(|reply| reply.and_then(Job::all)) {
                Some(Ok(jobs)) => {
                    pauses = Pauses::new();
                    for job in jobs {
                        self.start(job, runner, given_up, running);
                    }
                }
                Some(Err(error)) if transient(&error) => {
                    (self.listener)(&Event::Disconnected { error: &error });
                    tokio::select! {
                        () = pauses.pause() => {}
                        () = &mut stop, if !last => return Ok(()),
                    }
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
            if last {
                return Ok(());
            }
        }
    }

    fn take_command(&self, free: usize) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg("TAKE").arg(&self.queues);
        command.arg("COUNT").arg(free.min(COUNT_MAX));
        command.arg("BLOCK").arg(millis(BLOCK));
        command.arg("LEASE").arg(millis(self.lease));
        command
    }

    /// Ends the JOB TAKE to which `reply` is the reply, and returns the reply. Returns `None` if no
    /// reply comes within the grace period or within `BLOCK`, whichever is longer.
    async fn unblock<R>(
        &self,
        runner: &JobRunner,
        waiting: &Link,
        mut reply: impl Future<Output = R> + Unpin,
    ) -> Option<R> {
        let end = Instant::now() + self.grace.max(BLOCK);
        loop {
            // A link that is still connecting has no client ID and has not sent the JOB TAKE. The
            // loop then tries again after the pause.
            let unblock = async {
                if let Some(id) = waiting.client_id().await {
                    let mut command = redis::cmd("CLIENT");
                    command.arg("UNBLOCK").arg(id);
                    // If the server does not answer or refuses, the wait ends after `BLOCK`.
                    let _ = runner.link.request(&command).await;
                }
                tokio::time::sleep(UNBLOCK_PAUSE).await;
            };
            tokio::select! {
                reply = &mut reply => return Some(reply),
                () = unblock => {}
                () = tokio::time::sleep_until(end) => return None,
            }
        }
    }

    fn start(
        &self,
        job: Job,
        runner: &Arc<JobRunner>,
        given_up: &watch::Receiver<()>,
        running: &mut JoinSet<()>,
    ) {
        let (handler, job_copy) = (self.handler.clone(), job.clone());
        let handler = tokio::spawn(async move { handler(job_copy).await });
        let (runner, mut given_up) = (runner.clone(), given_up.clone());
        running.spawn(async move {
            // `changed` returns an error when the sender is dropped, which gives all jobs up.
            let give_up = async { while given_up.changed().await.is_ok() {} };
            runner.run_job(job, handler, give_up).await;
        });
    }
}

/// Returns a future that is ready after SIGTERM or SIGINT. After this call, these signals no longer
/// end the process.
#[cfg(unix)]
fn stop_signal() -> RedisResult<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stop_signal() -> RedisResult<impl Future<Output = ()>> {
    Ok(async {
        // If the signal handler cannot be installed, the worker never stops.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    })
}
