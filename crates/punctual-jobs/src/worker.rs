//! The worker: takes jobs while it has room for them, and runs their handlers.
//!
//! One connection waits in JOB TAKE, and another one has all other commands, since a connection
//! that waits answers nothing else. The wait is never abandoned: a reply on its way may have jobs.
//! CLIENT UNBLOCK ends it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, RedisResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::link::{Link, Pauses, transient};
use crate::queue::millis;
use crate::running::{Desk, Listener};
use crate::{Event, Failure, Job};

/// Longest wait of a JOB TAKE. A worker that may not call CLIENT UNBLOCK needs this long to stop.
const BLOCK: Duration = Duration::from_secs(2);
/// Pause between two CLIENT UNBLOCK, in case the first one overtakes the JOB TAKE.
const UNBLOCK_PAUSE: Duration = Duration::from_millis(20);
/// Time that a stopped worker has to give up the jobs that have not ended.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(5);
/// The server's limit of jobs of one JOB TAKE.
const COUNT_MAX: usize = 10_000;

/// A worker for some queues.
///
/// A worker takes as many jobs as it has room for, and each handler is a task. The lease of a job
/// is renewed while its handler runs. Dropping the future of [`Worker::run`] aborts the handlers,
/// and their jobs are tried again when their leases end.
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
    /// Makes a worker that calls `handler` for each job of the queues. Queues that are named first
    /// come first.
    ///
    /// # Panics
    ///
    /// There are no queues.
    pub fn new<Q: Into<Vec<u8>>>(
        client: Client,
        queues: impl IntoIterator<Item = Q>,
        handler: H,
    ) -> Self {
        let queues: Vec<Vec<u8>> = queues.into_iter().map(Into::into).collect();
        assert!(!queues.is_empty(), "a worker needs a queue");
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

    /// Sets the number of jobs that run at the same time. 1 by default.
    ///
    /// # Panics
    ///
    /// The number is zero.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        assert!(jobs > 0, "a worker runs at least one job");
        self.concurrency = jobs;
        self
    }

    /// Sets the time after which another worker gets a job if this one is gone. 30 seconds by
    /// default.
    ///
    /// The lease is renewed after each third of it.
    ///
    /// # Panics
    ///
    /// If the lease is shorter than 3 milliseconds.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        assert!(
            time >= Duration::from_millis(3),
            "the lease has no third part"
        );
        self.lease = time;
        self
    }

    /// Sets the grace period: how long a worker that is told to stop waits for running jobs. 25
    /// seconds by default.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets the listener of events, which a program writes to its log. It must not block.
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Arc::new(listener);
        self
    }

    /// Works until the process gets SIGTERM or SIGINT (on other systems than Unix: ctrl-C), and
    /// stops as [`Worker::run_until`] does.
    ///
    /// # Errors
    ///
    /// See [`Worker::run_until`].
    pub async fn run(self) -> RedisResult<()> {
        let signal = signal()?;
        self.run_until(signal).await
    }

    /// Works until `stop` is ready.
    ///
    /// The worker then takes no more jobs, and returns when the jobs that run have ended, after the
    /// grace at the latest. A job that has not ended by then is given up, which counts as a failed
    /// attempt, and its handler is dropped.
    ///
    /// # Errors
    ///
    /// The server refuses JOB TAKE: it has no jobs, a key is no queue, or the user may not. Jobs
    /// that run end first, as if the worker was stopped. A connection that fails is no error, but
    /// an [`Event::Disconnected`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> RedisResult<()> {
        let desk = Arc::new(Desk {
            link: Link::new(self.client.clone(), Duration::ZERO),
            lease: self.lease,
            listener: self.listener.clone(),
        });
        let (give_up, given_up) = watch::channel(());
        let mut running = JoinSet::new();
        let result = self.take(stop, &desk, &given_up, &mut running).await;
        let all = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            drop(give_up);
            let all = async { while running.join_next().await.is_some() {} };
            // The leases of jobs that the server did not hear of end by themselves.
            let _ = tokio::time::timeout(GIVE_UP_LIMIT, all).await;
        }
        result
    }

    /// Takes jobs and starts their handlers until `stop` is ready.
    async fn take(
        &self,
        stop: impl Future<Output = ()>,
        desk: &Arc<Desk>,
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
            let command = self.command(free);
            let mut reply = pin!(waiting.ask(&command));
            let (reply, last) = tokio::select! {
                // A future that is ready at once must stop a worker that always finds jobs.
                biased;
                () = &mut stop => (self.unblock(desk, &waiting, reply).await, true),
                reply = &mut reply => (Some(reply), false),
            };
            match reply.map(|reply| reply.and_then(Job::all)) {
                Some(Ok(jobs)) => {
                    pauses = Pauses::new();
                    for job in jobs {
                        self.start(job, desk, given_up, running);
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

    fn command(&self, free: usize) -> Cmd {
        let mut command = redis::cmd("JOB");
        command.arg("TAKE").arg(&self.queues);
        command.arg("COUNT").arg(free.min(COUNT_MAX));
        command.arg("BLOCK").arg(millis(BLOCK));
        command.arg("LEASE").arg(millis(self.lease));
        command
    }

    /// Ends the wait for `reply` and returns it, or `None` if there is none within the grace.
    async fn unblock<R>(
        &self,
        desk: &Desk,
        waiting: &Link,
        mut reply: impl Future<Output = R> + Unpin,
    ) -> Option<R> {
        let end = Instant::now() + self.grace.max(BLOCK);
        loop {
            // A command that is not sent yet waits for its connection; it has no number then.
            let unblock = async {
                if let Some(id) = waiting.client_id().await {
                    let mut command = redis::cmd("CLIENT");
                    command.arg("UNBLOCK").arg(id);
                    // A server that does not answer, or refuses, lets the wait end by itself.
                    let _ = desk.link.ask(&command).await;
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
        desk: &Arc<Desk>,
        given_up: &watch::Receiver<()>,
        running: &mut JoinSet<()>,
    ) {
        let (handler, its) = (self.handler.clone(), job.clone());
        let handler = tokio::spawn(async move { handler(its).await });
        let (desk, mut given_up) = (desk.clone(), given_up.clone());
        running.spawn(async move {
            // An error: the sender is gone.
            let give_up = async { while given_up.changed().await.is_ok() {} };
            desk.see_through(job, handler, give_up).await;
        });
    }
}

/// Returns a future that is ready after a signal to stop. From now on such a signal does not end
/// the process.
#[cfg(unix)]
fn signal() -> RedisResult<impl Future<Output = ()>> {
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
fn signal() -> RedisResult<impl Future<Output = ()>> {
    Ok(async {
        // Without the signal nothing stops the worker.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    })
}
