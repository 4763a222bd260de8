//! Tests of producers and workers with a real server. Where leases and delays matter, the server
//! has a virtual clock, which the test advances.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_jobs::{Event, Failure, Job, Queue, Worker};
use punctual_server::Server;
use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tokio::sync::{mpsc, oneshot};

/// Timeout of a wait in a test, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn virtual_server() -> Server {
    Server::builder().port(0).virtual_clock().spawn().unwrap()
}

fn client(server: &Server) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap()
}

async fn connect(server: &Server) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(TIMEOUT);
    client(server)
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap()
}

async fn call<T: FromRedisValue>(c: &mut MultiplexedConnection, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query_async(c).await.unwrap()
}

/// Adds a job whose payload is its ID, and which can be read after it is done.
async fn add(c: &mut MultiplexedConnection, id: &str) {
    let queue = Queue::new(c.clone(), "q");
    let added = queue.add(id).id(id).keep(TIMEOUT).send().await;
    assert!(added.unwrap().is_some());
}

/// Returns a field of JOB GET.
async fn field(c: &mut MultiplexedConnection, job: &str, name: &str) -> Option<String> {
    let fields: HashMap<String, String> = call(c, &format!("JOB GET {job}")).await;
    fields.get(name).cloned()
}

/// Waits until the field of JOB GET has this value.
async fn until_field(c: &mut MultiplexedConnection, job: &str, name: &str, value: &str) {
    let reached = async {
        while field(c, job, name).await.as_deref() != Some(value) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    reached.unwrap_or_else(|_| panic!("{job}: {name} does not become {value}"));
}

/// Awaits a future, which must end within [`TIMEOUT`].
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future)
        .await
        .expect("ends within the timeout")
}

/// Stops a worker through `stop`, and checks that its task `ended` without an error.
async fn stop(stop: oneshot::Sender<()>, ended: tokio::task::JoinHandle<redis::RedisResult<()>>) {
    stop.send(()).unwrap();
    soon(ended).await.unwrap().unwrap();
}

async fn wait_for(receiver: oneshot::Receiver<()>) {
    receiver.await.unwrap_or(());
}

fn describe(event: &Event<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Failed { job, error } => format!("{} failed: {error}", text(&job.id)),
        Event::Lost { job } => format!("{} lost", text(&job.id)),
        _ => "disconnected".into(),
    }
}

#[tokio::test]
async fn a_producer_sends_every_option() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    let queue = Queue::new(c.clone(), "q");
    let ms = Duration::from_millis;
    let all = queue
        .add("payload")
        .id("all")
        .jitter(5)
        .backoff(ms(10), ms(20))
        .delay(Duration::from_micros(4_999_001))
        .priority(-3)
        .lease(ms(7000))
        .retry(2)
        .ttl(ms(9000))
        .dead("graves")
        .keep(ms(4));
    let added = all.clone().send().await.unwrap();
    assert_eq!(added.as_deref(), Some(b"all".as_slice()));
    assert_eq!(all.send().await.unwrap(), None, "the ID is taken");
    let now = server.now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let due = (now.as_millis() + 5000).to_string();
    for (name, value) in [
        ("state", "delayed"),
        ("priority", "-3"),
        ("at", &due),
        ("lease", "7000"),
        ("retry", "2"),
        ("backoff-base", "10"),
        ("backoff-max", "20"),
        ("jitter", "5"),
        ("keep", "4"),
        ("payload", "payload"),
        ("dead", "graves"),
    ] {
        assert_eq!(
            field(&mut c, "q all", name).await.as_deref(),
            Some(value),
            "{name}"
        );
    }
    let once = || queue.add("same").unique(ms(1000)).send();
    assert!(once().await.unwrap().is_some());
    assert_eq!(once().await.unwrap(), None);
    let at = server.now() + ms(60_000);
    let at = queue.add([0, 255]).id("at").at(at).send().await.unwrap();
    assert!(at.is_some());
    let mut pipe = redis::pipe();
    for n in 0..3 {
        pipe.add_command(queue.add(format!("bulk {n}")).command());
    }
    let ids: Vec<String> = pipe.query_async(&mut c).await.unwrap();
    assert_eq!(ids.len(), 3);
    assert!(queue.add("p").jitter(5).send().await.is_err());
}

#[tokio::test]
async fn jobs_run_side_by_side_and_fail_and_run_again() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    let queue = Queue::new(c.clone(), "q");
    for id in ["panic", "error", "later", "good"] {
        let backoff = Duration::from_millis(1000);
        let add = queue.add(id).id(id).backoff(backoff, backoff);
        add.keep(TIMEOUT).send().await.unwrap();
    }
    // Each handler waits until all four run.
    let barrier = Arc::new(tokio::sync::Barrier::new(4));
    let events = Arc::new(Mutex::new(Vec::new()));
    let (seen, handler_barrier) = (events.clone(), barrier.clone());
    let worker = Worker::new(client(&server), ["other", "q"], move |job: Job| {
        let barrier = handler_barrier.clone();
        async move {
            assert_eq!(job.queue, b"q");
            if job.attempt == 2 {
                return Ok(());
            }
            barrier.wait().await;
            match job.text()? {
                "panic" => panic!("no {}", 1),
                "error" => "x".parse::<i32>().map(drop).map_err(Failure::from),
                "later" => Err(Failure::from("busy").retry_in(Duration::from_millis(2000))),
                _ => Ok(()),
            }
        }
    });
    let (stop_worker, stopped) = oneshot::channel();
    let worker = worker.concurrency(4);
    let worker = worker.on_event(move |event| seen.lock().unwrap().push(describe(event)));
    let ended = tokio::spawn(worker.run_until(wait_for(stopped)));
    until_field(&mut c, "q good", "state", "done").await;
    for id in ["panic", "error", "later"] {
        until_field(&mut c, &format!("q {id}"), "state", "delayed").await;
    }
    let error = field(&mut c, "q error", "error").await.unwrap();
    assert_eq!(error, "invalid digit found in string");
    let error = field(&mut c, "q panic", "error").await.unwrap();
    assert_eq!(error, "the handler panicked: no 1");
    let _: i64 = call(&mut c, "CLOCK ADVANCE 1000").await;
    until_field(&mut c, "q error", "state", "done").await;
    until_field(&mut c, "q panic", "state", "done").await;
    let later = field(&mut c, "q later", "state").await.unwrap();
    assert_eq!(later, "delayed");
    let _: i64 = call(&mut c, "CLOCK ADVANCE 1000").await;
    until_field(&mut c, "q later", "state", "done").await;
    stop(stop_worker, ended).await;
    let mut events = events.lock().unwrap();
    events.sort();
    assert_eq!(
        *events,
        [
            "error failed: invalid digit found in string",
            "later failed: busy",
            "panic failed: the handler panicked: no 1"
        ]
    );
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_handler_runs() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    add(&mut c, "long").await;
    let (finish, finished) = oneshot::channel();
    let finished = Mutex::new(Some(finished));
    let worker = Worker::new(client(&server), ["q"], move |_| {
        let finished = finished.lock().unwrap().take().expect("runs once");
        async move {
            wait_for(finished).await;
            Ok(())
        }
    });
    let (stop_worker, stopped) = oneshot::channel();
    let worker = worker.lease(Duration::from_millis(300));
    let ended = tokio::spawn(worker.run_until(wait_for(stopped)));
    until_field(&mut c, "q long", "state", "leased").await;
    // Four times 100 ms, which is longer than the lease.
    for _ in 0..4 {
        let now: i64 = call(&mut c, "CLOCK ADVANCE 100").await;
        until_field(&mut c, "q long", "at", &(now + 300).to_string()).await;
    }
    finish.send(()).unwrap();
    until_field(&mut c, "q long", "state", "done").await;
    assert_eq!(field(&mut c, "q long", "attempts").await.unwrap(), "1");
    stop(stop_worker, ended).await;
}

#[tokio::test]
async fn a_lost_lease_is_an_event() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    add(&mut c, "deleted").await;
    let (events, mut seen) = mpsc::unbounded_channel();
    let worker = Worker::new(client(&server), ["q"], |_| std::future::pending());
    let (stop_worker, stopped) = oneshot::channel();
    let worker = worker
        .lease(Duration::from_millis(30))
        .grace(Duration::ZERO)
        .on_event(move |event| events.send(describe(event)).unwrap());
    let ended = tokio::spawn(worker.run_until(wait_for(stopped)));
    until_field(&mut c, "q deleted", "state", "leased").await;
    let _: i64 = call(&mut c, "JOB DEL q deleted").await;
    assert_eq!(soon(seen.recv()).await.unwrap(), "deleted lost");
    stop(stop_worker, ended).await;
}

/// The server's clock stands still, so a waiting JOB TAKE never ends by itself.
#[tokio::test]
async fn a_stopping_worker_ends_its_wait_and_gives_up_unfinished_jobs() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    for forever in [false, true] {
        let _: i64 = call(&mut c, "DEL q").await;
        let id = if forever { "forever" } else { "short" };
        add(&mut c, id).await;
        let (finish, finished) = oneshot::channel();
        let finished = Mutex::new(Some(finished));
        let worker = Worker::new(client(&server), ["q"], move |_| {
            let finished = finished.lock().unwrap().take().expect("runs once");
            async move {
                wait_for(finished).await;
                Ok(())
            }
        });
        let grace = if forever { Duration::ZERO } else { TIMEOUT };
        let (stop_worker, stopped) = oneshot::channel();
        let worker = worker.concurrency(2).grace(grace);
        let ended = tokio::spawn(worker.run_until(wait_for(stopped)));
        until_field(&mut c, &format!("q {id}"), "state", "leased").await;
        stop_worker.send(()).unwrap();
        if !forever {
            tokio::task::yield_now().await;
            assert!(!ended.is_finished());
            finish.send(()).unwrap();
        }
        soon(ended).await.unwrap().unwrap();
        let job = format!("q {id}");
        let state = if forever { "ready" } else { "done" };
        assert_eq!(field(&mut c, &job, "state").await.unwrap(), state);
        let error = field(&mut c, &job, "error").await;
        assert_eq!(error.as_deref() == Some("the worker stopped"), forever);
    }
}

/// The server is stopped and started again while a job runs. The worker acknowledges the job to the
/// new server.
#[tokio::test]
async fn a_worker_outlives_the_server() {
    let folder = std::env::temp_dir().join(format!("punctual-jobs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let start = |port| {
        let builder = Server::builder().port(port).option("appendonly", "yes");
        builder.option("dir", folder.to_str().unwrap()).spawn()
    };
    let server = start(0).unwrap();
    let port = server.port();
    let mut c = connect(&server).await;
    add(&mut c, "first").await;
    let (events, mut seen) = mpsc::unbounded_channel();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let handler_gate = gate.clone();
    let worker = Worker::new(client(&server), ["q"], move |job: Job| {
        let (begun, gate) = (begun.clone(), handler_gate.clone());
        async move {
            begun.send(job.text()?.to_owned())?;
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = worker.concurrency(2).lease(TIMEOUT * 10);
    let worker = worker.on_event(move |event| events.send(describe(event)).unwrap_or(()));
    let (stop_worker, stopped) = oneshot::channel();
    let ended = tokio::spawn(worker.run_until(wait_for(stopped)));
    assert_eq!(soon(begins.recv()).await.unwrap(), "first");
    server.shutdown();
    assert_eq!(soon(seen.recv()).await.unwrap(), "disconnected");
    gate.add_permits(2);
    let server = loop {
        match start(port) {
            Ok(server) => break server,
            // Another program may use the port for a moment, so the loop tries again.
            Err(error) => eprintln!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut c = connect(&server).await;
    until_field(&mut c, "q first", "state", "done").await;
    assert_eq!(field(&mut c, "q first", "attempts").await.unwrap(), "1");
    add(&mut c, "second").await;
    assert_eq!(soon(begins.recv()).await.unwrap(), "second");
    until_field(&mut c, "q second", "state", "done").await;
    stop(stop_worker, ended).await;
    server.shutdown();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_refused_job_take_ends_the_worker() {
    let server = virtual_server();
    let mut c = connect(&server).await;
    let _: String = call(&mut c, "SET text x").await;
    let worker = Worker::new(client(&server), ["text"], |_| async { Ok(()) });
    let error = soon(worker.run_until(std::future::pending())).await;
    assert_eq!(error.unwrap_err().code(), Some("WRONGTYPE"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_jobs_run_once_each() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = connect(&server).await;
    let queue = Queue::new(c.clone(), "q");
    let mut pipe = redis::pipe();
    for n in 0..1000 {
        pipe.add_command(queue.add(n.to_string()).command());
    }
    let _: Vec<String> = pipe.query_async(&mut c).await.unwrap();
    let (ran, mut runs) = mpsc::unbounded_channel();
    let worker = Worker::new(client(&server), ["q"], move |job: Job| {
        let ran = ran.clone();
        async move { Ok(ran.send(job.text()?.parse::<u32>()?)?) }
    });
    let (stop_worker, stopped) = oneshot::channel();
    let ended = tokio::spawn(worker.concurrency(50).run_until(wait_for(stopped)));
    let mut all = Vec::new();
    while all.len() < 1000 {
        all.push(soon(runs.recv()).await.unwrap());
    }
    stop(stop_worker, ended).await;
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    assert!(runs.try_recv().is_err());
    let info: HashMap<String, Option<u64>> = call(&mut c, "JOB INFO q").await;
    assert_eq!((info["total-done"], info["leased"]), (Some(1000), Some(0)));
}
